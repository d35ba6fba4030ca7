"""Reads from PromQL which metrics it queries, and which labels they must have. promtool checks that it is PromQL."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_RANGE: Final = re.compile(r"\[[^\]]*\]")
_MATCHERS: Final = re.compile(r"\{([^{}]*)\}")
_MATCHER: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPING: Final = re.compile(r"\b(by|on)\s*\(([^()]*)\)")
_OTHER_GROUPING: Final = re.compile(r"\b(?:without|ignoring|group_left|group_right)\s*\([^()]*\)")
_WORD: Final = re.compile(r"(?<![\w.:])([a-zA-Z_:][\w:]*)\s*(\(|\{[^{}]*\})?")
_OPERATORS: Final = frozenset({"and", "or", "unless", "bool", "offset", "inf", "nan"})


@dataclass(frozen=True, slots=True)
class Need:
    metric: str
    labels: frozenset[str]  # labels that it must have, for the query to mean anything


def needs(expression: str) -> list[Need]:
    """Every metric of a query, in the order of the text.

    A label of `by (…)` must be one of every metric in the aggregated part, and one of `on (…)` of every metric.
    """
    plain = _RANGE.sub("", _STRING.sub('""', expression))
    return [
        Need(name, frozenset(_MATCHER.findall(matchers)) | _grouped(plain, place))
        for name, matchers, place in _selectors(plain)
    ]


def _selectors(plain: str) -> Iterator[tuple[str, str, int]]:
    # Groupings make way for blanks, so that places stay the same.
    text = _GROUPING.sub(lambda found: " " * len(found.group()), plain)
    text = _OTHER_GROUPING.sub(lambda found: " " * len(found.group()), text)
    blind = _MATCHERS.sub(lambda found: "{" + " " * len(found.group(1)) + "}", text)
    for found in _WORD.finditer(blind):
        name, after = found.groups()
        rest = blind[found.end(1) :].lstrip()
        if name.lower() in _OPERATORS or after == "(" or _is_aggregation(name, rest):
            continue
        start, end = found.span(2)
        yield name, text[start:end] if after else "", found.start()


def _is_aggregation(name: str, rest: str) -> bool:
    """Return whether a word precedes its aggregated part: its `by (…)` is gone from the text."""
    return name.islower() and "_" not in name and rest.startswith("(")


def _grouped(plain: str, place: int) -> frozenset[str]:
    """The labels of all groupings that a place is within."""
    labels: set[str] = set()
    for result in _GROUPING.finditer(plain):
        names = {name.strip() for name in result.group(2).split(",")} - {""}
        body = _body(plain, result.end()) if result.group(1) == "by" else range(len(plain))
        if place in body:
            labels |= names
    return frozenset(labels)


def _body(plain: str, start: int) -> range:
    """Begin and end of the parentheses after a place, which hold the aggregated part."""
    begin = plain.index("(", start)
    depth = 0
    for place in range(begin, len(plain)):
        depth += {"(": 1, ")": -1}.get(plain[place], 0)
        if depth == 0:
            return range(begin, place)
    raise ValueError(f"parentheses are not closed: {plain}")
