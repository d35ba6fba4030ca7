"""LoadAwareScheduling: rejected nodes with their reasons, and preferred nodes."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crds import names
from crds.quantity import QuantityError
from scheduler_plugins.plugins.load_aware import EXPIRED, LoadAware, ceiling, usage_percent
from scheduler_plugins.plugins.load_aware_arguments import Aggregated
from tests.scheduler_plugins.objects import NOW, Json, World, load_aware, node, node_metric, pod, pod_metric

CPU = "node(s) cpu usage exceed threshold"
MEMORY = "node(s) memory usage exceed threshold"
AGGREGATED_CPU = "node(s) cpu aggregated usage exceed threshold"
TINY = pod("incoming", {"cpu": "1m", "memory": "1"})


@pytest.mark.parametrize(
    ("used", "threshold", "passes"),
    [
        ("65.489", 65, True),  # 65.49 with the pod's 1m: 65 passes at 65
        ("65.499", 65, False),  # 65.5: 66
        ("65.498", 65, True),
        ("64.499", 64, False),  # 64.5 -> 65; half to even would give 64
        ("28.499", 28, True),  # 28500/100000*100 is 28.499999999999996 in doubles
        ("100.499", 100, True),  # 100.49999999999999
        ("100.599", 100, False),
    ],
)
def test_rounding_is_upstreams(used: str, threshold: int, *, passes: bool) -> None:
    """Percents are computed in doubles, used / total * 100, and halves round away from zero."""
    world = World(load_aware(usage_thresholds={"cpu": threshold})).put(node(), node_metric(cpu=used))
    assert world.reasons(TINY) == [None if passes else CPU]


def test_missing_memory_is_not_evaluated() -> None:
    metric = node_metric(cpu="60")
    del metric["status"]["nodeMetric"]["nodeUsage"]["resources"]["memory"]
    full = pod("there", {"memory": "99Gi"}, limits={"memory": "99Gi"}, node="n", priority=9500)
    world = World(load_aware(usage_thresholds={"cpu": 65, "memory": 50})).put(node(), metric, full)
    assert world.reasons(TINY) == [None]
    assert world.reasons(pod(requests={"cpu": "9"})) == [CPU]
    (texts,) = world.plugin.explain(world.request(TINY), world.nodes("n"))
    assert texts["notes"] == ["the NodeMetric has no memory usage: that is not checked, and the score is 0"]


def test_estimates_are_added() -> None:
    """The sum of the node's pods beyond their measured usage and the incoming pod: 60 + 6, and 50 + (10 - 2) + 8."""
    world = World().put(node(), node_metric(cpu="60"))
    assert world.reasons(pod(requests={"cpu": "5"})) == [None]
    assert world.reasons(pod(requests={"cpu": "6"})) == [CPU]
    world.put(node_metric(pods=[pod_metric()]), pod("p", {"cpu": "10"}, node="n", scheduled=-30))
    assert world.reasons(pod("incoming", {"cpu": "7"})) == [None]
    assert world.reasons(pod("incoming", {"cpu": "8"})) == [CPU]


def test_first_resource_is_named() -> None:
    both = node_metric(cpu="90", memory="99Gi")
    assert World().put(node(), both).reasons(TINY) == [CPU]
    assert World().put(node(), node_metric(cpu="1", memory="99Gi")).reasons(TINY) == [MEMORY]


@pytest.mark.parametrize(
    ("item", "metric"),
    [
        (node(), None),  # no NodeMetric
        (node(), node_metric(cpu=None)),  # without node usage
        (node(cpu="0"), node_metric(cpu="90")),  # nothing to compare with
    ],
)
def test_unknown_load_passes(item: Json, metric: Json | None) -> None:
    assert World().put(item, *([metric] if metric else [])).reasons(TINY) == [None]


