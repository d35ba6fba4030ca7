"""What pods prefer holds with our extender as with the stock kube-scheduler, whichever nodes the load speaks for."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.scheduler_plugins.extenders import PLAIN, Json, profile, until
from tests.scheduler_plugins.stage import Stage
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

OURS = "soft-shortlist"
ZONE = "topology.kubernetes.io/zone"
ZONES = ("a", "b", "c")
SCHEDULERS = pytest.mark.parametrize("scheduler", [PLAIN, OURS])
LEAVING = {"key": "DeletionCandidateOfClusterAutoscaler", "value": "1", "effect": "PreferNoSchedule"}


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Ten nodes in each of three zones, and ten in the first that shall be avoided; the shipped profile."""
    with Stage.open(cluster, "soft", 0) as stage:
        for zone in ZONES:
            stage.nodes += stage.add_nodes(10, prefix=f"soft-{zone}", labels={ZONE: zone})
        stage.nodes += stage.add_nodes(10, prefix="soft-leaving", labels={ZONE: "a"}, taints=[LEAVING])
        stage.add(OURS, profile())
        stage.wait()
        yield stage


def settle(stage: Stage, cold: str | tuple[str, ...]) -> None:
    """The nodes of which the name begins so use next to nothing, all others 15 of 32 cores."""
    stage.clear()
    stage.settle({node: 0.5 for node in stage.nodes if node.startswith(cold)}, otherwise=15)


def zones_of(nodes: list[str]) -> Counter[str]:
    """How many of these places are in which zone; those to avoid under a name of their own."""
    return Counter("leaving" if "leaving" in node else node.removeprefix("soft-")[0] for node in nodes)


def burst(stage: Stage, pods: list[Json]) -> Counter[str]:
    """Create all at once; where they are."""
    stage.create(*pods)
    return zones_of(stage.placed(*(pod["metadata"]["name"] for pod in pods)))


@SCHEDULERS
def test_preferred_zone(stage: Stage, scheduler: str) -> None:
    """Pods that prefer a zone go there, although all others are cold, many at once and one by one."""
    settle(stage, ("soft-a", "soft-b"))
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["c"]}]}
    affinity = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
    }
    pods = [stage.pod(f"zonal-{number}", scheduler, cpu="100m", affinity=affinity) for number in range(34)]
    assert burst(stage, pods[:30]) == {"c": 30}
    assert zones_of(stage.place(*pods[30:])) == {"c": 4}


@SCHEDULERS
def test_spread_over_zones(stage: Stage, scheduler: str) -> None:
    """`ScheduleAnyway` spreads pods evenly, although one zone is cold."""
    settle(stage, "soft-b")
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    pods = [
        stage.pod(
            f"spread-{number}", scheduler, "100m", labels={"app": "spread"}, topologySpreadConstraints=[constraint]
        )
        for number in range(30)
    ]
    where = burst(stage, pods)
    assert sorted(where) == [*ZONES]
    assert max(where.values()) - min(where.values()) <= 1


@SCHEDULERS
@pytest.mark.parametrize("at_once", [True, False])
def test_deployments_spread_by_default(stage: Stage, scheduler: str, at_once: bool) -> None:  # noqa: FBT001 - a parameter
    """A Deployment without any constraint is spread over the zones, as kube-scheduler does by default."""
    settle(stage, "soft-b")
    name, labels = f"plain-{scheduler}-{at_once}".lower(), {"app": f"plain-{scheduler}-{at_once}"}
    pod = stage.pod(name, scheduler, cpu="100m", labels=labels)
    path = f"/apis/apps/v1/namespaces/{stage.name}/deployments"
    deployment: Json = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 9 if at_once else 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
        },
    }
    stage.cluster.api.request("POST", path, deployment)
    try:
        for replicas in range(1, 10) if not at_once else [9]:
            stage.cluster.api.merge(f"{path}/{name}", {"spec": {"replicas": replicas}})
            until(lambda: sum(map(bool, stage.where().values())) == replicas, f"{replicas} pods being placed")  # noqa: B023
        assert zones_of([*stage.where().values()]) == dict.fromkeys(ZONES, 3)
    finally:
        stage.cluster.api.request("DELETE", f"{path}/{name}?propagationPolicy=Foreground")
        until(lambda: not stage.where(), "the Deployment's pods being gone")


@SCHEDULERS
def test_nodes_to_avoid(stage: Stage, scheduler: str) -> None:
    """Nodes with a taint of PreferNoSchedule get no pod while others fit, although they are the coldest."""
    settle(stage, "soft-leaving")
    pods = [stage.pod(f"avoiding-{number}", scheduler, cpu="100m") for number in range(30)]
    assert "leaving" not in burst(stage, pods)
    assert "leaving" not in zones_of(stage.place(stage.pod("avoiding-alone", scheduler, cpu="100m")))
