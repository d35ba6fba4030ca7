"""Predictions beside the real kube-scheduler: Mid pods need a fresh one, and usePrediction goes by the peak."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from crds import names
from scheduler_plugins.plugins.mid_resources import DEFICIT, STALE
from tests.scheduler_plugins.extenders import Json, load_aware, profile
from tests.scheduler_plugins.stage import Stage
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

MID, PEAKS, NOW = "headroom-mid", "headroom-peaks", "headroom-now"


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Three nodes that offer Mid; a scheduler for it, and two that differ in whether they go by the peak."""
    with Stage.open(cluster, "mid", 3) as stage:
        stage.add(MID, profile(plugins=[load_aware(), {"name": "MidResources"}]))
        stage.add(PEAKS, profile(plugins=[load_aware(usePrediction=True)]))
        stage.add(NOW, profile(plugins=[load_aware()]))
        for node in stage.nodes:
            amounts = {names.MID_CPU: "8000", names.MID_MEMORY: "8Gi"}
            status = {"capacity": amounts, "allocatable": amounts}
            cluster.api.merge(f"/api/v1/nodes/{node}/status", {"status": status})
        stage.wait()
        yield stage


def _prediction(age: float = 0, cpu: str = "4") -> Json:
    made = (datetime.now(UTC) - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"prediction": {"time": made, "classes": [{"name": "node", "peak": {"cpu": cpu, "memory": "8Gi"}}]}}


def _deficit(status: str) -> Json:
    told = {"type": names.CONDITION_MID_DEFICIT, "status": status, "reason": "Test", "message": "a test"}
    return {"conditions": [{**told, "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}]}


def test_mid_needs_a_sound_node(stage: Stage) -> None:
    """Mid pods are kept from a node in deficit and from one whose prediction is old, with the reasons in the event."""
    deficient, old, sound = stage.nodes
    stage.settle({}, status={**_prediction(), **_deficit("False")})
    for node, status in ((deficient, _deficit("True")), (old, _prediction(age=2000))):
        stage.cluster.api.merge(f"/apis/slo.koordinator.sh/v1alpha1/nodemetrics/{node}/status", {"status": status})
    stage.seen()
    requests = {names.MID_CPU: "100", names.MID_MEMORY: "64Mi"}
    assert set(stage.place(*(stage.pod(f"mid-{index}", MID, requests=requests) for index in range(4)))) == {sound}
    for node, reason in ((deficient, DEFICIT), (old, STALE)):
        where = {"kubernetes.io/hostname": node}
        stage.create(stage.pod(f"refused-{node}", MID, requests=requests, selector=where))
        stage.refused(f"refused-{node}", reason)
        assert stage.place(stage.pod(f"prod-{node}", MID, selector=where)) == [node]


def test_node_that_will_peak_is_spared(stage: Stage) -> None:
    """An idle node that peaks every night gets no pod where the peak counts, and gets one where usage of now does."""
    peaking = stage.nodes[0]
    stage.settle({peaking: 1}, otherwise=12, status=_prediction(cpu="4"))
    metric = f"/apis/slo.koordinator.sh/v1alpha1/nodemetrics/{peaking}/status"
    stage.cluster.api.merge(metric, {"status": _prediction(cpu="30")})
    stage.seen()
    where = {"kubernetes.io/hostname": peaking}
    stage.create(stage.pod("night", PEAKS, selector=where))
    stage.refused("night", "node(s) cpu predicted usage exceed threshold")
    assert stage.place(stage.pod("now", NOW, selector=where)) == [peaking]
