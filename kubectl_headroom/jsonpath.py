"""JSONPath templates in kubectl's dialect: fields, indices, slices, unions, wildcards, filters, ranges and texts.

The results are those of `kubectl get -o jsonpath` on the same JSON; a number is compared with any number.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeAlias

from headroom.runtime.sanitize import printable, printable_json

Step: TypeAlias = Callable[[list[Any]], list[Any]]  # values -> their parts

_NAME: Final = re.compile(r"(?:\\.|[^\\\s.,\[\]$@{}])*")
_QUOTED: Final = re.compile(r"""(["'])((?:\\.|(?!\1)[^\\])*)\1""", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d*)?")
_WORD: Final = re.compile(r"\w+")
_SLICE: Final = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_COMPARISON: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_HTML: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
_EXPONENTS: Final = range(-4, 6)  # of numbers without an exponent, as by Go


class TemplateError(ValueError):
    """A template is wrong, or does not fit the data."""


class _Text(str):
    """A text of the template itself."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Action:
    """The content of a pair of braces, or a text between two pairs."""

    steps: Sequence[Step]  # applied to the current object, one after another
    word: str = ""  # "range" or "end"
    body: Sequence["_Action"] = ()  # of a range


@dataclass(frozen=True, slots=True)
class Template:
    """A template.

    Attributes:
        actions: its parts, ranges with their bodies.
    """

    actions: Sequence[_Action]

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Decode a template. Raises `TemplateError`."""
        return cls(tuple(_nested(iter(list(_actions(text))), is_open=False)))

    def values(self, data: Any) -> list[list[Any]]:  # noqa: ANN401 - JSON
        """Return the values of each action. Raises `TemplateError`."""
        return list(_values(self.actions, data))

    def render(self, data: Any) -> str:  # noqa: ANN401 - JSON
        """Return the template with its values. Raises `TemplateError`."""
        return "".join(" ".join(map(_shown, values)) for values in self.values(data))


def relaxed(expression: str) -> Template:
    """Decode the path of a column, where braces and the first dot may be absent. Raises `TemplateError`."""
    path = expression.strip().removeprefix("{").removesuffix("}")
    return Template.parse("{" + (path if path.startswith((".", "[", "$", "@")) else f".{path}") + "}")


def plain(value: Any) -> str:  # noqa: ANN401 - JSON
    """Return a value as a column has it."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{plain(value[name])}' for name in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(plain, value))}]"
    return "<nil>" if value is None else _shown(value)


def _shown(value: Any) -> str:  # noqa: ANN401 - JSON
    if isinstance(value, dict | list):
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return printable_json(text.translate(_HTML))
    if isinstance(value, float):
        return _float(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return value if isinstance(value, _Text) else printable(str(value))


def _float(value: float) -> str:
    """Return a number in Go's shortest form."""
    digits, exponent = Decimal(repr(value)).normalize().as_tuple()[1:]
    if not isinstance(exponent, int) or not value:
        return f"{value:g}"
    power = len(digits) - 1 + exponent
    if power not in _EXPONENTS:
        return f"{value:.{len(digits) - 1}e}"
    return f"{Decimal(repr(value)).normalize():f}"


def _values(actions: Sequence[_Action], data: Any) -> Iterator[list[Any]]:  # noqa: ANN401 - JSON
    for action in actions:
        values = [data]
        for step in action.steps:
            values = step(values)
        if action.word:
            for value in values:
                yield from _values(action.body, value)
        else:
            yield values


def _nested(actions: Iterator[_Action], *, is_open: bool) -> Iterator[_Action]:
    """Yield the actions of a block; a range has those until its end."""
    for action in actions:
        if action.word == "end":
            if not is_open:
                raise TemplateError("not in range, nothing to end")
            return
        if action.word == "range":
            yield _Action(action.steps, action.word, tuple(_nested(actions, is_open=True)))
        else:
            yield action


def _actions(text: str) -> Iterator[_Action]:
    at = 0
    while at < len(text):
        start = text.find("{", at)
        start = len(text) if start < 0 else start
        if start > at:
            yield _Action([partial(_constant, value=_Text(text[at:start]))])
        if start < len(text):
            parser = _Parser(text, start + 1)
            yield _Action(parser.steps, parser.word)
            start = parser.at
        at = start


def _sub(text: str) -> list[Step]:
    """Return the steps of an expression without braces."""
    return _Parser(f"{text}}}", 0).steps


class _Parser:
    """The steps of one action."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at, self.word = text, at, ""
        self.steps: list[Step] = []
        while not text.startswith("}", self.at):
            self._next()
        self.at += 1

    def _next(self) -> None:
        text, at = self.text, self.at
        first = text[at : at + 1]
        if first in {"", "\r", "\n"}:
            raise TemplateError("unclosed action")
        if text.startswith("[?(", at):
            self._filter()
        elif text.startswith("..", at):
            if self.steps[-1:] == [_descendants]:
                raise TemplateError("invalid multiple recursive descent")
            self.steps.append(_descendants)
            self.at += 2
            if _WORD.match(text, self.at):
                self._field()
        elif first in " @$":
            self.at += 1
        elif first == "[":
            self._array()
        elif first == ".":
            self.at += 1
            self._field()
        else:
            self._literal(text, at)

    def _literal(self, text: str, at: int) -> None:
        if quoted := _QUOTED.match(text, at):
            self._take(quoted, _Text(_unquoted(quoted[2])))
        elif number := _NUMBER.match(text, at):
            self._take(number, float(number[0]) if number[1] else int(number[0]))
        elif word := _WORD.match(text, at):
            self._identifier(word)
        else:
            raise TemplateError(f"unrecognized character in action: {text[at]!r}")

    def _take(self, match: re.Match[str], value: Any) -> None:  # noqa: ANN401 - a text or a number
        self.steps.append(partial(_constant, value=value))
        self.at = match.end()

    def _identifier(self, word: re.Match[str]) -> None:
        if word[0] in {"true", "false"}:
            self._take(word, word[0] == "true")
            return
        if word[0] not in {"range", "end"}:
            raise TemplateError(f"unrecognized identifier {word[0]}")
        self.word, self.at = word[0], word.end()

    def _field(self) -> None:
        match = _NAME.match(self.text, self.at)
        name = match[0] if match else ""
        self.at += len(name)
        self.steps.append(_elements if name == "*" else partial(_fields, name=name.replace("\\", "")))

    def _array(self) -> None:
        end = self.text.find("]", self.at)
        content = self.text[self.at + 1 : end]
        if end < 0 or "\n" in content:
            raise TemplateError("unterminated array")
        self.at = end + 1
        parts = content.split(",")
        if len(parts) > 1:
            self.steps.append(partial(_union, branches=[_sub(f"[{part.strip()}]") for part in parts]))
        elif content.startswith("'") and content.endswith("'") and content.count("'") == 2:  # noqa: PLR2004 - a pair
            self.steps += _sub(f".{content[1:-1]}")
        else:
            indices = _SLICE.fullmatch(":" if content == "*" else content)
            if indices is None:
                raise TemplateError(f"invalid array index {content}")
            self.steps.append(partial(_slice, parts=indices.groups()))

    def _filter(self) -> None:
        end = _end_of_filter(self.text, self.at + 3)
        content, self.at = self.text[self.at + 3 : end], end + 2
        comparison = _COMPARISON.fullmatch(content)
        if comparison is None:
            self.steps.append(partial(_having, path=_sub(content)))
            return
        left, word, right = comparison.groups()
        if word not in _COMPARE:
            raise TemplateError(f"unrecognized filter operator {word}")
        self.steps.append(partial(_matching, left=_sub(left), word=word, right=_sub(right)))


def _end_of_filter(text: str, at: int) -> int:
    """Return the position of the parenthesis that closes a filter; those in quotes do not count."""
    while at < len(text) and text[at] != ")":
        quoted = _QUOTED.match(text, at)
        at = quoted.end() if quoted else at + 1
    if at >= len(text):
        raise TemplateError("unterminated filter")
    if not text.startswith(")]", at):
        raise TemplateError("unclosed array expect ]")
    return at


def _unquoted(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), text)


def _run(steps: Sequence[Step], values: list[Any]) -> list[Any]:
    for step in steps:
        values = step(values)
    return values


def _constant(_: list[Any], value: Any) -> list[Any]:  # noqa: ANN401 - a text or a number
    return [value]


def _fields(values: list[Any], name: str) -> list[Any]:
    return [value[name] for value in values if isinstance(value, dict) and name in value]


def _parts(value: Any) -> list[Any]:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _elements(values: list[Any]) -> list[Any]:
    return [part for value in values for part in _parts(value)]


def _descendants(values: list[Any]) -> list[Any]:
    """Return the values with parts, and all values below them that have parts."""
    result = []
    for value in values:
        if parts := _parts(value):
            result += [value, *_descendants(parts)]
    return result


def _union(values: list[Any], branches: Sequence[Sequence[Step]]) -> list[Any]:
    return [part for branch in branches for part in _run(branch, values)]


def _lists(values: list[Any], fault: str) -> Iterator[list[Any]]:
    for value in values:
        if value is None:
            continue
        if not isinstance(value, list):
            raise TemplateError(f"{type(value).__name__} is not array or slice{fault}")
        yield value


def _slice(values: list[Any], parts: Sequence[str | None]) -> list[Any]:
    """Return an element of each list, or several: `[start:end:step]`."""
    first, end_text, step_text = parts
    result = []
    for value in _lists(values, ""):
        length = len(value)
        start = int(first or 0)
        end = start + 1 if end_text is None else int(end_text[1:] or length)
        start += length if start < 0 else 0
        end += length if end < 0 or (end == 0 and end_text is None) else 0
        step = int((step_text or ":")[1:] or 1)
        if step <= 0:
            raise TemplateError(f"step must be > 0, got {step}")
        if start == end:
            continue
        if not 0 <= start < length or not 0 <= end <= length:
            wrong = start if not 0 <= start < length else end - 1
            raise TemplateError(f"array index out of bounds: index {wrong}, length {length}")
        if start > end:
            raise TemplateError(f"starting index {start} is greater than ending index {end}")
        result += value[start:end:step]
    return result


def _having(values: list[Any], path: Sequence[Step]) -> list[Any]:
    lists = _lists(values, " and cannot be filtered")
    return [element for value in lists for element in value if _run(path, [element])]


def _matching(values: list[Any], left: Sequence[Step], word: str, right: Sequence[Step]) -> list[Any]:
    result = []
    for value in _lists(values, " and cannot be filtered"):
        for element in value:
            sides = _run(left, [element]), _run(right, [element])
            if max(map(len, sides)) > 1:
                raise TemplateError("can only compare one element at a time")
            if all(sides) and _compare(sides[0][0], word, sides[1][0]):
                result.append(element)
    return result


def _compare(left: Any, word: str, right: Any) -> bool:  # noqa: ANN401 - JSON
    kinds = {_kind(left), _kind(right)}
    if len(kinds) > 1 or kinds == {""} or (kinds == {"bool"} and word not in {"==", "!="}):
        raise TemplateError("incompatible types for comparison")
    return _COMPARE[word](left, right)


def _kind(value: object) -> str:
    """Return the name of a type that can be compared; empty for others."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else ""
