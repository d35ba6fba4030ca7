"""The extender beside the real kube-scheduler, on kwok nodes whose NodeMetrics are written by hand."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.scheduler_plugins.extenders import NO_SCORES, Json, load_aware, profile, until
from tests.scheduler_plugins.stage import Stage, among
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

HOT = "node(s) cpu usage exceed threshold"
SHORTLIST, WEIGHTED, SHIPPED = "headroom-shortlist", "headroom-weighted", "headroom-shipped"


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    with Stage.open(cluster, "load-aware", 12) as stage:
        stage.add(SHORTLIST, profile("shortlist", [load_aware()]))
        stage.add(
            WEIGHTED, profile("weighted", [load_aware()]), NO_SCORES
        )  # only our scores decide, so that a test sees them
        by_cpu = load_aware(resourceWeights={"cpu": 1})  # the score is the free share of the CPU
        stage.add(SHIPPED, profile("weighted", [by_cpu]))  # beside the scores of kube-scheduler
        stage.wait()
        yield stage


@pytest.mark.parametrize("scheduler", [SHORTLIST, WEIGHTED])
def test_hot_node_is_refused(stage: Stage, scheduler: str) -> None:
    """A pod that fits only a hot node stays pending with the reason in its event, and goes there once it is cool."""
    hot, name = stage.nodes[0], f"hot-{scheduler}"
    stage.settle({hot: 30})
    stage.create(stage.pod(name, scheduler, selector={"kubernetes.io/hostname": hot}))
    stage.refused(name, HOT)
    stage.settle({})
    # kube-scheduler does not watch NodeMetrics: any change of the pod makes it look again.
    stage.cluster.api.merge(f"{stage.path}/{name}", {"metadata": {"labels": {"look": "again"}}})
    assert stage.placed(name) == [hot]


def test_cool_nodes_are_preferred(stage: Stage) -> None:
    stage.clear()
    warm = dict.fromkeys(stage.nodes[:4], 18.0)
    stage.settle(warm)
    where = stage.place(*(stage.pod(f"cool-{index}", SHORTLIST, cpu="100m") for index in range(12)))
    assert not set(where) & set(warm)


def test_scores_reach_scheduler(stage: Stage) -> None:
    stage.clear()
    coolest = stage.nodes[7]
    stage.settle({coolest: 1}, otherwise=12)
    assert stage.place(stage.pod("coolest", WEIGHTED, cpu="100m")) == [coolest]


def _prefer(nodes: dict[str, int]) -> Json:
    hosts = {node: [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}] for node in nodes}
    soft = [{"weight": nodes[node], "preference": {"matchExpressions": match}} for node, match in hosts.items()]
    required = among(*nodes)["nodeAffinity"]
    return {"nodeAffinity": {**required, "preferredDuringSchedulingIgnoredDuringExecution": soft}}


@pytest.mark.parametrize(("weight", "cooler"), [(79, False), (81, True)])
def test_weights_mean_what_they_say(stage: Stage, weight: int, cooler: bool) -> None:  # noqa: FBT001 - a parameter
    """In weighted mode our 0 to 100 counts ten times, like that of a plugin of weight 1 whose weight is ten times that.

    The cool node is 93 - 53 = 40 points better by load: 40 * 10. By affinity the warm one is better: it has 100 points,
    the cool one as many as its weight, each counts 20, so the tie is at (100 - 80) * 20.
    """
    stage.clear()
    cool, warm = stage.nodes[:2]
    stage.settle({cool: 2, warm: 14.88})  # of 32 cores, and the pod's 0.085: 93.5 and 53.2 percent are left
    pod = stage.pod("torn", SHIPPED, cpu="100m", affinity=_prefer({warm: 100, cool: weight}))
    assert stage.place(pod) == [cool if cooler else warm]


def test_burst_does_not_pile_up(stage: Stage) -> None:
    stage.clear()
    coldest = stage.nodes[5]
    stage.settle({coldest: 1}, otherwise=6)
    names = [f"burst-{index}" for index in range(60)]
    stage.create(*(stage.pod(name, WEIGHTED) for name in names))
    where = Counter(stage.placed(*names))
    assert len(where) >= 8
    assert max(where.values()) <= 20


def test_killed_extender_is_ignored(stage: Stage) -> None:
    """While the extender is away pods are placed without it; when it is back it refuses again."""
    hot = stage.nodes[1]
    stage.settle({hot: 30})
    extender, selector = stage.extenders[0], {"kubernetes.io/hostname": hot}
    extender.kill()
    stage.create(stage.pod("ignored", SHORTLIST, selector=selector))
    assert stage.placed("ignored") == [hot]
    extender.restart()
    stage.settle({hot: 30})
    stage.create(stage.pod("heeded", SHORTLIST, selector=selector))
    stage.refused("heeded", HOT)


def test_outage_is_survived(stage: Stage) -> None:
    """While the API server is away the extender answers from what it knows; afterwards it follows the cluster again."""
    hot, other = stage.nodes[2], stage.nodes[3]
    stage.settle({hot: 30})
    extender = stage.extenders[0]
    stage.cluster.apiserver.stop()
    try:
        assert extender.passing(hot, other) == [other]
    finally:
        stage.cluster.apiserver.start()
    stage.settle({other: 30})
    until(lambda: extender.passing(hot, other) == [hot], "following the cluster again")
