"""nodemetric_policy: the manager's spec for an agent, and the agent's interpretation."""

import json
from collections.abc import Mapping
from typing import Any

from agent.reporter import spec as agent_spec
from crds import from_json, to_json
from crds.node_metric import NodeMetricSpec
from manager.config.parse import parse_strategy
from manager.node_metric import spec_for
from tests.golden.adapters.colocation_config import strategy_in_force


def _given(data: Mapping[str, Any] | None) -> NodeMetricSpec:
    return agent_spec.merged(None if data is None else from_json(NodeMetricSpec, data))


def _agent_merge_spec(vector: dict[str, Any]) -> dict[str, Any]:
    return {"spec": to_json(_given(vector["newSpec"]))}


def _agent_report_interval(vector: dict[str, Any]) -> dict[str, Any]:
    return {"seconds": agent_spec.SpecInForce(_given(vector["nodeMetricSpec"])).report_interval_seconds}


def _agent_query_window(vector: dict[str, Any]) -> dict[str, Any]:
    return {"windowSeconds": agent_spec.SpecInForce(_given(vector["nodeMetricSpec"])).window_seconds}


def _collect_policy_from_strategy(vector: dict[str, Any]) -> dict[str, Any]:
    evaluated = parse_strategy(json.dumps(vector.get("strategy")))
    if evaluated.strategy is None:
        return {"error": True, "policy": None}
    return {"error": False, "policy": to_json(spec_for(evaluated.strategy).metric_collect_policy)}


def _nodemetric_spec(vector: dict[str, Any]) -> dict[str, Any]:
    """The spec under a ConfigMap that is the first one ever seen: there is no earlier good one to go back to."""
    if vector.get("node") is None:  # without its Node a NodeMetric is deleted
        return {"error": True, "spec": None}
    text, present = vector.get("colocationConfigData"), bool(vector.get("configMapPresent"))
    return {"error": False, "spec": to_json(spec_for(strategy_in_force(text, vector["node"], present=present)))}
