"""The pages, and their content outside of code blocks."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.pages import parts

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = tuple(
    str(path.relative_to(ROOT))
    for path in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
        ROOT / "charts/headroom/README.md",
    )
    if path.is_file()
)

_LINK: Final = re.compile(r"\]\(([^()\s]+)\)")
_CODE: Final = re.compile(r"`[^`]*`")
_HEADING: Final = re.compile(r"#{1,6} +(.*)")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def links(text: str) -> Iterator[tuple[int, str]]:
    """The targets of a page's links, with their lines; code has none."""
    _, prose = parts(text)
    for number, line in prose:
        for target in _LINK.findall(_CODE.sub("`", line)):
            yield number, target


def anchors(text: str) -> set[str]:
    """The names under which a page's headings are linked to: as GitHub makes them."""
    _, prose = parts(text)
    observed: dict[str, int] = {}
    result = set(re.findall(r'<a (?:id|name)="([^"]+)">', text))
    for _, line in prose:
        if heading := _HEADING.match(line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1].strip())
            name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            result.add(f"{name}-{observed[name]}" if name in observed else name)
            observed[name] = observed.get(name, 0) + 1
    return result


def broken(page: str, text: str) -> list[str]:
    """The links of a page that lead to no file of the repository, or to no heading of it."""
    faults = []
    for number, target in links(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        if not path.exists():
            faults.append(f"line {number}: {target}: there is no such file")
        elif anchor and path.suffix == ".md":
            there = anchors(path.read_text(encoding="utf-8") if name else text)
            if anchor not in there:
                faults.append(f"line {number}: {target}: there is no such heading")
    return faults
