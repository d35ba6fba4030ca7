"""Entries of `nodeConfigs` that match the same nodes: the first one applies, which may not be intended."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from crds.colocation import ColocationConfig
from manager.config import label_sets
from manager.config.findings import ConfigFinding, entry_name, join
from manager.config.matching import matching_entries

MOST_COMPARED: Final = 100
"""So many entries are compared with one another; beyond that only live nodes show overlaps."""
_MOST_TOLD: Final = 20
_MOST_NAMES: Final = 5
_MOST_LABELS: Final = 4


@dataclass(frozen=True, slots=True)
class SelectorComparison:
    """Findings about entries from their selectors alone."""

    warnings: tuple[ConfigFinding, ...] = ()
    """Entries that can never apply, and names that stand for two entries."""
    hints: tuple[ConfigFinding, ...] = ()
    """Entries of which some node may match two, and entries without a name."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two entries that match the same live nodes."""

    wins: str
    """The entry that applies, as messages call it."""
    loses: str
    """The entry that does not apply on these nodes."""
    nodes: tuple[str, ...]
    """The nodes that match both, sorted."""

    def __str__(self) -> str:
        return f"{self.loses} matches {named(self.nodes)} too, but {self.wins} comes first and applies there"


def named(nodes: Sequence[str], most: int = _MOST_NAMES) -> str:
    """How many nodes, and the names of the first ones: "7 nodes (a, b, c, d, e and 2 more)"."""
    first = ", ".join(nodes[:most])
    rest = f" and {len(nodes) - most} more" if len(nodes) > most else ""
    return f"{len(nodes)} node{'' if len(nodes) == 1 else 's'} ({first}{rest})"


def compare_selectors(entries: Sequence[Mapping[str, Any]]) -> SelectorComparison:
    """Compare entries with one another.

    Args:
        entries: `nodeConfigs` as JSON, well-formed; a disabled one has no `nodeSelector`, and then matches nothing.
    """
    warnings = _same_names(entries)
    hints = [
        ConfigFinding(join("nodeConfigs", index), "has no name: give it one, so that events and explain can name it")
        for index, entry in enumerate(entries)
        if entry and not entry.get("name")
    ]
    covered = set[int]()
    selectors = [entry.get("nodeSelector") for entry in entries[:MOST_COMPARED]]
    boxes = [label_sets.box(selector) for selector in selectors]
    for index, own in enumerate(boxes):
        where = join("nodeConfigs", index)
        if own is None:
            if selectors[index] is not None:
                covered.add(index)
                message = "can match no node: its requirements contradict each other"
                warnings.append(ConfigFinding(f"{where}.nodeSelector", message))
            continue
        earlier = [(other, box) for other, box in enumerate(boxes[:index]) if box is not None]
        if label_sets.remainder(own, [box for _, box in earlier]) is None:
            covered.add(index)
            by = [other for other, box in earlier if label_sets.remainder(own, [box]) is None][:1]
            by = by or [other for other, box in earlier if label_sets.common(own, box) is not None]
            which = " and ".join(_called(entries, other) for other in by[:3])
            what = f"can never apply: every node that it matches matches {which} first"
            warnings.append(ConfigFinding(where, f"{what}; move it up, or narrow the other"))
    hints += itertools.islice(_overlaps(entries, boxes, covered), _MOST_TOLD)
    if len(entries) > MOST_COMPARED:
        hints.append(ConfigFinding("nodeConfigs", f"only the first {MOST_COMPARED} entries are compared for overlaps"))
    return SelectorComparison(tuple(warnings), tuple(hints))


def _called(entries: Sequence[Mapping[str, Any]], index: int) -> str:
    return entry_name(index, entries[index].get("name"))


def _same_names(entries: Sequence[Mapping[str, Any]]) -> list[ConfigFinding]:
    first: dict[str, int] = {}
    found = []
    for index, entry in enumerate(entries):
        name = entry.get("name")
        if name and first.setdefault(name, index) != index:
            message = f"nodeConfigs[{first[name]}] has the same name: give each its own, so that messages are clear"
            found.append(ConfigFinding(join(join("nodeConfigs", index), "name"), message))
    return found


def _overlaps(
    entries: Sequence[Mapping[str, Any]], boxes: Sequence[label_sets.Box | None], covered: set[int]
) -> Iterable[ConfigFinding]:
    """Pairs that some node may match; the later one is named, since it is the one that does not apply there."""
    compared = [(index, box) for index, box in enumerate(boxes) if box is not None and index not in covered]
    for (earlier, one), (later, other) in itertools.combinations(compared, 2):
        labels = label_sets.overlap(one, other)
        if labels is not None:
            shown = ", ".join(f"{name}={value}" for name, value in list(labels.items())[:_MOST_LABELS])
            with_labels = f"with labels {shown}" if shown else "without the labels that they require"
            message = f"a node {with_labels} matches {_called(entries, earlier)} too, which comes first and applies"
            yield ConfigFinding(join("nodeConfigs", later), message)


def on_nodes(config: ColocationConfig, nodes: Iterable[tuple[str, Mapping[str, str]]]) -> tuple[Overlap, ...]:
    """Which entries match the same live nodes.

    Args:
        config: the configuration.
        nodes: name and labels of each node.
    """
    return overlaps(config, ((name, matching_entries(config, labels)) for name, labels in nodes))


def overlaps(config: ColocationConfig, matching: Iterable[tuple[str, tuple[int, ...]]]) -> tuple[Overlap, ...]:
    """The same of entries that have been found to match.

    Args:
        config: the configuration.
        matching: name of each node, and the indexes of the entries that match it.
    """
    entries, found = config.node_configs or (), dict[tuple[int, int], list[str]]()
    alike = dict[tuple[int, ...], list[str]]()
    for name, indexes in sorted(matching):
        alike.setdefault(indexes, []).append(name)
    for indexes, members in alike.items():  # thousands of nodes that many entries match are few kinds of nodes
        for other in indexes[1:]:
            found.setdefault((indexes[0], other), []).extend(members)
    called = {index: entry_name(index, entries[index].name) for pair in found for index in pair}
    named_pairs = sorted((called[wins], called[loses], names) for (wins, loses), names in found.items())
    return tuple(Overlap(wins, loses, tuple(sorted(names))) for wins, loses, names in named_pairs)
