"""The two kinds of rules: out of scope, and different on purpose."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Input = Mapping[str, Any]
"""The `input` of a vector."""

INTERNALS: Final = "internals of the peer"
"""A reason that several files share."""


def always(_input: Input) -> bool:
    """Every input of the operation."""
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """What both kinds have."""

    family: str
    """Vector file without its ending."""
    operations: tuple[str, ...]
    """The operations that the rule is about."""
    reason: str
    """Why we leave it out, or why we differ."""
    when: Callable[[Input], bool] = always
    """Which of their inputs."""


@dataclass(frozen=True, slots=True)
class OutOfScope(Rule):
    """Vectors that are counted apart: nothing of ours is meant to answer them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation(Rule):
    """Vectors that we answer differently on purpose."""

    ours: Callable[[Input, Any], Any]
    """(input, what the peer answers) -> what we answer instead."""
