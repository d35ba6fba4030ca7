"""`python -m tools.bench.page`: writes the measured parts of docs/performance.md from results.json."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.bench.machine import ROOT
from tools.bench.measurement import Measurement
from tools.bench.parts import PARTS, duration
from tools.bench.results import HEAD, Record, cells, item, load, markdown, sections

PAGE: Final = ROOT / "docs" / "performance.md"
RESULTS: Final = ROOT / "tools/bench/results"
SUMMARY: Final = "summary"
_PLACE: Final = re.compile(r"(?P<begin><!-- measured: (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end -->\n)", re.DOTALL)


def rewritten(text: str, results: Mapping[str, Record]) -> str:
    """The page with what was measured in its places.

    Raises:
        KeyError: the page has a place for a part that there is not.
    """

    def fill(place: re.Match[str]) -> str:
        name = place["name"]
        inside = _summary(results) if name == SUMMARY else _part(name, results.get(name))
        return f"{place['begin']}\n{inside}\n\n{place['end']}"

    return _PLACE.sub(fill, text)


def places(text: str) -> list[str]:
    """The names of the page's places."""
    return [place["name"] for place in _PLACE.finditer(text)]


def write(results: Mapping[str, Record], path: Path = PAGE) -> None:
    """Write the page anew."""
    path.write_text(rewritten(path.read_text(encoding="utf-8"), results), encoding="utf-8")


def _summary(results: Mapping[str, Record]) -> str:
    """Every figure that has a budget, in the order of the parts."""
    items = [item(one) for name in PARTS if name in results for one in results[name]["items"]]
    rows = cells([one for one in items if isinstance(one, Measurement) and one.within is not None])
    return markdown([HEAD, *rows]) if rows else "Nothing was measured yet."


def _part(name: str, record: Record | None) -> str:
    part = PARTS[name]
    if record is None:
        return f"`{name}` was not measured yet: {part.title}, about {duration(part.minutes)}."
    state = f", commit {record['commit']}" if record["commit"] else ""
    note = f" {record['note']}" if record.get("note") else ""
    head = f"`{name}`: measured on {record['at'][:10]}{state}, on {record['machine']}.{note}"
    return f"{head}\n\n{sections([item(one) for one in record['items']], '../tools/bench/results/')}"


if __name__ == "__main__":
    write(load(RESULTS))
