"""The grammar of a policy on a command line, see `headroom.backtest.policies`: text to a tree, not yet validated."""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from crds.codec import to_json
from crds.models import COMBINING, DEEPEST
from crds.predict_policy import ModelChoice

_LONGEST: Final = 80


class NamedPolicyError(ValueError):
    """A policy that cannot be backtested; the message names it, the reason, and the valid choices."""


@dataclass(slots=True)
class ParsedPolicy:
    """A policy as written."""

    model: str
    """Name of the model."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """Keys and values behind the colon, those of the policy as a whole among them."""
    of: list["ParsedPolicy"] = field(default_factory=list)
    """What stands in the brackets."""

    def part(self) -> ModelChoice:
        """As one of those that another model combines."""
        of = tuple(to_json(each.part()) for each in self.of)
        return ModelChoice(self.model, self.parameters or None, of or None)


def parse(text: str) -> ParsedPolicy:
    """Parse a text.

    Raises:
        NamedPolicyError: it does not follow the grammar.
    """
    return _Parser(text).whole()


class _Parser:
    """Parses one policy, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> ParsedPolicy:
        """The policy that the whole text is."""
        found = self._policy(depth=0)
        if self._at < len(self._text):
            rest = self._text[self._at :]
            way = "; give --policy once for each" if rest.startswith(",") else ""
            raise self._error(f"{rest!r} is left over{way}")
        return found

    def _policy(self, depth: int) -> ParsedPolicy:
        found = ParsedPolicy(self._word(",:()="))
        if not found.model:
            raise self._error("the name of a model is missing")
        if self._consume("("):
            if found.model not in COMBINING:
                raise self._error(f"only {', '.join(sorted(COMBINING))} combines models in brackets")
            if depth >= DEEPEST:
                raise self._error(f"models may be nested {DEEPEST} times")
            while True:
                found.of.append(self._policy(depth + 1))
                if not self._consume(","):
                    break
            if not self._consume(")"):
                raise self._error("a bracket is not closed")
        if self._consume(":"):
            self._keys(found)
        return found

    def _keys(self, found: ParsedPolicy) -> None:
        while True:
            key = self._word(",:()=")
            if not key or not self._consume("="):
                raise self._error(f"behind {found.model}: stand keys and values, such as windowDays=7")
            value = self._word(",()")
            if not value:
                raise self._error(f"{key} has no value")
            if key in found.parameters:
                raise self._error(f"{key} stands there twice")
            found.parameters[key] = _value(value)
            if not self._has_next_key():
                return

    def _has_next_key(self) -> bool:
        """Whether another key follows; in brackets a comma may also begin the next model."""
        if self._text[self._at : self._at + 1] != ",":
            return False
        ahead = self._text[self._at + 1 :]
        end = next((index for index, sign in enumerate(ahead) if sign in ",:()="), len(ahead))
        if ahead[end : end + 1] != "=":
            return False
        self._at += 1
        return True

    def _word(self, ends: str) -> str:
        begin = self._at
        while self._at < len(self._text) and self._text[self._at] not in ends:
            self._at += 1
        return self._text[begin : self._at].strip()

    def _consume(self, sign: str) -> bool:
        while self._text[self._at : self._at + 1] == " ":
            self._at += 1
        if self._text[self._at : self._at + 1] != sign:
            return False
        self._at += 1
        return True

    def _error(self, why: str) -> NamedPolicyError:
        return NamedPolicyError(f"{self._text[:_LONGEST]!r} is no policy: {why}")


def _value(text: str) -> Any:  # noqa: ANN401 - what JSON can hold
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, bool | int | float) else text
