"""Unusual inputs: damaged files of the kernel, JSON of any shape, bytes."""

import json
import re
from contextlib import suppress
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

Json = Any

NUMBERS: Final = (
    "", "0", "-0", "-1", "+5", "1_000", "0x10", "1.5", "1e400", "NaN", "-inf", "²", "٣", "\uff11", "max",
    str(2**53), str(2**63 - 1), str(2**63), str(2**64 - 1), str(2**64 - 4096), str(2**64), "9" * 40, "9" * 5000,
)  # fmt: skip
"""Values in place of a number: absent, negative, wrapped, huge, other scripts' digits."""
JUNK: Final = (
    "", " ", "\x00", "\r", "\t\t", "\ufffd\ufffd", "cpu", ":", "=", "kB", "some", "total=", "9 9 9", "ä", "😀"
)  # fmt: skip
"""Texts in place of a line."""
_NUMBER: Final = re.compile(r"-?[0-9]+")


def _edited(draw: DrawFn, text: str) -> str:
    """The text after one accident: another number, the end cut off, a line missing or twice, junk, all of it thrice."""
    lines, numbers = text.splitlines(keepends=True), list(_NUMBER.finditer(text))
    at = draw(st.integers(0, len(text)))
    match draw(st.integers(0, 6)):
        case 0 | 1 if numbers:
            place = draw(st.sampled_from(numbers))
            return text[: place.start()] + draw(st.sampled_from(NUMBERS)) + text[place.end() :]
        case 2:
            return text[:at]
        case 3 if lines:
            return text.replace(draw(st.sampled_from(lines)), "", 1)
        case 4 if lines:
            return draw(st.sampled_from(lines)) + text
        case 5:
            return text * 3
        case _:
            return (
                text[:at] + draw(st.sampled_from(JUNK) | st.text(max_size=8)) + "\n" * draw(st.booleans()) + text[at:]
            )


@st.composite
def damaged(draw: DrawFn, *originals: str) -> str:
    """A sound text after a few accidents, or after none."""
    text = draw(st.sampled_from(originals))
    for _ in range(draw(st.integers(0, 4))):
        text = _edited(draw, text)
    return text


def kernel_texts(*originals: str) -> SearchStrategy[str]:
    """Contents of a kernel file: damaged, any text, any bytes."""
    return damaged(*originals) | st.text() | st.binary().map(lambda data: data.decode("ascii", "replace"))


def _deep(levels: int, *, lists: bool) -> Json:
    inside: Json = None
    for _ in range(levels):
        inside = [inside] if lists else {"spec": inside}
    return inside


DEEP: Final = "[" * 100_000  # exhausts a parser that calls itself
SCALARS: Final = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
    | st.sampled_from([2**63, 2**64, -(2**63), 10**400, 1e308, "", "0", "-1", "-2", "1e9", "9" * 5000, "1Ki", "9Ei"])
    | st.sampled_from(["500m", "5m0s", "nan", "2025-01-01T00:00:00Z", "0001-01-01T00:00:00Z", DEEP])
)  # fmt: skip
"""Any JSON that holds no other, and what Python's JSON parser lets through: NaN, infinity, integers of any size."""


def any_json(keys: SearchStrategy[str] | None = None) -> SearchStrategy[Json]:
    """JSON of any shape; with keys that mean something, where given."""
    names = st.text(max_size=6) if keys is None else keys | st.text(max_size=6)
    return st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=5), max_leaves=12
    ) | st.builds(_deep, st.integers(1, 900), lists=st.booleans())


def _places(value: Json, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(result for key, part in inner for result in _places(part, (*path, key)))]


def _of_its_kind(value: Json) -> SearchStrategy[Json]:
    """Values that an API server accepts: texts, numbers and booleans for themselves; none of the others."""
    if isinstance(value, str):
        return st.sampled_from([*NUMBERS, "250m", "3Gi", "1e3", "0.1n", "9Ei", "koord-mid", "Failed"]) | st.text(
            max_size=9
        )
    if isinstance(value, bool):
        return st.booleans()
    return st.integers(-(2**31), 2**31 - 1) | st.none() if isinstance(value, int) else st.none()


@st.composite
def altered(
    draw: DrawFn, *originals: Json, kept: frozenset[tuple[Any, ...]] = frozenset(), admitted: bool = False
) -> Json:
    """A sound object in which a few values are of another kind or absent."""
    original = draw(st.sampled_from(originals))
    places = st.sampled_from([place for place in _places(original) if place not in kept])
    root = {"": json.loads(json.dumps(original))}
    for place in draw(st.lists(places, max_size=4)):
        above, last = ("", *place)[:-1], ("", *place)[-1]
        inner: Json = root
        with suppress(KeyError, IndexError, TypeError):  # an edit before took this place away
            for key in above:
                inner = inner[key]
            if place and not draw(st.integers(0, 7)):
                del inner[last]
            else:
                inner[last] = draw(_of_its_kind(inner[last]) if admitted else any_json())
    return root[""]


def objects(*originals: Json) -> SearchStrategy[Json]:
    """Replacements of such objects: altered ones, and maps of anything with the same keys."""
    keys = sorted(
        {key for original in originals for place in _places(original) for key in place if isinstance(key, str)}
    )
    return altered(*originals) | st.dictionaries(st.sampled_from(keys), any_json(st.sampled_from(keys)), max_size=5)


def json_texts(*originals: Json) -> SearchStrategy[str]:
    """Replacements of such JSON in a file or field: damaged text, JSON of any shape, any text."""
    texts = damaged(*map(json.dumps, originals)) | objects(*originals).map(json.dumps)
    return texts | any_json().map(json.dumps) | st.text()
