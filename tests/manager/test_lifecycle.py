from typing import Any

import pytest

from headroom.kube import ApiError, ApiUnavailable
from manager.handlers import node_metric
from manager.inputs import PodInputs
from tests.support.objects import Json, mid_pod, node, report
from tests.support.world import METRIC, NODE, World

VIRTUAL = {"type": "virtual-kubelet"}


def _writes(world: World) -> int:
    return sum(method not in {"GET", "LIST"} and "nodemetrics" in path for method, path, _ in world.api.calls)


async def test_metric_of_another_machine_of_that_name_is_replaced(world: World) -> None:
    world.reports(report())
    await world.reconcile()
    assert world.published()["cpu"] == "4000"
    remembered = world.run.context.node_state("n1")
    again = node()
    again["metadata"]["uid"] = "uid-again"
    world.has_node(again)
    await world.reconcile()
    metric = world.api.objects[METRIC]
    assert [owner["uid"] for owner in metric["metadata"]["ownerReferences"]] == ["uid-again"]
    assert "updateTime" not in metric.get("status", {})
    assert world.run.context.node_state("n1") is not remembered
    await world.reconcile()
    assert world.published() == {}


async def test_metric_of_a_node_not_seen_yet_is_not_deleted(world: World) -> None:
    await world.reconcile()
    newer = {"metadata": {"name": "n1", "uid": "newer", "ownerReferences": [{"kind": "Node", "uid": "uid-newer"}]}}
    node_metric.observe(world.run, "ADDED", world.api.put(METRIC, newer))
    world.api.objects[NODE]["metadata"]["uid"] = "uid-newer"  # and no watch has shown it
    await world.reconcile()
    assert world.api.written("DELETE", "nodemetrics") == []
    assert world.api.objects[METRIC]["metadata"]["uid"] == "newer"


async def test_late_deletion_does_not_forget_the_next_metric(world: World) -> None:
    await world.reconcile()
    cached = world.run.context.cluster.node_metrics["n1"]
    node_metric.observe(world.run, "DELETED", {"metadata": {"name": "n1", "uid": "another"}})
    assert world.run.context.cluster.node_metrics["n1"] == cached
    node_metric.observe(world.run, "DELETED", {"metadata": {"name": "n1", "uid": cached.uid}})
    assert "n1" not in world.run.context.cluster.node_metrics


REFUSALS = [
    ApiError(403, "Forbidden", "no"),
    ApiError(422, "Invalid", "a webhook says no"),
    ApiUnavailable("the webhook does not answer", status=500),
]


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_refused_metric_does_not_hide_age(world: World, refusal: Exception) -> None:
    """Where every write to NodeMetrics is refused, old reports still take Mid away, and the failure is passed on."""
    world.reports(report(age=0))
    await world.reconcile()
    assert world.published()["cpu"] == "4000"
    world.configure('{"enable": true, "metricReportIntervalSeconds": 30}')
    world.api.fails["PATCH /apis/slo"] = refusal
    world.later(1000)
    with pytest.raises(type(refusal)):
        await world.reconcile()
    assert world.published() == {}
    assert world.events_recorded() == ["NodeStrategyApplied", "DegradedMid"]


