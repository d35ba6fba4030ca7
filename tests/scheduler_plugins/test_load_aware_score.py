"""LoadAwareScheduling: which nodes are preferred."""

from dataclasses import replace

import pytest

from scheduler_plugins.plugins.load_aware_arguments import Aggregated
from tests.scheduler_plugins.objects import NOW, Json, World, load_aware, node, node_metric, pod, pod_metric


def _scores(world: World, *names: str) -> list[int]:
    request = world.request(pod("incoming", priority=5500))
    nothing = replace(request, estimate=(0,) * len(request.estimate))
    scores: list[int] = world.plugin.score(nothing, world.nodes(*names)).tolist()
    return scores


@pytest.mark.parametrize(
    ("arguments", "cpu", "memory", "score"),
    [
        ({}, "60", "10Gi", 65),  # (40 + 90) / 2
        ({"resource_weights": {"cpu": 2, "memory": 1}}, "60", "10Gi", 56),  # 170 / 3 = 56.67
        ({}, "20.5", "20Gi", 79),  # 79.5 -> 79, then (79 + 80) / 2 = 79.5 -> 79
        ({}, "101", "11Gi", 44),  # overused: (0 + 89) / 2
        ({"resource_weights": {"cpu": 1}}, "60", "10Gi", 40),
        ({"dominant_resource_weight": 1, "resource_weights": {"cpu": 1, "memory": 1}}, "60", "10Gi", 56),  # + 40
        ({"dominant_resource_weight": 1}, "60", "10Gi", 40),  # the worst resource alone
        ({"dominant_resource_weight": 1, "resource_weights": {"cpu": 1}}, "10", "60Gi", 65),  # (90 + 40) / 2
    ],
)
def test_free_share_is_weighed(arguments: dict[str, object], cpu: str, memory: str, score: int) -> None:
    world = World(load_aware(**arguments)).put(node(), node_metric(cpu=cpu, memory=memory))
    assert _scores(world) == [score]


def _using(**amounts: str) -> Json:
    """A report whose usage holds these amounts and no others, as koordlet's without its page-cache collector."""
    metric = node_metric()
    metric["status"]["nodeMetric"]["nodeUsage"]["resources"] = amounts
    return metric


BY_CPU: Json = {"resource_weights": {"cpu": 1}}
P95 = {"5m0s": {"p95": {"cpu": "70"}}}


@pytest.mark.parametrize(
    ("arguments", "metric", "score"),
    [
        # A resource that the node lacks scores 0, and is the worst one for the dominant part: (80 + 0) / 2.
        ({"usage_thresholds": {"x.io/y": 50}, "dominant_resource_weight": 1, **BY_CPU}, node_metric(cpu="20"), 40),
        ({}, _using(cpu="10"), 0),  # a report that says nothing of memory does not say that none is used
        (BY_CPU, _using(cpu="10"), 90),
        ({}, _using(), 0),
        ({"resource_weights": {"cpu": 0}}, _using(cpu="1"), 0),
        ({"aggregated": Aggregated(score_aggregation_type="p95"), **BY_CPU}, node_metric(aggregated=P95), 30),
    ],
)
def test_what_is_scored(arguments: Json, metric: Json, score: int) -> None:
    assert _scores(World(load_aware(**arguments)).put(node(), metric)) == [score]


@pytest.mark.parametrize(
    ("updated", "cpu"),
    [
        (-180, "1"),  # too old
        (None, "1"),  # never
        (0, None),  # nothing about the node
    ],
)
def test_unknown_load_scores_zero(updated: float | None, cpu: str | None) -> None:
    plugin = load_aware(filter_expired_node_metrics=False, enable_schedule_when_node_metrics_expired=True)
    world = World(plugin).put(node(), node_metric(cpu=cpu, updated=updated), node("bare"))
    assert _scores(world, "n", "bare") == [0, 0]


def test_prod_scored_by_prod() -> None:
    placed = pod("p", {"cpu": "1"}, node="n", scheduled=-3600, priority=9500)
    metric = node_metric(cpu="60", memory="0", pods=[pod_metric("p", "10", "0")])
    arriving = pod("incoming", {"cpu": "10", "memory": "1"}, priority=9500)
    weights = {"cpu": 1}
    by_node = World(load_aware(resource_weights=weights)).put(node(), metric, placed)
    by_prod = World(load_aware(resource_weights=weights, score_according_prod_usage=True)).put(node(), metric, placed)
    assert by_node.scores(arriving) == [30]
    assert by_prod.scores(arriving) == [80]
    assert _scores(by_prod) == [40]
    by_prod.cache.charge(by_prod.request(pod("first", {"cpu": "10"}, priority=9500)), ["n"], NOW)
    assert by_prod.scores(arriving) == [70]


def test_in_flight_lowers_score() -> None:
    world = World(load_aware(resource_weights={"cpu": 1})).put(node(), node_metric(cpu="50"))
    world.cache.charge(world.request(pod("first", {"cpu": "10"})), ["n"], NOW)
    assert _scores(world) == [40]
