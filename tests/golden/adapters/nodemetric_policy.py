"""nodemetric_policy: what the agent makes of the spec that it is given."""

from collections.abc import Mapping
from typing import Any, Final

from agent.reporter import spec as agent_spec
from crds import from_json, to_json
from crds.node_metric import NodeMetricSpec
from tests.golden.adapters import Adapter


def _given(data: Mapping[str, Any] | None) -> NodeMetricSpec:
    return agent_spec.merged(None if data is None else from_json(NodeMetricSpec, data))


def _agent_merge_spec(vector: dict[str, Any]) -> dict[str, Any]:
    return {"spec": to_json(_given(vector["newSpec"]))}


def _agent_report_interval(vector: dict[str, Any]) -> dict[str, Any]:
    return {"seconds": agent_spec.report_interval_seconds(_given(vector["nodeMetricSpec"]))}


def _agent_query_window(vector: dict[str, Any]) -> dict[str, Any]:
    return {"windowSeconds": agent_spec.window_seconds(_given(vector["nodeMetricSpec"]))}


OPERATIONS: Final[Mapping[str, Adapter]] = {
    "agent_merge_spec": _agent_merge_spec,
    "agent_report_interval": _agent_report_interval,
    "agent_query_window": _agent_query_window,
}
