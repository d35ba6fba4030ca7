"""loadaware_cache: what is kept of nodes, their reports and their pods while events come in."""

from dataclasses import replace
from typing import Any

from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.ledger import NEVER, Assigned, NodeLedger
from scheduler_plugins.snapshot.report import NodeReport
from scheduler_plugins.snapshot.units import Vector
from tests.golden.adapters.load_aware import plugin_of, seconds, stated, time_text
from tests.golden.results import Exact, UnsupportedVectorError

Json = dict[str, Any]


def _cache(vector: Json) -> Json:
    """Deliver the events as our watches and the extender would, and look at the nodes when asked to."""
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
    """One event. An extender sees a reservation as the binding that follows, and its end as the pod's end there."""
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
