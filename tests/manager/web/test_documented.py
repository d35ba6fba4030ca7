"""docs/ui.md says what the page shows: every state, every line, every path for programs."""

import re

from manager.web.plot import LINES
from manager.web.state import State
from tests.architecture.sources import ROOT
from tests.manager.web.made_cluster import typical
from tests.manager.web.served import ask
from tests.support.objects import Json

PAGE = (ROOT / "docs/ui.md").read_text(encoding="utf-8")


def test_every_state_is_explained() -> None:
    """The table has each state once, and no other, the most urgent first as in lists."""
    table = PAGE.partition("| state | meaning |\n")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([^`]+)` \|", table, flags=re.MULTILINE) == [state.value for state in State]


def test_every_line_is_explained() -> None:
    """The table of lines has each line of a plot."""
    table = PAGE.partition("| line | what it is |\n")[2].partition("\n\n")[0]
    told = [name.strip() for row in re.findall(r"^\| ([^|]+) \|", table, flags=re.MULTILINE) for name in row.split(",")]
    assert set(told) - {"---"} == {line.name for line in LINES}


def test_every_path_answers() -> None:
    """Each path that is listed for programs answers with data."""
    paths = re.findall(r"^(/ui/api/\S+)", PAGE, flags=re.MULTILINE)
    assert len(paths) == 6
    for path in paths:
        answer = ask(typical(), path.replace("NAME", "n1"))
        found: Json = answer.json
        assert answer.status == 200, path
        assert found, path
