"""The four user stories of load-aware scheduling on the real kube-scheduler, each with its counterfactual.

kube-scheduler by itself compares requests. Pods with large requests are on the better nodes, so by itself it uses
the other nodes, which is a mistake in each story.
"""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.scheduler_plugins import priorities
from tests.scheduler_plugins.extenders import PLAIN, Json, load_aware, profile
from tests.scheduler_plugins.stage import CORES, Stage, Usage, among
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

SHIPPED, NO_ESTIMATES, DOMINANT, EVEN = "story-shipped", "story-no-estimates", "story-dominant", "story-even"
FIRST = {"size": 1, "share": 0}
"""A shortlist of only the best node, so that the extender's scores decide."""
THRESHOLD = 65  # the shipped CPU threshold. [percent]


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    with Stage.open(cluster, "stories", 6) as stage:
        stage.publish_batch()
        priorities.make(cluster, "koord-batch", 5000, preemptionPolicy="Never")
        stage.add(SHIPPED, profile())
        stage.add(NO_ESTIMATES, profile(plugins=[load_aware(estimatedScalingFactors={"cpu": 1, "memory": 1})]))
        weights = {"cpu": 1, "memory": 1}
        dominant = load_aware(resourceWeights=weights, dominantResourceWeight=10)
        stage.add(DOMINANT, profile(plugins=[dominant], shortlist=FIRST))
        stage.add(EVEN, profile(plugins=[load_aware(resourceWeights=weights)], shortlist=FIRST))
        stage.wait()
        yield stage


def latency_sensitive(stage: Stage, name: str, scheduler: str) -> Json:
    return stage.pod(name, scheduler, labels={"koordinator.sh/qosClass": "LS"})


def best_effort(stage: Stage, name: str, scheduler: str) -> Json:
    amounts = {"kubernetes.io/batch-cpu": "1000", "kubernetes.io/batch-memory": "1Gi"}
    labels = {"koordinator.sh/qosClass": "BE"}
    return stage.pod(name, scheduler, requests=amounts, limits=amounts, labels=labels, priorityClassName="koord-batch")


def fill(stage: Stage, nodes: list[str], used: dict[str, float | Usage], otherwise: float) -> None:
    stage.clear()
    for node in nodes:
        stage.ballast(node, cpu=10)
    # A node is hot by its usage, not by its pods' requests: the stories depend on that difference.
    pods = {node: {f"ballast-{node}": Usage(10, 1)} for node in nodes}
    stage.settle(used, otherwise, pods=pods)


@pytest.mark.parametrize(("scheduler", "avoids"), [(SHIPPED, True), (PLAIN, False)])
def test_hot_nodes_are_avoided(stage: Stage, scheduler: str, avoids: bool) -> None:  # noqa: FBT001 - a parameter
    """Story 1: BE and LS pods avoid nodes with high usage. Without the plugin, they all use those nodes."""
    hot, cool = stage.nodes[:2], stage.nodes[2:]
    fill(stage, cool, dict.fromkeys(hot, 24.0), otherwise=12)
    pods = [make(stage, f"{make.__name__.replace('_', '-')}-{n}", scheduler) for n in range(3) for make in MAKERS]
    where = set(stage.place(*pods))
    assert where <= set(cool if avoids else hot)


MAKERS = (latency_sensitive, best_effort)


@pytest.mark.parametrize(("scheduler", "fits"), [(DOMINANT, True), (EVEN, False), (PLAIN, False)])
def test_scarce_resource_is_spared(stage: Stage, scheduler: str, fits: bool) -> None:  # noqa: FBT001 - a parameter
    """Story 2: with a weight for the dominant resource a pod gets the node with the most free of its scarcest resource.

    Without it, the pod gets the node with more of both together, but little of that resource.
    """
    busy, full, busy_too, full_too, *_ = stage.nodes
    stage.clear()
    stage.ballast(full, cpu=5, memory=20)
    stage.ballast(busy_too, cpu=5, memory=10)
    used = {busy: Usage(14.4, 6.4), full: Usage(4.8, 64), busy_too: Usage(16, 19.2), full_too: Usage(1.6, 57.6)}
    pods = {full: {f"ballast-{full}": Usage(4.8, 20)}, busy_too: {f"ballast-{busy_too}": Usage(5, 10)}}
    stage.settle(used, pods=pods)
    hungry = stage.pod("hungry", scheduler, cpu="6", memory="1Gi", affinity=among(busy, full))
    large = stage.pod("large", scheduler, cpu="100m", memory="32Gi", affinity=among(busy_too, full_too))
    assert stage.place(hungry, large) == ([full, busy_too] if fits else [busy, full_too])


@pytest.mark.parametrize(("scheduler", "holds"), [(SHIPPED, True), (NO_ESTIMATES, False), (PLAIN, False)])
def test_threshold_holds_between_reports(stage: Stage, scheduler: str, holds: bool) -> None:  # noqa: FBT001 - a parameter
    """Story 3: many pods within one report period do not push cold nodes over the threshold when they start.

    Without estimates, and without the plugin, they do.
    """
    cold, warm = stage.nodes[:2], stage.nodes[2:]
    used: dict[str, float | Usage] = {**dict.fromkeys(cold, 2.0), **dict.fromkeys(warm, 12.0)}
    fill(stage, warm, used, otherwise=2)
    pods = [stage.pod(f"pod-{number}", scheduler, cpu="500m", limits={"cpu": "2"}) for number in range(24)]
    stage.create(*pods)  # all in one moment
    where = Counter(stage.placed(*(pod["metadata"]["name"] for pod in pods)))
    runs = {node: (12.0 if node in warm else 2.0) + 0.85 * 2 * where[node] for node in stage.nodes}
    percent = {node: round(100 * cores / CORES) for node, cores in runs.items()}
    assert (max(percent.values()) <= THRESHOLD) is holds, percent


@pytest.mark.parametrize(("scheduler", "avoids"), [(SHIPPED, True), (PLAIN, False)])
def test_silent_node_is_avoided(stage: Stage, scheduler: str, avoids: bool) -> None:  # noqa: FBT001 - a parameter
    """Story 4: a node without recent reports is not used; the event has the reason. Without the plugin, it is."""
    silent, remaining = stage.nodes[0], stage.nodes[1:]
    fill(stage, remaining, {}, otherwise=12)
    stage.report({silent: Usage(1)}, since=200)
    stage.seen()
    where = set(stage.place(*(stage.pod(f"pod-{number}", scheduler) for number in range(3))))
    assert where <= (set(remaining) if avoids else {silent})
    if avoids:
        stage.create(stage.pod("stuck", scheduler, affinity=among(silent)))
        stage.refused("stuck", "node(s) nodeMetric expired")
