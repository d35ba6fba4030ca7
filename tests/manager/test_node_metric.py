"""The NodeMetric that belongs to a node."""

from crds.codec import from_json
from crds.node_metric import NodeMetric
from manager.node_metric import correction, manifest
from tests.manager.made import Json, strategy

DEFAULT_POLICY = {
    "aggregateDurationSeconds": 300,
    "reportIntervalSeconds": 60,
    "nodeAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
    "nodeMemoryCollectPolicy": "usageWithoutPageCache",
}


def _made(**fields: object) -> Json:
    return manifest("n1", "uid-1", strategy(**fields))


def test_manifest_belongs_to_its_node() -> None:
    """A new NodeMetric has the node's name and is owned by that very Node."""
    metadata = _made()["metadata"]
    assert metadata["name"] == "n1"
    assert metadata["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-1"}]
    from_json(NodeMetric, _made())


def test_spec_follows_strategy() -> None:
    """The spec carries the node's collect policy, and a complete predict policy."""
    spec = _made(
        metricReportIntervalSeconds=30,
        metricAggregatePolicy={"durations": ["1m0s"]},
        nodePredictPolicy={"model": "max", "of": [{"model": "diversity"}], "cpu": {"safetyMarginPercent": 20}},
    )["spec"]
    assert spec["metricCollectPolicy"] == {
        **DEFAULT_POLICY,
        "reportIntervalSeconds": 30,
        "nodeAggregatePolicy": {"durations": ["1m0s"]},
    }
    policy = spec["predictPolicy"]
    assert (policy["model"], policy["of"]) == ("max", [{"model": "diversity"}])
    assert policy["cpu"] == {"safetyMarginPercent": 20}
    assert policy["coldStartPeriodSeconds"] == 86400
    assert "parameters" not in policy  # those of the default model are not those of max


def test_disabled_node_is_still_measured() -> None:
    """Where colocation is off, the agent measures and reports as by default."""
    assert _made(enable=False, metricReportIntervalSeconds=30)["spec"]["metricCollectPolicy"] == DEFAULT_POLICY


def test_right_object_is_left_alone() -> None:
    """A NodeMetric that is as it should be needs no patch."""
    assert correction(_made(), "n1", "uid-1", strategy()) is None


def test_wrong_spec_is_corrected() -> None:
    """Only what differs is patched; a field that does not belong there is removed."""
    current = _made()
    current["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] = 10
    current["spec"]["predictPolicy"]["of"] = []
    assert correction(current, "n1", "uid-1", strategy()) == {
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}, "predictPolicy": {"of": None}}
    }


def test_reregistered_node_owns_it() -> None:
    """When a Node came back as another object, the NodeMetric is handed over; other owners stay."""
    current = _made()
    current["metadata"]["ownerReferences"].append({"kind": "Thing", "name": "t", "uid": "uid-t", "apiVersion": "v1"})
    patch = correction(current, "n1", "uid-2", strategy())
    assert patch is not None
    owners = patch["metadata"]["ownerReferences"]
    assert [(owner["kind"], owner["uid"]) for owner in owners] == [("Thing", "uid-t"), ("Node", "uid-2")]


def test_object_without_spec_is_corrected() -> None:
    """A NodeMetric that somebody else created empty gets the whole spec and its owner."""
    patch = correction({"metadata": {"name": "n1"}}, "n1", "uid-1", strategy())
    assert patch is not None
    assert patch["spec"] == _made()["spec"]
    assert patch["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