@pytest.mark.parametrize(
    ("plugin", "age", "reason"),
    [
        (load_aware(), 179, None),
        (load_aware(), 180, EXPIRED),  # exactly at the limit it is too old
        (load_aware(), None, None),  # no agent has written it
        (load_aware(), -60, None),  # from the future: fresh
        (load_aware(node_metric_expiration_seconds=300), 180, None),
        (load_aware(enable_schedule_when_node_metrics_expired=True), 180, None),
        (load_aware(filter_expired_node_metrics=False), 180, CPU),  # stale usage compared as if fresh
        (load_aware(usage_thresholds={"cpu": 0}), 180, None),  # nothing to compare: age does not matter
    ],
)
def test_expired_report_refuses(plugin: LoadAware, age: float | None, reason: str | None) -> None:
    used = "90" if reason == CPU else "10"
    world = World(plugin).put(node(), node_metric(cpu=used, updated=None if age is None else -age))
    assert world.reasons(TINY) == [reason]


@pytest.mark.parametrize("plugin", [load_aware(), load_aware(use_prediction=True)])
@pytest.mark.parametrize(
    "status", [None, {}, {"conditions": [{"type": "MidPublished", "status": "False"}]}, {"updateTime": None}]
)
def test_node_without_agent_passes(plugin: LoadAware, status: Json | None) -> None:
    """The manager makes NodeMetrics before any agent runs, and for nodes where none ever will."""
    metric = {"metadata": {"name": "n"}, "spec": {"metricCollectPolicy": {}}}
    world = World(plugin).put(node())
    world.cache.put_node_metric(metric if status is None else {**metric, "status": status})
    assert world.reasons(TINY) == [None]
    assert _scores(world, "n") == [0]
    nodes = world.cache.freeze(NOW)
    assert (plugin.without_agent(nodes), plugin.all_expired(nodes)) == (1, "")
    world.put(node_metric(updated=-180))
    assert world.reasons(TINY) == [EXPIRED]
    assert plugin.without_agent(world.cache.freeze(NOW)) == 0


def test_daemon_set_passes_always() -> None:
    item = pod("incoming")
    item["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d"}]
    assert World().put(node(), node_metric(cpu="90", updated=-999)).reasons(item) == [None]


PROD = load_aware(prod_usage_thresholds={"cpu": 40})
BUSY_PROD = node_metric(cpu="80", pods=[pod_metric("p", "45")])
PLACED = pod("p", {"cpu": "1"}, node="n", scheduled=-3600, priority=9500)


def test_prod_has_its_own_threshold() -> None:
    world = World(PROD).put(node(), BUSY_PROD, PLACED)
    assert world.reasons(pod("incoming", {"cpu": "1"}, priority=9500)) == [CPU]
    world.put(node_metric(cpu="80", pods=[pod_metric("p", "30")]))
    assert world.reasons(pod("incoming", {"cpu": "1"}, priority=9500)) == [None]
    assert world.reasons(pod("incoming", priority=5500)) == [CPU]  # Batch: the whole node


AGGREGATED = Aggregated(usage_thresholds={"cpu": 65}, usage_aggregation_type="p95", usage_aggregated_duration=300.0)
BY_P95 = {"5m0s": {"p95": {"cpu": "70"}}}


def test_aggregated_replaces_usage() -> None:
    world = World(load_aware(aggregated=AGGREGATED)).put(node(), node_metric(cpu="1", aggregated=BY_P95))
    assert world.reasons(TINY) == [AGGREGATED_CPU]
    world.put(node_metric(cpu="90", aggregated={"5m0s": {"p95": {"cpu": "10"}}}))
    assert world.reasons(TINY) == [None]


def test_missing_aggregation_hides_no_prod_usage() -> None:
    """An aggregation without a resource does not affect Prod pods among themselves, which have known usage."""
    plugin = load_aware(
        aggregated=replace(AGGREGATED, score_aggregation_type="p95"),
        prod_usage_thresholds={"cpu": 40},
        score_according_prod_usage=True,
    )
    memory = {"5m0s": {"p95": {"memory": "1Gi"}}}
    metric = node_metric(cpu="90", aggregated=memory, pods=[pod_metric("p", "50")])
    world = World(plugin).put(node(), PLACED, metric)
    assert world.reasons(pod("incoming", priority=9500)) == [CPU]
    assert world.scores(pod("incoming", priority=9500)) > [0]
    assert world.reasons(pod("incoming", priority=5500)) == [None]