async def test_foreign_definition_is_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.api.unknown_fields = {"spec.predictPolicy", "status.conditions", "status.shadow"}
    world.reports(report())
    await world.reconcile()
    await world.reconcile()
    written = _writes(world)
    for _ in range(3):
        await world.reconcile()
    assert _writes(world) == written
    assert world.api.objects[METRIC]["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] == 60
    said = [line.message for line in caplog.records if "has no field spec.predictPolicy" in line.message]
    assert len(said) == 1
    assert "install Headroom's" in said[0]
    world.configure('{"enable": true, "metricReportIntervalSeconds": 30}')
    await world.reconcile()
    assert world.api.objects[METRIC]["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] == 30


async def test_better_definition_is_used_without_a_restart(world: World) -> None:
    world.api.unknown_fields = {"spec.predictPolicy"}
    await world.reconcile()
    world.api.unknown_fields = set()
    await world.reconcile()
    assert "predictPolicy" not in world.api.objects[METRIC]["spec"]
    world.steady.now += 601
    await world.reconcile()
    assert world.api.objects[METRIC]["spec"]["predictPolicy"]["model"] == "coincidence"


async def test_spec_that_a_webhook_changes_is_not_repeated(world: World, caplog: pytest.LogCaptureFixture) -> None:
    original: Any = world.api.patch

    async def meddle(path: str, body: Json, content_type: str = "", params: Any = None) -> Json:  # noqa: ANN401
        if path == METRIC:
            body = {**body, "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 600}}}
        answer: Json = await original(path, body, content_type, params)
        return answer

    world.api.patch = meddle  # type: ignore[method-assign]
    for _ in range(4):
        await world.reconcile()
    assert len([path for method, path, _ in world.api.calls if (method, path) == ("PATCH", METRIC)]) == 1
    assert "look for a webhook" in caplog.text


async def test_contest_is_slowed_down(world: World) -> None:
    """Where another manager writes the same fields all the time, ours answers at a limited rate, and says so once."""

    async def contest(times: int) -> int:
        before = _writes(world)
        for number in range(times):
            edited = world.api.objects[METRIC]
            edited["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] = 7 + number
            node_metric.observe(world.run, "MODIFIED", world.api.put(METRIC, edited))
            await world.reconcile()
        return _writes(world) - before

    await world.reconcile()
    assert await contest(20) == 4
    assert world.events_recorded() == ["NodeMetricContested"]
    assert world.due_in() == 60.0
    world.steady.now += 60
    assert await contest(20) == 1
    assert world.events_recorded() == ["NodeMetricContested"]
    world.configure('{"enable": true, "metricReportIntervalSeconds": 30}')  # what an admin wants is not held back
    await world.reconcile()
    assert world.api.objects[METRIC]["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] == 30


@pytest.mark.parametrize(
    ("labels", "why"), [(VIRTUAL, "--exclude-nodes"), ({"kubernetes.io/os": "windows"}, "kubernetes.io/os is windows")]
)
async def test_excluded_node_is_left_out(world: World, labels: dict[str, str], why: str) -> None:
    """A node that becomes excluded loses its NodeMetric and its Mid resources, and gets both back with its label."""
    world.reports(report())
    await world.reconcile()
    world.has_node({**node(labels=labels), "status": world.api.objects[NODE]["status"]})
    await world.reconcile()
    assert METRIC not in world.api.objects
    assert world.published() == {}
    assert world.events_recorded() == ["MidDisabled"]
    assert why in world.api.written("POST", "/events")[0]["note"]
    node_metric.observe(world.run, "DELETED", {"metadata": {"name": "n1", "uid": "uid-metric-n1"}})
    await world.reconcile()
    assert METRIC not in world.api.objects
    world.has_node(node())
    await world.reconcile()
    assert METRIC in world.api.objects


async def test_excluded_node_keeps_requests_of_running_mid_pods(world: World) -> None:
    mid = PodInputs.from_object(mid_pod("m", cpu="3000", memory="2Gi"))
    world.run.context.cluster.put_pod(mid)
    world.has_node(node(labels=VIRTUAL, mid=("4000", str(4 * 1024**3))))
    await world.reconcile()
    assert world.published() == {"cpu": "3000", "memory": str(2 * 1024**3)}
    world.run.context.cluster.drop_pod(mid.uid)
    await world.reconcile()
    assert world.published() == {}


async def test_foreign_metric_of_an_excluded_node_stays(world: World) -> None:
    world.has_node(node(labels=VIRTUAL))
    node_metric.observe(world.run, "ADDED", world.api.put(METRIC, {"metadata": {"name": "n1", "uid": "theirs"}}))
    await world.reconcile()
    assert METRIC in world.api.objects
