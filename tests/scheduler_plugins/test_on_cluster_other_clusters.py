"""Reports of users of other schedulers, on the real kube-scheduler: quotas, autoscalers, nodes without an agent."""

from collections.abc import Iterator
from typing import Final

import pytest

from crds.names import ANNOTATION_SCALE_UP_DELAY, MID_CPU, MID_MEMORY
from scheduler_plugins.requeue.unschedulable import NEVER
from tests.scheduler_plugins.extenders import Json, profile, until
from tests.scheduler_plugins.quota_teams import QUOTAS
from tests.scheduler_plugins.stage import METRICS, Stage, Usage
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

NAME: Final = "other-clusters"
QUOTA: Final = f"{QUOTAS}/namespaces/{NAME}/elasticquotas/{NAME}"
HOSTNAME: Final = "kubernetes.io/hostname"
MID: Final = {MID_CPU: "500", MID_MEMORY: "64Mi"}


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Three nodes with Mid resources, and a namespace with a quota of 2 cores that uses 4."""
    with Stage.open(cluster, NAME, 3) as stage:
        for node in stage.nodes:
            amounts = {MID_CPU: "4000", MID_MEMORY: "8Gi"}
            status = {"status": {"capacity": amounts, "allocatable": amounts}}
            cluster.api.merge(f"/api/v1/nodes/{node}/status", status)
        stage.add(NAME, profile())
        stage.wait()
        _bound(stage, "2")
        stage.settle()
        stage.create(stage.pod("from-elsewhere", cpu="4", node=stage.nodes[0]))
        until(lambda: stage.extenders[0].bounds(NAME, "cpu") == (2, 2), "the extender knowing the quota")
        yield stage
        cluster.api.request("DELETE", QUOTA)


def _bound(stage: Stage, cpu: str) -> None:
    amounts = {"cpu": cpu, "memory": "100Gi"}
    quota: Json = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota"}
    body = {**quota, "metadata": {"name": NAME, "namespace": NAME}, "spec": {"min": amounts, "max": amounts}}
    stage.cluster.apply(body)


def test_mid_pod_passes_a_full_quota(stage: Stage) -> None:
    """A pod with native requests of 0 is placed though its quota is exceeded; another is refused."""
    requests, limits = {**MID, "cpu": "0", "memory": "0"}, {**MID, "cpu": "500m", "memory": "64Mi"}
    assert stage.place(stage.pod("mid", NAME, requests=requests, limits=limits)) in [[node] for node in stage.nodes]
    stage.create(stage.pod("native", NAME))
    stage.refused("native", "cpu")
    stage.cluster.api.request("DELETE", f"{stage.path}/native?gracePeriodSeconds=0")


def test_quota_refusal_adds_no_node(stage: Stage) -> None:
    """Cluster Autoscaler ignores a pod that its quota refuses, until the quota admits it."""

    def delay() -> str | None:
        annotations = stage.read("delayed")["metadata"].get("annotations") or {}
        return annotations.get(ANNOTATION_SCALE_UP_DELAY)

    stage.create(stage.pod("delayed", NAME))
    until(lambda: delay() == NEVER, "the annotation")
    assert not stage.where()["delayed"]
    _bound(stage, "8")
    stage.placed("delayed")
    until(lambda: delay() is None, "the annotation being gone")
    assert stage.extenders[0].metric("waiting_pods_by_cause") == 0


def test_node_that_no_agent_reports_is_usable(stage: Stage) -> None:
    """A NodeMetric that no agent ever wrote refuses no pod; one that was written and has expired does."""
    _bound(stage, "100")
    (silent,) = stage.add_nodes(1, prefix="without-agent")
    assert "status" not in stage.cluster.api.get(f"{METRICS}/{silent}")
    assert stage.place(stage.pod("on-silent", NAME, selector={HOSTNAME: silent})) == [silent]
    assert stage.extenders[0].metric("nodes_without_agent") >= 1
    late = stage.nodes[1]
    stage.settle()
    stage.report({late: Usage(2)}, since=3600)
    stage.seen()
    stage.create(stage.pod("on-late", NAME, selector={HOSTNAME: late}))
    stage.refused("on-late", "expired")
