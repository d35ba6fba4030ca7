"""The table of values in the chart's README, made from the comments of values.yaml.

`python -m tests.charts.readme` (`make chart-readme`) writes it; a test compares.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

CHART: Final = Path(__file__).parents[2] / "charts/headroom"
BEGIN: Final = "<!-- Values: made from values.yaml by `make chart-readme` -->"
END: Final = "<!-- End of the values -->"
_SAID_ABOVE: Final = "In general"


@dataclass(frozen=True, slots=True)
class Value:
    path: tuple[str, ...]
    comment: tuple[str, ...]  # the lines of the comment right above it, without what marks them as a comment
    default: str | None  # its value, as JSON; None for a group, whose members are values of their own

    @property
    def name(self) -> str:
        return ".".join(self.path)


def values(text: str) -> list[Value]:
    """Every value of a values file in the order of the file.

    A mapping with a comment above any of its keys is a group of values; any other mapping is a value as a whole.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise TypeError("values.yaml must be a mapping")
    return list(_values(root, (), text.splitlines()))


def _values(mapping: yaml.MappingNode, above: tuple[str, ...], lines: Sequence[str]) -> Iterator[Value]:
    for key, node in mapping.value:
        path, comment = (*above, key.value), _comment(lines, key.start_mark.line)
        if _is_group(node, lines):
            yield Value(path, comment, None)
            yield from _values(node, path, lines)
        else:
            plain = yaml.safe_load(yaml.serialize(node))
            yield Value(path, comment, json.dumps(plain))


def _is_group(node: yaml.Node, lines: Sequence[str]) -> bool:
    block = isinstance(node, yaml.MappingNode) and not node.flow_style
    return block and any(_comment(lines, key.start_mark.line) for key, _ in node.value)


def _comment(lines: Sequence[str], line: int) -> tuple[str, ...]:
    first = line
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return tuple(entry.lstrip().removeprefix("#").removeprefix(" ") for entry in lines[first:line])


def _prose(comment: Sequence[str]) -> str:
    """A comment as one line; indented text in it is code."""
    parts = [f"`{line.strip()}`" if line.startswith(" ") else line.strip() for line in comment]
    return " ".join(parts).replace("|", "\\|")


def table(text: str) -> str:
    """The values as Markdown: a heading for each group of the outermost level, a row for each value."""
    result = values(text)
    groups = {entry.path[0]: entry for entry in result if entry.default is None and len(entry.path) == 1}
    lines = [f"### {_SAID_ABOVE}", "", *_rows([element for element in result if element.path[0] not in groups])]
    for name, group in groups.items():
        members = [item for item in result if item.path[0] == name and len(item.path) > 1]
        lines += ["", f"### {name}", "", _prose(group.comment), "", *_rows(members)]
    return "\n".join(lines) + "\n"


def _rows(found: Sequence[Value]) -> list[str]:
    rows = [f"| `{match.name}` | {_default(match)} | {_prose(match.comment)} |" for match in found]
    return ["| value | default | meaning |", "|---|---|---|", *rows]


def _default(value: Value) -> str:
    return "" if value.default is None else f"`{value.default}`".replace("|", "\\|")


def with_table(page: str, text: str) -> str:
    """A README in which the table between the marks is that of a values file."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md of the chart must have the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{table(text)}\n{END}{after}"


def main() -> int:
    page = CHART / "README.md"
    page.write_text(with_table(page.read_text(), (CHART / "values.yaml").read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
