"""Pods of which it is not known, after a start, whether an earlier run of this process has let them through.

kube-scheduler may still bind them, one by one and for as long as its own queue of bindings lasts. They are counted
beside what is used until they are asked about, seen bound or gone, or until enough time has passed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler_plugins.quota.amounts import NOTHING, UNLIMITED, Amounts, minus, plus
from scheduler_plugins.quota.ledger import QuotaLedger
from scheduler_plugins.quota.pod import QuotaPod


class UnconfirmedReservations:
    """The pods in doubt."""

    __slots__ = ("_pods", "_sums")

    def __init__(self, pods: Iterable[QuotaPod] = ()) -> None:
        self._pods: dict[str, QuotaPod] = {}
        self._sums: dict[str, Amounts] = {}
        for pod in pods:
            self.put(pod)

    def __bool__(self) -> bool:
        return bool(self._pods)

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def put(self, pod: QuotaPod) -> None:
        """It is not known of a pod whether it is on its way."""
        self.drop(pod.uid)
        self._pods[pod.uid] = pod
        self._sums[pod.namespace] = plus(self._sums.get(pod.namespace, NOTHING), pod.charge)

    def drop(self, uid: str) -> bool:
        """It is known of a pod. Returns whether it was in doubt."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return False
        self._sums[pod.namespace] = minus(self._sums[pod.namespace], pod.charge)
        return True

    def beside(self, uid: str, namespace: str, ledger: QuotaLedger) -> "Beside":
        """What pods in doubt may be charged at most: to a namespace, and to all that have a quota.

        The run before let nobody through beyond a namespace's max, nor all beyond the sum of min. So however many wait,
        no more of them is on its way than fits in what is left there.
        """
        waiting = dict(self._sums)
        for each in (uid, *(ledger.tentative & self._pods.keys())):
            if (pod := self._pods.get(each)) is not None:
                waiting[pod.namespace] = minus(waiting[pod.namespace], pod.charge)
        asked = ledger.charge_of(uid)
        own: Amounts = NOTHING
        total: Amounts = NOTHING
        of: dict[str, Amounts] = {}
        for name, amounts in waiting.items():
            quota = ledger.quota(name)
            if quota is None:
                continue
            used = ledger.used(name)
            if asked is not None and asked.namespace == name:
                used = minus(used, asked.amounts)
            of[name] = {each: _within(amount, used, quota.max, each, UNLIMITED) for each, amount in amounts.items()}
            total = plus(total, of[name])
            own = of[name] if name == namespace else own
        everybody = ledger.total_used
        if asked is not None and ledger.quota(asked.namespace) is not None:
            everybody = minus(everybody, asked.amounts)
        total = {name: _within(amount, everybody, ledger.total_min, name, 0) for name, amount in total.items()}
        return Beside(own, total, of)


@dataclass(frozen=True, slots=True)
class Beside:
    """What may be on its way."""

    own: Amounts  # of the namespace in question
    total: Amounts  # of all that have a quota
    of: Mapping[str, Amounts]  # by namespace; together it may be more than the total

    def waited_for(self, namespace: str, resource: str, *, total: bool) -> tuple[str, ...]:
        """Namespaces whose pods have to be heard of first, those with most of a resource first."""
        names = sorted(self.of, key=lambda name: (-self.of[name].get(resource, 0), name)) if total else [namespace]
        return tuple(name for name in names if self.of.get(name, NOTHING).get(resource, 0) > 0)


def _within(amount: int, used: Amounts, bound: Amounts, name: str, missing: int) -> int:
    """As much of an amount as what is left of a bound."""
    return min(amount, max(0, bound.get(name, missing) - used.get(name, 0)))


NOTHING_BESIDE: Final = Beside(NOTHING, NOTHING, {})  # nobody is in doubt
NO_DOUBTS: Final = UnconfirmedReservations()  # there are none; nobody puts any in
