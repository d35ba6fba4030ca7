"""The explanation for programs, in JSON or YAML. The shape is stable: fields are added, never renamed or removed.

    kind, version       "NodeExplanation", 1
    node                name
    published, calculated, desired, requested, deficit
                        {"cpuMilli", "memoryBytes"}: on the Node; the limit of publishing; the desired amount
                        (null: no such resources); requests of running Mid pods; the part of them beyond the limit
    degraded            {"reason", "message"} when nothing may be published whatever the numbers, else null
    excluded            why the manager leaves this node alone, or null
    notes               sentences, most important first
    next                per resource {"resource", "action": nothing | write | hold | wait, "published", "desired",
                        "withinSeconds", "reason"}: the next action of the manager, and its latest time
    eviction            null without a deficit, else {"mode", "afterSeconds", "proven", "short": amounts, "pods":
                        [{"pod", "priority", "cpuMilli", "memoryBytes"}] in the order in which they would go, "spared":
                        [{"pod", "why"}], "stillShort": amounts}
    hot                 null where `hotNodes` is off, else {"mode", "taint": its effect or null, "problem": why the
                        report does not count or null, "resources": [{"resource", "percent", "hotAbove", "coolUpTo"}]}
    terms               {"name", "resource", "value", "formula", "inputs", "decidedBy", "note"}, in order
    termsOtherwise      null, or where other facts decide {"if", "terms"}: the terms without them, for example
                        "colocation were enabled", "the report still counted"
    inputs              {"name", "values": {resource: number}, "from", "ageSeconds"}; an age of null is "just read"
    reportAgeSeconds, predictionAgeSeconds, prediction
    conditions          of the NodeMetric: {"type", "status", "reason", "message", "ageSeconds"}
    shadow              the account of mode shadow, or null
    manager             {"leader", "renewedSecondsAgo", "writes"}, or null where its Lease cannot be seen
    mode, strategy, strategySources, config
    whatIf              null, or {"settings", "config", "now": {published … degraded as above}, "agentMustFollow":
                        fields of the NodeMetric's spec that would change: their consequences cannot be computed from
                        here}; with it, everything else is what would be

Names contain the units, or the resource implies them: milli-cores and bytes. null is unknown, or absent.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from crds.codec import to_json
from manager.calculators.base import Result
from manager.hot_nodes.load import effects_on
from manager.inputs import Amounts, Measured
from manager.mid.eviction.selection import beyond_requests
from manager.mid.explanation import formula
from manager.mid.explanation.eviction import Eviction
from manager.mid.explanation.explanation import Explanation
from manager.mid.explanation.findings import agent_changes, findings
from manager.mid.explanation.lease import Lease
from manager.mid.explanation.next_action import Step
from manager.mid.explanation.node_metric import age
from manager.mid.explanation.tables import decided
from manager.mid.explanation.terms import inputs

KIND: Final = "NodeExplanation"
VERSION: Final = 1


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The explanation as plain data."""
    facts, in_force = explanation.facts, explanation.config.in_force
    data = {
        "kind": KIND,
        "version": VERSION,
        "node": explanation.node,
        **_numbers(explanation),
        "excluded": explanation.excluded or None,
        "notes": findings(explanation),
        "next": [_step(step) for step in explanation.steps],
        "eviction": _eviction(explanation.eviction),
        "hot": _hot(explanation),
        "terms": _terms(explanation.result),
        "termsOtherwise": {"if": explanation.unless, "terms": _terms(explanation.would_be)}
        if explanation.would_be
        else None,
        "inputs": _inputs(explanation),
        "reportAgeSeconds": facts.report_age,
        "predictionAgeSeconds": facts.prediction_age,
        "prediction": explanation.report.prediction,
        "conditions": [_condition(condition, explanation.seen.now) for condition in explanation.conditions],
        "shadow": None if explanation.seen.shadow is None else to_json(explanation.seen.shadow),
        "manager": _manager(explanation.seen.lease),
        "mode": "shadow" if facts.strategy.shadow else "active",
        "strategy": to_json(explanation.strategy.strategy),
        "strategySources": dict(explanation.strategy.sources),
        "config": {
            "place": explanation.config.place,
            "present": in_force.present,
            "ageSeconds": explanation.config.age_seconds,
            "origin": in_force.origin.value,
        },
        "whatIf": _what_if(explanation),
    }
    # Through JSON, so that only plain types are left of a malformed NodeMetric.
    plain: dict[str, Any] = json.loads(json.dumps(data))
    return plain


