from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from scheduler_plugins.plugins.capacity_scheduling import NAME, CapacityScheduling
from scheduler_plugins.quota.amounts import (
    CORE,
    NOTHING,
    Amounts,
    aggregated_over_min_with,
    amounts_of,
    over_max_with,
    over_min,
    over_min_with,
    plus,
)
from scheduler_plugins.quota.charge import charge_of
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.ledger import QuotaLedger
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing, Quota
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.golden.adapters import Adapter
from tests.golden.results import Amount, UnsupportedVectorError

NOW: Final = 1_700_000_000.0  # the time of a vector [unix s]

Json = Mapping[str, Any]
_RECORD: Final = ("milliCPU", "memory", "ephemeralStorage", "pods")


def record(amounts: Amounts) -> dict[str, Any]:
    core = {word: amounts.get(name, 0) for word, name in zip(_RECORD, CORE, strict=True)}
    return {**core, "scalar": {name: amount for name, amount in amounts.items() if name not in CORE}}


def named(pod: Json) -> Json:
    metadata = pod.get("metadata") or {}
    uid = metadata.get("uid") or f"{metadata.get('namespace')}/{metadata.get('name')}"
    return {**pod, "metadata": {**metadata, "uid": uid}}


def standing_in(namespace: str, used: Amounts) -> QuotaPod:
    """A pod that is charged what a vector says is used without naming the pods."""
    stated = QuotaPod.from_json({"metadata": {"uid": f"used/{namespace}", "namespace": namespace}})
    return QuotaPod(
        **{name: getattr(stated, name) for name in QuotaPod.__slots__}
        | {"node": "somewhere", "charge": used, "own": b""}
    )


def _bound(given: Json | None, kind: str) -> Amounts:
    """A bound in our words; the peer's helpers also know of no min at all, which even no usage is more than."""
    if given is None and kind == "min":
        return dict.fromkeys(CORE, -1)
    quota = Quota.from_json({"spec": {} if given is None else {kind: given}})
    return quota.min if kind == "min" else quota.max


def _new_quota_info(vector: Json) -> dict[str, Any]:
    spec = {kind: vector[kind] for kind in ("min", "max") if vector.get(kind) is not None}
    quota = Quota.from_json({"metadata": {"namespace": vector.get("namespace")}, "spec": spec})
    return {"min": record(quota.min), "max": record(quota.max), "used": record(amounts_of(vector.get("used")))}


def _after(vector: Json, pods: Iterable[tuple[QuotaPod, bool]]) -> dict[str, Any]:
    """The used amounts after pods were added (True) and deleted (False), as a resource list."""
    ledger = QuotaLedger()
    used = amounts_of(vector.get("used"))
    ledger.put_pod(standing_in("", used))
    for pod, is_added in pods:
        if is_added:
            ledger.admit(pod)
        else:
            ledger.withdraw(pod.uid)
    return {"used": _resource_list(ledger.used(""), used)}


def _resource_list(amounts: Amounts, also: Iterable[str] = ()) -> dict[str, Amount]:
    listed = {name: amounts.get(name, 0) for name in (*CORE, *also, *amounts)}
    return {name: Amount(amount, 1000 if name == "cpu" else 1) for name, amount in listed.items()}


def _everywhere(pods: Iterable[Json]) -> list[QuotaPod]:
    """Pods of any namespace, as if all were of one: the peer's helper ignores it."""
    return [QuotaPod.from_json({**pod, "metadata": {**pod["metadata"], "namespace": ""}}) for pod in map(named, pods)]


def _reserve_resource(vector: Json) -> dict[str, Any]:
    return _after(vector, ((pod, True) for pod in _everywhere(vector["pods"])))


def _over(vector: Json, kind: str) -> dict[str, Any]:
    compare = over_max_with if kind == "max" else over_min_with
    result = compare(amounts_of(vector.get("used")), _bound(vector.get(kind), kind), amounts_of(vector["podRequest"]))
    return {"over": bool(result)}


def _used_over_min(vector: Json) -> dict[str, Any]:
    return {"over": bool(over_min(amounts_of(vector.get("used")), _bound(vector.get("min"), "min")))}


def _aggregated_used_over_min_with(vector: Json) -> dict[str, Any]:
    ledger = QuotaLedger()
    seed(ledger, vector)
    over = aggregated_over_min_with(ledger.total_used, ledger.total_min, amounts_of(vector["podRequest"]))
    return {"over": bool(over)}


def _pod_request(vector: Json) -> dict[str, Any]:
    return record(charge_of(vector["pod"]))


def seed(ledger: QuotaLedger, vector: Json) -> None:
    for entry in vector.get("elasticQuotas") or ():
        quota = Quota.from_json(entry.get("quota") or entry)
        ledger.put_quota(quota)
        ledger.put_pod(standing_in(quota.namespace, amounts_of(entry.get("used"))))


