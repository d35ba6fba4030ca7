"""Which of the nodes that pass a shortlist names: the better part by our score, of each group that scores tell apart.

kube-scheduler's own scores decide among what is named. So no group of nodes that the pod's soft constraints distinguish
may be left out for load alone, and nodes that a taint of PreferNoSchedule wants avoided come last in theirs. Pure.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler_plugins.framework.cycle import MAX_SCORE, best
from scheduler_plugins.snapshot.arrays import FloatArray, IntArray
from scheduler_plugins.snapshot.preferences import Groups

_AVOIDED: Final = 2 * MAX_SCORE


@dataclass(frozen=True, slots=True)
class Shortlist:
    """How long a list is."""

    size: int = 8
    """How many nodes of a group are named at least, if it has them. [nodes]"""
    share: float = 0.5
    """Which part of a group's nodes is named at least. [0..1]"""

    def choose(self, scores: FloatArray, groups: Groups, generator: np.random.Generator) -> IntArray:
        """Rows of the nodes to name, best first; equal ones by lot.

        Args:
            scores: by which a node is better, shape (N,).
            groups: the nodes as the pod sees them.
            generator: draws the lots.
        """
        # Avoided nodes get a worse score than all others, so that one order serves both.
        ranked = best(np.where(groups.avoided, scores - _AVOIDED, scores), len(scores), generator)
        numbers = groups.numbers[ranked]
        by_group = np.argsort(numbers, kind="stable")
        _, starts, counts = np.unique(numbers[by_group], return_index=True, return_counts=True)
        places = np.empty(len(ranked), np.int64)
        places[by_group] = np.arange(len(ranked)) - np.repeat(starts, counts)
        quotas = np.empty(len(ranked), np.int64)
        quotas[by_group] = np.repeat(np.maximum(np.ceil(counts * self.share), self.size), counts)
        return ranked[places < quotas]
