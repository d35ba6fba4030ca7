"""The nodes of a shortlist: the better part by our score, of each group of nodes with equal soft constraints.

kube-scheduler's own scores decide among the listed nodes. So no group of nodes that the soft constraints distinguish
may be left out for load alone, and nodes with a taint of effect PreferNoSchedule come last in theirs. Pure.
"""

import math
from dataclasses import dataclass

import numpy as np

from scheduler_plugins import steps
from scheduler_plugins.snapshot.arrays import FloatArray, IntArray
from scheduler_plugins.snapshot.preferences import Groups


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

        def count(size: int) -> int:
            wanted = max(min(math.ceil(size * self.share), self.most), self.size)
            return max(min(wanted, size) // (1 + in_flight), 1)

        avoided = None if groups.even else groups.avoided
        return steps.best_of_groups(scores, groups.numbers, avoided, count, generator)


def best(scores: FloatArray, count: int, generator: np.random.Generator) -> IntArray:
    """Rows of the `count` best scores, best first. Equal scores are drawn by lot, so that pods spread over them."""
    one_group = np.zeros(len(scores), np.int32)
    return steps.best_of_groups(scores, one_group, None, lambda size: min(count, size), generator)
