"""What LoadAwareScheduling must answer, from the reference alone: one node, one pod, one resource at a time.

Nothing of the scheduler's code is used, and nothing is kept up to date: every sum is worked out anew when it is asked
for. `Model` speaks for Koordinator, or (`ours`) for us where we differ on purpose: in what a cache sees,
and in that no label or annotation makes a pod that is there count for less than it asks for.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from crds.duration import parse_duration
from crds.priority import priority_class
from crds.quantity import milli_value, value
from headroom.cluster.pod import pod_limits, pod_requests

Json = dict[str, Any]
Amounts = dict[str, int]

FACTORS = "scheduling.koordinator.sh/load-estimated-scaling-factors"
AFTER_SCHEDULED = "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
AFTER_INITIALIZED = "scheduling.koordinator.sh/load-estimated-seconds-after-initialized"
THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"
RAW_ALLOCATABLE = "node.koordinator.sh/raw-allocatable"
RESERVE_POD = "scheduling.koordinator.sh/reserve-pod"
KINDS = ("avg", "p50", "p90", "p95", "p99", "stdev")


def effective(args: Mapping[str, Any], *, defaults: bool) -> Json:
    """The arguments without those that are not given, with defaults where asked for."""
    given = {name: each for name, each in args.items() if each is not None}
    if not defaults:
        return given
    if not given.get("resourceWeights") and not given.get("dominantResourceWeight"):
        given["resourceWeights"] = {"cpu": 1, "memory": 1}
    if not given.get("usageThresholds"):
        given["usageThresholds"] = {"cpu": 65, "memory": 95}
    given["estimatedScalingFactors"] = {"cpu": 85, "memory": 70, **given.get("estimatedScalingFactors", {})}
    simple = {
        "filterExpiredNodeMetrics": True,
        "nodeMetricExpirationSeconds": 180,
        "enableScheduleWhenNodeMetricsExpired": False,
    }
    return {**simple, **given}


def resources_of(args: Mapping[str, Any]) -> list[str]:
    """All resources that are looked at, sorted by their bytes."""
    found = {"cpu", "memory", *args.get("supportedResources", ())}
    for name in ("usageThresholds", "prodUsageThresholds", "resourceWeights", "estimatedScalingFactors"):
        found |= (args.get(name) or {}).keys()
    found |= ((args.get("aggregated") or {}).get("usageThresholds") or {}).keys()
    return sorted(found, key=str.encode)


def units(resource: str, quantity: Any) -> int:  # noqa: ANN401 - a quantity
    """Milli-cores for cpu, else base units; rounded up."""
    return milli_value(quantity) if resource == "cpu" else value(quantity)


def unix(text: str | None) -> float | None:
    """Unix seconds of a time."""
    return datetime.fromisoformat(text).timestamp() if text else None


def _text(moment: float | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _half_away(number: float) -> int:
    """Nearest integer, halves away from zero, exactly: adding 0.5 in doubles may itself round."""
    whole = math.floor(abs(number))
    return int(math.copysign(whole + (abs(number) - whole >= 0.5), number))


def _annotations(thing: Json) -> Mapping[str, str]:
    return thing["metadata"].get("annotations") or {}


def _nulls_are_zero(data: Any) -> Any:  # noqa: ANN401 - JSON
    """A map as Go reads it from JSON."""
    return {name: 0 if each is None else each for name, each in data.items()} if isinstance(data, dict) else data


def _is_int64(number: object) -> bool:
    return type(number) is int and -(2**63) <= number < 2**63


def negative_factors(pod: Json) -> bool:
    """Whether a pod's annotation has a negative factor: Koordinator then expects negative usage, we ignore it."""
    try:
        custom = json.loads(_annotations(pod).get(FACTORS) or "{}")
        return any(type(each) is int and each < 0 for each in custom.values())
    except (ValueError, AttributeError):
        return False


