"""The state of quotas, fed by watches: quotas, pods, nodes, disruption budgets, and claims."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from crds.elastic_quota import GROUP, PLURAL, VERSION
from headroom.cluster.shape import check_budget, check_elastic_quota, check_namespace
from scheduler_plugins.quota import devices
from scheduler_plugins.quota.amounts import NOTHING, Amounts, minus, plus
from scheduler_plugins.quota.charge import Charging
from scheduler_plugins.quota.claims import ClaimKey
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.ignored import IgnoredResources
from scheduler_plugins.quota.ledger import QuotaLedger
from scheduler_plugins.quota.nominations import LONGEST_SECONDS, Nomination, Nominations
from scheduler_plugins.quota.objects import NAMESPACES, Budget, Namespaces, QuotaNode
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.preemption_grants import PreemptionGrants
from scheduler_plugins.quota.quota import MaxMissing, Quota
from scheduler_plugins.quota.unconfirmed import UnconfirmedReservations
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.source import Source, by_name, by_uid

ELASTIC_QUOTAS: Final = f"/apis/{GROUP}/{VERSION}/{PLURAL}"  # path of the ElasticQuotas of all namespaces
BUDGETS: Final = "/apis/policy/v1/poddisruptionbudgets"  # path of the PodDisruptionBudgets of all namespaces

Json = Mapping[str, Any]
_NO_PODS: Final[Mapping[str, QuotaPod]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _KnownNominations:
    """The claims, until they change."""

    version: int = -1
    since: float = math.inf
    until: float = -math.inf
    nominations: Nominations = field(default_factory=lambda: Nominations(()))
    holding: Sequence[QuotaPod] = ()
    holding_on: Mapping[str, Sequence[QuotaPod]] = field(default_factory=dict)


class QuotaCluster:
    """Takes changes one by one."""

    def __init__(
        self,
        name: str,
        max_missing: MaxMissing,
        charging: Charging = Charging.CONTAINERS,
        ignored: IgnoredResources = IgnoredResources(),  # noqa: B008 - immutable
        device_classes: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        self.ignored: Final = ignored  # resources that kube-scheduler ignores
        self._charging = charging
        self._max_missing = max_missing
        self.ledger = QuotaLedger()  # quotas and charges
        self.namespaces: Final = Namespaces()  # labels of namespaces
        self._priorities: dict[str, dict[int, int]] = {}
        self.pods: Final[dict[str, QuotaPod]] = {}  # every pod that has not ended, by uid
        self._with_anti_affinity: dict[str, QuotaPod] = {}
        self._on_node: dict[str, dict[str, QuotaPod]] = {}
        self._groups: dict[tuple[str, str], dict[str, QuotaPod]] = {}
        self._requested: dict[str, dict[str, int]] = {}
        self.nodes: Final[dict[str, QuotaNode]] = {}  # every node by name
        self.quota_objects: Final[dict[str, Json]] = {}  # readable ElasticQuotas as JSON, by uid
        self._budgets: dict[str, Budget] = {}
        self.claiming: Final[dict[str, QuotaPod]] = {}  # the pending pods with a nomination or a hold, by uid
        self.devices: Final = devices.DeviceLedger(device_classes)  # of ResourceClaims
        self._nominated_since: dict[str, float | None] = {}
        self._answered: dict[str, tuple[QuotaPod, Sequence[str]]] = {}
        self._claims_version = 0
        self._known_claims = _KnownNominations()
        self.preemption_grants: Final = PreemptionGrants()  # the recent responses to kube-scheduler's own preemption
        self.present: Callable[[float], float] = float
        """Returns the time for evaluating holds, given the present time. [unix s]"""
        self.unconfirmed = UnconfirmedReservations()  # pods of which it is not known whether they are on their way

    # Cached objects

    @property
    def version(self) -> int:
        return self.ledger.version + self._claims_version

    @property
    def budgets(self) -> Sequence[Budget]:
        return list(self._budgets.values())

    def on_node(self, node: str) -> Mapping[str, QuotaPod]:
        return self._on_node.get(node, _NO_PODS)

    def members(self, pod: QuotaPod) -> Collection[QuotaPod]:
        """Return the placed pods of a pod's scheduling group, on any node; the pod alone without a group."""
        return self._groups.get((pod.namespace, pod.group), {}).values() if pod.group else (pod,)

    def requested(self, node: str) -> Amounts:
        return self._requested.get(node, NOTHING)

    @property
    def on_their_way(self) -> Iterable[tuple[QuotaPod, Sequence[str]]]:
        """Pods admitted and not observed as bound, and the nodes that they may be bound to."""
        return self._answered.values()

    @property
    def with_anti_affinity(self) -> Collection[QuotaPod]:
        return self._with_anti_affinity.values()

    def has_lower_priority(self, namespace: str, priority: int) -> bool:
        """Return whether a pod of lower priority is bound in a namespace; static pods cannot be victims."""
        return any(known < priority for known in self._priorities.get(namespace, ()))

    def nominations(self, now: float) -> Nominations:
        """Resources that pending pods claim: by nomination, or by a hold.

        An expired hold does not count. A nomination does not count to a missing node, without a binding for some
        minutes, or where kube-scheduler refuses the pod for other reasons than resources.
        """
        return self._claims_at(now).nominations

    def nomination_of(self, pod: QuotaPod, now: float) -> Nomination | None:
        """Return the claim of a pod, if it has one."""
        hold = pod.hold if pod.hold is not None and pod.hold.lasts(self.present(now)) else None
        node = hold.node if hold is not None else self._nominated_node(pod, now)
        if pod.node or not pod.live or pod.terminating or node not in self.nodes:
            return None
        victims = hold.victims if hold is not None else ()
        return Nomination(pod.uid, pod.namespace, pod.priority, pod.charge, pod.requests, node, victims)

    def _nominated_node(self, pod: QuotaPod, now: float) -> str:
        """Return the node that a pod has a claim to by its nomination; empty without one."""
        since = self._nominated_since.get(pod.uid)
        lasts = since is None or now - since < LONGEST_SECONDS
        return pod.nominated if pod.claims_nomination and lasts else ""

    def holding(self, now: float) -> Sequence[QuotaPod]:
        return self._claims_at(now).holding

    def holding_on(self, now: float) -> Mapping[str, Sequence[QuotaPod]]:
        return self._claims_at(now).holding_on

    def relieved(self, uid: str, now: float) -> Hold | None:
        """Return the hold of a pod, if its victims used anything; see `RelievablePlugin`."""
        pod = self.claiming.get(uid)
        hold = pod.hold if pod is not None else None
        return hold if hold is not None and hold.relief and hold.lasts(self.present(now)) else None

    def _claims_at(self, now: float) -> "_KnownNominations":
        cached, now = self._known_claims, self.present(now)
        if cached.version != self._claims_version or not cached.since <= now < cached.until:
            pods = self.claiming.values()
            for uid, since in self._nominated_since.items():
                self._nominated_since[uid] = now if since is None else min(since, now)
            holding = [pod for pod in pods if pod.hold is not None and pod.hold.lasts(now) and not pod.terminating]
            on: dict[str, list[QuotaPod]] = {}
            for pod in holding:
                on.setdefault(pod.hold.node if pod.hold is not None else "", []).append(pod)
            nominations = Nominations(
                nomination for pod in pods if (nomination := self.nomination_of(pod, now)) is not None
            )
            times = [time for pod in pods if pod.hold is not None for time in pod.hold.times]
            times += [since + LONGEST_SECONDS for since in self._nominated_since.values() if since is not None]
            changes = [time for time in times if time > now]
            cached = _KnownNominations(
                self._claims_version, now, min(changes, default=math.inf), nominations, holding, on
            )
            self._known_claims = cached
        return cached

    def knows_quotas(self, namespace: str, quotas: Sequence[Json]) -> bool:
        """Return whether a namespace's quotas are these, as JSON, and no others.

        Raises:
            QuantityError: an amount is not a quantity.
        """
        order = sorted((Quota.from_json(quota, self._max_missing) for quota in quotas), key=lambda each: each.seniority)
        first = self.ledger.quota(namespace)
        return order == ([first, *self.ledger.passed_over(namespace)] if first is not None else [])

    # Watches

    def sources(self) -> Sequence[Source]:
        """Further kinds of objects to watch."""
        return (
            Source(
                "ElasticQuotas",
                ELASTIC_QUOTAS,
                "",
                f"is the CRD {PLURAL}.{GROUP} installed, and may we list them?",
                by_uid,
                self.put_quota,
                self.delete_quota,
                absent_is_empty=True,
                check=check_elastic_quota,
            ),
            Source(
                "PodDisruptionBudgets",
                BUDGETS,
                "",
                "may we list them?",
                by_uid,
                self.put_budget,
                self.delete_budget,
                check=check_budget,
            ),
            Source(
                "Namespaces",
                NAMESPACES,
                "",
                "may we list them?",
                by_name,
                self.namespaces.put,
                self.namespaces.delete,
                check=check_namespace,
            ),
            *(devices.sources(self.put_claim, self.delete_claim) if self.devices.reads_claims else ()),
        )

    def put_claim(self, claim: Json, *, template: bool) -> None:
        """A ResourceClaim or ResourceClaimTemplate is there, or has changed."""
        self._charge_again(self.devices.put(claim, template=template))

    def delete_claim(self, key: ClaimKey) -> None:
        self._charge_again(self.devices.delete(key))

    def _charge_again(self, uids: Sequence[str]) -> None:
        self._claims_version += bool(uids)
        for uid in uids:
            self.place(self.pods[uid])

    def put_quota(self, quota: Json) -> None:
        """An ElasticQuota is there, or has changed.

        Raises:
            QuantityError: an amount is not a quantity.
        """
        read = Quota.from_json(quota, self._max_missing)
        self.quota_objects[read.uid] = quota
        self.ledger.put_quota(read)

    def delete_quota(self, uid: str) -> None:
        self.quota_objects.pop(uid, None)
        self.ledger.delete_quota(uid)

    def put_budget(self, budget: Json) -> None:
        read = Budget.from_json(budget)
        self._budgets[read.uid] = read

    def delete_budget(self, uid: str) -> None:
        self._budgets.pop(uid, None)

    def put_node(self, node: Json) -> None:
        """A Node is there, or has changed.

        Raises:
            ValueError: an amount is not a quantity, or a field has another shape than it should.
        """
        read = QuotaNode.from_json(node)
        if read.name not in self.nodes:
            self._claims_version += 1
        self.nodes[read.name] = read

    def delete_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self._claims_version += 1

    def put_pod(self, pod: Json) -> None:
        """A pod is there, or has changed.

        Raises:
            ValueError: a request is not a quantity, or a time cannot be read.
        """
        self.place(self.read(pod))

    def read(self, pod: Json) -> QuotaPod:
        """Return a pod as it is charged here.

        Raises:
            ValueError: a request is not a quantity, or a time cannot be read.
        """
        return QuotaPod.from_json(pod, self._charging)

    def pod_changed(self, pod: PodRequest) -> None:
        self.place(pod.facts[self._name])

    def place(self, pod: QuotaPod) -> None:
        """A pod that was read is there, or has changed."""
        pod, former = self.devices.charged(pod), self.pods.get(pod.uid)
        if pod.charged and pod == former:
            return  # most changes of a running pod's status are of no interest here
        self._note_nomination(pod, former)
        self._forget(pod.uid)
        if pod.live:
            self.pods[pod.uid] = pod
            self.devices.put_pod(pod)
        if pod.counted:
            self._on_node.setdefault(pod.node, {})[pod.uid] = pod
            self._requested[pod.node] = plus(self._requested.get(pod.node, NOTHING), pod.requests)
            self._count_priority(pod, 1)
            if pod.group:
                self._groups.setdefault((pod.namespace, pod.group), {})[pod.uid] = pod
            if pod.anti_affinity:
                self._with_anti_affinity[pod.uid] = pod
        nominations = pod.live and not pod.node and bool(pod.nominated or pod.hold is not None)
        self._set_claiming(pod.uid, pod if nominations else None)
        if pod.node or not pod.live or pod.terminating:
            self._resolve(pod.uid)
        self.ledger.put_pod(pod)

    def _note_nomination(self, pod: QuotaPod, former: QuotaPod | None) -> None:
        """Note when a nomination began: at the next reading of claims, if the watch shows the change.

        Of a pod that is new here the nomination is no older than its refusal, as far as is known.
        """
        if not pod.nominated or pod.node or not pod.live:
            self._nominated_since.pop(pod.uid, None)
        elif former is None:
            self._nominated_since[pod.uid] = pod.refused_since
        elif former.nominated != pod.nominated:
            self._nominated_since[pod.uid] = None

    def delete_pod(self, uid: str) -> None:
        """A pod is gone."""
        self._nominated_since.pop(uid, None)
        self._forget(uid)
        self._set_claiming(uid, None)
        self._resolve(uid)
        self._answered.pop(uid, None)
        self.ledger.discharge(uid)

    def _forget(self, uid: str) -> None:
        former = self.pods.pop(uid, None)
        if former is not None:
            self.devices.delete_pod(former)
        if former is None or not former.counted:
            return
        self._count_priority(former, -1)
        self._with_anti_affinity.pop(uid, None)
        if former.group:
            members = self._groups[former.namespace, former.group]
            del members[uid]
            if not members:
                del self._groups[former.namespace, former.group]
        there = self._on_node[former.node]
        del there[uid]
        if there:
            self._requested[former.node] = minus(self._requested[former.node], former.requests)
        else:
            del self._on_node[former.node], self._requested[former.node]

    def _count_priority(self, pod: QuotaPod, change: int) -> None:
        if pod.static:
            return
        counts = self._priorities.setdefault(pod.namespace, {})
        count = counts.get(pod.priority, 0) + change
        if count:
            counts[pod.priority] = count
            return
        del counts[pod.priority]
        if not counts:
            del self._priorities[pod.namespace]

    def _set_claiming(self, uid: str, pod: QuotaPod | None) -> None:
        former = self.claiming.pop(uid, None)
        if pod is not None:
            self.claiming[uid] = pod
        if former != pod:
            self._claims_version += 1

    def _resolve(self, uid: str) -> None:
        if self.unconfirmed.drop(uid):
            self._claims_version += 1

    # Answers

    def reserve(self, pod: PodRequest, names: Sequence[str], now: float) -> None:  # noqa: ARG002 - as Reserving has it
        """Charge an admitted pod."""
        admitted: QuotaPod = self.devices.charged(pod.facts[self._name])
        if admitted.uid != pod.uid:  # facts of another, equivalent pod
            admitted = replace(admitted, uid=pod.uid, name=pod.key.partition("/")[2])
        self._resolve(pod.uid)
        self.ledger.admit(admitted)
        self._answered[pod.uid] = admitted, names

    def reserve_unconfirmed(self, pod: PodRequest, now: float) -> None:  # noqa: ARG002 - the protocol has it
        """Count a pod beside the usage: an earlier run may have admitted it."""
        self.unconfirmed.put(self.devices.charged(pod.facts[self._name]))

    def unreserve(self, uid: str) -> None:
        """Withdraw the charge of a pod that is not bound, and stop counting it as unconfirmed."""
        self._answered.pop(uid, None)
        self._resolve(uid)
        self.ledger.withdraw(uid)
