"""Which entries of `nodeConfigs` match a node: indexed by labels, so that not each of hundreds is compared."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from crds.colocation import ColocationConfig
from headroom.cluster.selector import matches

_Made = TypeVar("_Made")
_MOST_KEPT: Final = 4
"""Cached configurations: the one in force, the one before, and those that the page or a what-if compares."""


class PerConfigCache(Generic[_Made]):
    """A value derived from a configuration, cached for the last few of them.

    Configurations are compared by identity: comparing hundreds of entries would cost as much.
    """

    def __init__(self, make: Callable[[ColocationConfig], _Made]) -> None:
        self._make = make
        self._kept: list[tuple[ColocationConfig, _Made]] = []

    def of(self, config: ColocationConfig) -> _Made:
        """Return the derived value of this very object."""
        for known, made in self._kept:
            if known is config:
                return made
        made = self._make(config)
        self._kept = [(config, made), *self._kept[: _MOST_KEPT - 1]]
        return made


class _Entries:
    """Selectors indexed by one label that each requires: a node is compared only with selectors of its labels."""

    def __init__(self, config: ColocationConfig) -> None:
        self._selectors = [entry.node_selector for entry in config.node_configs or ()]
        self._by_value = defaultdict[str, defaultdict[str, list[int]]](lambda: defaultdict(list))
        self._by_presence = defaultdict[str, list[int]](list)
        self._others: list[int] = []
        for index, selector in enumerate(self._selectors):
            if selector is not None:
                self._put(index, selector)

    def _put(self, index: int, selector: Mapping[str, Any]) -> None:
        expressions = selector.get("matchExpressions") or ()
        required = [(label, (value,)) for label, value in (selector.get("matchLabels") or {}).items()]
        required += [
            (expression["key"], tuple(expression["values"]))
            for expression in expressions
            if expression["operator"] == "In"
        ]
        present = [expression["key"] for expression in expressions if expression["operator"] == "Exists"]
        if required:
            label, values = min(required, key=lambda each: len(each[1]))
            for value in set(values):
                self._by_value[label][value].append(index)
        else:
            (self._by_presence[present[0]] if present else self._others).append(index)

    def matching(self, labels: Mapping[str, str]) -> tuple[int, ...]:
        candidates: list[Iterable[int]] = [self._others]
        candidates += [by.get(labels[label], ()) for label, by in self._by_value.items() if label in labels]
        candidates += [indexes for label, indexes in self._by_presence.items() if label in labels]
        return tuple(sorted(i for some in candidates for i in some if matches(self._selectors[i], labels)))


_ENTRIES: Final = PerConfigCache(_Entries)


def matching_entries(config: ColocationConfig, labels: Mapping[str, str]) -> tuple[int, ...]:
    return _ENTRIES.of(config).matching(labels)
