"""The index of rows and their owners: the node, the system, the classes, pods, and workloads of pods that ended."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

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
CLASS_ENTITIES: Final = ("prod", "mid", "batch", "free")  # the classes of pods, in the order of the report
FIXED: Final = (NODE, SYS, *CLASS_ENTITIES)  # what always has a row, rows 0 to 5

_WORKLOAD: Final = "workload:"
_DAY_SECONDS: Final = 86400.0
_LONGEST_STEP_SECONDS: Final = 3600.0
_EVICT_EVERY_SECONDS: Final = 60.0


@dataclass(slots=True)
class SeriesEntry:
    """The owner of a row."""

    row: int
    history_number: int
    """Number of the history in the row; unique, so saved data of another history is never taken for it."""
    class_name: str = ""  # the class of a pod; empty for other owners
    workload: str | None = None  # a pod's workload, which inherits the row when the pod ends
    ended_at: float | None = None
    """Since when a pod is no longer listed, or its workload has none on this node. [s of the index's clock]"""
    days: int = 0  # on so many days a pod of the workload started here, this pod included
    started_on: int = -1  # the last of these days, counted by the index's clock

    @property
    def present(self) -> bool:
        return self.ended_at is None

    @property
    def kind(self) -> str:
        """The kind of owner: node (the node, the system and the classes), pod, departed (a removed pod) or workload."""
        if self.class_name:
            return "pod" if self.present else "departed"
        return "node" if self.workload is None else "workload"


@dataclass(frozen=True, slots=True)
class MeasuredSeries:
    """The measurable owners, as arrays of one order: the node, the system, then the pods. shape (E,) each."""

    entities: tuple[str, ...]
    rows: IntArray
    present: BoolArray  # whether the pod runs on the node
    classes: IntArray  # row of the class that each pod counts to; -1 for the node and the system


@dataclass(frozen=True, slots=True)
class SeriesIndexLimits:
    """Limits of the number and age of rows without a pod."""

    grace_seconds: float = 900.0
    """A pod that is no longer listed keeps its row this long: its usage is still in its class's recent sums. [s]"""
    workload_seconds: float = 7 * 86400.0  # a workload without a pod on this node is remembered this long [s]
    workloads: int = 200
    """At most so many workloads without a pod are remembered. Those that started on one day alone, and were observed
    for less than a day, are forgotten first, the least known before the others; then the ones longest gone."""


class RowHistories(Protocol):
    """The owners of rows."""

    def clear(self, row: int) -> None:
        """Forget a row, which may not exist yet."""

    def copy(self, source: int, target: int) -> None:
        """Let one row continue another's history."""

    def evidence(self, row: int) -> float:
        """Return how much is known in a row; 0 for nothing."""


class SeriesIndex:
    """Owners and their rows.

    Its clock stops while the agent is away and ignores jumps of the machine's clock: a wrong clock does not
    evict any series.
    """

    def __init__(self, limits: SeriesIndexLimits, histories: RowHistories) -> None:
        self.limits = limits
        self.histories = histories
        self.entries: dict[str, SeriesEntry] = {entity: SeriesEntry(row, row) for row, entity in enumerate(FIXED)}
        self.rows = len(FIXED)
        self.clock = 0.0  # for how long it was kept up to date [s]
        self._next_history = len(FIXED)
        self._updated: float | None = None
        self._evicted_at = 0.0
        self._listed: tuple[PodRef, ...] | None = None
        self._measured: MeasuredSeries | None = None
        self._free: list[int] = []

    def row(self, entity: str) -> int | None:
        """The row of an entity, if it has one."""
        entry = self.entries.get(entity)
        return None if entry is None else entry.row

    def pods(self) -> Iterator[tuple[str, SeriesEntry]]:
        return ((entity, entry) for entity, entry in self.entries.items() if entry.class_name)

    def update(self, now: float, pods: Sequence[PodRef]) -> None:
        """Take in which pods are on this node now [seconds since 1970]; terminal ones count as gone.

        A new pod continues the history of its workload on this node: of the pod or ended pod with the richest one.
        A pod that is gone for longer than the grace time leaves its row to its workload.
        """
        if self._updated is not None:
            self.clock += min(max(now - self._updated, 0.0), _LONGEST_STEP_SECONDS)
        self._updated = now
        listed = tuple(pods)
        if listed != self._listed:
            self._listed, self._measured = listed, None
            self._apply_pods(listed)
        if self.clock - self._evicted_at >= _EVICT_EVERY_SECONDS:
            self._evicted_at = self.clock
            self._evict(self.clock)

    @property
    def measured(self) -> MeasuredSeries:
        if self._measured is None:
            pods = list(self.pods())
            fixed = [(entity, self.entries[entity]) for entity in (NODE, SYS)]
            self._measured = MeasuredSeries(
                entities=tuple(entity for entity, _ in fixed + pods),
                rows=np.array([entry.row for _, entry in fixed + pods], dtype=np.intp),
                present=np.array([entry.present for _, entry in fixed + pods], dtype=np.bool_),
                classes=np.array([-1, -1, *(FIXED.index(entry.class_name) for _, entry in pods)], dtype=np.intp),
            )
        return self._measured

    def to_json(self) -> dict[str, Any]:
        """All series, in the order of a checkpoint's rows."""
        entries = {
            entity: [
                entry.history_number,
                entry.class_name,
                entry.workload,
                entry.ended_at,
                entry.days,
                entry.started_on,
            ]
            for entity, entry in self.entries.items()
        }
        return {
            "nextHistoryId": self._next_history,
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
        result: Mapping[str, Sequence[Any]] = measured["members"]
        if tuple(result)[: len(FIXED)] != FIXED:
            raise ValueError(f"it begins with {list(result)[: len(FIXED)]}, not with {list(FIXED)}")
        entries = {
            entity: SeriesEntry(row, int(number), str(class_name), workload, ended_at, *map(int, starts))
            for row, (entity, (number, class_name, workload, ended_at, *starts)) in enumerate(result.items())
        }
        self._next_history, self.clock = int(measured["nextHistoryId"]), float(measured["clock"])
        self._updated, self._evicted_at = measured["updated"], float(measured["looked"])
        self._listed = self._measured = None
        self.entries, self.rows, self._free = entries, len(entries), []

    def _apply_pods(self, listed: Sequence[PodRef]) -> None:
        present = {pod.uid: pod for pod in listed if not pod.terminal}
        for uid, entry in self.pods():
            if uid in present:
                entry.ended_at = None
            elif entry.ended_at is None:
                entry.ended_at = self.clock
        today = int(self.clock // _DAY_SECONDS)
        for uid, pod in present.items():
            entry = self.entries.get(uid) or self._add(uid)
            if entry.workload is None and pod.workload is not None:
                self._inherit(entry, pod.workload)
                entry.days, entry.started_on = entry.days + (entry.started_on != today), today
            entry.class_name, entry.workload = CLASS_NAMES[pod.band], pod.workload

    def _add(self, uid: str) -> SeriesEntry:
        entry = self.entries[uid] = SeriesEntry(self._free.pop() if self._free else self.rows, self._next_history)
        self._next_history += 1
        self.rows = max(self.rows, entry.row + 1)
        self.histories.clear(entry.row)
        return entry

    def _inherit(self, entry: SeriesEntry, workload: str) -> None:
        """Let a pod whose workload has just become known continue the workload's history, if that is the longer one."""
        related = [peer for peer in self.entries.values() if peer is not entry and peer.workload == workload]
        evidence = self.histories.evidence
        best = max(related, key=lambda peer: evidence(peer.row), default=None)
        if best is not None and evidence(best.row) > evidence(entry.row):
            self.histories.copy(best.row, entry.row)
        entry.days, entry.started_on = max(((peer.days, peer.started_on) for peer in related), default=(0, -1))

    def _evict(self, now: float) -> None:
        for uid, entry in list(self.pods()):
            if entry.ended_at is not None and now - entry.ended_at > self.limits.grace_seconds:
                self._pass_to_workload(uid)
        workloads = [(entity, entry) for entity, entry in self.entries.items() if entity.startswith(_WORKLOAD)]
        workloads.sort(key=lambda item: (*self._worth(item[1]), item[0]), reverse=True)
        for rank, (entity, entry) in enumerate(workloads):
            if rank >= self.limits.workloads or now - (entry.ended_at or 0.0) > self.limits.workload_seconds:
                self._forget(entity)

    def _worth(self, entry: SeriesEntry) -> tuple[bool, float, float]:
        """Return the place of a workload in the order of keeping: the largest stays longest."""
        evidence = self.histories.evidence(entry.row)
        returns = entry.days > 1 or evidence >= _DAY_SECONDS
        return returns, 0.0 if returns else evidence, entry.ended_at or 0.0

    def _pass_to_workload(self, uid: str) -> None:
        """Let a departed pod's workload keep its row, unless the workload already knows more."""
        self._measured = None
        entry, evidence = self.entries[uid], self.histories.evidence
        if entry.workload is None or evidence(entry.row) <= 0.0:
            self._forget(uid)
            return
        successor = _WORKLOAD + entry.workload
        heir = self.entries.get(successor)
        if heir is not None:
            days = max((heir.days, heir.started_on), (entry.days, entry.started_on))
            heir.days, heir.started_on = entry.days, entry.started_on = days
        if heir is not None and evidence(heir.row) > evidence(entry.row):
            heir.ended_at = max(heir.ended_at or 0.0, entry.ended_at or 0.0)
            self._forget(uid)
            return
        if heir is not None:
            self._forget(successor)
        self.entries[successor] = replace(self.entries.pop(uid), class_name="")

    def _forget(self, entity: str) -> None:
        self._free.append(self.entries.pop(entity).row)
