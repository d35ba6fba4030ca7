"""Pods that an earlier run of this process may have admitted, as far as is known after a start.

kube-scheduler may still bind them, one by one and for as long as its own queue of bindings lasts. They are counted
beside the usage until they are requested, bound or deleted, or until enough time has passed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler_plugins.quota.amounts import NOTHING, UNLIMITED, Amounts, minus, plus
from scheduler_plugins.quota.ledger import QuotaLedger
from scheduler_plugins.quota.pod import QuotaPod


class UnconfirmedReservations:
    """The unconfirmed pods."""

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
        """Add a pod: an earlier run may have admitted it."""
        self.drop(pod.uid)
        self._pods[pod.uid] = pod
        self._sums[pod.namespace] = plus(self._sums.get(pod.namespace, NOTHING), pod.charge)

    def drop(self, uid: str) -> bool:
        """Remove a pod. Return whether it was unconfirmed."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return False
        self._sums[pod.namespace] = minus(self._sums[pod.namespace], pod.charge)
        return True

    def beside(self, uid: str, namespace: str, ledger: QuotaLedger) -> "UnconfirmedUsage":
        """Return the largest charge of unconfirmed pods: to a namespace, and to all that have a quota.

        The earlier run admitted no pod beyond a namespace's max, nor beyond the sum of min. So of all waiting pods,
        only those that fit below these bounds may have been admitted.
        """
        waiting = dict(self._sums)
        for pod_uid in (uid, *(ledger.tentative & self._pods.keys())):
            if (pod := self._pods.get(pod_uid)) is not None:
                waiting[pod.namespace] = minus(waiting[pod.namespace], pod.charge)
        charge = ledger.charge_of(uid)
        in_namespace: Amounts = NOTHING
        total: Amounts = NOTHING
        of: dict[str, Amounts] = {}
        for name, amounts in waiting.items():
            quota = ledger.quota(name)
            if quota is None:
                continue
            used = ledger.used(name)
            if charge is not None and charge.namespace == name:
                used = minus(used, charge.amounts)
            of[name] = {key: _within(amount, used, quota.max, key) for key, amount in amounts.items()}
            total = plus(total, of[name])
            in_namespace = of[name] if name == namespace else in_namespace
        total_used = ledger.total_used
        if charge is not None and ledger.quota(charge.namespace) is not None:
            total_used = minus(total_used, charge.amounts)
        total = {name: _within(amount, total_used, ledger.total_min, name) for name, amount in total.items()}
        return UnconfirmedUsage(in_namespace, total, of)


@dataclass(frozen=True, slots=True)
class UnconfirmedUsage:
    """The charge of pods that may have been admitted."""

    own: Amounts  # of the namespace in question
    total: Amounts  # of all that have a quota
    of: Mapping[str, Amounts]  # by namespace; together it may be more than the total

    def waited_for(self, namespace: str, resource: str, *, total: bool) -> tuple[str, ...]:
        """Return the namespaces with unconfirmed pods, those with most of a resource first."""
        names = sorted(self.of, key=lambda name: (-self.of[name].get(resource, 0), name)) if total else [namespace]
        return tuple(name for name in names if self.of.get(name, NOTHING).get(resource, 0) > 0)


def _within(amount: int, used: Amounts, bound: Amounts, name: str) -> int:
    """Return as much of an amount as fits below a bound."""
    return min(amount, max(0, bound.get(name, UNLIMITED) - used.get(name, 0)))


NONE_BESIDE: Final = UnconfirmedUsage(NOTHING, NOTHING, {})  # without unconfirmed pods
NONE_UNCONFIRMED: Final = UnconfirmedReservations()  # empty, and stays empty
