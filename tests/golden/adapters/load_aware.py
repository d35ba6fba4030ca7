from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from crds.duration import parse_duration
from scheduler_plugins.arguments import decode, encode
from scheduler_plugins.plugins.load_aware import NAME, LoadAware
from scheduler_plugins.snapshot.arrays import Nodes
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import estimate_node, estimate_pod, estimation_window
from scheduler_plugins.snapshot.ledger import NEVER, Assigned, NodeLedger
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.report import LONGEST, NodeReport
from scheduler_plugins.snapshot.units import Usage, Vector, units
from tests.golden.results import Amount, Exact, UnsupportedVectorError


def plugin_of(vector: Mapping[str, Any]) -> LoadAware:
    plugin: LoadAware = decode(LoadAware, vector.get("args") or {}, "args")
    return plugin.defaulted() if vector.get("applyDefaults") else plugin


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def time_text(moment: float | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _defaults(vector: dict[str, Any]) -> dict[str, Any]:
    plugin = plugin_of({**vector, "applyDefaults": True})
    return {
        "valid": not plugin.problems(),
        "effective": encode(plugin),
        "resources": list(plugin.resources),
        "scoringEnabled": plugin.scoring_enabled,
        "aggregatedFilterEnabled": plugin.aggregated is not None and plugin.aggregated.filters,
    }


def _validate(vector: dict[str, Any]) -> dict[str, Any]:
    problems = plugin_of(vector).problems()
    return {
        "valid": not problems,
        "errors": [{"field": problem.field, "type": str(problem.kind)} for problem in problems],
    }


def _world(vector: Mapping[str, Any]) -> tuple[LoadAware, PodRequest, Nodes]:
    plugin = plugin_of(vector)
    rules = plugin.load_rules()
    cache = ClusterCache(rules, {NAME: plugin})
    cache.put_node(vector["node"])
    if vector.get("nodeMetric"):
        cache.put_node_metric(vector["nodeMetric"])
    for assigned in vector.get("assignedPods") or ():
        cache.put_pod(assigned["pod"], seconds(assigned.get("assignedAt") or vector["now"]))
    nodes, _ = cache.freeze(seconds(vector["now"])).select([vector["node"]["metadata"]["name"]])
    return plugin, PodRequest.from_json(vector["pod"], rules), nodes


def _filter(vector: dict[str, Any]) -> dict[str, Any]:
    plugin, pod, nodes = _world(vector)
    verdict = plugin.filter(pod, nodes)
    refusal = verdict.refusal(0)
    return {
        "allowed": bool(verdict.passes[0]),
        "code": "Success" if verdict.passes[0] else "Unschedulable",
        "reason": refusal.reason if refusal else None,
    }


def _score(vector: dict[str, Any]) -> dict[str, Any]:
    plugin, pod, nodes = _world(vector)
    return {"score": int(plugin.score(pod, nodes)[0]), "code": "Success"}


def _estimate_pod(vector: dict[str, Any]) -> dict[str, Any]:
    rules = plugin_of(vector).load_rules()
    return {"estimated": Exact(estimate_pod(vector["pod"], rules))}


def _estimate_node(vector: dict[str, Any]) -> dict[str, Any]:
    allocatable, _ = estimate_node(vector["node"])
    return {
        "allocatable": Exact({name: Amount.of(amount) for name, amount in allocatable.items()}),
        "values": Exact({name: units(name, amount) for name, amount in allocatable.items()}),
    }


def _estimation_deadline(vector: dict[str, Any]) -> dict[str, Any]:
    rules = plugin_of(vector).load_rules()
    return {"deadline": time_text(estimation_window(vector["pod"], rules).end(seconds(vector["assignedAt"])))}


def stated(usage: Usage | None) -> Vector | None:
    """A usage in the words of the reference, which has none for an amount that is not known: there it is 0."""
    return None if usage is None else tuple([entry or 0 for entry in usage])


def _select_aggregated_usage(vector: dict[str, Any]) -> dict[str, Any]:
    rules = plugin_of(vector).load_rules()
    report = NodeReport.from_json(vector["nodeMetric"], rules.resources)
    duration = vector.get("aggregatedDuration")
    usage = report.aggregated_usage(vector["aggregationType"], parse_duration(duration) if duration else LONGEST)
    amounts = stated(usage)
    return {"usage": None if amounts is None else Exact(zip(rules.resources, amounts, strict=True))}


Json = dict[str, Any]


def _cache(vector: Json) -> Json:
    """Deliver the events as our watches and the extender would, and evaluate the nodes on request."""
    rules = plugin_of(vector).load_rules()
    cache = ClusterCache(replace(rules, resources=tuple(vector.get("resources") or rules.resources)))
    now, checkpoints = seconds(vector["now"]), []
    last = len(vector["events"]) - 1
    for index, event in enumerate(vector["events"]):
        now = seconds(event["at"]) if event.get("at") else now
        _deliver(cache, event, now)
        if event.get("checkpoint") or index == last:
            nodes = {name: _state(cache.ledger(name)) for name in vector["nodes"]}
            checkpoints.append({"afterEvent": index, "nodes": nodes})
    return {"checkpoints": checkpoints}


def _deliver(cache: ClusterCache, event: Json, now: float) -> None:
    """An event. An extender sees a reservation as the binding that follows, and its end as the pod's end there."""
    pod: Any = event.get("pod")
    match event["type"]:
        case "nodeMetricUpsert":
            cache.put_node_metric(event["nodeMetric"])
        case "nodeMetricDelete":
            cache.delete_node_metric(event["node"])
        case "podAdd" | "podUpdate":
            cache.put_pod(pod, now)
        case "podDelete" | "unreserve":
            cache.delete_pod(str(pod["metadata"].get("uid") or ""))
        case "reserve":
            cache.put_pod({**pod, "spec": {**pod["spec"], "nodeName": event["node"]}}, now)
        case kind:
            raise UnsupportedVectorError(f"no event {kind!r} is known")


def _state(ledger: NodeLedger | None) -> Json:
    if ledger is None:
        return {"exists": False}
    names = ledger.rules.resources

    def amounts(vector: Vector | None) -> Json | None:
        return None if vector is None else dict(zip(names, vector, strict=True))

    # Amounts of nothing are not listed: the pods behind each sum are those that add something to it.
    adding = {uid: ledger.terms_of(uid) for uid in ledger.pods}
    state: Json = {
        "exists": True,
        "hasNodeMetric": ledger.report is not None,
        "nodeDelta": amounts(ledger.sums.node_delta),
        "prodDelta": amounts(ledger.sums.prod_delta),
        "nodeEstimated": amounts(ledger.sums.estimated),
        "nodeDeltaPods": sorted(ledger.pods[uid].pod.key for uid, terms in adding.items() if any(terms.node_delta)),
        "prodDeltaPods": sorted(ledger.pods[uid].pod.key for uid, terms in adding.items() if any(terms.prod_delta)),
        "nodeEstimatedPods": sorted(ledger.pods[uid].pod.key for uid, terms in adding.items() if any(terms.estimated)),
        "pods": Exact({uid: _pod(assigned, amounts(assigned.estimated)) for uid, assigned in ledger.pods.items()}),
    }
    return state | (_measured(ledger, ledger.report, amounts) if ledger.report else {})


def _measured(ledger: NodeLedger, report: NodeReport, amounts: Any) -> Json:  # noqa: ANN401 - Vector | None -> JSON
    return {
        "updateTime": time_text(None if ledger.update_time == NEVER else ledger.update_time),
        "reportIntervalSeconds": report.interval,
        "nodeUsage": amounts(stated(report.node_usage)),
        "prodUsage": amounts(ledger.prod_usage),
        "aggregatedUsages": [
            {"type": kind, "durationSeconds": duration, "usage": amounts(stated(usage))}
            for (kind, duration), usage in sorted(report.aggregated.items())
        ],
    }


def _pod(assigned: Assigned, estimated: Json | None) -> Json:
    return {
        "timestamp": time_text(assigned.timestamp),
        "estimated": estimated,
        "estimatedDeadline": time_text(assigned.deadline),
    }
