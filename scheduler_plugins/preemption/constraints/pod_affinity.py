"""Near whom a pod must be, and who keeps it away: required inter-pod affinity, as kube-scheduler 1.36 judges it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from scheduler_plugins.quota.affinity import AffinityTerm
from scheduler_plugins.quota.namespaces import Namespaces
from scheduler_plugins.quota.node import QuotaNode
from scheduler_plugins.quota.pod import QuotaPod

Place: TypeAlias = tuple[str, str]
"""A label of nodes and its value: those that have it are near each other."""

TOO_FAR: Final = "node(s) didn't match pod affinity rules"
"""As kube-scheduler says it."""
TOO_NEAR: Final = "node(s) didn't match pod anti-affinity rules"
"""As kube-scheduler says it."""
KEPT_AWAY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
"""As kube-scheduler says it."""

_NO_LABELS: Final[Mapping[str, str]] = {}
_NO_CHANGES: Final[Mapping[Place, int]] = {}


class PodAffinity:
    """What the pods that are there mean for one pod.

    Args:
        pod: that is to be placed.
        affinity: its terms of affinity.
        namespaces: labels of namespaces.
        nodes: all nodes.
        placed: the bound pods by namespace.
        repelling: the bound pods that have anti-affinity.
    """

    def __init__(
        self,
        pod: QuotaPod,
        affinity: Sequence[AffinityTerm],
        namespaces: Namespaces,
        nodes: Mapping[str, QuotaNode],
        placed: Mapping[str, Iterable[QuotaPod]],
        repelling: Iterable[QuotaPod],
    ) -> None:
        self._pod = pod
        self._affinity = affinity
        self._namespaces = namespaces
        self._near_by: dict[tuple[str, int], Sequence[str]] = {}
        self._avoided_by: dict[tuple[str, int], Sequence[str]] = {}
        self._claimed_by: dict[int, Sequence[str]] = {}
        self._near, self._avoided, self._claimed = _Places(), _Places(), _Places()
        for namespace, pods in placed.items():
            near, avoided = self._reaches_all(namespace), self._avoids(namespace)
            for other in pods if near or avoided else ():
                if (node := nodes.get(other.node)) is not None:
                    self._near.add(other.uid, self._near_at(other, node))
                    self._avoided.add(other.uid, self._avoided_at(other, node))
        for other in repelling:
            if self._nominations(other) and (node := nodes.get(other.node)) is not None:
                self._claimed.add(other.uid, self._claimed_at(other, node))

    def missing(self, node: QuotaNode, coming: Sequence[QuotaPod]) -> str | None:
        """Why no eviction would help: nobody is near whom the pod must be near to.

        Args:
            node: the node.
            coming: pods that are expected there.
        """
        return None if self._is_near(node, frozenset(), coming) else TOO_FAR

    def misfit(self, node: QuotaNode, without: AbstractSet[str], coming: Sequence[QuotaPod]) -> str | None:
        """Why the pod may not be placed on a node.

        Args:
            node: the node.
            without: uids of pods that are taken away.
            coming: pods that are expected there.
        """
        if not self._is_near(node, without, coming):
            return TOO_FAR
        if self._avoided.any_at(node, without, [place for pod in coming for place in self._avoided_at(pod, node)]):
            return TOO_NEAR
        if not self._affinity and not self._pod.anti_affinity and not self._claimed.any_left(without):
            return None  # kube-scheduler leaves the filter out: pods that are expected keep nobody away then
        claimed = [place for pod in coming for place in self._claimed_at(pod, node)]
        return KEPT_AWAY if self._claimed.any_at(node, without, claimed) else None

    # Which pods are meant. Labels and terms are shared by many pods: each is looked at once, known by where it is kept.

    def _reaches(self, term: AffinityTerm, namespace: str) -> bool:
        """Whether a term of the pod means a namespace.

        kube-scheduler 1.36 also judges each pod's namespace as if it had no labels: DoesNotExist and NotIn reach it.
        """
        return term.reaches(namespace, self._namespaces.labels(namespace)) or term.reaches(namespace, _NO_LABELS)

    def _reaches_all(self, namespace: str) -> bool:
        return bool(self._affinity) and all(self._reaches(term, namespace) for term in self._affinity)

    def _avoids(self, namespace: str) -> bool:
        return any(self._reaches(term, namespace) for term in self._pod.anti_affinity)

    def _near_at(self, other: QuotaPod, node: QuotaNode) -> Sequence[Place]:
        """Where the pod may be because of another: that must be what all terms mean."""
        known = (other.namespace, id(other.labels))
        if known not in self._near_by:
            meant = self._reaches_all(other.namespace) and all(term.picks(other.labels) for term in self._affinity)
            self._near_by[known] = [term.topology_key for term in self._affinity] if meant else ()
        return _places(node, self._near_by[known])

    def _avoided_at(self, other: QuotaPod, node: QuotaNode) -> Sequence[Place]:
        """Where the pod does not want to be because of another."""
        known = (other.namespace, id(other.labels))
        if known not in self._avoided_by:
            self._avoided_by[known] = [
                term.topology_key
                for term in self._pod.anti_affinity
                if self._reaches(term, other.namespace) and term.picks(other.labels)
            ]
        return _places(node, self._avoided_by[known])

    def _claimed_at(self, other: QuotaPod, node: QuotaNode) -> Sequence[Place]:
        """Where another pod does not want this one to be."""
        return _places(node, self._nominations(other))

    def _nominations(self, other: QuotaPod) -> Sequence[str]:
        """Labels of nodes by which another pod keeps this one away."""
        known = id(other.anti_affinity)
        if known not in self._claimed_by:
            labels = self._namespaces.labels(self._pod.namespace)
            self._claimed_by[known] = [
                term.topology_key
                for term in other.anti_affinity
                if term.reaches(self._pod.namespace, labels) and term.picks(self._pod.labels)
            ]
        return self._claimed_by[known]

    def _is_near(self, node: QuotaNode, without: AbstractSet[str], coming: Sequence[QuotaPod]) -> bool:
        """Whether a node is near enough, or the pod is the first of some that want to be near each other."""
        if not self._affinity:
            return True
        if any(term.topology_key not in node.labels for term in self._affinity):
            return False
        changes = self._near.changes(without, [place for pod in coming for place in self._near_at(pod, node)])
        wanted = [(term.topology_key, node.labels[term.topology_key]) for term in self._affinity]
        if all(self._near.counts.get(place, 0) + changes.get(place, 0) > 0 for place in wanted):
            return True
        if self._near.total + sum(changes.values()) > 0 or not self._reaches_all(self._pod.namespace):
            return False
        return all(term.picks(self._pod.labels) for term in self._affinity)


def _places(node: QuotaNode, keys: Sequence[str]) -> Sequence[Place]:
    return [(key, node.labels[key]) for key in keys if key in node.labels] if keys else ()


class _Places:
    """Where pods are that matter, and how many."""

    def __init__(self) -> None:
        self._of: dict[str, Sequence[Place]] = {}
        self.counts: Final[Counter[Place]] = Counter()
        self._keys: set[str] = set()
        self.total = 0

    def add(self, uid: str, places: Sequence[Place]) -> None:
        """A pod matters there."""
        if places:
            self._of[uid] = places
            self._keys.update([key for key, _ in places])
            self.counts.update(places)
            self.total += len(places)

    def changes(self, without: AbstractSet[str], more: Sequence[Place]) -> Mapping[Place, int]:
        """What changes once some are gone and others have come."""
        gone = [uid for uid in without if uid in self._of]
        if not gone and not more:
            return _NO_CHANGES
        changes = Counter(more)
        for uid in gone:
            changes.subtract(self._of[uid])
        return changes

    def any_left(self, without: AbstractSet[str]) -> bool:
        """Whether anybody matters anywhere once some are gone."""
        return self.total > sum(len(self._of[uid]) for uid in without if uid in self._of)

    def any_at(self, node: QuotaNode, without: AbstractSet[str], more: Sequence[Place]) -> bool:
        """Whether any that is left matters on a node."""
        if more:
            return self._any_of(node.labels.items(), without, more)
        labels = node.labels
        here = [place for key in self._keys if (place := (key, labels.get(key, ""))) in self.counts]
        return bool(here) and self._any_of(here, without, ())

    def _any_of(self, places: Iterable[Place], without: AbstractSet[str], more: Sequence[Place]) -> bool:
        changes = self.changes(without, more)
        return any(self.counts.get(place, 0) + changes.get(place, 0) > 0 for place in places)
