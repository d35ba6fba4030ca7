"""Which of several nodes loses least."""

import math
from collections.abc import Iterable
from typing import Final, TypeAlias

from scheduler_plugins.preemption.selection.victims import Candidate

LIFT: Final = 2**31
"""Lifts every priority above zero, so that one more victim always costs more."""
Loss: TypeAlias = tuple[int, int, int, int, float, str]
"""Sorts candidates, the smallest loss first."""


def loss(candidate: Candidate) -> Loss:
    """What a candidate costs, as kube-scheduler compares.

    Fewest violated budgets, then the lowest priority of the most important victim, then the lowest sum of priorities
    (each lifted above zero), then fewest victims, then those that have run for the shortest time; names decide between
    equals.
    """
    victims = candidate.victims
    highest = victims[0].priority
    oldest = min(math.inf if pod.started is None else pod.started for pod in victims if pod.priority == highest)
    total = sum(pod.priority + LIFT for pod in victims)
    return candidate.violations, highest, total, len(victims), -oldest, candidate.node


def pick(candidates: Iterable[Candidate]) -> Candidate:
    """The one that loses least.

    Raises:
        ValueError: there is none.
    """
    return min(candidates, key=loss)
