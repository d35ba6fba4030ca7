"""The four soft constraints that a shortlist must not break, with the extender and with kube-scheduler alone."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from tests.scheduler_plugins.extenders import PLAIN, Json, profile, until
from tests.scheduler_plugins.stage import Stage
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

SHORTLIST: Final = "soft-shortlist"
ZONE: Final = "topology.kubernetes.io/zone"
ZONES: Final = ("a", "b", "c")
LEAVING: Final = {"key": "DeletionCandidateOfClusterAutoscaler", "value": "1", "effect": "PreferNoSchedule"}
SCHEDULERS: Final = pytest.mark.parametrize("scheduler", [PLAIN, SHORTLIST])


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Ten nodes in each of three zones, and ten more with a soft taint in the first; the shipped profile."""
    with Stage.open(cluster, "soft", 0) as stage:
        for prefix in (*ZONES, "leaving"):
            added = stage.add_nodes(10, prefix=f"soft-{prefix}")
            stage.nodes += added
            for node in added:
                path = f"/api/v1/nodes/{node}"
                cluster.api.merge(path, {"metadata": {"labels": {ZONE: prefix if prefix in ZONES else "a"}}})
                if prefix not in ZONES:
                    taints = cluster.api.get(path)["spec"]["taints"]
                    cluster.api.merge(path, {"spec": {"taints": [*taints, LEAVING]}})
        stage.add(SHORTLIST, profile())
        stage.wait()
        yield stage


def _settle(stage: Stage, *cold: str) -> None:
    """Report 0.5 cores in use for nodes of these prefixes, and 15 of 32 for all others."""
    stage.clear()
    prefixes = tuple(f"soft-{prefix}" for prefix in cold)
    stage.settle({node: 0.5 for node in stage.nodes if node.startswith(prefixes)}, otherwise=15)


def _groups(nodes: list[str]) -> Counter[str]:
    """Return the number of pods by the prefix of their nodes."""
    return Counter(node.split("-")[1] for node in nodes)


def _burst(stage: Stage, pods: list[Json]) -> Counter[str]:
    """Create pods at once, and return their number by the prefix of their nodes."""
    stage.create(*pods)
    return _groups(stage.placed(*(pod["metadata"]["name"] for pod in pods)))


@SCHEDULERS
def test_preferred_zone(stage: Stage, scheduler: str) -> None:
    """Pods that prefer a zone go there although the other zones are colder, at once and one after another."""
    _settle(stage, "a", "b")
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["c"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
    affinity = {"nodeAffinity": preferred}
    pods = [stage.pod(f"zonal-{number}", scheduler, "100m", affinity=affinity) for number in range(34)]
    assert _burst(stage, pods[:30]) == {"c": 30}
    assert _groups(stage.place(*pods[30:])) == {"c": 4}


@SCHEDULERS
def test_spread_over_zones(stage: Stage, scheduler: str) -> None:
    """`ScheduleAnyway` spreads pods evenly although one zone is colder."""
    _settle(stage, "b")
    labels = {"app": "spread"}
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
    constraints = [{**constraint, "labelSelector": {"matchLabels": labels}}]
    names = [f"spread-{number}" for number in range(30)]
    pods = [stage.pod(name, scheduler, "100m", labels=labels, topologySpreadConstraints=constraints) for name in names]
    placed = _burst(stage, pods)
    zones = [placed["a"] + placed["leaving"], placed["b"], placed["c"]]
    assert max(zones) - min(zones) <= 1


@SCHEDULERS
@pytest.mark.parametrize("at_once", [True, False])
def test_deployment_spreads_by_default(stage: Stage, scheduler: str, at_once: bool) -> None:  # noqa: FBT001 - a parameter
    """Nine pods of a Deployment without constraints are three in each zone although one zone is colder."""
    _settle(stage, "b")
    name = f"plain-{scheduler}-{at_once}".lower()
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": stage.pod(name, scheduler, "100m")["spec"]}
    spec = {"replicas": 9 if at_once else 0, "selector": {"matchLabels": labels}, "template": template}
    path = f"/apis/apps/v1/namespaces/{stage.name}/deployments"
    stage.cluster.api.request("POST", path, {"metadata": {"name": name}, "spec": spec})
    try:
        for replicas in [9] if at_once else range(1, 10):
            stage.cluster.api.merge(f"{path}/{name}", {"spec": {"replicas": replicas}})
            until(lambda: sum(map(bool, stage.where().values())) == replicas, f"{replicas} pods being bound")  # noqa: B023
        assert _groups([*stage.where().values()]) == dict.fromkeys(ZONES, 3)
    finally:
        stage.cluster.api.request("DELETE", f"{path}/{name}?propagationPolicy=Foreground")
        until(lambda: not stage.where(), "the Deployment's pods being gone")


@SCHEDULERS
def test_soft_taint(stage: Stage, scheduler: str) -> None:
    """Nodes with a taint of PreferNoSchedule get no pod while others fit, although they are the coldest."""
    _settle(stage, "leaving")
    pods = [stage.pod(f"avoiding-{number}", scheduler, "100m") for number in range(31)]
    assert "leaving" not in _burst(stage, pods[:30])
    assert "leaving" not in _groups(stage.place(*pods[30:]))
