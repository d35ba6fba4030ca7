"""Reads the formula of a term and calculates it again from the printed inputs: which operand decides.

What people read must add up, so the printed line itself is evaluated instead of asking the calculator once more.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from manager.calculators.base import Term

_AT_MOST: Final = ", at most "
_PERCENT: Final = re.compile("percent", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Operand:
    """One of the numbers between which a min or max decides."""

    text: str
    """How the formula writes it."""
    value: int
    """What it comes to. [milli-cores, bytes]"""


def operands(term: Term) -> list[Operand]:
    """The operands of a formula that is a min or a max, in order; empty for others, or where an input is not known."""
    texts = _arguments(term.formula)
    try:
        return [Operand(text, evaluate(text, term.inputs)) for text in texts]
    except ValueError:
        return []


def decisive(term: Term) -> str:
    """The operand that the value of a term comes from, as the formula writes it; empty where there is no choice."""
    return next((each.text for each in operands(term) if each.value == term.value), "")


def _arguments(formula: str) -> list[str]:
    head, limited, limit = formula.rpartition(_AT_MOST)
    if limited:
        return [head, limit]
    if not (formula.startswith(("min(", "max(")) and formula.endswith(")")):
        return []
    found, depth, start = [], 0, 4
    for index in range(4, len(formula) - 1):
        depth += {"(": 1, ")": -1}.get(formula[index], 0)
        if depth < 0:  # the first bracket does not span the whole
            return []
        if formula[index] == "," and depth == 0:
            found.append(formula[start:index].strip())
            start = index + 1
    return [*found, formula[start:-1].strip()]


def evaluate(formula: str, inputs: Mapping[str, int]) -> int:
    """What a formula comes to. Sums, differences, shares in percent (truncated), brackets, min and max.

    Raises:
        ValueError: it is not such a formula, or names something that is not among the inputs.
    """
    reader = _Reader(formula, inputs)
    value = reader.sum()
    if reader.rest:
        raise ValueError(f"{formula!r} cannot be read from {reader.rest!r} on")
    return value


class _Reader:
    def __init__(self, formula: str, inputs: Mapping[str, int]) -> None:
        self.rest = formula
        self._inputs = inputs
        names = (re.escape(name) for name in sorted(inputs, key=len, reverse=True))
        self._name = re.compile(rf"(?:{'|'.join(names)})(?!\w)") if inputs else None

    def _take(self, symbol: str) -> bool:
        if not self.rest.startswith(symbol):
            return False
        self.rest = self.rest[len(symbol) :].lstrip()
        return True

    def sum(self) -> int:
        total = self._product()
        while True:
            if self._take("+"):
                total += self._product()
            elif self._take("-"):
                total -= self._product()
            else:
                return total

    def _product(self) -> int:
        value = self._factor()[0]
        while self._take("*"):
            factor, percent = self._factor()
            value = value * factor // 100 if percent else value * factor
        return value

    def _factor(self) -> tuple[int, bool]:
        """A value, and whether it is a percentage."""
        for symbol, pick in (("min(", min), ("max(", max), ("(", min)):
            if self._take(symbol):
                values = [self.sum()]
                while self._take(","):
                    values.append(self.sum())
                if not self._take(")"):
                    raise ValueError(f"a bracket is not closed before {self.rest!r}")
                return pick(values), False
        name = self._name.match(self.rest) if self._name else None
        if name is not None:
            self.rest = self.rest[name.end() :].lstrip()
            return self._inputs[name[0]], bool(_PERCENT.search(name[0]))
        number = re.match(r"\d+", self.rest)
        if number is None:
            raise ValueError(f"{self.rest!r} is no input")
        self.rest = self.rest[number.end() :].lstrip()
        return int(number[0]), False
