"""Reads the formula of a term and calculates it again from the printed inputs: which operand decides.

The printed numbers must add up, so the printed line itself is evaluated instead of the calculator.
"""

import ast
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from manager.calculators.base import Term

_AT_MOST: Final = ", at most "
_PICK: Final = {"min": min, "max": max}


class Operand(NamedTuple):
    """An operand of a min or max: its text in the formula, and its value."""

    text: str
    value: int  # [milli-cores, bytes]


def operands(term: Term) -> list[Operand]:
    """The operands of a formula that is a min or a max, in order; empty for others, or where an input is not known."""
    head, limited, limit = term.formula.rpartition(_AT_MOST)
    try:
        texts = [head, limit] if limited else _arguments(term.formula, term.inputs)
        return [Operand(text, evaluate(text, term.inputs)) for text in texts]
    except ValueError:
        return []


def decisive(term: Term) -> str:
    """The operand that the value of a term comes from, as the formula writes it; empty where there is no choice."""
    return next((operand.text for operand in operands(term) if operand.value == term.value), "")


def evaluate(formula: str, inputs: Mapping[str, int]) -> int:
    """Evaluate a formula: sums, differences, shares in percent (truncated), brackets, min and max.

    Raises:
        ValueError: it is not such a formula, or names something that is not among the inputs.
    """
    names = list(inputs)

    def value(part: ast.expr) -> int:
        match part:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=word) if word.startswith("_"):
                return inputs[names[int(word[1:])]]
            case ast.Call(func=ast.Name(id="min" | "max" as pick), args=[_, *_] as args):
                return _PICK[pick](map(value, args))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return value(left) + value(right)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return value(left) - value(right)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                percent = isinstance(right, ast.Name) and "percent" in names[int(right.id[1:])].lower()
                return value(left) * value(right) // (100 if percent else 1)
        raise ValueError(f"{formula!r} is no formula over {', '.join(names)}")

    return value(_parsed(_coded(formula, names)))


def _arguments(formula: str, inputs: Mapping[str, int]) -> list[str]:
    names = list(inputs)
    text = _coded(formula, names)
    tree = _parsed(text)
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in _PICK):
        return []
    parts = (ast.get_source_segment(text, argument) or "" for argument in tree.args)
    return [re.sub(r"\b_(\d+)\b", lambda match: names[int(match[1])], part) for part in parts]


def _coded(formula: str, names: list[str]) -> str:
    """The formula with "_0" for the first name; other text stays, which Python's grammar or nothing knows."""
    if not names or "_" in formula:
        raise ValueError(f"{formula!r} has no inputs")
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", lambda match: f"_{names.index(match[0])}", formula)


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{text!r} is no formula") from error
