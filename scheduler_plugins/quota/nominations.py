"""Claims of pending pods to room, with their sums ready: admission asks for them with every pod."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, overload

from scheduler_plugins.quota.amounts import NOTHING, Amounts, plus


@dataclass(frozen=True, slots=True)
class Nomination:
    """Room that a pending pod has a claim to: it is nominated to a node, or room is held for it."""

    uid: str
    """Of the pod."""
    namespace: str
    """Whose quota it will be charged to."""
    priority: int
    """Of the pod."""
    charge: Amounts
    """What its quota will be charged."""
    requests: Amounts
    """What kube-scheduler will set aside for it on the node."""
    node: str
    """Where."""
    victims: tuple[str, ...] = ()
    """Uids of the pods that were evicted for it: what it claims is their room."""


class Nominations(Sequence[Nomination]):
    """Claims that do not change.

    Args:
        claims: all of them, one a pod.
    """

    __slots__ = ("_all", "_by_uid", "_of", "_sums", "_totals", "total", "with_victims")

    def __init__(self, claims: Iterable[Nomination]) -> None:
        self._all = tuple(claims)
        self.with_victims: Final = [claim for claim in self._all if claim.victims]
        """Those for which pods were evicted."""
        self._by_uid: Mapping[str, Nomination] = {claim.uid: claim for claim in self._all}
        self._of: dict[str, list[Nomination]] = {}
        self._sums: dict[str, dict[int, Amounts]] = {}
        self._totals: dict[str, Amounts] = {}
        self.total: Amounts = NOTHING
        """What all come to."""
        for claim in self._all:
            name = claim.namespace
            self._of.setdefault(name, []).append(claim)
            sums = self._sums.setdefault(name, {})
            sums[claim.priority] = plus(sums.get(claim.priority, NOTHING), claim.charge)
            self._totals[name] = plus(self._totals.get(name, NOTHING), claim.charge)
            self.total = plus(self.total, claim.charge)

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
        """What the claims of a namespace come to.

        Args:
            namespace: the namespace.
            least_priority: count none of less; None: count all.
            without: uids of pods that are not counted.
        """
        if without and any((claim := self.of(uid)) is not None and claim.namespace == namespace for uid in without):
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
        for claim in self._of.get(namespace, ()):
            if claim.uid not in without and (least_priority is None or claim.priority >= least_priority):
                total = plus(total, claim.charge)
        return total
