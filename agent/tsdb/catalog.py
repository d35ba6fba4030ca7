"""The series of the recent ticks, and their numbers.

Thousands of pods start and end, so series without a recent tick are in the file alone. One that returns
after that gets a new number: several numbers may have the same labels, and queries merge them.
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Labels: TypeAlias = tuple[str, str, str]
"""Metric, entity (the node, the system, a class or a pod's uid), container (empty for the whole entity)."""


@dataclass(frozen=True, slots=True)
class SeriesSelector:
    """Selects series."""

    metric: str
    entities: Collection[str] | None = None  # the entities; None for all
    container: str = ""  # their container; empty for whole entities


class Catalog:
    """Numbers by labels. A new series has its number at once; it is in the file when it was `saved`."""

    def __init__(self, rows: Iterable[tuple[int, str, str, str]] = (), next_number: int = 1) -> None:
        """Takes over number, metric, entity and container of series; no series of the file has a higher number."""
        self._labels: dict[int, Labels] = {}
        self._numbers: dict[Labels, int] = {}
        self._entities: defaultdict[tuple[str, str], dict[int, str]] = defaultdict(dict)
        for number, metric, entity, container in rows:
            self._know(number, (metric, entity, container))
        self._unsaved: set[int] = set()
        self._next = next_number

    def __len__(self) -> int:
        return len(self._labels)

    def __contains__(self, labels: Labels) -> bool:
        return labels in self._numbers

    def numbers(self, series: Sequence[Labels]) -> list[int]:
        """The numbers of these series, in their order; those not known yet get one."""
        numbers = self._numbers
        try:
            return [numbers[number] for number in series]
        except KeyError:
            return [numbers[number] if number in numbers else self._add(number) for number in series]

    def labels(self, number: int) -> Labels:
        return self._labels[number]

    def metrics(self) -> set[str]:
        return {metric for metric, _, _ in self._numbers}

    def matching(self, selector: SeriesSelector) -> dict[int, str]:
        """The entities of the selected series, by number."""
        metric, entities, container = selector.metric, selector.entities, selector.container
        if entities is None:
            return dict(self._entities.get((metric, container), {}))
        numbers = {self._numbers.get((metric, entity, container)): entity for entity in entities}
        return {number: one for number, one in numbers.items() if number is not None}

    def unsaved(self) -> list[tuple[int, str, str, str]]:
        return [(number, *self._labels[number]) for number in sorted(self._unsaved)]

    def saved(self) -> None:
        self._unsaved.clear()

    def keep(self, numbers: Container[int]) -> None:
        """Forget all series but these, which recent ticks have."""
        for number in [label for label in self._labels if label not in numbers]:
            metric, _, container = labels = self._labels.pop(number)
            del self._numbers[labels], self._entities[metric, container][number]
            self._unsaved.discard(number)

    def _add(self, labels: Labels) -> int:
        number = self._next
        self._know(number, labels)
        self._unsaved.add(number)
        self._next += 1
        return number

    def _know(self, number: int, labels: Labels) -> None:
        metric, entity, container = self._labels[number] = labels
        self._numbers[labels] = number
        self._entities[metric, container][number] = entity
