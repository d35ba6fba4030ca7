"""Claims of pending pods with their sums: admission reads them with every pod."""

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from scheduler_plugins.quota.amounts import NOTHING, Amounts, plus
from scheduler_plugins.snapshot.units import unix_time

LONGEST_SECONDS: Final = 300.0  # how long a nomination without a binding is a claim [s]
_RESOURCES: Final = re.compile(
    r"\bInsufficient |Too many pods|\bresources\b|ElasticQuota |free ports|exceed threshold"
)  # in kube-scheduler's message, reasons that end when pods end


def refused_since(status: Mapping[str, Any]) -> float | None:
    """Return since when kube-scheduler refuses a pod; None: it does not, or the time is unknown. [unix s]

    Raises:
        ValueError: the time is not RFC 3339.
    """
    refusal = _refusal(status)
    return None if refusal is None else unix_time(refusal.get("lastTransitionTime"))


def waits_for_resources(status: Mapping[str, Any]) -> bool:
    """Return whether a pod may wait for pods to end: kube-scheduler's last message is not about other reasons alone."""
    message = str((_refusal(status) or {}).get("message") or "").partition("preemption: ")[0]
    return not message or _RESOURCES.search(message) is not None


def _refusal(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    conditions = status.get("conditions") or ()
    refusals = (part for part in conditions if (part.get("type"), part.get("status")) == ("PodScheduled", "False"))
    return next(refusals, None)


@dataclass(frozen=True, slots=True)
class Nomination:
    """The claim of a pending pod: it is nominated to a node, or resources are reserved for it."""

    uid: str  # of the pod
    namespace: str  # the namespace of its quota
    priority: int  # of the pod
    charge: Amounts  # what its quota will be charged
    requests: Amounts  # what kube-scheduler will set aside for it on the node
    node: str  # Where
    victims: tuple[str, ...] = ()  # Uids of the pods that were evicted for it


class Nominations:
    """Claims that do not change, one a pod."""

    def __init__(self, nominations: Iterable[Nomination] = ()) -> None:
        self._by_uid: Mapping[str, Nomination] = {nomination.uid: nomination for nomination in nominations}
        self.with_victims: Final = [nomination for nomination in self if nomination.victims]
        """The claims with evicted pods."""
        self._of: dict[str, list[Nomination]] = {}
        self._sums: dict[str, dict[int, Amounts]] = {}
        self._totals: dict[str, Amounts] = {}
        self.total: Amounts = NOTHING  # the sum of all
        for nomination in self:
            name = nomination.namespace
            self._of.setdefault(name, []).append(nomination)
            sums = self._sums.setdefault(name, {})
            sums[nomination.priority] = plus(sums.get(nomination.priority, NOTHING), nomination.charge)
            self._totals[name] = plus(self._totals.get(name, NOTHING), nomination.charge)
            self.total = plus(self.total, nomination.charge)

    def __iter__(self) -> Iterator[Nomination]:
        return iter(self._by_uid.values())

    def __len__(self) -> int:
        return len(self._by_uid)

    @property
    def uids(self) -> AbstractSet[str]:
        return self._by_uid.keys()

    def of(self, uid: str) -> Nomination | None:
        return self._by_uid.get(uid)

    @property
    def namespaces(self) -> AbstractSet[str]:
        return self._of.keys()

    def sum(self, namespace: str, least_priority: int | None, without: AbstractSet[str]) -> Amounts:
        """Return the sum of a namespace's claims."""
        if without and any(uid in self._by_uid and self._by_uid[uid].namespace == namespace for uid in without):
            counted = (nomination for nomination in self._of.get(namespace, ()) if nomination.uid not in without)
            amounts = [(nomination.priority, nomination.charge) for nomination in counted]
        elif least_priority is None:
            return self._totals.get(namespace, NOTHING)
        else:
            amounts = list(self._sums.get(namespace, {}).items())
        total: Amounts = NOTHING
        for priority, charge in amounts:
            if least_priority is None or priority >= least_priority:
                total = plus(total, charge)
        return total