def test_zero_aggregated_disables() -> None:
    """All-zero aggregated thresholds switch the filter off; the plain thresholds do not return."""
    plugin = load_aware(aggregated=Aggregated({"cpu": 0}, "p95"))
    assert World(plugin).put(node(), node_metric(cpu="90")).reasons(TINY) == [None]


def test_unreported_window_counts_estimates() -> None:
    world = World(load_aware(aggregated=AGGREGATED)).put(node(), node_metric(cpu="90"))
    assert world.reasons(TINY) == [None]
    assert world.put(pod("p", {"cpu": "66"}, node="n")).reasons(TINY) == [AGGREGATED_CPU]


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ('{"usageThresholds": {"cpu": 90}}', None),
        ('{"UsageThresholds": {"cpu": 90}}', None),  # Go matches names in any case
        ('{"usageThresholds": {"cpu": 90}, "other": 1}', None),
        ('{"usageThresholds": {}}', CPU),  # empty: the arguments stay
        ('{"usageThresholds": {"cpu": 90.0}}', CPU),  # no integer: the annotation is ignored
        ('{"usageThresholds": {"cpu": "90"}}', CPU),
        ('{"usageThresholds": {"cpu": 90}, "aggregatedUsage": {"usageAggregatedDuration": "5"}}', CPU),
        ('{"usageThresholds": {"cpu": 0}}', None),  # off
        ('{"usageThresholds": {"x.io/y": 1}}', None),  # only names without a metric: off
        ('{"usageThresholds": {"cpu": -1}}', CPU),  # below anything
        ("{", CPU),
        ("[]", CPU),
    ],
)
def test_node_annotation_overrides(annotation: str, reason: str | None) -> None:
    item = node(annotations={names.ANNOTATION_USAGE_THRESHOLDS: annotation})
    assert World().put(item, node_metric(cpu="80")).reasons(TINY) == [reason]


def test_node_annotation_may_aggregate() -> None:
    group = {"usageThresholds": {"cpu": 65}, "usageAggregationType": "p95"}
    item = node(annotations={names.ANNOTATION_USAGE_THRESHOLDS: json.dumps({"aggregatedUsage": group})})
    metric = node_metric(cpu="1", aggregated=BY_P95)
    assert World().put(item, metric).reasons(TINY) == [AGGREGATED_CPU]
    del group["usageAggregationType"]
    item = node(annotations={names.ANNOTATION_USAGE_THRESHOLDS: json.dumps({"aggregatedUsage": group})})
    assert World().put(item, metric).reasons(TINY) == [None]


def test_in_flight_pods_count() -> None:
    world = World().put(node(), node_metric(cpu="60"))
    world.cache.charge(world.request(pod("first", {"cpu": "5"})), ["n"], NOW)
    assert world.reasons(pod("second", {"cpu": "1"})) == [CPU]
    world.put(pod("first", {"cpu": "5"}, node="n"))
    assert world.reasons(pod("second", {"cpu": "1"})) == [CPU]
    world.cache.delete_pod("uid-first")
    assert world.reasons(pod("second", {"cpu": "1"})) == [None]


def test_prod_in_flight_counts_apart() -> None:
    world = World(PROD).put(node(), node_metric(cpu="60"))
    world.cache.charge(world.request(pod("batch", {names.BATCH_CPU: "39k"}, priority=5500)), ["n"], NOW)
    assert world.reasons(pod("second", {"cpu": "2"}, priority=9500)) == [None]
    world.cache.charge(world.request(pod("prod", {"cpu": "39"}, priority=9500)), ["n"], NOW)
    assert world.reasons(pod("second", {"cpu": "2"}, priority=9500)) == [CPU]


def test_refusal_is_not_resolved_by_eviction() -> None:
    """kube-scheduler must not evict pods because a node is hot."""
    world = World().put(node(), node_metric(cpu="90"))
    verdict = world.plugin.filter(world.request(TINY), world.nodes())
    refusal = verdict.refusal(0)
    assert refusal is not None
    assert not refusal.eviction_helps
    assert not verdict.passes[0]


def test_each_node_is_compared_on_its_own() -> None:
    world = World().put(*(node(name) for name in "abc"), node_metric("b", cpu="90"))
    world.put(node_metric("a", cpu="10"), node_metric("c", memory="99Gi"))
    assert world.reasons(TINY, "a", "b", "c") == [None, CPU, MEMORY]
    assert world.reasons(TINY, "b", "a") == [CPU, None]


