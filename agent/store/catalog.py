"""Which series there are: their labels, their numbers, and how finely they are kept."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from agent.samples import Sample
from agent.store.codec import steps_per_unit
from agent.store.series import Floats, Integers

_MANY_UNSAVED = 1000

Labels: TypeAlias = tuple[str, str, str]
"""Metric, entity (the node, the system, a class or a pod's uid), container (empty for the whole entity)."""


def labels(sample: Sample) -> Labels:
    """The labels of a sample's series."""
    return sample.metric, sample.entity, sample.container


class Catalog:
    """Numbers by labels. A new series has its number at once; it is in the file when it was `saved`."""

    def __init__(self, rows: Iterable[tuple[int, str, str, str]] = ()) -> None:
        """Takes over what a file knows.

        Args:
            rows: Number, metric, entity and container of each series.
        """
        self._numbers: dict[Labels, int] = {}
        self._labels: dict[int, Labels] = {}
        self._scales: dict[int, float] = {}
        self._entities: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._unsaved: set[int] = set()
        for number, metric, entity, container in rows:
            self._know(number, (metric, entity, container))
        self._next = max(self._labels, default=0) + 1

    def __len__(self) -> int:
        return len(self._labels)

    def number(self, metric: str, entity: str, container: str = "") -> int | None:
        """The number of a series; None when it is not known."""
        return self._numbers.get((metric, entity, container))

    def numbers(self, series: Sequence[Labels]) -> list[int]:
        """The numbers of these series, in their order; those not known yet get one."""
        known = self._numbers
        try:
            return [known[one] for one in series]
        except KeyError:
            return [known[one] if one in known else self._add(one) for one in series]

    def labels(self, number: int) -> Labels:
        """The labels of a series."""
        return self._labels[number]

    def entities(self, metric: str) -> dict[str, int]:
        """Numbers by entity, of series without a container."""
        return self._entities.get(metric, {})

    def all(self) -> Iterator[tuple[int, Labels]]:
        """Every series with its number."""
        return iter(self._labels.items())

    def scale(self, number: int) -> float:
        """Steps per unit of a series; of one that is not known any more, 1."""
        return self._scales.get(number, 1.0)

    def scales(self, numbers: Iterable[int]) -> Floats:
        """The same for several, shape (S,)."""
        return np.array([self._scales[one] for one in numbers], dtype=float)

    def unsaved(self) -> list[tuple[int, str, str, str]]:
        """Rows that the file does not have yet."""
        return [(number, *self._labels[number]) for number in sorted(self._unsaved)]

    def saved(self) -> None:
        """All are in the file now."""
        self._unsaved.clear()

    def forget_unsaved(self, in_use: Callable[[], set[int]]) -> None:
        """Forget series that the file does not have and no tick any more; looks only when there are many.

        Args:
            in_use: Answers which series ticks have.
        """
        if len(self._unsaved) > _MANY_UNSAVED:
            self.forget(self._unsaved - in_use())

    def forget(self, numbers: Iterable[int]) -> None:
        """These have no samples left."""
        for number in numbers:
            found = self._labels.pop(number, None)
            if found is not None:
                del self._numbers[found], self._scales[number]
                self._unsaved.discard(number)
                if not found[2]:
                    self._entities[found[0]].pop(found[1], None)

    def _add(self, found: Labels) -> int:
        number = self._next
        self._next += 1
        self._know(number, found)
        self._unsaved.add(number)
        return number

    def _know(self, number: int, found: Labels) -> None:
        metric, entity, container = found
        self._numbers[found] = number
        self._labels[number] = found
        self._scales[number] = steps_per_unit(metric)
        if not container:
            self._entities[metric][entity] = number


class Layouts:
    """Which series a tick has, in rising order: ticks of one set of series share one layout."""

    def __init__(self, rows: Iterable[tuple[int, bytes]] = ()) -> None:
        """Takes over what a file knows.

        Args:
            rows: Number and packed series of each layout.
        """
        self._numbers = {packed: number for number, packed in rows}
        self._unsaved: dict[int, bytes] = {}
        self._next = max(self._numbers.values(), default=0) + 1

    def number(self, series: Integers) -> int:
        """The number of a layout; a new one has its number at once.

        Args:
            series: Numbers of the series in rising order, shape (S,).
        """
        packed = series.astype("<u4").tobytes()
        found = self._numbers.get(packed)
        if found is None:
            found = self._numbers[packed] = self._next
            self._unsaved[found] = packed
            self._next += 1
        return found

    def unsaved(self) -> list[tuple[int, bytes]]:
        """Rows that the file does not have yet."""
        return list(self._unsaved.items())

    def saved(self) -> None:
        """All are in the file now."""
        self._unsaved.clear()

    def forget_before(self, number: int) -> None:
        """No tick has a smaller layout any more."""
        self._numbers = {packed: one for packed, one in self._numbers.items() if one >= number}
        self._unsaved = {one: packed for one, packed in self._unsaved.items() if one >= number}
