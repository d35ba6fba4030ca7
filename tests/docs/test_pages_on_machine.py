import os
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import ROOT
from tests.docs.runs import ON_MACHINE
from tests.pages import Reader

pytestmark = [pytest.mark.alone, pytest.mark.long]

AGENT: Final = "docs/agent.md"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """A reader who has followed the agent's page, which leaves a database behind that others read."""
    folder = tmp_path_factory.mktemp("machine")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    modules = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {"PATH": programs, "HOME": str(folder), "XDG_STATE_HOME": str(folder), "PYTHONPATH": modules}
    reader = Reader(folder, {**os.environ, **environment, "COLUMNS": "150"})
    assert reader.follow(ROOT / AGENT) >= 3
    return reader


@pytest.mark.parametrize("page", [page for page in ON_MACHINE if page != AGENT])
def test_page_is_true(reader: Reader, page: str) -> None:
    assert reader.follow(ROOT / page) >= 1
