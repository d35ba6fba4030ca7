"""E of a backtest: what pods ever used together at each time of day, the highest of it, at every step."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agent.numerics.arrays import FloatArray
from backtest.history import PodHistory
from backtest.trailing import trailing_max


@dataclass(frozen=True, slots=True)
class DayProfile:
    """The highest, over the slots of the day, of what pods ever used together in a slot; by step.

    A slot of the day was last seen i steps ago, 0 <= i < slots. A window of q days and r steps holds the slots of the
    last r steps q + 1 times, all others q times. What is known of a slot only changes once a day, so of pods whose
    slots count as they are (or with neighbours that were all seen before them on the same day) a trailing maximum
    serves all steps.
    """

    start: int
    """First step."""
    end: int
    """The step after the last one."""
    slots: int
    """How many steps a day has."""
    steps: int
    """How many steps the window has."""
    aside: int
    """How many neighbours to each side count for a slot."""

    def highest(self, pods: Sequence[PodHistory]) -> FloatArray:
        """For these pods, shape (N,)."""
        found = np.zeros(self.end - self.start)
        for first, after, days in self._parts():
            inner, outer = first + self.aside, after - self.aside
            if inner >= outer:
                inner = outer = after
            elif days:
                found = np.maximum(found, self._along(pods, inner, outer, days))
            for low, high in ((first, inner), (outer, after)):
                if low < high:
                    found = np.maximum(found, self._one_by_one(pods, low, high))
        return found

    def _parts(self) -> list[tuple[int, int, int]]:
        """Ages of slots, from the first to before the second, that the window holds a number of times."""
        days, more = divmod(self.steps, self.slots)
        parts = [(0, more, days + 1), (more, self.slots, days)]
        return [part for part in parts if part[0] < part[1]]

    def _along(self, pods: Sequence[PodHistory], inner: int, outer: int, days: int) -> FloatArray:
        low, high = self.start - outer + 1, self.end - inner
        sums = np.zeros(high - low)
        for pod in pods:
            own = pod.same_time(days, self.slots, low - self.aside, high + self.aside)
            sums += trailing_max(own, 2 * self.aside + 1)[2 * self.aside :]
        return trailing_max(sums, outer - inner)[-(self.end - self.start) :]

    def _one_by_one(self, pods: Sequence[PodHistory], low: int, high: int) -> FloatArray:
        """For the slots seen low <= i < high steps ago, whose neighbours may have been seen a day before or after."""
        ages = [ago % self.slots for ago in range(low - self.aside, high + self.aside)]
        sums = np.zeros((high - low, self.end - self.start))
        for pod in pods:
            own = np.stack([self._ago(pod, ago) for ago in ages])
            sums += trailing_max(own, 2 * self.aside + 1)[2 * self.aside :]
        highest: FloatArray = sums.max(axis=0)
        return highest

    def _ago(self, pod: PodHistory, ago: int) -> FloatArray:
        (days,) = [days for first, after, days in self._parts() if first <= ago < after]
        if not days:
            return np.zeros(self.end - self.start)
        return pod.same_time(days, self.slots, self.start - ago, self.end - ago)
