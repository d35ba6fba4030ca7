"""The NodeMetric that the manager owns for each node: what its spec must be. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from crds.codec import to_json
from crds.colocation import DEFAULTS, ColocationStrategy
from crds.node_metric import GROUP, PLURAL, VERSION, MetricCollectPolicy, NodeAggregatePolicy, NodeMetricSpec
from crds.predict_policy import with_defaults

Json = dict[str, Any]

COLLECTION: Final = f"/apis/{GROUP}/{VERSION}/{PLURAL}"
"""Path of all NodeMetrics."""


def path(name: str) -> str:
    """Path of one node's NodeMetric."""
    return f"{COLLECTION}/{name}"


def spec_for(strategy: ColocationStrategy) -> NodeMetricSpec:
    """What the agent is asked for under a strategy; a node where colocation is off is measured as by default.

    The predict policy is complete, so that a NodeMetric says all by itself what the agent obeys.
    """

    def get(name: str) -> Any:  # noqa: ANN401 - fields of several types
        own = getattr(strategy, name) if strategy.enable else None
        return getattr(DEFAULTS, name) if own is None else own

    return NodeMetricSpec(
        metric_collect_policy=MetricCollectPolicy(
            aggregate_duration_seconds=get("metric_aggregate_duration_seconds"),
            report_interval_seconds=get("metric_report_interval_seconds"),
            node_aggregate_policy=NodeAggregatePolicy(durations=get("metric_aggregate_policy").durations),
            node_memory_collect_policy=get("metric_memory_collect_policy"),
        ),
        predict_policy=with_defaults(strategy.node_predict_policy),
    )


def owner_of(node_name: str, node_uid: str) -> Json:
    """Reference to the Node: the garbage collector takes the NodeMetric away with it."""
    return {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_uid}


def manifest(node_name: str, node_uid: str, strategy: ColocationStrategy) -> Json:
    """A new NodeMetric for a node."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "NodeMetric",
        "metadata": {"name": node_name, "ownerReferences": [owner_of(node_name, node_uid)]},
        "spec": to_json(spec_for(strategy)),
    }


def correction(
    node_metric: Mapping[str, Any], node_name: str, node_uid: str, strategy: ColocationStrategy
) -> Json | None:
    """The merge patch that makes a NodeMetric right, or `None` when it is: spec, and ownership by this very Node."""
    patch: Json = {}
    spec = _difference(node_metric.get("spec") or {}, to_json(spec_for(strategy)))
    if spec:
        patch["spec"] = spec
    owners = (node_metric.get("metadata") or {}).get("ownerReferences") or []
    mine = owner_of(node_name, node_uid)
    if not any(owner.get("uid") == node_uid for owner in owners):
        others = [owner for owner in owners if owner.get("kind") != "Node"]
        patch["metadata"] = {"ownerReferences": [*others, mine]}
    return patch or None


def _difference(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> Json:
    """Merge patch from current to wanted; what is not wanted is removed."""
    patch: Json = {name: None for name in current if name not in wanted}
    for name, want in wanted.items():
        have = current.get(name)
        if isinstance(want, Mapping) and isinstance(have, Mapping):
            nested = _difference(have, want)
            if nested:
                patch[name] = nested
        elif have != want:
            patch[name] = want
    return patch
