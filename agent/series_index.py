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
_LOOK_EVERY_SECONDS: Final = 60.0


@dataclass(slots=True)
class Member:
    """What is known about the owner of a row."""

    row: int
    """Its row."""
    born: int
    """Number of the history in the row: no two were ever the same, so what is saved under it stays its own."""
    class_name: str = ""
    """The class that a pod counts to; empty for what is no pod."""
    workload: str | None = None
    """A pod's workload, which inherits the row when the pod ends."""
    departed: float | None = None
    """Since when a pod is no longer listed, or its workload has none on this node. [s of the roster's clock]"""

    @property
    def here(self) -> bool:
        """Whether it is here now."""
        return self.departed is None

    @property
    def kind(self) -> str:
        """What it is: node (the node, the system and the classes), pod, departed (a pod lately gone) or workload."""
        if self.class_name:
            return "pod" if self.here else "departed"
        return "node" if self.workload is None else "workload"


@dataclass(frozen=True, slots=True)
class Everyone:
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
class RosterLimits:
    """How long and how many rows are kept after their pods."""

    grace_seconds: float = 900.0
    """A pod no longer listed keeps its row this long: what it used still belongs to its class's recent sums. [s]"""
    workload_seconds: float = 7 * 86400.0
    """A workload without a pod on this node is remembered this long. [s]"""
    workloads: int = 200
    """At most so many workloads without a pod are remembered; the ones longest gone are forgotten first."""


