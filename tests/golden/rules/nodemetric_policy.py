"""Rules for `nodemetric_policy.json`."""

from collections.abc import Mapping
from typing import Any, Final

from tests.golden.rules.rule import INTERNALS, Deviation, Input, OutOfScope, Rule
from tests.golden.second_opinion import config

_FIELDS: Final = {
    "aggregateDurationSeconds": "metricAggregateDurationSeconds",
    "reportIntervalSeconds": "metricReportIntervalSeconds",
    "nodeMemoryCollectPolicy": "metricMemoryCollectPolicy",
    "nodeAggregatePolicy": "metricAggregatePolicy",
}


def _counts_hot_pages(vector: Input) -> bool:
    policy = vector.get("memoryCollectPolicy")
    collect = (vector.get("nodeMetricSpec") or {}).get("metricCollectPolicy") or {}
    return "usageWithHotPageCache" in (policy, collect.get("nodeMemoryCollectPolicy"))


def _policy(layers: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked of an agent under a strategy; by default where colocation is off."""
    values = layers if layers.get("enable") else config.DEFAULTS
    return {name: values.get(field, config.DEFAULTS[field]) for name, field in _FIELDS.items()}


def spec(vector: Input, _theirs: Any) -> Any:  # noqa: ANN401
    """What the configuration in force asks of the agent of this node."""
    text = vector.get("colocationConfigData") if vector.get("configMapPresent") else None
    in_force = config.in_force(text) or config.DEFAULTS
    on_node = {"config": in_force, "node": vector["node"]}
    layers = {name: config.value_for(on_node, name, value) for name, value in config.DEFAULTS.items()}
    return {"error": False, "spec": {"metricCollectPolicy": _policy(layers)}}


def _is_not_followed(vector: Input) -> bool:
    """Whether the peer leaves a spec as it was: the ConfigMap is gone, or its text is refused by us or by both."""
    text = vector.get("colocationConfigData")
    return not vector.get("configMapPresent") or config.in_force(text) is None


def _has_own_settings(vector: Input) -> bool:
    return config.has_faulty_entries(vector.get("colocationConfigData")) or config.has_own_settings(vector)


RULES: Final[tuple[Rule, ...]] = (
    OutOfScope("nodemetric_policy", ("node_event", "reconcile_nodemetric", "init_nodemetric"), INTERNALS),
    OutOfScope("nodemetric_policy", ("agent_query_window",), "hot page accounting is left out", when=_counts_hot_pages),
    Deviation(
        "nodemetric_policy",
        ("collect_policy_from_strategy",),
        "a strategy with any fault is refused",
        ours=lambda _vector, _theirs: {"error": True, "policy": None},
        when=lambda vector: config.is_faulty(vector.get("strategy")),
    ),
    Deviation(
        "nodemetric_policy",
        ("collect_policy_from_strategy",),
        "a node where colocation is off is measured as by default: that is an answer, not an error",
        ours=lambda _vector, _theirs: {"error": False, "policy": _policy(config.DEFAULTS)},
        when=lambda vector: not (vector.get("strategy") or {}).get("enable"),
    ),
    Deviation(
        "nodemetric_policy",
        ("nodemetric_spec",),
        "the spec follows the configuration in force (the last good one, else the defaults), not what the spec was",
        ours=spec,
        when=lambda vector: vector.get("node") is not None and _is_not_followed(vector),
    ),
    Deviation(
        "nodemetric_policy",
        ("nodemetric_spec",),
        "a node's own settings may enable what the cluster part disables, and faulty ones are ignored",
        ours=spec,
        when=lambda vector: vector.get("node") is not None and _has_own_settings(vector),
    ),
)
"""Its rules, those about scope first."""
