"""`python -m tools.bench.page`: writes the measured parts of docs/performance.md from bench's results.json."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.bench import overview
from tools.bench.hardware import in_words
from tools.bench.machine import ROOT
from tools.bench.measurement import Measurement
from tools.bench.parts import PARTS
from tools.bench.records import Record, Results
from tools.bench.run import duration
from tools.bench.table import HEAD, cells, markdown, sections

PAGE: Final = ROOT / "docs" / "performance.md"
RESULTS: Final = ROOT / "tools/bench" / "results"
SUMMARY: Final = "summary"
_PICTURES: Final = "../tools/bench/results/"
_PLACE: Final = re.compile(r"(?P<begin><!-- measured: (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end -->\n)", re.DOTALL)
QUIET_PERCENT: Final = 15.0
"""What a machine that does nothing else does all the same. [percent of one core]"""


def rewritten(text: str, results: Results) -> str:
    """The page with what was measured in its places.

    Args:
        text: the page as it is.
        results: what was measured.

    Raises:
        KeyError: the page has a place for a part that there is not.
    """
    machines = _machines(results)

    def fill(place: re.Match[str]) -> str:
        name = place["name"]
        inside = _summary(results, machines) if name == SUMMARY else _part(name, results.parts.get(name), machines)
        return f"{place['begin']}\n{inside}\n\n{place['end']}"

    return _PLACE.sub(fill, text)


def places(text: str) -> list[str]:
    """The names of the page's places."""
    return [place["name"] for place in _PLACE.finditer(text)]


def write(results: Results, path: Path = PAGE) -> None:
    """Write the page anew."""
    text = path.read_text(encoding="utf-8")
    if (new := rewritten(text, results)) != text:
        path.write_text(new, encoding="utf-8")


def budgeted(results: Results) -> list[Measurement]:
    """Every figure that has a budget, in the order of the parts."""
    items = [one for name in PARTS if name in results.parts for one in results.parts[name].items]
    return [one for one in items if isinstance(one, Measurement) and one.within is not None]


def _machines(results: Results) -> list[str]:
    """Each machine once, in words, in the order of the parts."""
    return list(dict.fromkeys(in_words(results.parts[name].machine) for name in PARTS if name in results.parts))


def _summary(results: Results, machines: Sequence[str]) -> str:
    """The machines, and every figure that has a budget."""
    rows = cells(budgeted(results))
    said = "\n".join(f"- Machine {number}: {words}" for number, words in enumerate(machines, 1))
    drawn = f"![{overview.TITLE}]({_PICTURES}{overview.NAME}.svg)"
    return f"{said}\n\n{markdown([HEAD, *rows])}\n\n{drawn}" if rows else "Nothing was measured yet."


def _part(name: str, record: Record | None, machines: Sequence[str]) -> str:
    part = PARTS[name]
    if record is None:
        return f"`{name}` was not measured yet: {part.title}, about {duration(part.minutes)}."
    where = f", on machine {machines.index(in_words(record.machine)) + 1}"
    state = f", commit {record.commit}" if record.commit else ""
    busy = record.busy_percent
    beside = (
        f", which did other things with {busy:.0f} % of a core just before" if busy and busy > QUIET_PERCENT else ""
    )
    note = f" {record.note}" if record.note else ""
    took = f", in {duration(record.seconds / 60)}" if record.seconds else ""
    head = f"`{name}`: measured on {record.at[:10]}{state}{took}{where}{beside}.{note}"
    return f"{head}\n\n{sections(record.items, _PICTURES)}"


def main() -> None:
    """Write the page."""
    write(Results.load(RESULTS))


if __name__ == "__main__":
    main()