@pytest.mark.timeout(30)
@given(st.integers(0, 100), st.integers(0, 2**53), st.integers(-3, 3))
@example(28, 100_000, 1)
def test_load_below_ceiling_passes(limit: int, allocatable: int, beside: int) -> None:
    """A load not above the ceiling passes by its rounded percentage; the next larger one fails, on usual nodes.

    Only exactly half a percent above the threshold depends on the doubles.
    """
    most = ceiling(limit, allocatable)
    if not limit or not allocatable:
        assert most == 2**63 - 1
        return
    load = max(most + beside, 0)
    passes = int(usage_percent(np.array([load]), np.array([allocatable]))[0]) <= limit
    assert passes or load > most
    half = 200 * load == (2 * limit + 1) * allocatable
    assert allocatable >= 2**42 or passes is (load <= most) or (half and load == most + 1)


BAD_ANNOTATIONS = [
    (names.ANNOTATION_RAW_ALLOCATABLE, '{"cpu":"-1"}', "cpu: '-1' is negative"),
    (names.ANNOTATION_RAW_ALLOCATABLE, '{"cpu":"-1","memory":"-9E"}', "cpu: '-1' is negative"),
    (names.ANNOTATION_USAGE_THRESHOLDS, '{"usageThresholds":{"cpu":1000000000000000}}', "write 0..100"),
    (names.ANNOTATION_USAGE_THRESHOLDS, '{"usageThresholds":{"cpu":-1}}', "cpu: -1 is not a threshold"),
    (names.ANNOTATION_USAGE_THRESHOLDS, '{"prodUsageThresholds":{"memory":101}}', "memory: 101 is not a threshold"),
    (
        names.ANNOTATION_USAGE_THRESHOLDS,
        '{"aggregatedUsage":{"usageThresholds":{"cpu":10000000000},"usageAggregationType":"p95"}}',
        "cpu: 10000000000 is not a threshold",
    ),
    (names.ANNOTATION_USAGE_THRESHOLDS, " " * 5000 + "{}", "longer than 4096 characters"),
]


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("annotation", "text", "says"), BAD_ANNOTATIONS)
def test_bad_annotation_is_refused_by_name(annotation: str, text: str, says: str) -> None:
    for used, reason in (("80", CPU), ("60", None)):
        world = World().put(
            node(annotations={annotation: text}), node_metric(cpu=used, memory="1Gi", aggregated=BY_P95)
        )
        assert world.reasons(TINY) == [reason]
        assert f"annotation {annotation} is ignored: " in world.cache.failures["n"]
        assert says in world.cache.failures["n"]
        world.put(node())
        assert world.reasons(TINY) == [reason]
        assert not world.cache.failures


@pytest.mark.parametrize("allocatable", [{"cpu": "-1"}, {"memory": "-5Gi"}, {"cpu": -1e308}])
def test_negative_allocatable_is_refused_by_name(allocatable: Json) -> None:
    world = World().put(node(), node_metric(cpu="60"))
    bad = node()
    bad["status"]["allocatable"] |= allocatable
    with pytest.raises(QuantityError, match=f"status.allocatable: {next(iter(allocatable))}: .* is negative"):
        world.cache.put_node(bad)
    assert world.reasons(TINY) == [None]


# Score


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
    """Return a report with usage of only these amounts, like koordlet's without its page-cache collector."""
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
        ({}, _using(cpu="10"), 0),  # a report without memory does not mean that none is used
        (BY_CPU, _using(cpu="10"), 90),
        ({}, _using(), 0),
        ({"resource_weights": {"cpu": 0}}, _using(cpu="1"), 0),
        ({"aggregated": Aggregated(score_aggregation_type="p95"), **BY_CPU}, node_metric(aggregated=P95), 30),
    ],
)
def test_score(arguments: Json, metric: Json, score: int) -> None:
    assert _scores(World(load_aware(**arguments)).put(node(), metric)) == [score]


@pytest.mark.parametrize(
    ("updated", "cpu"),
    [
        (-180, "1"),  # too old
        (None, "1"),  # never
        (0, None),  # without node usage
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