class World:
    """A cache with the plugin, the vector's quotas, nodes and pods that are nominated."""

    def __init__(self, vector: Json) -> None:
        self.plugin = CapacityScheduling(MaxMissing.ZERO)
        self.cache = ClusterCache(LoadRules(), {NAME: self.plugin})
        state = self.cache.plugin_states[NAME]
        assert isinstance(state, QuotaCluster)
        self.kept = state
        seed(state.ledger, vector)
        for node in vector.get("nodes") or ():
            self.cache.put_node(node)
        for pod in vector.get("nominatedPods") or ():
            self.kept.put_pod(named(pod))

    def code(self, pod: Json) -> str:
        nodes = self.cache.freeze(NOW).select(self.cache.nodes)[0]
        refusal = self.plugin.pre_filter(self.cache.read(named(pod)), nodes)
        return "Success" if refusal is None else "Unschedulable"


def _prefilter(vector: Json) -> dict[str, Any]:
    world = World(vector)
    return {"codes": [world.code(pod) for pod in vector["pods"]]}


def _state(ledger: QuotaLedger, namespace: str, uids: Iterable[str]) -> dict[str, Any] | None:
    quota = ledger.quota(namespace)
    if quota is None:
        return None
    charges = {uid: ledger.charge_of(uid) for uid in uids}
    here = sorted(uid for uid, charge in charges.items() if charge is not None and charge.namespace == namespace)
    return {
        "min": record(quota.min),
        "max": record(quota.max),
        "used": record(ledger.used(namespace)),
        "pods": here,
    }


def _events(vector: Json) -> dict[str, Any]:
    cluster, uids = QuotaCluster(NAME, MaxMissing.ZERO), set()
    for step in vector["steps"]:
        ((kind, inputs),) = step.items()
        item = inputs[1] if kind in ("updateQuota", "updatePod") else inputs
        if kind in ("addQuota", "updateQuota"):
            cluster.put_quota(item)
        elif kind == "deleteQuota":
            cluster.ledger.delete_quota(Quota.from_json(item).uid)
        elif kind in ("addPod", "updatePod", "deletePod", "reserve"):
            pod = QuotaPod.from_json(named(item.get("pod") or item))
            uids.add(pod.uid)
            if kind == "deletePod":
                cluster.delete_pod(pod.uid)
            elif kind == "reserve":
                cluster.ledger.admit(pod)
            else:
                cluster.place(pod)
        else:
            raise UnsupportedVectorError(f"step {kind}")
    return {"ns1": _state(cluster.ledger, "ns1", uids)}


def _sequence(vector: Json, *, reserve: bool) -> dict[str, Any]:
    """The state of ns1 after each pod was reserved or given back.

    A pod that is counted already is charged as admitted, and a stand-in has the other usage.
    """
    ledger = QuotaLedger()
    pods = [QuotaPod.from_json(named(pod)) for pod in vector["pods"]]
    known_uids = _uids(vector.get("cachedPods"))
    counted = {pod.uid: pod for pod in pods if pod.uid in known_uids}
    for entry in vector.get("elasticQuotas") or ():
        quota = Quota.from_json(entry.get("quota") or entry)
        ledger.put_quota(quota)
        rest: Amounts = amounts_of(entry.get("used"))
        for pod in counted.values():
            if pod.namespace == quota.namespace:
                rest = plus(rest, {name: -amount for name, amount in pod.charge.items()})
        ledger.put_pod(standing_in(quota.namespace, rest))
    for pod in counted.values():
        ledger.admit(pod)
    for uid in known_uids - counted.keys():
        other = standing_in("ns1", NOTHING)
        ledger.admit(QuotaPod(**{name: getattr(other, name) for name in QuotaPod.__slots__} | {"uid": uid}))
    states = []
    for pod in pods:
        if reserve:
            ledger.admit(pod)
        else:
            ledger.withdraw(pod.uid)
        states.append(_state(ledger, "ns1", known_uids | {pod.uid for pod in pods}))
    return {"ns1": states, "states": states}


def _uids(cached: Sequence[str] | Mapping[str, Sequence[str]] | None) -> set[str]:
    if isinstance(cached, Mapping):
        return {uid for uids in cached.values() for uid in uids}
    return set(cached or ())


def _status_used(vector: Json) -> dict[str, Any]:
    cluster = QuotaCluster(NAME, MaxMissing.ZERO)
    for quota in vector["elasticQuotas"]:
        cluster.put_quota(quota)
    for pod in vector.get("pods") or ():
        cluster.put_pod(_somewhere(named(pod)))
    quotas = cluster.ledger.in_force
    lists = {quota.key: quota.reported(cluster.ledger.bound(quota.namespace)) for quota in quotas}
    return {
        "used": {key: {name: Amount.of(amount) for name, amount in listed.items()} for key, listed in lists.items()}
    }


def _somewhere(pod: Json) -> Json:
    """A pod that runs is on a node, which the peer's own tests leave out."""
    running = (pod.get("status") or {}).get("phase") == "Running"
    spec = pod.get("spec") or {}
    return {**pod, "spec": {**spec, "nodeName": "somewhere"}} if running and not spec.get("nodeName") else pod


OPERATIONS: Final[Mapping[str, Adapter]] = {
    "used_over_min_with": lambda vector: _over(vector, "min"),
    "used_over_max_with": lambda vector: _over(vector, "max"),
    "reserve_sequence": lambda vector: _sequence(vector, reserve=True),
    "unreserve_sequence": lambda vector: _sequence(vector, reserve=False),
}
