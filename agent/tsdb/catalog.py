"""Which series the recent ticks have: their labels, their numbers, and how finely they are kept.

Pods come and go by the thousand, so series that no recent tick has are known to the file alone. One that comes back
after that gets a new number: several numbers may bear the same labels, and answers put them together.
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from agent.samples import Sample
from agent.tsdb.codec import steps_per_unit
from agent.tsdb.series import Floats, Integers

Labels: TypeAlias = tuple[str, str, str]
"""Metric, entity (the node, the system, a class or a pod's uid), container (empty for the whole entity)."""


def labels(sample: Sample) -> Labels:
    """The labels of a sample's series."""
    return sample.metric, sample.entity, sample.container


@dataclass(frozen=True, slots=True)
class SeriesSelector:
    """Selects series."""

    metric: str
    """Their metric."""
    entities: Collection[str] | None = None
    """Whose they are; None for all."""
    container: str = ""
    """Their container; empty for whole entities."""


class Catalog:
    """Numbers by labels. A new series has its number at once; it is in the file when it was `saved`."""

    def __init__(self, rows: Iterable[tuple[int, str, str, str]] = (), next_number: int = 1) -> None:
        """Takes over what a file knows.

        Args:
            rows: Number, metric, entity and container of each series that recent ticks have.
            next_number: The number of the next new series; no series of the file has a higher one.
        """
        self._numbers: dict[Labels, int] = {}
        self._labels: dict[int, Labels] = {}
        self._scales: dict[int, float] = {}
        self._entities: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._unsaved: set[int] = set()
        for number, metric, entity, container in rows:
            self._know(number, (metric, entity, container))
        self._next = next_number

    def __len__(self) -> int:
        return len(self._labels)

    def number(self, metric: str, entity: str, container: str = "") -> int | None:
        """The number of a series; None when no recent tick has it."""
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

    def metrics(self) -> set[str]:
        """The metrics of all of them."""
        return {metric for metric, _, _ in self._numbers}

    def matching(self, selector: SeriesSelector) -> dict[int, str]:
        """The entities of the selected series, by number."""
        if selector.entities is not None:
            numbers = {self._numbers.get((selector.metric, one, selector.container)): one for one in selector.entities}
            return {number: one for number, one in numbers.items() if number is not None}
        if not selector.container:
            return {number: one for one, number in self._entities.get(selector.metric, {}).items()}
        return {
            number: entity
            for (metric, entity, container), number in self._numbers.items()
            if metric == selector.metric and container == selector.container
        }

    def scale(self, number: int) -> float:
        """Steps per unit of a series; 1 for one whose name is lost."""
        return self._scales.get(number, 1.0)

    def scales(self, numbers: Iterable[int]) -> Floats:
        """The same for several, shape (S,)."""
        return np.array([self.scale(one) for one in numbers], dtype=float)

    def unsaved(self) -> list[tuple[int, str, str, str]]:
        """Rows that the file does not have yet."""
        return [(number, *self._labels[number]) for number in sorted(self._unsaved)]

    def saved(self) -> None:
        """All are in the file now."""
        self._unsaved.clear()

    def keep(self, numbers: Container[int]) -> None:
        """Let go of all series but these, which recent ticks have."""
        for number in [one for one in self._labels if one not in numbers]:
            metric, entity, container = labels = self._labels.pop(number)
            del self._numbers[labels], self._scales[number]
            self._unsaved.discard(number)
            if not container:
                del self._entities[metric][entity]

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
