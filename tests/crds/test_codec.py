from typing import Any

import pytest

from crds import CodecError, ElasticQuota, NodeMetric, from_json, to_json
from crds.codec import json_name
from crds.node_metric import NodeMetricStatus, NumaUsage

KOORDINATOR: dict[str, Any] = {
    "apiVersion": "slo.koordinator.sh/v1alpha1",
    "kind": "NodeMetric",
    "metadata": {"name": "n1", "generation": 3, "managedFields": [{"manager": "koordlet"}]},
    "spec": {
        "metricCollectPolicy": {
            "aggregateDurationSeconds": 300,
            "reportIntervalSeconds": 60,
            "nodeAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
            "nodeMemoryCollectPolicy": "usageWithoutPageCache",
        }
    },
    "status": {
        "updateTime": "2026-01-02T03:04:05Z",
        "nodeMetric": {
            "nodeUsage": {
                "resources": {"cpu": "3100m", "memory": "9Gi"},
                "devices": [
                    {"type": "gpu", "health": True, "minor": 0, "resources": {"koordinator.sh/gpu-core": "50"}}
                ],
            },
            "systemUsage": {"resources": {"cpu": "300m", "memory": "1Gi"}},
            "aggregatedNodeUsages": [{"duration": "5m0s", "usage": {"p95": {"resources": {"cpu": "4"}}, "p99": {}}}],
            "numaUsages": [{"numaNodeID": 0, "nodeUsage": {"resources": {"cpu": "1"}}}],
        },
        "podsMetric": [
            {
                "name": "cart-1",
                "namespace": "shop",
                "podUsage": {"resources": {"cpu": "1", "memory": "1Gi"}},
                "priority": "koord-prod",
                "qos": "LS",
                "extensions": {"a": [1, {"b": "c"}]},
            }
        ],
        "hostApplicationMetric": [{"name": "nginx", "usage": {"resources": {"cpu": "1"}}, "priority": "koord-prod"}],
        "prodReclaimableMetric": {"resource": {"resources": {"cpu": "2", "memory": "4Gi"}}},
        "prodPeakMetric": {"resource": {}},
    },
}


def test_koordinator_object_survives() -> None:
    """A NodeMetric as Koordinator writes it comes back unchanged."""
    assert to_json(from_json(NodeMetric, KOORDINATOR)) == KOORDINATOR


def test_unknown_fields_survive() -> None:
    future = {
        **KOORDINATOR,
        "status": {"prediction": {"time": "t", "certainty": {"level": 3}}, "weather": "fine", "podsMetric": [{"x": 1}]},
        "sidecar": True,
    }
    decoded = from_json(NodeMetric, future)
    assert to_json(decoded) == future
    assert decoded.status is not None
    assert decoded.status.unknown == {"weather": "fine"}


def test_absent_is_not_empty() -> None:
    """An absent list is None and stays absent; an empty one is empty and stays."""
    assert from_json(NodeMetricStatus, {}).pods_metric is None
    assert from_json(NodeMetricStatus, {"podsMetric": None}).pods_metric is None
    assert from_json(NodeMetricStatus, {"podsMetric": []}).pods_metric == ()
    assert to_json(NodeMetricStatus()) == {}
    assert to_json(NodeMetricStatus(pods_metric=())) == {"podsMetric": []}


def test_numbers_become_quantities() -> None:
    """A JSON number in a resource map is taken as the quantity that it says."""
    quota = from_json(ElasticQuota, {"spec": {"min": {"cpu": 2, "x.io/y": 0.5}, "max": {}}})
    assert quota.spec.min == {"cpu": "2", "x.io/y": "0.5"}
    assert quota.spec.max == {}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "the object: must be an object, got []"),
        ({"kind": "Pod"}, "kind: must be 'NodeMetric', got 'Pod'"),
        ({"apiVersion": "v1"}, "apiVersion: must be 'slo.koordinator.sh/v1alpha1', got 'v1'"),
        ({"metadata": {"name": 3}}, "metadata.name: must be a string, got 3"),
        ({"status": {"podsMetric": {}}}, "status.podsMetric: must be a list, got {}"),
        ({"status": {"podsMetric": [{}, 1]}}, "status.podsMetric[1]: must be an object, got 1"),
        (
            {"status": {"nodeMetric": {"nodeUsage": {"resources": {"cpu": "x"}}}}},
            "status.nodeMetric.nodeUsage.resources.cpu: 'x' is not a quantity: write a number such as 2, 500m or 1Gi",
        ),
        (
            {"status": {"nodeMetric": {"nodeUsage": {"resources": {"cpu": None}}}}},
            "status.nodeMetric.nodeUsage.resources.cpu: must be a quantity, got None",
        ),
        ({"status": {"conditions": [{"type": "Ready"}]}}, "status.conditions[0]: status is missing"),
        (
            {"spec": {"metricCollectPolicy": {"reportIntervalSeconds": True}}},
            "spec.metricCollectPolicy.reportIntervalSeconds: must be an integer, got True",
        ),
        (
            {"spec": {"metricCollectPolicy": {"reportIntervalSeconds": 1.5}}},
            "spec.metricCollectPolicy.reportIntervalSeconds: must be an integer, got 1.5",
        ),
    ],
)
def test_errors_name_the_path(data: object, message: str) -> None:
    """A value of the wrong type is refused in one line that begins with its path."""
    with pytest.raises(CodecError) as caught:
        from_json(NodeMetric, data)
    assert str(caught.value) == message


def test_whole_floats_are_integers() -> None:
    """A whole number that some program wrote with a point is an integer."""
    spec = {"spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60.0}}}
    policy = from_json(NodeMetric, spec).spec.metric_collect_policy
    assert policy is not None
    assert policy.report_interval_seconds == 60


@pytest.mark.parametrize(("python", "wire"), [("update_time", "updateTime"), ("name", "name"), ("p_x_y", "pXY")])
def test_names_are_camel_case(python: str, wire: str) -> None:
    """Python names become camelCase; a field may say its JSON name where that is not enough."""
    assert json_name(python) == wire
    assert to_json(NumaUsage(numa_node_id=1)) == {"numaNodeID": 1}
