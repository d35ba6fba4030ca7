"""Whose history is in which row: the node, the system, the classes, each pod, and workloads whose pods have ended."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from agent.numerics.arrays import BoolArray, IntArray
from agent.pods import PodRef
from agent.samples import NODE, SYS
from crds.priority import PriorityBand

CLASS_NAMES: Final[Mapping[PriorityBand, str]] = {
    PriorityBand.PROD: "prod",
    PriorityBand.NONE: "prod",
    PriorityBand.MID: "mid",
    PriorityBand.BATCH: "batch",
    PriorityBand.FREE: "free",
}
"""The class that a pod's usage is summed in; pods without a band count as Prod."""
CLASS_ENTITIES: Final = ("prod", "mid", "batch", "free")
"""The classes of pods, in the order of the report."""
FIXED: Final = (NODE, SYS, *CLASS_ENTITIES)
"""What always has a row, rows 0 to 5."""

_WORKLOAD: Final = "workload:"
_LONGEST_STEP_SECONDS: Final = 3600.0
_EVICT_EVERY_SECONDS: Final = 60.0


@dataclass(slots=True)
class SeriesEntry:
    """What is known about the owner of a row."""

    row: int
    """Its row."""
    history_number: int
    """Number of the history in the row: no two were ever the same, so what is saved under it stays its own."""
    class_name: str = ""
    """The class that a pod counts to; empty for what is no pod."""
    workload: str | None = None
    """A pod's workload, which inherits the row when the pod ends."""
    ended_at: float | None = None
    """Since when a pod is no longer listed, or its workload has none on this node. [s of the index's clock]"""

    @property
    def here(self) -> bool:
        """Whether it is here now."""
        return self.ended_at is None

    @property
    def kind(self) -> str:
        """What it is: node (the node, the system and the classes), pod, departed (a pod lately gone) or workload."""
        if self.class_name:
            return "pod" if self.here else "departed"
        return "node" if self.workload is None else "workload"


@dataclass(frozen=True, slots=True)
class MeasuredSeries:
    """Those who can be measured, as arrays of one order: the node, the system, then the pods. shape (E,) each."""

    entities: tuple[str, ...]
    """The node, the system, and the pods by uid."""
    rows: IntArray
    """Their rows."""
    here: BoolArray
    """Who is here now."""
    classes: IntArray
    """Row of the class that each pod counts to; -1 for the node and the system."""


@dataclass(frozen=True, slots=True)
class SeriesIndexLimits:
    """How long and how many rows are kept after their pods."""

    grace_seconds: float = 900.0
    """A pod no longer listed keeps its row this long: what it used still belongs to its class's recent sums. [s]"""
    workload_seconds: float = 7 * 86400.0
    """A workload without a pod on this node is remembered this long. [s]"""
    workloads: int = 200
    """At most so many workloads without a pod are remembered; the ones longest gone are forgotten first."""


