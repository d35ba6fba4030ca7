"""The results of filters: per node a pass or a refusal with its reason. A refusal is data, never an exception."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from scheduler_plugins.snapshot.arrays import BoolArray, IntArray

PASSES: Final = -1  # marks a node that passes, in `Verdict.refused`


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of a node."""

    reason: str  # the text in the FailedScheduling event, after the number of nodes
    eviction_helps: bool = False
    """True if removing pods from the node can cure it, so that kube-scheduler may try preemption there."""
    kind: str = ""
    """The reason without the numbers of this moment, where it has such; empty: the reason is the same every time."""
    by_load: bool = False
    """True if the load of the node alone refuses it: autoscalers find that its requests fit, and add no node."""

    @property
    def family(self) -> str:
        """The reason without numbers, for metrics and for repetitions."""
        return self.kind or self.reason


@lru_cache(maxsize=16)
def _all_pass(count: int) -> IntArray:
    """Return the one array of all verdicts that refuse none of so many nodes: its identity marks them."""
    refused: IntArray = np.full(count, PASSES, np.int64)
    refused.flags.writeable = False
    return refused


@dataclass(slots=True)  # one that is frozen takes five times as long to make
class Verdict:
    """A refusal or none per node."""

    refused: IntArray  # index into `refusals`, or `PASSES`, shape (N,)
    refusals: Sequence[Refusal]  # the refusals that may occur

    @classmethod
    def all_pass(cls, count: int, refusals: Sequence[Refusal] = ()) -> "Verdict":
        return cls(_all_pass(count), refusals)

    @classmethod
    def all_refused(cls, count: int, refusal: Refusal) -> "Verdict":
        return cls(np.zeros(count, np.int64), (refusal,))

    @property
    def passes(self) -> BoolArray:
        passes: BoolArray = self.refused == PASSES
        return passes

    @property
    def refuses_none(self) -> bool:
        return self.refused is _all_pass(len(self.refused)) or bool(self.passes.all())

    def refusal(self, row: int) -> Refusal | None:
        which = int(self.refused[row])
        return None if which == PASSES else self.refusals[which]

    def then(self, other: "Verdict") -> "Verdict":
        """This verdict, and where it passes, the other one."""
        if not self.refusals:
            return other
        if not other.refusals:
            return self
        refusals = (*self.refusals, *other.refusals)
        if other.refused is _all_pass(len(other.refused)):
            return Verdict(self.refused, refusals)
        shifted = np.where(other.passes, PASSES, other.refused + len(self.refusals))
        return Verdict(np.where(self.passes, shifted, self.refused), refusals)
