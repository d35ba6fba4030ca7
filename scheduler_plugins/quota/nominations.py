"""Claims of pending pods to room, with their sums ready: admission asks for them with every pod."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, overload

from scheduler_plugins.quota.amounts import NOTHING, Amounts, plus


@dataclass(frozen=True, slots=True)
class Nomination:
    """Room that a pending pod has a claim to: it is nominated to a node, or room is held for it."""

    uid: str  # of the pod
    namespace: str  # whose quota it will be charged to
    priority: int  # of the pod
    charge: Amounts  # what its quota will be charged
    requests: Amounts  # what kube-scheduler will set aside for it on the node
    node: str  # Where
    victims: tuple[str, ...] = ()  # Uids of the pods that were evicted for it: what it claims is their room


class Nominations(Sequence[Nomination]):
    """Claims that do not change."""

    __slots__ = ("_all", "_by_uid", "_of", "_sums", "_totals", "total", "with_victims")

    def __init__(self, nominations: Iterable[Nomination]) -> None:
        self._all = tuple(nominations)
        self.with_victims: Final = [nomination for nomination in self._all if nomination.victims]
        """Those for which pods were evicted."""
        self._by_uid: Mapping[str, Nomination] = {nomination.uid: nomination for nomination in self._all}
        self._of: dict[str, list[Nomination]] = {}
        self._sums: dict[str, dict[int, Amounts]] = {}
        self._totals: dict[str, Amounts] = {}
        self.total: Amounts = NOTHING  # what all come to
        for nomination in self._all:
            name = nomination.namespace
            self._of.setdefault(name, []).append(nomination)
            sums = self._sums.setdefault(name, {})
            sums[nomination.priority] = plus(sums.get(nomination.priority, NOTHING), nomination.charge)
            self._totals[name] = plus(self._totals.get(name, NOTHING), nomination.charge)
            self.total = plus(self.total, nomination.charge)

    @overload
    def __getitem__(self, index: int) -> Nomination: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Nomination]: ...

    def __getitem__(self, index: int | slice) -> Nomination | Sequence[Nomination]:
        return self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    @property
    def uids(self) -> AbstractSet[str]:
        """Of the pods."""
        return self._by_uid.keys()

    def of(self, uid: str) -> Nomination | None:
        """The claim of a pod; None: it has none."""
        return self._by_uid.get(uid)

    @property
    def namespaces(self) -> AbstractSet[str]:
        """Of the pods."""
        return self._of.keys()

    def sum(self, namespace: str, least_priority: int | None, without: AbstractSet[str]) -> Amounts:
        """What the claims of a namespace come to."""
        if without and any(
            (nomination := self.of(uid)) is not None and nomination.namespace == namespace for uid in without
        ):
            return self._counted(namespace, least_priority, without)
        if least_priority is None:
            return self._totals.get(namespace, NOTHING)
        total: Amounts = NOTHING
        for priority, amounts in self._sums.get(namespace, {}).items():
            if priority >= least_priority:
                total = plus(total, amounts)
        return total

    def _counted(self, namespace: str, least_priority: int | None, without: AbstractSet[str]) -> Amounts:
        total: Amounts = NOTHING
        for nomination in self._of.get(namespace, ()):
            if nomination.uid not in without and (least_priority is None or nomination.priority >= least_priority):
                total = plus(total, nomination.charge)
        return total