def estimate(pod: Json, args: Mapping[str, Any], *, ours: bool = True) -> Amounts:
    """What a pod is expected to use, by native resource name."""
    factors = dict(args.get("estimatedScalingFactors") or {})
    if args.get("allowCustomizeEstimation") and FACTORS in _annotations(pod):
        try:
            custom = _nulls_are_zero(json.loads(_annotations(pod)[FACTORS]))
            if isinstance(custom, dict) and all(_is_int64(each) for each in custom.values()):
                factors |= {name: each for name, each in custom.items() if each >= 0 or not ours}
        except ValueError:
            pass
    band, requests, limits = str(priority_class(pod)), pod_requests(pod), pod_limits(pod)
    found, tier = {}, band.removeprefix("koord-")
    for resource, factor in factors.items():
        own = f"kubernetes.io/{tier}-{resource}" if resource in ("cpu", "memory") and tier in ("mid", "batch") else ""
        if ours:
            asks = max(requests.get(own, 0), limits.get(own, 0)) > 0
            actual = [*([own] if asks else []), *([] if asks and not requests.get(resource, 0) else [resource])]
        else:
            actual = [own] if own else [] if tier in ("mid", "batch", "free") else [resource]
        found[resource] = max((_estimate_one(each, requests, limits, factor) for each in actual), default=0)
    return found


def _estimate_one(actual: str, requests: Mapping[str, Any], limits: Mapping[str, Any], factor: int) -> int:
    limit = limits.get(actual, 0)
    asked = max(limit, requests.get(actual, 0))
    if asked == 0:
        return {
            "cpu": 250,
            "kubernetes.io/batch-cpu": 250,
            "memory": 200 * 2**20,
            "kubernetes.io/batch-memory": 200 * 2**20,
        }.get(actual, 0)
    scaled = _half_away(float(units(actual, asked)) * float(factor) / 100)
    return min(scaled, units(actual, limit)) if limit > 0 else scaled


def condition_time(pod: Json, kind: str) -> float | None:
    """When a condition became True."""
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each.get("type") == kind:
            return unix(each.get("lastTransitionTime")) if each.get("status") == "True" else None
    return None


def _forced_seconds(pod: Json, args: Mapping[str, Any], annotation: str, name: str) -> int | None:
    text = _annotations(pod).get(annotation, "") if args.get("allowCustomizeEstimation") else ""
    try:
        own = int(text) if text.strip() == text and "_" not in text and text.isascii() else -1
    except ValueError:
        own = -1
    seconds = own if own >= 0 and _is_int64(own) else args.get(name)
    return seconds if seconds is not None and seconds > 0 else None


def deadline(pod: Json, since: float, args: Mapping[str, Any]) -> float | None:
    """The end of the forced window."""
    after = _forced_seconds(pod, args, AFTER_INITIALIZED, "estimatedSecondsAfterInitialized")
    initialized = condition_time(pod, "Initialized")
    if after is not None and initialized is not None:
        return initialized + after
    seconds = _forced_seconds(pod, args, AFTER_SCHEDULED, "estimatedSecondsAfterPodScheduled")
    return None if seconds is None else since + seconds


@dataclass
class _Node:
    pods: dict[str, tuple[Json, float]] = field(default_factory=dict)
    metric: Json | None = None
    updated: float = -math.inf


@dataclass(frozen=True)
class _Part:
    """What one pod adds to each sum."""

    key: str
    delta: Amounts
    prod_delta: Amounts
    estimated: Amounts
    prod_usage: Amounts
    unreported: bool


