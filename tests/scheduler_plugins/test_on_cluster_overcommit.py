"""The user stories of the overcommitment text and the worked examples of the one about allocatable resources.

On the real kube-scheduler, each beside what happens without. kube-scheduler by itself looks at what is requested.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.scheduler_plugins.extenders import Json, configuration, profile
from tests.scheduler_plugins.stage import Stage, Usage, among
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

FIRST = {"size": 1, "share": 0}
"""A shortlist of just the best node, so that nothing but our scores decides."""
RISK, LIMITS_ONLY, LEAST, MOST = "overcommit-risk", "overcommit-limits", "overcommit-least", "overcommit-most"
RATIO = "overcommit-ratio"  # kube-scheduler by itself, with the plugin that prefers the least allocated nodes alone


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Two nodes of 32 cores, and a kube-scheduler for each plugin by itself."""
    with Stage.open(cluster, "overcommit", 2) as stage:
        stage.add(RISK, alone("LowRiskOverCommitment", bestEffortMayFillNode=True))
        stage.add(LIMITS_ONLY, alone("LowRiskOverCommitment", riskLimitWeights={"cpu": 1, "memory": 1}))
        cores = [{"name": "cpu", "weight": 1}]
        for name, mode in ((LEAST, "Least"), (MOST, "Most")):
            stage.add(name, alone("NodeResourcesAllocatable", mode=mode, resources=cores))
        found = configuration("shortlist", RATIO, "")
        found["extenders"] = []
        scoring = {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 1}]}
        found["profiles"][0]["plugins"] = {"score": scoring}
        stage.add_scheduler(RATIO, found)
        stage.wait()
        yield stage


def alone(name: str, **arguments: Any) -> Json:  # noqa: ANN401 - any argument of the plugin
    """A profile with one plugin."""
    return profile("shortlist", [{"name": name, "weight": 1, "args": arguments}], shortlist=FIRST)


def runs(stage: Stage, node: str, request: int, limit: int) -> None:
    """Bind a pod to a node that requests and may use so many cores."""
    limits = {"cpu": f"{limit}", "memory": "8Gi"}
    stage.create(stage.pod(f"runs-on-{node}", cpu=f"{request}", memory="8Gi", limits=limits, node=node))


def window(average: Mapping[str, float], stdev: Mapping[str, float]) -> Json:
    """What a node used over five minutes, in cores and GiB."""
    usage = {"avg": Usage(**average).resources(), "stdev": Usage(**stdev).resources()}
    return {"aggregatedNodeUsages": [{"duration": "5m", "usage": usage}]}


@pytest.mark.parametrize(("scheduler", "roomy"), [(RISK, True), (RATIO, False)])
def test_limits_are_counted(stage: Stage, scheduler: str, roomy: bool) -> None:  # noqa: FBT001 - a parameter
    """Limit-aware: a burstable pod goes where the limits of all fit, though a bit more is requested there."""
    stage.clear()
    promised, fitting = stage.nodes
    runs(stage, promised, request=8, limit=60)  # of 32
    runs(stage, fitting, request=10, limit=12)
    stage.settle()
    burstable = stage.pod("burstable", scheduler, limits={"cpu": "8", "memory": "1Gi"}, affinity=among(*stage.nodes))
    assert stage.place(burstable) == [fitting if roomy else promised]


