"""The change of a pod by a profile."""

from typing import Any

import pytest

from crds.mid_translation import to_mid
from crds.names import LABEL_PRIORITY, LABEL_PRIORITY_CLASS, LABEL_QOS
from manager.profiles.application import apply
from tests.manager.profiles.made import CLASSES, Json, known, made, pod, profile, schema


def applied(before: Json, **spec: Any) -> tuple[Json, tuple[str, ...]]:  # noqa: ANN401 - JSON
    result = apply(profile(**spec), before, CLASSES, schema())
    return dict(result.pod), result.warnings


MID = {"kubernetes.io/mid-cpu": "500", "kubernetes.io/mid-memory": "1Gi"}


def test_profile_of_koordinator_makes_pods_mid() -> None:
    """A profile of Koordinator's documentation sets labels, class, scheduler and QoS, and amounts become Mid."""
    spec = {
        "qosClass": "LS",
        "priorityClassName": "koord-mid",
        "koordinatorPriority": 1000,
        "schedulerName": "koord-scheduler",
        "labels": {"koordinator.sh/mutated": "true"},
        "annotations": {"koordinator.sh/intercepted": "true"},
        "patch": {"spec": {"terminationGracePeriodSeconds": 30}},
    }
    result, warnings = applied(pod(priority=0, preemptionPolicy="PreemptLowerPriority", labels={"app": "a"}), **spec)
    assert result["metadata"] == {
        "labels": {"app": "a", "koordinator.sh/mutated": "true", LABEL_QOS: "LS", LABEL_PRIORITY: "1000"},
        "annotations": {"koordinator.sh/intercepted": "true"},
    }
    assert result["spec"] == {
        "priorityClassName": "koord-mid",
        "schedulerName": "koord-scheduler",
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {
                "name": "c",
                "resources": {
                    "requests": {**MID, "cpu": "0", "memory": "0"},
                    "limits": {**MID, "cpu": "500m", "memory": "1Gi"},
                },
            }
        ],
    }
    assert warnings == ()


@pytest.mark.parametrize("name", ["koord-mid", "reports"])
def test_second_review_changes_nothing(name: str) -> None:
    """The pod as the API server stores it is not changed again, also with suffixes, mappings and patches."""
    spec = {
        "priorityClassName": name,
        "labels": {"a": "b"},
        "labelSuffixes": {"a": "-mid"},
        "labelKeysMapping": {"a": "c"},
        "annotationKeysMapping": {"x": "y"},
        "patch": {"spec": {"tolerations": [{"key": "t"}], "containers": [{"name": "c", "env": [{"name": "A"}]}]}},
    }
    first, _ = applied(pod(priority=0), **spec)
    assert first["spec"]["priorityClassName"] == name
    assert "priority" not in first["spec"]
    stored = {**first, "spec": {**first["spec"], "priority": CLASSES[name], "preemptionPolicy": "Never"}}
    assert apply(profile(**spec), stored, CLASSES, schema()).pod == stored
    labels = {"b": "c"}
    assert applied(pod(labels={"a": "1"}), labels=labels)[0]["metadata"]["labels"] == {"a": "1", **labels}


def test_absent_keys_are_mapped_to_empty_values() -> None:
    """A mapping of an absent key gives an empty value, as Koordinator does; a suffix needs the label."""
    result, _ = applied(pod(), labelKeysMapping={"a": "b"}, labelSuffixes={"missing": "-x", "b": "-y"})
    assert result["metadata"]["labels"] == {"b": "-y"}


@pytest.mark.parametrize(
    ("before", "spec", "warning"),
    [
        (pod({}), {"priorityClassName": "koord-mid"}, "none of its containers has a request or limit"),
        (
            pod(resources={"requests": MID, "limits": MID}),
            {"priorityClassName": "koord-prod"},
            "the pod requests Mid resources, and the profile makes it koord-prod",
        ),
    ],
)
def test_pod_that_cannot_become_mid_is_left_unchanged(before: Json, spec: Json, warning: str) -> None:
    """Such a pod gets no label and no class of the profile, and the warning names the profile."""
    result = apply(profile(**spec, labels={"a": "b"}), before, CLASSES, schema())
    assert result.pod is before
    assert f"profile mid: the pod is left unchanged: {warning}" in result.warnings[0]


def test_batch_keeps_native_requests() -> None:
    """Headroom publishes no Batch resources, so a profile for Batch sets labels and class, and the user is warned."""
    result, (warning,) = applied(pod(), priorityClassName="koord-batch", qosClass="BE")
    assert result["spec"]["priorityClassName"] == "koord-batch"
    assert result["spec"]["containers"] == pod()["spec"]["containers"]
    assert warning == "profile mid: the pod is koord-batch; Headroom translates resources of Mid pods alone"


def test_label_of_another_band_wins() -> None:
    """The label koordinator.sh/priority-class of a pod decides its band, as in Koordinator."""
    result, _ = applied(pod(labels={LABEL_PRIORITY_CLASS: "koord-prod"}), priorityClassName="koord-mid")
    assert result["spec"]["containers"] == pod()["spec"]["containers"]
    by_label, _ = applied(pod(), labels={LABEL_PRIORITY_CLASS: "koord-mid"})
    assert by_label["spec"]["priorityClassName"] == "koord-mid"
    assert by_label["spec"]["containers"] == to_mid(pod()).pod["spec"]["containers"]


def test_patch_may_name_the_class() -> None:
    """A PriorityClass of the patch decides the band as one of the profile does."""
    result, _ = applied(pod(priority=0), patch={"spec": {"priorityClassName": "koord-mid"}})
    assert result["spec"]["containers"] == to_mid(pod()).pod["spec"]["containers"]
    assert "priority" not in result["spec"]


def test_profile_without_effect_returns_the_pod() -> None:
    """A pod that has all of a profile already is returned unchanged."""
    before = pod(labels={"a": "b"})
    assert apply(profile(labels={"a": "b"}), before, CLASSES, schema()).pod is before


def test_state_applies_profiles_in_force_alone() -> None:
    """A profile with faults, an unknown one, and all beside Koordinator's webhook change no pod."""
    profiles = known(made("good", labels={"a": "b"}), made("bad", labels={"a": "b"}, qosClass="X"))
    assert [profile.name for profile in profiles.in_force()] == ["good"]
    assert profiles.apply("good", pod()).pod["metadata"]["labels"] == {"a": "b"}
    before = pod()
    assert profiles.apply("bad", before).pod is before
    assert profiles.apply("unknown", before).pod is before
    profiles.other_webhook = "koord"
    assert profiles.apply("good", before).pod is before
    assert profiles.in_force() == []
