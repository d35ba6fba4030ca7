"""Borg-default: overcommit by a fixed rate, whatever is used."""

from dataclasses import dataclass
from typing import ClassVar

from agent.numerics.arrays import FloatArray
from agent.predictors.base import Amount, View, require


@dataclass(frozen=True, slots=True)
class BorgDefault:
    """Sum of the requests / a; no margin on top. Requests of 22 cores, a = 1.1: 20 cores."""

    a: float = 1.1
    """The rate of overcommitment."""
    measured: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require("a", self.a, 1.0, 10.0)

    def peak(self, view: View, margin: float) -> Amount:  # noqa: ARG002 - nothing here was measured
        together: FloatArray = view.requests.sum(axis=-1)
        return together / self.a
