"""Parsing text to JSON, with a sentence and a place for each fault."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from manager.config.findings import ConfigFinding, join, shown

_LONGEST: Final = 1024 * 1024  # the largest ConfigMap [characters]
_DEEPEST: Final = 32
_MOST_DIGITS: Final = 40
_EXCERPT: Final = 30
_YAML: Final = re.compile(r"^\s*-?\s*[A-Za-z][A-Za-z0-9_]*\s*:(\s|$)", re.MULTILINE)
_HINTS: Final = (
    (re.compile(r".*\0(//|/\*|#)", re.DOTALL), "JSON has no comments"),
    (re.compile(r".*\0'", re.DOTALL), "write \" in place of '"),
    (re.compile(r".*,\s*\0[}\]]", re.DOTALL), "remove the comma before it"),
    (re.compile(r".*\{\s*\0[A-Za-z_]\w*\s*:", re.DOTALL), 'names need "quotes"'),
    (re.compile(r".*\0(True|False|None)", re.DOTALL), "write true, false or null"),
    (re.compile(r".*\0$", re.DOTALL), "the text ends too early: a quote or bracket is not closed"),
)
"""Advice for texts that match a pattern; NUL marks the place where the text stops to be JSON."""


class UnusableNumber:
    """A number that is valid JSON but unusable; a finding about it has been recorded."""

    def __init__(self, text: str, why: str) -> None:
        self.text, self.why = text, why

    def __repr__(self) -> str:
        return self.text


class _Object(dict[str, Any]):
    """A JSON object that knows which of its names were given twice."""

    twice: tuple[str, ...] = ()


def document(text: str) -> tuple[Any, list[ConfigFinding]]:
    """The parsed text (`None` when it cannot be validated further) and the findings."""
    if len(text) > _LONGEST:
        return None, [ConfigFinding("", f"not usable: {len(text)} characters are more than a ConfigMap can hold")]
    if text.startswith("\ufeff"):
        return None, [ConfigFinding("", "not valid JSON: it begins with a byte order mark (BOM): save it without one")]
    try:
        data = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_integer
        )
    except RecursionError:
        return None, [ConfigFinding("", "not usable: it is nested too deeply")]
    except json.JSONDecodeError as error:
        return None, [ConfigFinding("", _not_json(text, error))]
    if not isinstance(data, _Object):
        return None, [ConfigFinding("", f'must be a JSON object such as {{"enable": true}}, got {shown(data)}')]
    return data, list(_faults(data))


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    read = _Object(pairs)
    if len(read) < len(pairs):
        read.twice = tuple(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
    return read


def _constant(text: str) -> UnusableNumber:
    return UnusableNumber(text, "is no number in JSON")


def _float(text: str) -> float | UnusableNumber:
    number = float(text)
    # It could be read, but never be written to a NodeMetric.
    return UnusableNumber(text, "is too large a number") if number in {float("inf"), float("-inf")} else number


def _integer(text: str) -> int | UnusableNumber:
    return UnusableNumber(text, "has too many digits") if len(text) > _MOST_DIGITS else int(text)


def _faults(data: _Object) -> Iterator[ConfigFinding]:
    """Numbers that cannot be used, names given twice, and too much depth."""
    level: list[tuple[str, Any]] = [("", data)]
    for _ in range(_DEEPEST):
        below: list[tuple[str, Any]] = []
        for path, value in level:
            if isinstance(value, _Object):
                for name in value.twice:
                    yield ConfigFinding(join(path, name), "given twice in the same object: remove one")
                below += ((join(path, name), each) for name, each in value.items())
            elif isinstance(value, list):
                below += ((join(path, index), each) for index, each in enumerate(value))
            elif isinstance(value, UnusableNumber):
                yield ConfigFinding(path, f"{shown(value.text)} {value.why}")
        level = below
    if level:
        yield ConfigFinding(level[0][0], f"not usable: nested more than {_DEEPEST} levels deep")


def _not_json(text: str, error: json.JSONDecodeError) -> str:
    if not text.strip():
        return f"not valid JSON: {error}: write {{}} for the defaults, or remove the key"
    if text.lstrip()[0] not in '{["' and _YAML.search(text):
        return 'not valid JSON: this looks like YAML; write JSON, such as {"enable": true}'
    near = text[error.pos : error.pos + _EXCERPT].partition("\n")[0]
    place = f"{text[max(error.pos - _EXCERPT, 0) : error.pos]}\0{near}"
    hint = next((f": {hint}" for looks, hint in _HINTS if looks.match(place)), "")
    return f"not valid JSON: {error}{f', at {shown(near)}' if near else ''}{hint}"
