"""Entries of `nodeConfigs` that match the same nodes: the first one applies, which may not be intended."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from crds.colocation import ColocationConfig
from manager.config import label_sets
from manager.config.findings import ConfigFinding, entry_name, join
from manager.config.matching import matching_entries

MOST_COMPARED: Final = 100  # so many entries are compared with one another; beyond that only live nodes show overlaps
_MOST_REPORTED: Final = 20
_MOST_NAMES: Final = 5
_MOST_LABELS: Final = 4

_Entries = Sequence[Mapping[str, Any]]
_Boxes = Sequence[label_sets.Box | None]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two entries, as messages call them, that match the same live nodes: the one that applies, and the other."""

    wins: str
    loses: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.loses} matches {named(self.nodes)} too, but {self.wins} comes first and applies there"


def named(nodes: Sequence[str], most: int = _MOST_NAMES) -> str:
    """How many nodes, and the names of the first ones: "7 nodes (a, b, c, d, e and 2 more)"."""
    first = ", ".join(nodes[:most])
    rest = f" and {len(nodes) - most} more" if len(nodes) > most else ""
    return f"{len(nodes)} node{'' if len(nodes) == 1 else 's'} ({first}{rest})"


def compare_selectors(entries: _Entries) -> tuple[tuple[ConfigFinding, ...], tuple[ConfigFinding, ...]]:
    """Compare entries with one another by their selectors alone.

    Args:
        entries: `nodeConfigs` as JSON, well-formed; a disabled one has no `nodeSelector`, and then matches nothing.

    Returns:
        Warnings: entries that can never apply, and names that stand for two entries. Hints: entries of which some node
        may match two, and entries without a name.
    """
    boxes = [label_sets.box(entry.get("nodeSelector")) for entry in entries[:MOST_COMPARED]]
    useless = dict(_useless(entries, boxes))
    warnings = [
        *_same_names(entries),
        *(ConfigFinding(f"{join('nodeConfigs', index)}{path}", why) for index, (path, why) in useless.items()),
    ]
    hints = [
        ConfigFinding(join("nodeConfigs", index), "has no name: give it one, so that events and explain can name it")
        for index, entry in enumerate(entries)
        if entry and not entry.get("name")
    ]
    hints += itertools.islice(_overlaps(entries, boxes, useless.keys()), _MOST_REPORTED)
    if len(entries) > MOST_COMPARED:
        hints.append(ConfigFinding("nodeConfigs", f"only the first {MOST_COMPARED} entries are compared for overlaps"))
    return tuple(warnings), tuple(hints)


def _called(entries: _Entries, index: int) -> str:
    return entry_name(index, entries[index].get("name"))


def _same_names(entries: _Entries) -> Iterator[ConfigFinding]:
    first: dict[str, int] = {}
    for index, entry in enumerate(entries):
        name = entry.get("name")
        if name and first.setdefault(name, index) != index:
            message = f"nodeConfigs[{first[name]}] has the same name: give each its own, so that messages are clear"
            yield ConfigFinding(join(join("nodeConfigs", index), "name"), message)


def _useless(entries: _Entries, boxes: _Boxes) -> Iterator[tuple[int, tuple[str, str]]]:
    """The entries that can never apply, and why: path below the entry, and message."""
    for index, own in enumerate(boxes):
        if own is None:
            if entries[index].get("nodeSelector") is not None:
                yield index, (".nodeSelector", "can match no node: its requirements contradict each other")
            continue
        earlier = [(other, box) for other, box in enumerate(boxes[:index]) if box is not None]
        if label_sets.remainder(own, [box for _, box in earlier]) is None:
            by = [other for other, box in earlier if label_sets.remainder(own, [box]) is None][:1]
            by = by or [other for other, box in earlier if label_sets.common(own, box) is not None]
            which = " and ".join(_called(entries, other) for other in by[:3])
            what = f"can never apply: every node that it matches matches {which} first"
            yield index, ("", f"{what}; move it up, or narrow the other")


def _overlaps(entries: _Entries, boxes: _Boxes, useless: Iterable[int]) -> Iterator[ConfigFinding]:
    """Pairs that some node may match; the later one is named, since it is the one that does not apply there."""
    compared = [(index, box) for index, box in enumerate(boxes) if box is not None and index not in useless]
    for (earlier, one), (later, other) in itertools.combinations(compared, 2):
        labels = label_sets.overlap(one, other)
        if labels is not None:
            shown = ", ".join(f"{name}={value}" for name, value in list(labels.items())[:_MOST_LABELS])
            with_labels = f"with labels {shown}" if shown else "without the labels that they require"
            message = f"a node {with_labels} matches {_called(entries, earlier)} too, which comes first and applies"
            yield ConfigFinding(join("nodeConfigs", later), message)


def on_nodes(config: ColocationConfig, nodes: Iterable[tuple[str, Mapping[str, str]]]) -> tuple[Overlap, ...]:
    """Which entries match the same live nodes, given the name and labels of each."""
    return overlaps(config, ((name, matching_entries(config, labels)) for name, labels in nodes))


def overlaps(config: ColocationConfig, matching: Iterable[tuple[str, tuple[int, ...]]]) -> tuple[Overlap, ...]:
    """The same, given the name of each node and the indexes of the entries that match it."""
    entries, alike = config.node_configs or (), defaultdict[tuple[int, ...], list[str]](list)
    for name, indexes in sorted(matching):
        alike[indexes].append(name)
    found = defaultdict[tuple[int, int], list[str]](list)
    for indexes, members in alike.items():  # thousands of nodes that many entries match are few kinds of nodes
        for other in indexes[1:]:
            found[indexes[0], other] += members
    called = {index: entry_name(index, entries[index].name) for pair in found for index in pair}
    named_pairs = sorted((called[wins], called[loses], names) for (wins, loses), names in found.items())
    return tuple(Overlap(wins, loses, tuple(sorted(names))) for wins, loses, names in named_pairs)
