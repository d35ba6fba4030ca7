"""The pods of a node, and the Mid pods that have none, as `kubectl headroom top pods` shows them."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from crds.priority import PriorityBand
from manager.inputs import Amounts, PodInputs
from manager.inputs.reading import get_objects, get_path, parse_time
from manager.mid.explanation import node_metric
from manager.mid.explanation.node_metric import Amount
from manager.mid.pod_limits import PodLimits
from manager.web.api_reader import ApiReader, NotRead

Json = dict[str, Any]

_NOT_SCHEDULED: Final = "no scheduler has reported on it yet: check that its scheduler runs"


def of_node(metric: Mapping[str, Any] | None, pods: Iterable[PodInputs]) -> list[Json]:
    """Return the bound pods of a node by name, with their usage in its NodeMetric; null is unknown."""
    usage = node_metric.read(metric, 0.0).pods or {} if metric else {}
    counts = get_path(metric, "status", "prediction", "pods") or {}
    names = counts.get("coldNames") if isinstance(counts, Mapping) else None
    cold = {str(name) for name in names} if isinstance(names, list) else set()
    complete = isinstance(counts, Mapping) and counts.get("cold") == len(cold)
    rows, pods = [], list(pods)
    limits = PodLimits.of(
        pods, {key: Amounts(used.cpu_milli or 0, used.memory_bytes or 0) for key, used in usage.items()}
    )
    unlimited, beyond = {pod.key for pod in limits.unlimited}, {pod.key for pod, _ in limits.beyond}
    for pod in sorted(pods, key=lambda pod: pod.key):
        used = usage.get(pod.key)
        predicted = pod.band is PriorityBand.PROD and (pod.key in cold or (complete and used is not None))
        prediction = None if not predicted else "cold" if pod.key in cold else "warm"
        notes = ["no limits"] * (pod.key in unlimited) + ["beyond requests"] * (pod.key in beyond)
        usage_json = (used or Amount()).as_json()
        rows.append({**_row(pod), "usage": usage_json, "prediction": prediction, "note": ", ".join(notes) or None})
    return rows


def _row(pod: PodInputs) -> Json:
    namespace, _, name = pod.key.partition("/")
    requested = pod.mid_requests or pod.requests
    return {
        "namespace": namespace,
        "pod": name,
        "band": pod.band.value,
        "requested": Amount(requested.cpu, requested.memory).as_json(),
    }


def pending(reader: ApiReader, now: float) -> Json:
    """Return the Mid pods without a node, the oldest first, and why the list is incomplete; empty if it is not."""
    try:
        unbound = reader.unbound_pods()
    except NotRead as error:
        return {"pods": [], "problem": str(error)}
    rows = [row for item in get_objects(unbound, "items") if (row := _pending(item, now))]
    rows.sort(key=lambda row: -(row["ageSeconds"] or 0))
    rest = get_path(unbound, "metadata", "continue")
    return {"pods": rows, "problem": "only the first 500 pods without a node were read" if rest else ""}


def _pending(pod: Mapping[str, Any], now: float) -> Json | None:
    inputs = PodInputs.from_object(pod)
    if inputs.band is not PriorityBand.MID:
        return None
    try:
        age = max(now - parse_time(str(get_path(pod, "metadata", "creationTimestamp"))), 0.0)
    except ValueError:
        age = None
    return {**_row(inputs), "ageSeconds": age, "reason": _reason(pod)}


def _reason(pod: Mapping[str, Any]) -> str:
    gates: Collection[str] = [str(gate.get("name")) for gate in get_objects(pod, "spec", "schedulingGates")]
    if gates:
        return f"scheduling gates block the pod: {', '.join(gates)}"
    for condition in get_objects(pod, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason"))
    return _NOT_SCHEDULED