class SeriesIndex:
    """Owners and their rows. The tables with those rows are changed through the two functions it is given.

    Its clock stands still while the agent is away and takes no part in jumps of the machine's: a wrong clock does not
    evict any series.
    """

    def __init__(
        self, limits: SeriesIndexLimits, clear: Callable[[int], None], copy: Callable[[int, int], None]
    ) -> None:
        """Create an index.

        Args:
            limits: how long and how many.
            clear: forgets a row; the row may not exist yet.
            copy: lets a row (second) continue another's (first) history.
        """
        self.limits = limits
        self.entries: dict[str, SeriesEntry] = {entity: SeriesEntry(row, row) for row, entity in enumerate(FIXED)}
        self.rows = len(FIXED)
        self._next_history = len(FIXED)
        self.clock = 0.0
        """For how long it was kept up to date. [s]"""
        self._updated: float | None = None
        self._evicted_at = 0.0
        self._listed: tuple[PodRef, ...] | None = None
        self._measured: MeasuredSeries | None = None
        self._free: list[int] = []
        self._clear = clear
        self._copy = copy

    def bind(self, clear: Callable[[int], None], copy: Callable[[int, int], None]) -> None:
        """Change other tables from now on; the arguments are those of the constructor."""
        self._clear, self._copy = clear, copy

    def row(self, entity: str) -> int | None:
        """The row of an entity, if it has one."""
        entry = self.entries.get(entity)
        return None if entry is None else entry.row

    def pods(self) -> Iterator[tuple[str, SeriesEntry]]:
        """Every pod with a row, those that departed lately included, by uid."""
        return ((entity, entry) for entity, entry in self.entries.items() if entry.class_name)

    def update(self, now: float, pods: Sequence[PodRef], evidence: Callable[[int], float]) -> None:
        """Take in which pods are here now.

        A new pod continues the history of its workload on this node: of the pod or ended pod with the richest one.
        A pod that is gone for longer than the grace time leaves its row to its workload.

        Args:
            now: the time. [seconds since 1970]
            pods: the pods on this node; terminal ones count as gone.
            evidence: how much is known in a row; 0 for nothing.
        """
        if self._updated is not None:
            self.clock += min(max(now - self._updated, 0.0), _LONGEST_STEP_SECONDS)
        self._updated = now
        listed = tuple(pods)
        if listed != self._listed:
            self._listed, self._measured = listed, None
            self._apply_pods(listed, evidence)
        if self.clock - self._evicted_at >= _EVICT_EVERY_SECONDS:
            self._evicted_at = self.clock
            self._evict(self.clock, evidence)

    @property
    def measured(self) -> MeasuredSeries:
        """Those who can be measured."""
        if self._measured is None:
            pods = list(self.pods())
            fixed = [(entity, self.entries[entity]) for entity in (NODE, SYS)]
            self._measured = MeasuredSeries(
                entities=tuple(entity for entity, _ in fixed + pods),
                rows=np.array([entry.row for _, entry in fixed + pods], dtype=np.intp),
                here=np.array([entry.here for _, entry in fixed + pods], dtype=np.bool_),
                classes=np.array([-1, -1, *(FIXED.index(entry.class_name) for _, entry in pods)], dtype=np.intp),
            )
        return self._measured

    def to_json(self) -> dict[str, Any]:
        """All series, in the order of a checkpoint's rows."""
        entries = {
            entity: [entry.history_number, entry.class_name, entry.workload, entry.ended_at]
            for entity, entry in self.entries.items()
        }
        return {
            "born": self._next_history,
            "clock": self.clock,
            "updated": self._updated,
            "looked": self._evicted_at,
            "members": entries,
        }

    def from_json(self, measured: Mapping[str, Any]) -> None:
        """Restore the series of `to_json`, rows numbered in its order.

        Raises:
            KeyError, TypeError, ValueError: it does not begin with the fixed entities, or an entry is malformed.
        """
        found: Mapping[str, Sequence[Any]] = measured["members"]
        if tuple(found)[: len(FIXED)] != FIXED:
            raise ValueError(f"it begins with {list(found)[: len(FIXED)]}, not with {list(FIXED)}")
        entries = {}
        for row, (entity, (history_number, class_name, workload, ended_at)) in enumerate(found.items()):
            entries[entity] = SeriesEntry(row, int(history_number), str(class_name), workload, ended_at)
        self._next_history, self.clock = int(measured["born"]), float(measured["clock"])
        self._updated, self._evicted_at = measured["updated"], float(measured["looked"])
        self._listed = self._measured = None
        self.entries, self.rows, self._free = entries, len(entries), []

    def _apply_pods(self, listed: Sequence[PodRef], evidence: Callable[[int], float]) -> None:
        present = {pod.uid: pod for pod in listed if not pod.terminal}
        for uid, entry in self.pods():
            if uid in present:
                entry.ended_at = None
            elif entry.ended_at is None:
                entry.ended_at = self.clock
        for uid, pod in present.items():
            entry = self.entries.get(uid) or self._add(uid)
            if entry.workload is None and pod.workload is not None:
                self._inherit(entry, pod.workload, evidence)
            entry.class_name, entry.workload = CLASS_NAMES[pod.band], pod.workload

    def _add(self, uid: str) -> SeriesEntry:
        entry = self.entries[uid] = SeriesEntry(self._free.pop() if self._free else self.rows, self._next_history)
        self._next_history += 1
        self.rows = max(self.rows, entry.row + 1)
        self._clear(entry.row)
        return entry

    def _inherit(self, entry: SeriesEntry, workload: str, evidence: Callable[[int], float]) -> None:
        """Let a pod whose workload has just become known continue its history, if that is the richer one."""
        related = [other.row for other in self.entries.values() if other is not entry and other.workload == workload]
        best = max(related, key=evidence, default=None)
        if best is not None and evidence(best) > evidence(entry.row):
            self._copy(best, entry.row)

    def _evict(self, now: float, evidence: Callable[[int], float]) -> None:
        for uid, entry in list(self.pods()):
            if entry.ended_at is not None and now - entry.ended_at > self.limits.grace_seconds:
                self._pass_to_workload(uid, evidence)
        ended = [(entry.ended_at or 0.0, entity) for entity, entry in self.entries.items() if _is_workload(entity)]
        ended.sort(reverse=True)
        for rank, (ended_at, entity) in enumerate(ended):
            if rank >= self.limits.workloads or now - ended_at > self.limits.workload_seconds:
                self._forget(entity)

    def _pass_to_workload(self, uid: str, evidence: Callable[[int], float]) -> None:
        """Let a departed pod's workload keep its row, unless the workload already knows more."""
        self._measured = None
        entry = self.entries[uid]
        if entry.workload is None or evidence(entry.row) <= 0.0:
            self._forget(uid)
            return
        successor = _WORKLOAD + entry.workload
        known = self.entries.get(successor)
        if known is not None and evidence(known.row) > evidence(entry.row):
            known.ended_at = max(known.ended_at or 0.0, entry.ended_at or 0.0)
            self._forget(uid)
            return
        if known is not None:
            self._forget(successor)
        del self.entries[uid]
        self.entries[successor] = SeriesEntry(
            entry.row, entry.history_number, workload=entry.workload, ended_at=entry.ended_at
        )

    def _forget(self, entity: str) -> None:
        self._free.append(self.entries.pop(entity).row)


def _is_workload(entity: str) -> bool:
    return entity.startswith(_WORKLOAD)
