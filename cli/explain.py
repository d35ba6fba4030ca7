"""`kubectl headroom explain node NAME`: reads, then prints."""

import json
import sys
import time
from typing import Any, Final

import kubeapi
from cli import explain_terms, explain_text, live, table
from cli.explain_findings import findings
from cli.explanation import Explanation, config_state, explain
from crds.codec import to_json
from manager.calculators.base import Result
from manager.facts import Amounts, Measured

LAST_GOOD_NAME: Final = "headroom-last-good-config"
"""The ConfigMap in which the manager keeps the last good text."""


async def node(api: kubeapi.ApiServer, name: str, namespace: str, config_name: str, output: str) -> None:
    """Print why a node has the Mid resources it has.

    Args:
        api: the cluster.
        name: name of the node.
        namespace: where Headroom's ConfigMap is.
        config_name: name of that ConfigMap.
        output: "table" or "json".

    Raises:
        CommandError: there is no such node, or the cluster does not know NodeMetrics.
    """
    found, metric, pods, config_map, last_good = await live.together(
        live.node(api, name),
        live.node_metric(api, name),
        live.objects(api, kubeapi.paths.PODS, fieldSelector=f"spec.nodeName={name}"),
        live.config_map(api, namespace, config_name),
        live.config_map(api, namespace, LAST_GOOD_NAME),
    )
    now = time.time()
    config = config_state(config_map, last_good, f"{namespace}/{config_name}", now)
    explanation = explain(found, metric, pods, config, now)
    if output == "json":
        print(json.dumps(as_json(explanation), indent=2))
    else:
        show(explanation)


def show(explanation: Explanation) -> None:
    """Print the explanation: the answer, why, every number, the strategy."""
    first, *rest = explain_text.sections(explanation)
    _show_section(first)
    for sentence in findings(explanation):
        print(f"- {sentence}")
    for section in rest:
        print()
        _show_section(section)


def _show_section(section: explain_text.Section) -> None:
    heading, columns, rows = section
    print(heading)
    table.write(columns, rows, sys.stdout)


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The explanation for programs; units stand in the names, null is not known."""
    result, facts = explanation.result, explanation.facts
    return {
        "node": explanation.node,
        "published": _amounts(explanation.published),
        "calculated": _amounts(result.calculated),
        "desired": _amounts(result.desired) if result.desired else None,
        "requested": _amounts(result.requested),
        "deficit": _amounts(result.deficit),
        "degraded": {"reason": result.degraded.reason, "message": result.degraded.message} if result.degraded else None,
        "notes": findings(explanation),
        "terms": _terms(result),
        "termsIfEnabled": _terms(explanation.would_be) if explanation.would_be else None,
        "inputs": [
            {
                "name": each.name,
                "values": {resource.value: number for resource, number in each.values.items()},
                "from": each.origin.value,
                "ageSeconds": each.age_seconds,
            }
            for each in explain_terms.inputs((explanation.would_be or result).terms, facts)
        ],
        "reportAgeSeconds": facts.report_age,
        "predictionAgeSeconds": facts.prediction_age,
        "prediction": explanation.report.prediction,
        "strategy": to_json(explanation.strategy.strategy),
        "strategySources": dict(explanation.strategy.sources),
    }


def _amounts(amount: Amounts | Measured) -> dict[str, int | None]:
    return {"cpuMilli": amount.cpu, "memoryBytes": amount.memory}


def _terms(result: Result) -> list[dict[str, Any]]:
    return [
        {
            "name": term.name,
            "resource": term.resource.value,
            "value": term.value,
            "formula": term.formula,
            "inputs": dict(term.inputs),
            "note": term.note,
        }
        for term in result.terms
    ]
