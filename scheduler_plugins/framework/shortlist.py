"""The nodes of a shortlist: the better part by our score, of each group of nodes with equal soft constraints.

kube-scheduler's own scores decide among the listed nodes. So no group of nodes that the soft constraints distinguish
may be left out for load alone, and nodes with a taint of effect PreferNoSchedule come last in theirs. Pure.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler_plugins.framework.cycle import MAX_SCORE
from scheduler_plugins.snapshot.arrays import FloatArray, IntArray
from scheduler_plugins.snapshot.preferences import Groups

_AVOIDED: Final = 2 * MAX_SCORE  # more than scores differ by
_GROUP: Final = 2 * _AVOIDED


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The length of a list."""

    size: int = 8
    """The least number of listed nodes of a group. [nodes]"""
    share: float = 0.5
    """Which part of a group's nodes is named, if that is more than `size` and not more than `most`. [0..1]"""
    most: int = 16
    """The largest number of listed nodes of a group, but for `size`. [nodes]"""

    def choose(
        self, scores: FloatArray, groups: Groups, generator: np.random.Generator, in_flight: int = 0
    ) -> IntArray:
        """Rows of the nodes to name, by group, the best of each group first; equal ones by lot.

        The more pods are in flight, the fewer of each group, and the best of it at least: it is better known then where
        they land, and no group is lost.

        Args:
            scores: by which a node is better, shape (N,).
            groups: the nodes as the pod sees them.
            generator: draws the lots.
            in_flight: how many pods may still land on these nodes. [pods]
        """
        costs = groups.numbers * _GROUP - scores
        if not groups.even:
            costs += groups.avoided * _AVOIDED
        ranked, chosen, first = _ranked(costs, generator), [], 0
        for size in np.bincount(groups.numbers).tolist():
            if size:
                chosen.append(ranked[first : first + self._quota(size, in_flight)])
                first += size
        return np.concatenate(chosen) if chosen else ranked

    def _quota(self, size: int, in_flight: int) -> int:
        """The number of nodes to name of a group of this size."""
        wanted = max(min(math.ceil(size * self.share), self.most), self.size)
        return max(min(wanted, size) // (1 + in_flight), 1)


def best(scores: FloatArray, count: int, generator: np.random.Generator) -> IntArray:
    """Rows of the `count` best scores, best first. Equal scores are drawn by lot, so that pods spread over them."""
    return _ranked(-scores, generator)[:count]


def _ranked(costs: FloatArray, generator: np.random.Generator) -> IntArray:
    """Rows by cost. Equal ones are in random order, because all are shuffled before the sort."""
    shuffled = generator.permutation(len(costs))
    ranked: IntArray = shuffled[costs[shuffled].argsort()]
    return ranked
