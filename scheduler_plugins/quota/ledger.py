"""The ledger of quotas: the quota in force in each namespace, and its charges."""

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler_plugins.quota.amounts import NOTHING, Amounts, minus, over_min, plus
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import Quota


class Charge(NamedTuple):
    """The charge of a pod."""

    namespace: str  # the charged namespace
    amounts: Amounts  # how much. [milli-cores for cpu, else base units]
    bound: bool  # whether the pod is bound; otherwise it was admitted


@dataclass(slots=True)
class QuotaLedger:
    """Quotas and charges. Every pod is charged at most once, by its uid, wherever it was seen first.

    Pods of namespaces without a quota are kept, too, so that those that were there before a quota count.
    """

    _quotas: dict[str, list[Quota]] = field(default_factory=dict)
    _charges: dict[str, Charge] = field(default_factory=dict)
    _used: dict[str, dict[str, int]] = field(default_factory=dict)
    _bound: dict[str, dict[str, int]] = field(default_factory=dict)
    _charged: dict[str, int] = field(default_factory=dict)
    tentative: set[str] = field(default_factory=set)  # uids of pods that were admitted and not seen bound
    total_used: dict[str, int] = field(default_factory=dict)  # what all namespaces with a quota are charged
    total_min: dict[str, int] = field(default_factory=dict)  # the sum of min of all quotas; only what a min names
    _naming: Counter[str] = field(default_factory=Counter)
    over_min: set[str] = field(default_factory=set)  # namespaces that are charged more than their quota guarantees
    version: int = 0  # changes with everything that may change a verdict

    # Cached objects

    @property
    def namespaces(self) -> AbstractSet[str]:
        return self._quotas.keys()

    def quota(self, namespace: str) -> Quota | None:
        """The quota in force in a namespace: of several the oldest, then the first by name."""
        quotas = self._quotas.get(namespace)
        return quotas[0] if quotas else None

    @property
    def in_force(self) -> Sequence[Quota]:
        return [quotas[0] for quotas in self._quotas.values()]

    def passed_over(self, namespace: str) -> Sequence[Quota]:
        return self._quotas.get(namespace, [])[1:]

    def used(self, namespace: str) -> Amounts:
        return self._used.get(namespace, NOTHING)

    def bound(self, namespace: str) -> Amounts:
        """Return a namespace's charge for bound pods alone: the `status.used` of its quota."""
        return self._bound.get(namespace, NOTHING)

    def is_over_min(self, namespace: str) -> bool:
        return namespace in self.over_min

    def charge_of(self, uid: str) -> Charge | None:
        return self._charges.get(uid)

    # Quotas

    def put_quota(self, quota: Quota) -> None:
        self._set_quotas(quota.namespace, [*self._others(quota.namespace, quota.uid), quota])

    def delete_quota(self, uid: str) -> None:
        """Forget a quota."""
        for namespace, quotas in list(self._quotas.items()):
            if any(quota.uid == uid for quota in quotas):
                self._set_quotas(namespace, self._others(namespace, uid))

    def _others(self, namespace: str, uid: str) -> list[Quota]:
        return [quota for quota in self._quotas.get(namespace, ()) if quota.uid != uid]

    def _set_quotas(self, namespace: str, quotas: list[Quota]) -> None:
        former = self.quota(namespace)
        self._quotas.pop(namespace, None)
        if quotas:
            self._quotas[namespace] = sorted(quotas, key=lambda quota: quota.seniority)
        new = self.quota(namespace)
        if former != new:
            self._guarantee(former.min if former else NOTHING, new.min if new else NOTHING)
            if (former is None) != (new is None):
                add = plus if new else minus
                self.total_used = add(self.total_used, self.used(namespace))
                self._drop_empty(namespace)
            self._compare(namespace)
            self.version += 1

    def _guarantee(self, former: Amounts, new: Amounts) -> None:
        """Take a quota's new min in place of its former one in the sum of min."""
        guaranteed = set(self.total_min)
        self._naming.subtract(former.keys())
        self._naming.update(new.keys())
        self._naming = +self._naming
        total = plus(minus(self.total_min, former), new)
        self.total_min = {name: amount for name, amount in total.items() if name in self._naming}
        if guaranteed != self.total_min.keys():
            for namespace in self._quotas:
                self._compare(namespace)

    # Charges

    def put_pod(self, pod: QuotaPod) -> None:
        """Add or update a pod: a bound one is charged its present requests, an ended one nothing.

        A pod that is not bound keeps the charge that it was admitted with, if any.
        """
        if pod.charged:
            self._charge(pod.uid, Charge(pod.namespace, pod.charge, bound=True))
        elif pod.node or not pod.live or pod.uid not in self.tentative:
            self.discharge(pod.uid)

    def admit(self, pod: QuotaPod) -> None:
        """Charge an admitted pod, until it is bound, refused or deleted."""
        charge = self._charges.get(pod.uid)
        if charge is None or not charge.bound:
            self._charge(pod.uid, Charge(pod.namespace, pod.charge, bound=False))

    def withdraw(self, uid: str) -> None:
        if uid in self.tentative:
            self.discharge(uid)

    def discharge(self, uid: str) -> None:
        self._charge(uid, None)

    def _charge(self, uid: str, charge: Charge | None) -> None:
        former = self._charges.pop(uid, None)
        self.tentative.discard(uid)
        if charge is not None:
            self._charges[uid] = charge
            if not charge.bound:
                self.tentative.add(uid)
        if former == charge:
            return
        if former is not None and charge is not None and former.namespace == charge.namespace:
            self._change(charge, former)
            return
        if charge is not None:
            self._charged[charge.namespace] = self._charged.get(charge.namespace, 0) + 1
            self._add(charge.namespace, charge.amounts, bound=charge.bound)
        if former is not None:
            self._charged[former.namespace] -= 1
            self._add(former.namespace, minus(NOTHING, former.amounts), bound=former.bound)
            self._drop_empty(former.namespace)

    def _change(self, charge: Charge, former: Charge) -> None:
        """Take one charge of a pod for another of the same namespace: most are the same amounts, seen bound now."""
        namespace = charge.namespace
        if charge.amounts is not former.amounts:
            more = minus(charge.amounts, former.amounts)
            if charge.bound == former.bound:
                self._add(namespace, more, bound=charge.bound)
                return
            if any(more.values()):
                self._add(namespace, more, bound=False)
        change = charge.amounts if charge.bound else minus(NOTHING, former.amounts)
        self._bound[namespace] = plus(self._bound.get(namespace, NOTHING), change)

    def _add(self, namespace: str, amounts: Amounts, *, bound: bool) -> None:
        self._used[namespace] = plus(self._used.get(namespace, NOTHING), amounts)
        if bound:
            self._bound[namespace] = plus(self._bound.get(namespace, NOTHING), amounts)
        if namespace in self._quotas:
            self.total_used = plus(self.total_used, amounts)
            self._compare(namespace)
            self.version += 1

    def _compare(self, namespace: str) -> None:
        quota = self.quota(namespace)
        if quota is not None and over_min(self.used(namespace), quota.min, self.total_min):
            self.over_min.add(namespace)
        else:
            self.over_min.discard(namespace)

    def _drop_empty(self, namespace: str) -> None:
        """Forget a namespace without quota and charges: they come and go, and their names do not come again."""
        if namespace not in self._quotas and not self._charged.get(namespace):
            for kept in (self._used, self._bound, self._charged):
                kept.pop(namespace, None)
