"""Entries of `nodeConfigs` that match the same nodes: the first one applies, which may not be intended."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from crds.colocation import ColocationConfig
from manager.config.findings import entry_name
from manager.config.matching import matching_entries

_MOST_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two entries, as messages call them, that match the same live nodes: the one that applies, and the other."""

    wins: str
    loses: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.loses} matches {named(self.nodes)} too, but {self.wins} comes first and applies there"


def named(nodes: Sequence[str], most: int = _MOST_NAMES) -> str:
    """Return how many nodes, and the names of the first ones: "7 nodes (a, b, c, d, e and 2 more)"."""
    first = ", ".join(nodes[:most])
    rest = f" and {len(nodes) - most} more" if len(nodes) > most else ""
    return f"{len(nodes)} node{'' if len(nodes) == 1 else 's'} ({first}{rest})"


def on_nodes(config: ColocationConfig, nodes: Iterable[tuple[str, Mapping[str, str]]]) -> tuple[Overlap, ...]:
    """Return which entries match the same live nodes, given the name and labels of each."""
    return overlaps(config, ((name, matching_entries(config, labels)) for name, labels in nodes))


def overlaps(config: ColocationConfig, matching: Iterable[tuple[str, tuple[int, ...]]]) -> tuple[Overlap, ...]:
    """The same, given the name of each node and the indexes of the entries that match it."""
    entries, alike = config.node_configs or (), defaultdict[tuple[int, ...], list[str]](list)
    for name, indexes in sorted(matching):
        alike[indexes].append(name)
    result = defaultdict[tuple[int, int], list[str]](list)
    for indexes, members in alike.items():  # thousands of nodes that many entries match are few kinds of nodes
        for later in indexes[1:]:
            result[indexes[0], later] += members
    called = {index: entry_name(index, entries[index].name) for pair in result for index in pair}
    named_pairs = sorted((called[wins], called[loses], names) for (wins, loses), names in result.items())
    return tuple(Overlap(wins, loses, tuple(sorted(names))) for wins, loses, names in named_pairs)
