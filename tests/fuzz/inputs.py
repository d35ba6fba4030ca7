"""Inputs that nobody would think of: damaged files of the kernel, JSON of any shape, bytes."""

import json
import re
from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

Json = Any

NUMBERS: Final = (
    "", "0", "-0", "-1", "+5", "1_000", "0x10", "1.5", "1e400", "NaN", "-inf", "²", "٣", "\uff11", "max",
    str(2**53), str(2**63 - 1), str(2**63), str(2**64 - 1), str(2**64 - 4096), str(2**64), "9" * 40, "9" * 5000,
)  # fmt: skip
"""What may stand where a number should: absent, negative, wrapped, huge, other scripts' digits."""
JUNK: Final = (
    "",
    " ",
    "\x00",
    "\r",
    "\t\t",
    "\ufffd\ufffd",
    "cpu",
    ":",
    "=",
    "kB",
    "some",
    "total=",
    "9 9 9",
    "ä",
    "😀",
)
"""What may stand where a line should."""
_NUMBER: Final = re.compile(r"-?[0-9]+")


def _other_number(draw: DrawFn, text: str) -> str:
    places = list(_NUMBER.finditer(text))
    if not places:
        return text
    place = places[draw(st.integers(0, len(places) - 1))]
    return text[: place.start()] + draw(st.sampled_from(NUMBERS)) + text[place.end() :]


def _truncated(draw: DrawFn, text: str) -> str:
    return text[: draw(st.integers(0, len(text)))]


def _without_line(draw: DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True)
    if lines:
        del lines[draw(st.integers(0, len(lines) - 1))]
    return "".join(lines)


def _line_twice(draw: DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True)
    if lines:
        lines.insert(0, lines[draw(st.integers(0, len(lines) - 1))])
    return "".join(lines)


def _with_junk(draw: DrawFn, text: str) -> str:
    at = draw(st.integers(0, len(text)))
    return text[:at] + draw(st.sampled_from(JUNK) | st.text(max_size=8)) + draw(st.sampled_from(("", "\n"))) + text[at:]


def _repeated(_draw: DrawFn, text: str) -> str:
    return text * 3


_EDITS: Final[tuple[Callable[[DrawFn, str], str], ...]] = (
    _other_number, _other_number, _truncated, _without_line, _line_twice, _with_junk, _repeated,
)  # fmt: skip


@st.composite
def damaged(draw: DrawFn, *originals: str) -> str:
    """A sound text after a few accidents, or after none."""
    text = draw(st.sampled_from(originals))
    for _ in range(draw(st.integers(0, 4))):
        text = draw(st.sampled_from(_EDITS))(draw, text)
    return text


def kernel_texts(*originals: str) -> SearchStrategy[str]:
    """What a file of the kernel might hold, as it is read: damaged, any text, any bytes."""
    return damaged(*originals) | st.text() | st.binary().map(lambda data: data.decode("ascii", "replace"))


def _deep(levels: int, kind: str) -> Json:
    inside: Json = None
    for _ in range(levels):
        inside = [inside] if kind == "list" else {"spec": inside}
    return inside


SCALARS: Final = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
    | st.sampled_from([2**63, 2**64, -(2**63), 10**400, 1e308, "", "0", "-1", "1e9", "9" * 5000, "1Ki", "5m0s"])
)  # fmt: skip
"""Any JSON that holds no other, and what Python's JSON parser lets through: NaN, infinity, integers of any size."""


def any_json(keys: SearchStrategy[str] | None = None) -> SearchStrategy[Json]:
    """JSON of any shape; with keys that mean something, where given."""
    names = st.text(max_size=6) if keys is None else keys | st.text(max_size=6)
    return st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=5), max_leaves=12
    ) | st.builds(_deep, st.integers(1, 900), st.sampled_from(["list", "map"]))


@st.composite
def altered(draw: DrawFn, *originals: Json) -> Json:
    """A sound object in which a few values are of another kind, absent, or in the wrong place."""
    value = json.loads(json.dumps(draw(st.sampled_from(originals))))
    for _ in range(draw(st.integers(0, 4))):
        value = _alter(draw, value)
    return value


def _alter(draw: DrawFn, value: Json) -> Json:
    """Change one place, the deeper the luckier."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        if not draw(st.integers(0, 7)):
            return {other: inner for other, inner in value.items() if other != key}
        return {**value, key: _alter(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], _alter(draw, value[at]), *value[at + draw(st.integers(0, 1)) :]]
    return draw(any_json())


def objects(*originals: Json) -> SearchStrategy[Json]:
    """What might be sent in place of such objects: altered ones, and maps of anything with the same keys."""
    keys = sorted({key for original in originals for key in _keys(original)})
    return altered(*originals) | st.dictionaries(st.sampled_from(keys), any_json(st.sampled_from(keys)), max_size=5)


def _keys(value: Json) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(_keys, value.values()))
    return set().union(*map(_keys, value)) if isinstance(value, list) else set()
