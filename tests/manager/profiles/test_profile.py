"""The faults of a profile, and the pods that it selects."""

from typing import Any

import pytest

from manager.profiles.profile import read
from tests.manager.profiles.made import CLASSES, made, profile, schema


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"selector": {"matchLabels": {"a b": "c"}}}, "spec.selector.matchLabels: "),
        ({"namespaceSelector": {"matchLabels": {"team": "a/b"}}}, "spec.namespaceSelector.matchLabels: "),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "spec.selector.matchExpressions[0].values: must list at least one text for In",
        ),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
            "spec.selector.matchExpressions[0].operator: must be In, NotIn, Exists or DoesNotExist",
        ),
        ({"probability": "50"}, ""),
        ({"probability": 50}, ""),
        ({"probability": "100%"}, ""),
        (
            {"probability": "101%"},
            'must be a percentage from 0 to 100, such as 50 or "50%", got "101%"',
        ),
        ({"probability": -1}, "spec.probability: must be a percentage"),
        ({"probability": "half"}, "spec.probability: must be a percentage"),
        ({"qosClass": "BEST"}, 'spec.qosClass: must be one of LSE, LSR, LS, BE, SYSTEM, got "BEST"'),
        ({"priorityClassName": "koord-mdi"}, "did you mean koord-mid?"),
        ({"priorityClassName": "x"}, "it has important, koord-batch, koord-mid, koord-prod, reports"),
        ({"labels": {"a": "not a value"}}, "spec.labels: "),
        ({"labels": {"-": "x"}}, "spec.labels: "),
        ({"annotations": {"a": "any text at all"}}, ""),
        ({"annotations": {"a b": "x"}}, "spec.annotations: "),
        ({"labelKeysMapping": {"a": "b c"}}, 'spec.labelKeysMapping: "b c" is no name'),
        ({"annotationKeysMapping": {"a": "b"}}, ""),
        ({"labels": {"a": 1}}, "spec.labels.a: must be a string, got 1"),
        ({"koordinatorPriority": "high"}, "spec.koordinatorPriority: must be an integer"),
        ({"patch": "text"}, "spec.patch: must be an object"),
        ({"patch": {"status": {}}}, "spec.patch.status: must be absent: allowed are metadata and spec"),
        ({"patch": {"spec": {"hostNetwork": "yes"}}}, 'spec.patch.spec.hostNetwork: must be boolean, got "yes"'),
        ({"patch": {"spec": {"hostnetwork": True}}}, "a pod has no such field; did you mean hostNetwork?"),
        ({"patch": {"spec": {"containers": {}}}}, "spec.patch.spec.containers: must be a list"),
        (
            {"patch": {"spec": {"containers": [{"image": "a"}]}}},
            "spec.patch.spec.containers[0].name: must be present: the item with the same value is changed",
        ),
        ({"patch": {"spec": {"terminationGracePeriodSeconds": 1.5}}}, "must be integer, got 1.5"),
        ({"patch": {"metadata": {"labels": {"a": 1}}}}, "spec.patch.metadata.labels.a: must be string, got 1"),
        ({"patch": {"spec": {"$retainKeys": ["a"]}}}, "allowed are $patch and $deleteFromPrimitiveList/FIELD"),
        ({"patch": {"spec": {"$patch": "remove"}}}, "must be one of merge, replace, delete"),
        ({"patch": {"apiVersion": "v1", "kind": "Pod", "spec": {"hostNetwork": None}}}, ""),
        ({"patch": {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1}}}]}}}, ""),
        (
            {"patch": {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": True}}}]}}},
            "must be string or",
        ),
    ],
)
def test_faults_name_field_and_allowed_values(spec: dict[str, Any], fault: str) -> None:
    """Each fault has the path of its field and the allowed values; a sound field has none."""
    faults = "\n".join(map(str, profile(**spec).faults))
    assert fault in faults
    assert bool(fault) == bool(faults), faults


def test_unknown_classes_and_schema_are_no_fault() -> None:
    """Before PriorityClasses and the schema are read, only the form is checked."""
    assert read(made(priorityClassName="x", patch={"spec": {"what": 1}}), None, None).faults == ()
    assert read(made(priorityClassName="x"), CLASSES, schema()).faults


@pytest.mark.parametrize(
    ("spec", "labels", "namespace", "selector"),
    [
        ({}, {}, {}, ""),
        ({"selector": {}, "namespaceSelector": {}}, {"a": "b"}, {}, ""),
        ({"selector": {"matchLabels": {"a": "b"}}}, {"a": "b"}, {}, ""),
        ({"selector": {"matchLabels": {"a": "b"}}}, {"a": "c"}, {}, "selector"),
        ({"namespaceSelector": {"matchLabels": {"t": "x"}}}, {"t": "x"}, {}, "namespaceSelector"),
        ({"namespaceSelector": {"matchExpressions": [{"key": "t", "operator": "DoesNotExist"}]}}, {}, {"a": "b"}, ""),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}}, {}, {}, ""),
    ],
)
def test_both_selectors_must_match(
    spec: dict[str, Any], labels: dict[str, str], namespace: dict[str, str], selector: str
) -> None:
    """A profile selects a pod if both selectors match; an absent or empty one matches everything."""
    assert profile(**spec).mismatch(labels, namespace) == selector
