"""Pods of a node and pending Mid pods."""

import pytest

from manager.inputs import PodInputs
from manager.web import pods
from tests.manager.web.made_cluster import Stored, ask, metric, typical
from tests.support.objects import NOW, Json, at, mid_pod, pod, resources

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes fit."}


def rows(report: Json | None, *objects: Json) -> list[tuple[str, object, object]]:
    listed = pods.of_node(report, map(PodInputs.from_object, objects))
    return [(row["pod"], row["usage"]["cpuMilli"], row["prediction"]) for row in listed]


def reported(**more: object) -> Json:
    """A report with usage of shop/web, shop/young and shop/batch."""
    result = metric(cold_names=("shop/young",))
    result["status"]["podsMetric"] = [
        {"namespace": "shop", "name": name, "podUsage": resources("250m", "1Gi")} for name in ("web", "young", "batch")
    ]
    result["status"]["prediction"]["pods"].update(more)
    return result


def test_pods_have_usage_band_and_prediction() -> None:
    """Only Prod pods are warm or cold; one that no report contains yet is neither."""
    objects = (pod("web", {"cpu": "1"}), pod("young"), pod("new"), mid_pod("batch"))
    assert rows(reported(), *objects) == [
        ("batch", 250, None),
        ("new", None, None),
        ("web", 250, "warm"),
        ("young", 250, "cold"),
    ]
    listed = pods.of_node(None, [PodInputs.from_object(mid_pod("batch"))])
    assert [(row["band"], row["requested"]) for row in listed] == [
        ("koord-mid", {"cpuMilli": 3000, "memoryBytes": 2 * 2**30})
    ]


def test_mid_pods_have_a_note() -> None:
    """A Mid pod without native limits has a note, and so has one that uses more than it requested; others have none."""
    objects = (pod("web"), mid_pod("batch", "50", "64Mi", limits={}), mid_pod("young", "300", "1Gi"))
    listed = pods.of_node(reported(), map(PodInputs.from_object, objects))
    assert [(row["pod"], row["note"]) for row in listed] == [
        ("batch", "no limits, beyond requests"),
        ("web", None),
        ("young", None),
    ]


def test_unnamed_cold_pods_leave_the_others_unknown() -> None:
    """A NodeMetric names ten cold pods; with more, an unnamed pod is not called warm."""
    assert rows(reported(cold=11), pod("web"), pod("young")) == [("web", 250, None), ("young", 250, "cold")]


@pytest.mark.parametrize("prediction", [None, {"pods": None}, {"pods": {"coldNames": 3}}, {"pods": []}])
def test_malformed_prediction_is_unknown(prediction: Json | None) -> None:
    report = reported()
    report["status"]["prediction"] = prediction
    assert rows(report, pod("web"))[0][2] is None


def unbound(name: str, age: float, **status: object) -> Json:
    item = mid_pod(name, on="")
    item["metadata"]["creationTimestamp"] = at(-age)
    return {**item, "status": {"phase": "Pending", **status}}


def test_pending_mid_pods_have_their_reason() -> None:
    """The oldest first; pods of other bands are left out."""
    gated = unbound("gated", 30)
    gated["spec"]["schedulingGates"] = [{"name": "example.com/budget"}]
    undated = {**unbound("undated", 0), "metadata": {"name": "undated", "namespace": "shop", "uid": "u"}}
    other = {**pod("web", {"cpu": "1"}, on=""), "status": {"phase": "Pending"}}
    stored = Stored(pods=(gated, unbound("etl", 60, conditions=[UNSCHEDULABLE]), unbound("fresh", 1), undated, other))
    answer = ask(typical(), "/ui/api/pending", stored).json
    assert [(row["pod"], row["ageSeconds"], row["reason"]) for row in answer["pods"]] == [
        ("etl", 60.0, "0/3 nodes fit."),
        ("gated", 30.0, "scheduling gates block the pod: example.com/budget"),
        ("fresh", 1.0, "no scheduler has reported on it yet: check that its scheduler runs"),
        ("undated", None, "no scheduler has reported on it yet: check that its scheduler runs"),
    ]
    assert answer["problem"] == ""


def test_incomplete_lists_have_their_reason() -> None:
    class Long(Stored):
        def unbound_pods(self) -> Json:
            return {"metadata": {"continue": "next"}, "items": []}

    assert pods.pending(Long(), NOW) == {"pods": [], "problem": "only the first 500 pods without a node were read"}
    assert pods.pending(Stored(problem="it is away"), NOW) == {"pods": [], "problem": "it is away"}