class Model:
    """A cache, and what is filtered and scored by it.

    Args:
        args: the arguments in force.
        resources: the resources to look at.
        ours: whether every change of a pod is seen, as by us, or only those that Koordinator looks at.
    """

    def __init__(self, args: Mapping[str, Any], resources: list[str] | None = None, *, ours: bool) -> None:
        self.args, self.ours = args, ours
        self.resources = resources or resources_of(args)
        self.nodes: dict[str, _Node] = {}

    # Events

    def deliver(self, event: Json, now: float) -> None:
        """One event of a vector."""
        kind, pod = event["type"], event.get("pod") or {}
        if kind == "nodeMetricUpsert":
            node = self.nodes.setdefault(event["nodeMetric"]["metadata"]["name"], _Node())
            node.metric = event["nodeMetric"]
            updated = unix((node.metric.get("status") or {}).get("updateTime"))
            node.updated = node.updated if updated is None else updated
        elif kind == "nodeMetricDelete":
            node = self.nodes.get(event["node"], _Node())
            node.metric, node.updated = None, -math.inf
        elif self.ours:
            self._deliver_ours(kind, event, pod, now)
        else:
            self._deliver_theirs(kind, event, pod, now)
        self.nodes = {name: node for name, node in self.nodes.items() if node.metric or node.pods}

    def _deliver_ours(self, kind: str, event: Json, pod: Json, now: float) -> None:
        """A pod is where it says it is, whatever changed; a reservation is seen as the binding that it becomes."""
        if kind == "reserve":
            pod = {**pod, "spec": {**pod["spec"], "nodeName": event["node"]}}
        name = pod["spec"].get("nodeName") or ""
        uid, known = pod["metadata"].get("uid", ""), None
        for other, node in self.nodes.items():
            former = node.pods.pop(uid, None)
            known = former if other == name else known
        if kind in ("podDelete", "unreserve") or not name or _ended(pod):
            return
        since = condition_time(pod, "PodScheduled")
        if since is None:
            since = known[1] if known and _same(known[0], pod) else now
        self.nodes.setdefault(name, _Node()).pods[uid] = (pod, since)

    def _deliver_theirs(self, kind: str, event: Json, pod: Json, now: float) -> None:
        uid, name = pod["metadata"].get("uid", ""), event.get("node") or pod["spec"].get("nodeName") or ""
        if kind in ("podAdd", "reserve"):
            self._assign(name, pod, now)
        elif kind in ("podDelete", "unreserve"):
            self._unassign(name, uid)
        else:
            former = ((event.get("oldPod") or {}).get("spec") or {}).get("nodeName") or name
            if former != name:
                self._unassign(former, uid)
            known = self.nodes.get(name, _Node()).pods.get(uid)
            if known is not None and _ended(pod):
                self._unassign(name, uid)
            elif known is None or not _same(known[0], pod):
                self._assign(name, pod, now)

    def _assign(self, name: str, pod: Json, now: float) -> None:
        if name and self._uses_something(pod):
            since = condition_time(pod, "PodScheduled")
            entry = (pod, now if since is None else since)
            self.nodes.setdefault(name, _Node()).pods[pod["metadata"].get("uid", "")] = entry

    def _uses_something(self, pod: Json) -> bool:
        return not _ended(pod) and (self.ours or _annotations(pod).get(RESERVE_POD) != "true")

    def _unassign(self, name: str, uid: str) -> None:
        if name in self.nodes:
            self.nodes[name].pods.pop(uid, None)

    # Sums

    def _vector(self, amounts: Mapping[str, Any] | None) -> Amounts:
        given = amounts or {}
        return {name: units(name, given[name]) if name in given else 0 for name in self.resources}

    def _sum(self, vectors: Iterable[Mapping[str, int]]) -> Amounts:
        listed = list(vectors)
        return {name: sum(each.get(name, 0) for each in listed) for name in self.resources}

    def _estimate(self, pod: Json) -> Amounts:
        found = estimate(pod, self.args, ours=self.ours)
        return {name: found.get(name, 0) for name in self.resources}

    def _reported(self, node: _Node) -> dict[str, tuple[Amounts, bool, set[str]]]:
        found = {}
        for each in ((node.metric or {}).get("status") or {}).get("podsMetric") or ():
            amounts = ((each or {}).get("podUsage") or {}).get("resources")
            if amounts:
                key, prod = f"{each.get('namespace', '')}/{each.get('name', '')}", each.get("priority") == "koord-prod"
                found[key] = (self._vector(amounts), prod, {"cpu", "memory"} - {*amounts})
        return found

    def parts(self, name: str) -> list[_Part]:
        """What each pod of a node adds."""
        node = self.nodes[name]
        return [self._part(node, pod, since) for pod, since in node.pods.values()]

    def _part(self, node: _Node, pod: Json, since: float) -> _Part:
        nothing = dict.fromkeys(self.resources, 0)
        key = f"{pod['metadata'].get('namespace', '')}/{pod['metadata'].get('name', '')}"
        expected, prod = self._estimate(pod), priority_class(pod) == "koord-prod"
        usage, called_prod, unknown = self._reported(node).get(key, (None, False, set()))
        interval = self._interval(node)
        end = deadline(pod, since, self.args)
        should = usage is None or node.updated - interval < since or (end is not None and end > node.updated)
        beyond = {name: max(0, expected[name] - (usage or nothing)[name]) for name in self.resources}
        delta = {name: beyond[name] if should or (self.ours and name in unknown) else 0 for name in self.resources}
        if not prod:
            prod_delta = nothing
        elif usage is not None and not called_prod:
            prod_delta = expected
        else:
            prod_delta = delta
        measured = usage if usage is not None and prod and called_prod else nothing
        return _Part(key, delta, prod_delta, expected, measured, usage is None)

    @staticmethod
    def _interval(node: _Node) -> float:
        policy = ((node.metric or {}).get("spec") or {}).get("metricCollectPolicy") or {}
        return 60 if policy.get("reportIntervalSeconds") is None else policy["reportIntervalSeconds"]

    def measured(self, node: _Node) -> Json | None:
        """What was measured of a node as a whole."""
        measured: Json | None = ((node.metric or {}).get("status") or {}).get("nodeMetric")
        return measured

    def node_usage(self, name: str) -> Amounts | None:
        """Measured usage of the node."""
        measured = self.measured(self.nodes[name])
        amounts = ((measured or {}).get("nodeUsage") or {}).get("resources")
        unknown = not amounts if self.ours else measured is None
        return None if unknown else self._vector(amounts)

    def prod_usage(self, name: str) -> Amounts:
        """Measured usage of the Prod pods, and of the system where asked for."""
        vectors = [part.prod_usage for part in self.parts(name)]
        measured = self.measured(self.nodes[name])
        if self.args.get("prodUsageIncludeSys") and measured is not None:
            vectors.append(self._vector((measured.get("systemUsage") or {}).get("resources")))
        return self._sum(vectors)

    def aggregates(self, name: str) -> dict[tuple[str, float], Json]:
        """Every aggregate that has data, as reported; duration 0 is the longest of its type."""
        found: dict[tuple[str, float], Json] = {}
        for window in (self.measured(self.nodes[name]) or {}).get("aggregatedNodeUsages") or ():
            for kind, amounts in (window.get("usage") or {}).items():
                if (amounts or {}).get("resources"):
                    duration = parse_duration(window.get("duration") or "0s")
                    found[kind, duration] = amounts["resources"]
        for kind in {kind for kind, _ in found}:
            found[kind, 0.0] = found[kind, max(duration for other, duration in found if other == kind)]
        return found

    def state(self, name: str) -> Json:
        """A node as the vectors of `loadaware_cache` show it."""
        if name not in self.nodes:
            return {"exists": False}
        node, parts = self.nodes[name], self.parts(name)
        state: Json = {"exists": True, "hasNodeMetric": node.metric is not None}
        sums = {"nodeDelta": "delta", "prodDelta": "prod_delta", "nodeEstimated": "estimated"}
        for key, attribute in sums.items():
            state[key] = self._sum(getattr(part, attribute) for part in parts)
            state[f"{key}Pods"] = sorted(part.key for part in parts if any(getattr(part, attribute).values()))
        state["pods"] = {
            uid: {
                "timestamp": _text(since),
                "estimated": found if any((found := self._estimate(pod)).values()) else None,
                "estimatedDeadline": _text(deadline(pod, since, self.args)),
            }
            for uid, (pod, since) in node.pods.items()
        }
        if node.metric is None:
            return state
        return state | {
            "updateTime": None if node.updated == -math.inf else _text(node.updated),
            "reportIntervalSeconds": self._interval(node),
            "nodeUsage": self.node_usage(name),
            "prodUsage": self.prod_usage(name),
            "aggregatedUsages": [
                {"type": kind, "durationSeconds": duration, "usage": self._vector(usage)}
                for (kind, duration), usage in sorted(self.aggregates(name).items())
            ],
        }


def states(vector: Json, *, ours: bool) -> Json:
    """The answer to a vector of `loadaware_cache`."""
    args = effective(vector.get("args") or {}, defaults=bool(vector.get("applyDefaults")))
    model, now, found = Model(args, vector.get("resources"), ours=ours), unix(vector["now"]) or 0.0, []
    last = len(vector["events"]) - 1
    for index, event in enumerate(vector["events"]):
        now = unix(event.get("at")) or now
        model.deliver(event, now)
        if event.get("checkpoint") or index == last:
            nodes = {name: model.state(name) for name in vector["nodes"]}
            found.append({"afterEvent": index, "nodes": nodes})
    return {"checkpoints": found}


def _ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _same(old: Json, new: Json) -> bool:
    conditions = [(pod.get("status") or {}).get("conditions") for pod in (old, new)]
    return bool(old["spec"] == new["spec"] and conditions[0] == conditions[1])
