"""An explanation for programs, in JSON or YAML. The shape is stable: fields are added, never renamed or removed.

kind, version       "QuotaExplanation", 1
profile             {"origin", "enforced", "maxMissing"}: how the scheduler enforces quotas
pod                 {"namespace", "name", "priority", "node": null while it is pending}
quota               `namespace/name`, or null
refusal             why admission rejects it, as in its events; null: it does not
admission           per resource {"resource", "requested", "used", "claimed", "max": null where nothing limits,
                    "allUsed", "allClaimed", "sumOfMin": null where no min names it, "exceeded": "max",
                    "sum of min" or null}; claimed amounts are those beyond the charge that terminates for them
claims              of other pods: {"pod", "priority", "node", "requests", "heldUntil": null: nominated only}
nodes               {"fits": names, "misfits": {node: reason}, "unmodelled": constraints outside of the model}, by the
                    model of kube-scheduler's filters; null for a pod that is bound
eviction            null for a pod that is bound, else {"node", "victims": [{"pod", "uid", "priority", "node",
                    "charged"}], "budgetViolations", "arithmetic"}, or without victims
                    {"reason", "rejected": {node: reason}}; and "obstacles": why the extender would not act now
overMin             whether the namespace uses more than is guaranteed to it
notes               sentences

Amounts are Kubernetes quantities ("500m", "3Gi", "2"); times are as in the API.
"""

from datetime import UTC, datetime
from typing import Any, Final

from kubectl_headroom.quota.explanation import Claimant, Explanation, Line
from kubectl_headroom.quota.reading import QuotaSnapshot
from kubectl_headroom.quota.show import profile, quantities
from scheduler_plugins.api import Decision, QuotaPod, quantity

KIND: Final = "QuotaExplanation"
VERSION: Final = 1


def as_json(seen: QuotaSnapshot, explanation: Explanation) -> dict[str, Any]:
    """The explanation as a JSON object."""
    pod, quota = explanation.pod, explanation.quota
    pending = not pod.node
    return {
        "kind": KIND,
        "version": VERSION,
        "profile": profile(seen),
        "pod": {"namespace": pod.namespace, "name": pod.name, "priority": pod.priority, "node": pod.node or None},
        "quota": None if quota is None else quota.key,
        "refusal": explanation.refusal or None,
        "admission": [_line(line) for line in explanation.lines],
        "claims": [_claim(claimant) for claimant in explanation.claimants],
        "nodes": _nodes(explanation) if pending else None,
        "eviction": _eviction(explanation) if pending else None,
        "overMin": explanation.over_min,
        "notes": seen.notes,
    }


def _line(line: Line) -> dict[str, Any]:
    name = line.resource
    return {
        "resource": name,
        "requested": quantity(name, line.requested),
        "used": quantity(name, line.used),
        "claimed": quantity(name, line.claimed),
        "max": None if line.max is None else quantity(name, line.max),
        "allUsed": quantity(name, line.all_used),
        "allClaimed": quantity(name, line.all_claimed),
        "sumOfMin": None if line.all_min is None else quantity(name, line.all_min),
        "exceeded": line.over or None,
    }


def _claim(each: Claimant) -> dict[str, Any]:
    held = each.held_until
    return {
        "pod": each.pod,
        "priority": each.nomination.priority,
        "node": each.nomination.node,
        "requests": quantities(each.nomination.charge),
        "heldUntil": None if held is None else datetime.fromtimestamp(held, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _nodes(explanation: Explanation) -> dict[str, Any]:
    return {
        "fits": list(explanation.fits),
        "misfits": dict(explanation.misfits),
        "unmodelled": list(explanation.unmodelled),
    }


def _eviction(explanation: Explanation) -> dict[str, Any]:
    decision, obstacles = explanation.decision, list(explanation.obstacles)
    if decision is None:
        return {"obstacles": obstacles}
    if not isinstance(decision, Decision):
        return {"reason": decision.reason, "rejected": dict(decision.rejected), "obstacles": obstacles}
    return {
        "node": decision.node,
        "victims": [_victim(victim) for victim in decision.victims],
        "budgetViolations": decision.violations,
        "arithmetic": decision.arithmetic,
        "obstacles": obstacles,
    }


def _victim(pod: QuotaPod) -> dict[str, Any]:
    return {
        "pod": pod.key,
        "uid": pod.uid,
        "priority": pod.priority,
        "node": pod.node,
        "charged": quantities(pod.charge),
    }
