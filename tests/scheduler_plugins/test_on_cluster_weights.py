"""What the real kube-scheduler makes of our answers: its scores beside ours, and both modes."""

from collections.abc import Iterator, Mapping

import pytest

from tests.scheduler_plugins.extenders import Json, load_aware, profile
from tests.scheduler_plugins.stage import Stage, Usage, among
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

SHORTLIST, WEIGHTED = "weights-shortlist", "weights-weighted"
HOT = "node(s) cpu usage exceed threshold"
HOSTNAME = "kubernetes.io/hostname"


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Ten nodes of 32 cores, and a kube-scheduler for each mode as shipped."""
    by_cpu = [load_aware(resourceWeights={"cpu": 1})]  # the score is the free share of the CPU
    with Stage.open(cluster, "weights", 10) as stage:
        stage.add(SHORTLIST, profile("shortlist", by_cpu))
        stage.add(WEIGHTED, profile("weighted", by_cpu))
        stage.wait()
        yield stage


def prefer(nodes: Mapping[str, int], *others: str) -> Json:
    """An affinity to some nodes, softly by weight, among them and others."""
    soft = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}}
        for node, weight in nodes.items()
    ]
    required = among(*nodes, *others)["nodeAffinity"]
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
    pod = stage.pod("torn", WEIGHTED, cpu="100m", affinity=prefer({warm: 100, cool: weight}))
    assert stage.place(pod) == [cool if cooler else warm]


def test_preferences_decide_among_few(stage: Stage) -> None:
    """In shortlist mode a soft preference still decides among the nodes of the answer, even for the warmest of them."""
    stage.clear()
    warmest = stage.nodes[9]
    stage.settle({warmest: 16}, otherwise=4)
    pods = [
        stage.pod(f"preferring-{number}", SHORTLIST, affinity=prefer({warmest: 100}, *stage.nodes))
        for number in range(3)
    ]
    assert set(stage.place(*pods)) == {warmest}
    # A pod without preferences of its own gets eight of the ten, and so never the warmest.
    where = stage.place(*(stage.pod(f"indifferent-{number}", SHORTLIST) for number in range(6)))
    assert warmest not in where


@pytest.mark.parametrize("scheduler", [SHORTLIST, WEIGHTED])
def test_modes_refuse_the_same(stage: Stage, scheduler: str) -> None:
    """Both modes refuse the same nodes for the same reasons, however much the pod would like them."""
    stage.clear()
    hot, silent, cool = stage.nodes[:3]
    stage.settle({hot: 30})
    stage.report({silent: Usage(1)}, since=200)
    stage.seen()
    stage.create(stage.pod("stuck", scheduler, affinity=prefer({hot: 100}, silent)))
    for reason in (HOT, "node(s) nodeMetric expired"):
        stage.refused("stuck", f"1 {reason}")
    assert stage.place(stage.pod("elsewhere", scheduler, affinity=prefer({hot: 100}, silent, cool))) == [cool]