@pytest.mark.parametrize(("scheduler", "calm"), [(RISK, True), (LIMITS_ONLY, False), (RATIO, False)])
def test_load_is_counted(stage: Stage, scheduler: str, calm: bool) -> None:  # noqa: FBT001 - a parameter
    """Limit- and load-aware: a burstable pod goes where nobody bursts, though limits and requests say a bit less.

    The busy node's pods use twice what they request, the calm one's less. By the limits alone the busy one is better.
    """
    stage.clear()
    busy, idle = stage.nodes
    runs(stage, busy, request=8, limit=40)
    runs(stage, idle, request=10, limit=44)
    stage.settle(
        {busy: 20, idle: 4},
        measured={
            busy: window({"cpu": 20, "memory": 4}, {"cpu": 4, "memory": 0.5}),
            idle: window({"cpu": 4, "memory": 4}, {"cpu": 0.5, "memory": 0.5}),
        },
    )
    burstable = stage.pod("burstable", scheduler, limits={"cpu": "8", "memory": "1Gi"}, affinity=among(*stage.nodes))
    assert stage.place(burstable) == [idle if calm else busy]


def sized(stage: Stage, prefix: str, *cores: int, known_to: tuple[str, ...]) -> list[str]:
    """Nodes with so many cores to give."""
    nodes = [stage.add_nodes(1, cpu=f"{count}", prefix=f"{prefix}-{count}")[0] for count in cores]
    for scheduler in known_to:
        for node in nodes:
            name = f"knows-{scheduler}-{node}"
            assert stage.place(stage.pod(name, scheduler, cpu="1m", affinity=among(node))) == [node]
            stage.cluster.api.request("DELETE", f"{stage.path}/{name}?gracePeriodSeconds=0")
    return nodes


def test_small_pods_leave_room(stage: Stage) -> None:
    """First example: pods of 5, 5, 100, 100 on nodes of 10 and 200 all fit with Least; by ratio the last does not."""
    for scheduler in (LEAST, RATIO):
        small, large = sized(stage, f"first-{scheduler}", 10, 200, known_to=(scheduler,))
        stage.settle()
        *first, last = (
            stage.pod(f"{scheduler}-{number}", scheduler, cpu=f"{cores}", affinity=among(small, large))
            for number, cores in enumerate((5, 5, 100, 100))
        )
        where = stage.place(*first)
        stage.create(last)
        if scheduler == LEAST:
            assert [*where, *stage.placed(last["metadata"]["name"])] == [small, small, large, large]
        else:
            assert where[1:] == [large, large]  # the first may be on either
            stage.refused(last["metadata"]["name"], "Insufficient cpu")


def test_churn_leaves_room(stage: Stage) -> None:
    """Second example: of two nodes with room for 10 the small one is filled, so that 50 fit when 40 are gone."""
    for scheduler in (LEAST, RATIO):
        small, large = sized(stage, f"second-{scheduler}", 20, 100, known_to=(scheduler,))
        # More memory is requested on the small one: by ratio the large one is better.
        stage.create(
            stage.pod(f"{scheduler}-10", cpu="10", memory="100Gi", node=small),
            *(stage.pod(f"{scheduler}-{cores}", cpu=f"{cores}", node=large) for cores in (50, 40)),
        )
        stage.settle()
        came = stage.pod(f"{scheduler}-came", scheduler, cpu="10", affinity=among(small, large))
        assert stage.place(came) == [small if scheduler == LEAST else large]
        stage.cluster.api.request("DELETE", f"{stage.path}/{scheduler}-40?gracePeriodSeconds=0")
        stage.create(stage.pod(f"{scheduler}-next", scheduler, cpu="50", affinity=among(small, large)))
        if scheduler == LEAST:
            assert stage.placed(f"{scheduler}-next") == [large]
        else:
            stage.refused(f"{scheduler}-next", "Insufficient cpu")


def test_most_fills_large_nodes(stage: Stage) -> None:
    """The other use case: with Most the permanent large node is filled, so that small ones stay free to be removed."""
    small, large = sized(stage, "most", 10, 200, known_to=(MOST, RATIO))
    stage.create(stage.pod("most-runs", cpu="100", memory="64Gi", node=large))  # by ratio the small one is better
    stage.settle()
    pods = [stage.pod(f"by-{name}", name, cpu="1", affinity=among(small, large)) for name in (MOST, RATIO)]
    assert stage.place(*pods) == [large, small]