def _numbers(explanation: Explanation) -> dict[str, Any]:
    result, wanted = explanation.result, Measured(*explanation.desired.values())
    return {
        "published": _amounts(explanation.published),
        "calculated": _amounts(result.calculated),
        "desired": None if wanted == Measured() else _amounts(wanted),
        "requested": _amounts(result.requested),
        "deficit": _amounts(result.deficit),
        "degraded": {"reason": result.degraded.reason, "message": result.degraded.message} if result.degraded else None,
    }


def _what_if(explanation: Explanation) -> dict[str, Any] | None:
    tried, before = explanation.what_if, explanation.before
    if tried is None or before is None:
        return None
    return {
        "settings": list(tried.settings),
        "config": tried.config.place if tried.config else None,
        "now": _numbers(before),
        "agentMustFollow": agent_changes(explanation),
    }


def _amounts(amount: Amounts | Measured) -> dict[str, int | None]:
    return {"cpuMilli": amount.cpu, "memoryBytes": amount.memory}


def _step(step: Step) -> dict[str, Any]:
    return {
        "resource": step.resource.value,
        "action": step.action.value,
        "published": step.published,
        "desired": step.desired,
        "withinSeconds": step.within_seconds,
        "reason": step.reason,
    }


def _eviction(eviction: Eviction | None) -> dict[str, Any] | None:
    if eviction is None:
        return None
    return {
        "mode": eviction.mode,
        "afterSeconds": eviction.after_seconds,
        "proven": eviction.proven,
        "short": _amounts(eviction.short),
        "pods": [
            {
                "pod": pod.key,
                "priority": pod.mid.priority if pod.mid else None,
                **_amounts(pod.mid_requests),
                "beyondRequests": _amounts(beyond_requests(pod, eviction.usage)),
            }
            for pod in eviction.selection.victims
        ],
        "spared": [{"pod": pod.key, "why": why} for pod, why in eviction.selection.spared],
        "stillShort": _amounts(eviction.selection.short),
    }


def _hot(explanation: Explanation) -> dict[str, Any] | None:
    load = explanation.hot
    if load is None:
        return None
    resources = [
        {
            "resource": resource.value,
            "percent": load.percents.get(resource),
            "hotAbove": load.settings.thresholds[resource],
            "coolUpTo": load.settings.lower(resource),
        }
        for resource in load.settings.checked
    ]
    taint = effects_on(explanation.seen.node) or None
    return {"mode": load.settings.mode, "taint": taint, "problem": load.unusable or None, "resources": resources}


def _terms(result: Result) -> list[dict[str, Any]]:
    return [
        {
            "name": term.name,
            "resource": term.resource.value,
            "value": term.value,
            "formula": term.formula,
            "inputs": dict(term.inputs),
            "decidedBy": formula.decisive(term) or None,
            "note": term.note,
        }
        for term in result.terms
    ]


def _inputs(explanation: Explanation) -> list[dict[str, Any]]:
    result = inputs(decided(explanation).terms, explanation.facts, explanation.status)
    return [
        {
            "name": increase.name,
            "values": dict(increase.values),
            "from": increase.origin.value,
            "ageSeconds": increase.age_seconds,
        }
        for increase in result
    ]


def _condition(condition: Mapping[str, Any], now: float) -> Mapping[str, Any]:
    named = {name: condition.get(name) for name in ("type", "status", "reason", "message")}
    return {**named, "ageSeconds": age(str(condition.get("lastTransitionTime")), now)}


def _manager(lease: Lease | None) -> dict[str, Any] | None:
    if lease is None:
        return None
    return {"leader": lease.holder or None, "renewedSecondsAgo": lease.renewed_ago, "writes": lease.held}
