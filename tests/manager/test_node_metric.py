import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crds.codec import from_json
from crds.node_metric import NodeMetric
from manager.node_metric import (
    FIELD_MANAGER,
    RETRY_SECONDS,
    ManagedFields,
    UnknownFields,
    manifest,
    undeclared_field,
    without_field,
)
from tests.support.api import server_side_apply
from tests.support.objects import Json, strategy

DEFAULT_POLICY = {
    "aggregateDurationSeconds": 300,
    "reportIntervalSeconds": 60,
    "nodeAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
    "nodeMemoryCollectPolicy": "usageWithoutPageCache",
}


def _made(**fields: object) -> Json:
    return manifest("n1", "uid-1", strategy(**fields))


def test_manifest_has_the_name_of_its_node_and_is_owned_by_it() -> None:
    metadata = _made()["metadata"]
    assert metadata["name"] == "n1"
    assert metadata["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-1"}]
    from_json(NodeMetric, _made())


def test_spec_has_collect_policy_and_complete_predict_policy_of_the_strategy() -> None:
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


def test_workload_history_leaves_specs_shared() -> None:
    """Specs of many nodes are stored once, though each node has a workload history of its own."""
    specs = []
    for history in ({"a": {"cpu": "1"}}, {"b": {"cpu": "2"}}):
        made = _made()
        made["spec"]["workloadHistory"] = history
        managed = ManagedFields.from_object(_applied(made))
        assert managed.matches(made)
        assert not managed.matches(_made())
        assert managed.spec["workloadHistory"] == history
        specs.append(managed.spec)
    assert specs[0]["predictPolicy"] is specs[1]["predictPolicy"]


def test_disabled_node_is_measured_by_default() -> None:
    assert _made(enable=False, metricReportIntervalSeconds=30)["spec"]["metricCollectPolicy"] == DEFAULT_POLICY


def _applied(body: Json, to: Json | None = None) -> Json:
    return server_side_apply(to, body, FIELD_MANAGER, "")


def test_applied_object_needs_no_write() -> None:
    assert ManagedFields.from_object(_applied(_made())).matches(_made())


def test_foreign_object_is_applied_once() -> None:
    """A foreign NodeMetric needs an apply even with right values: otherwise no field could be removed later."""
    assert not ManagedFields.from_object(_made()).matches(_made())
    assert ManagedFields.from_object(_applied(_made(), _made())).matches(_made())


def test_changed_or_missing_value_is_taken_back() -> None:
    changed = _applied(_made())
    changed["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] = 10
    del changed["spec"]["predictPolicy"]["model"]
    assert not ManagedFields.from_object(changed).matches(_made())
    assert _applied(_made(), changed)["spec"] == _made()["spec"]


def test_foreign_field_is_no_reason_to_write_and_survives() -> None:
    shared = _applied(_made())
    shared["spec"]["predictPolicy"]["theirs"] = 1
    assert ManagedFields.from_object(shared).matches(_made())
    assert _applied(_made(metricReportIntervalSeconds=30), shared)["spec"]["predictPolicy"]["theirs"] == 1


def test_obsolete_field_is_removed_down_to_parameters() -> None:
    richer = _made(nodePredictPolicy={"cpu": {"safetyMarginPercent": 20}})
    assert not ManagedFields.from_object(_applied(richer)).matches(_made())
    assert "cpu" not in _applied(_made(), _applied(richer))["spec"]["predictPolicy"]
    other = _made(nodePredictPolicy={"model": "diversity", "parameters": {"windowDays": 7}})
    assert _applied(other, _applied(_made()))["spec"]["predictPolicy"]["parameters"] == {"windowDays": 7}


def test_metric_of_a_node_of_another_uid_is_recognized() -> None:
    fields = ManagedFields.from_object(_applied(_made()))
    assert not fields.belongs_to_other_node("uid-1")
    assert fields.belongs_to_other_node("uid-2")
    assert not ManagedFields.from_object({"metadata": {"name": "n1"}}).belongs_to_other_node("uid-2")


def test_missing_owner_is_added_and_others_stay() -> None:
    current = _applied(_made())
    other = {"kind": "Thing", "name": "t", "uid": "uid-t", "apiVersion": "v1"}
    current["metadata"]["ownerReferences"] = [other]
    assert not ManagedFields.from_object(current).matches(_made())
    assert {reference["uid"] for reference in _applied(_made(), current)["metadata"]["ownerReferences"]} == {
        "uid-t",
        "uid-1",
    }


def test_fields_unknown_to_the_definition_are_left_out() -> None:
    assert "predictPolicy" not in manifest("n1", "uid-1", strategy(), ["spec.predictPolicy"])["spec"]


@pytest.mark.parametrize(
    "malformed",
    [{}, {"spec": 1, "metadata": 2}, {"metadata": {"managedFields": [1, {"manager": FIELD_MANAGER, "fieldsV1": []}]}}],
)
def test_malformed_object_needs_an_apply(malformed: Json) -> None:
    assert not ManagedFields.from_object(malformed).matches(_made())


_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from(["Apply", "Update", FIELD_MANAGER]))
_KEYS = st.sampled_from(
    [
        "f:spec",
        "f:metadata",
        "f:ownerReferences",
        'k:{"uid":"u"}',
        ".",
        "manager",
        "operation",
        "fieldsV1",
        "uid",
        "kind",
    ]
)
_ANY = st.recursive(
    _SCALARS, lambda inner: st.dictionaries(_KEYS, inner, max_size=3) | st.lists(inner, max_size=2), max_leaves=6
)


@settings(max_examples=25)
@given(st.dictionaries(st.sampled_from(["managedFields", "ownerReferences", "name"]), _ANY), _ANY)
def test_any_metadata_is_survived(metadata: Json, spec: object) -> None:
    """Whatever a proxy or a meddling webhook makes of an object, reading it does not fail."""
    fields = ManagedFields.from_object({"metadata": metadata, "spec": spec})
    fields.belongs_to_other_node("uid-1")
    fields.matches(_made())


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (
            "failed to create typed patch object (x): .spec.predictPolicy: field not declared in schema",
            "spec.predictPolicy",
        ),
        # An item of a list cannot be left out alone.
        ('x: .status.conditions[type="A"].message: field not declared in schema', "status.conditions"),
        ("etcdserver: request timed out", None),
    ],
)
def test_refusal_names_the_field(message: str, field: str | None) -> None:
    assert undeclared_field(message) == field


def test_refused_field_is_tried_again_after_ten_minutes() -> None:
    unknown = UnknownFields()
    unknown.add("spec.predictPolicy", 0.0)
    assert unknown.below("spec", RETRY_SECONDS - 1) == {"spec.predictPolicy"}
    assert unknown.below("status", 2.0) == set()
    assert unknown.below("spec", RETRY_SECONDS) == set()
    unknown.add("spec.predictPolicy", RETRY_SECONDS)
    assert unknown.below("spec", 2 * RETRY_SECONDS - 1) == {"spec.predictPolicy"}


def test_part_without_its_only_field_is_not_sent() -> None:
    body = {"kind": "X", "status": {"conditions": []}}
    assert without_field(body, "status.conditions") == {"kind": "X"}
    assert without_field(body, "spec.predictPolicy") == body