class Roster:
    """Owners and their rows. The tables with those rows are changed through the two functions it is given.

    Its clock stands still while the agent is away and takes no part in jumps of the machine's: a wrong clock does not
    make anybody be forgotten.
    """

    def __init__(self, limits: RosterLimits, clear: Callable[[int], None], copy: Callable[[int, int], None]) -> None:
        """Make a roster.

        Args:
            limits: how long and how many.
            clear: forgets a row; the row may not exist yet.
            copy: lets a row (second) continue another's (first) history.
        """
        self.limits = limits
        self.members: dict[str, Member] = {entity: Member(row, row) for row, entity in enumerate(FIXED)}
        self.rows = len(FIXED)
        self._born = len(FIXED)
        self.clock = 0.0
        """For how long it was kept up to date. [s]"""
        self._updated: float | None = None
        self._looked = 0.0
        self._listed: tuple[PodRef, ...] | None = None
        self._everyone: Everyone | None = None
        self._free: list[int] = []
        self._clear = clear
        self._copy = copy

    def serve(self, clear: Callable[[int], None], copy: Callable[[int, int], None]) -> None:
        """Change other tables from now on; the arguments are those of the constructor."""
        self._clear, self._copy = clear, copy

    def row(self, entity: str) -> int | None:
        """The row of an entity, if it has one."""
        member = self.members.get(entity)
        return None if member is None else member.row

    def pods(self) -> Iterator[tuple[str, Member]]:
        """Every pod with a row, those that departed lately included, by uid."""
        return ((entity, member) for entity, member in self.members.items() if member.class_name)

    def update(self, now: float, pods: Sequence[PodRef], richness: Callable[[int], float]) -> None:
        """Take in which pods are here now.

        A new pod continues the history of its workload on this node: of the pod or ended pod with the richest one.
        A pod that is gone for longer than the grace time leaves its row to its workload.

        Args:
            now: the time. [seconds since 1970]
            pods: the pods on this node; terminal ones count as gone.
            richness: how much is known in a row; 0 for nothing.
        """
        if self._updated is not None:
            self.clock += min(max(now - self._updated, 0.0), _LONGEST_STEP_SECONDS)
        self._updated = now
        listed = tuple(pods)
        if listed != self._listed:
            self._listed, self._everyone = listed, None
            self._take_in(listed, richness)
        if self.clock - self._looked >= _LOOK_EVERY_SECONDS:
            self._looked = self.clock
            self._retire(self.clock, richness)

    @property
    def everyone(self) -> Everyone:
        """Those who can be measured."""
        if self._everyone is None:
            pods = list(self.pods())
            fixed = [(entity, self.members[entity]) for entity in (NODE, SYS)]
            self._everyone = Everyone(
                entities=tuple(entity for entity, _ in fixed + pods),
                rows=np.array([member.row for _, member in fixed + pods], dtype=np.intp),
                here=np.array([member.here for _, member in fixed + pods], dtype=np.bool_),
                classes=np.array([-1, -1, *(FIXED.index(member.class_name) for _, member in pods)], dtype=np.intp),
            )
        return self._everyone

    def to_json(self) -> dict[str, Any]:
        """Everyone, in an order that a checkpoint's rows can follow."""
        members = {
            entity: [member.born, member.class_name, member.workload, member.departed]
            for entity, member in self.members.items()
        }
        return {
            "born": self._born,
            "clock": self.clock,
            "updated": self._updated,
            "looked": self._looked,
            "members": members,
        }

    def from_json(self, everyone: Mapping[str, Any]) -> None:
        """Take over everyone of `to_json`, rows numbered in its order.

        Raises:
            KeyError, TypeError, ValueError: it does not begin with the fixed entities, or an entry is malformed.
        """
        found: Mapping[str, Sequence[Any]] = everyone["members"]
        if tuple(found)[: len(FIXED)] != FIXED:
            raise ValueError(f"it begins with {list(found)[: len(FIXED)]}, not with {list(FIXED)}")
        members = {}
        for row, (entity, (born, class_name, workload, departed)) in enumerate(found.items()):
            members[entity] = Member(row, int(born), str(class_name), workload, departed)
        self._born, self.clock = int(everyone["born"]), float(everyone["clock"])
        self._updated, self._looked = everyone["updated"], float(everyone["looked"])
        self._listed = self._everyone = None
        self.members, self.rows, self._free = members, len(members), []

    def _take_in(self, listed: Sequence[PodRef], richness: Callable[[int], float]) -> None:
        present = {pod.uid: pod for pod in listed if not pod.terminal}
        for uid, member in self.pods():
            if uid in present:
                member.departed = None
            elif member.departed is None:
                member.departed = self.clock
        for uid, pod in present.items():
            member = self.members.get(uid) or self._welcome(uid)
            if member.workload is None and pod.workload is not None:
                self._inherit(member, pod.workload, richness)
            member.class_name, member.workload = CLASS_NAMES[pod.band], pod.workload

    def _welcome(self, uid: str) -> Member:
        member = self.members[uid] = Member(self._free.pop() if self._free else self.rows, self._born)
        self._born += 1
        self.rows = max(self.rows, member.row + 1)
        self._clear(member.row)
        return member

    def _inherit(self, member: Member, workload: str, richness: Callable[[int], float]) -> None:
        """Let a pod whose workload has just become known continue its history, if that is the richer one."""
        related = [other.row for other in self.members.values() if other is not member and other.workload == workload]
        richest = max(related, key=richness, default=None)
        if richest is not None and richness(richest) > richness(member.row):
            self._copy(richest, member.row)

    def _retire(self, now: float, richness: Callable[[int], float]) -> None:
        for uid, member in list(self.pods()):
            if member.departed is not None and now - member.departed > self.limits.grace_seconds:
                self._bequeath(uid, richness)
        ended = [(member.departed or 0.0, entity) for entity, member in self.members.items() if _is_workload(entity)]
        ended.sort(reverse=True)
        for rank, (departed, entity) in enumerate(ended):
            if rank >= self.limits.workloads or now - departed > self.limits.workload_seconds:
                self._forget(entity)

    def _bequeath(self, uid: str, richness: Callable[[int], float]) -> None:
        """Let a departed pod's workload keep its row, unless the workload already knows more."""
        self._everyone = None
        member = self.members[uid]
        if member.workload is None or richness(member.row) <= 0.0:
            self._forget(uid)
            return
        heir = _WORKLOAD + member.workload
        known = self.members.get(heir)
        if known is not None and richness(known.row) > richness(member.row):
            known.departed = max(known.departed or 0.0, member.departed or 0.0)
            self._forget(uid)
            return
        if known is not None:
            self._forget(heir)
        del self.members[uid]
        self.members[heir] = Member(member.row, member.born, workload=member.workload, departed=member.departed)

    def _forget(self, entity: str) -> None:
        self._free.append(self.members.pop(entity).row)


def _is_workload(entity: str) -> bool:
    return entity.startswith(_WORKLOAD)
