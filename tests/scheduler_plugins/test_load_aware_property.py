"""LoadAwareScheduling over arrays gives what a loop over nodes gives."""

import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugins.plugins.load_aware import EXPIRED, LoadAware
from scheduler_plugins.plugins.load_aware_arguments import Aggregated
from scheduler_plugins.snapshot.pod import PodRequest
from tests.scheduler_plugins.objects import NOW, Json, World, load_aware, node, node_metric, pod, pod_metric

RESOURCES = ("cpu", "memory")


def _round(percent: float) -> int:
    return math.floor(percent + 0.5)


def _reason(world: World, item: Json, request: PodRequest, now: float) -> str | None:
    """The rules of the filter, one node at a time, in their order."""
    plugin, name = world.plugin, item["metadata"]["name"]
    ledger = world.cache.ledger(name)
    by_prod = request.prod and any((plugin.prod_usage_thresholds or {}).values())
    aggregated = plugin.aggregated if plugin.aggregated and plugin.aggregated.filters and not by_prod else None
    limits = (
        plugin.prod_usage_thresholds
        if by_prod
        else aggregated.usage_thresholds
        if aggregated
        else plugin.usage_thresholds
    )
    if not any((limits or {}).values()) or ledger is None or ledger.report is None:
        return None
    updated, limit = ledger.report.update_time, plugin.node_metric_expiration_seconds
    if plugin.filter_expired_node_metrics and (updated is None or now - updated >= (limit or 0)):
        return None if plugin.enable_schedule_when_node_metrics_expired else EXPIRED
    if ledger.report.node_usage is None:
        return None
    statistic = (aggregated.usage_aggregation_type, aggregated.usage_aggregated_duration) if aggregated else None
    load = ledger.prod_load if by_prod else ledger.load(statistic)
    for index, resource in enumerate(RESOURCES):
        threshold, total = (limits or {}).get(resource, 0), world.cache._nodes[name].allocatable.get(resource, 0)
        if threshold and total and _round((load[index] + request.estimate[index]) / total * 100) > threshold:
            return f"node(s) {resource} {'aggregated ' if aggregated else ''}usage exceed threshold"
    return None


def _score(world: World, item: Json, request: PodRequest, now: float) -> int:
    """The rules of the score, one node at a time."""
    plugin, name = world.plugin, item["metadata"]["name"]
    ledger = world.cache.ledger(name)
    if ledger is None or ledger.report is None or ledger.report.node_usage is None:
        return 0
    updated, limit = ledger.report.update_time, plugin.node_metric_expiration_seconds
    if updated is None or now - updated >= (limit or 0):
        return 0
    load = ledger.prod_load if plugin.score_according_prod_usage and request.prod else ledger.load()
    free = []
    for index, resource in enumerate(RESOURCES):
        total, used = world.cache._nodes[name].allocatable.get(resource, 0), load[index] + request.estimate[index]
        free.append(0 if total == 0 or used > total else (total - used) * 100 // total)
    weights = [(plugin.resource_weights or {}).get(name, 0) for name in RESOURCES]
    dominant = min(100, *free) * plugin.dominant_resource_weight
    weighed = sum(share * weight for share, weight in zip(free, weights, strict=True))
    return (weighed + dominant) // (sum(weights) + plugin.dominant_resource_weight)


def _plugin(lot: random.Random) -> LoadAware:
    percents = [{}, {"cpu": 0}, {"cpu": lot.randrange(20, 101)}, {"cpu": 60, "memory": 70}]
    return load_aware(
        filter_expired_node_metrics=lot.choice([None, False]),
        enable_schedule_when_node_metrics_expired=lot.choice([None, True]),
        usage_thresholds=lot.choice(percents),
        prod_usage_thresholds=lot.choice([None, *percents]),
        score_according_prod_usage=lot.choice([None, True]),
        prod_usage_include_sys=lot.random() < 0.5,
        dominant_resource_weight=lot.choice([0, 3]),
        resource_weights=lot.choice([None, {"cpu": 2, "memory": 1}]),
        aggregated=lot.choice([None, Aggregated({"cpu": 50}, "p95", lot.choice([0.0, 300.0, 600.0]))]),
    )


def _fill(world: World, lot: random.Random) -> list[Json]:
    nodes = [node(f"n{i}", cpu=str(lot.choice([0, 8, 96])), memory=f"{lot.choice([0, 32])}Gi") for i in range(6)]
    for item in nodes:
        name = item["metadata"]["name"]
        world.put(item)
        for number in range(lot.randrange(3)):
            requests = {"cpu": str(lot.randrange(1, 20)), "memory": "3Gi"}
            priority = lot.choice([9500, 7500])
            placed = pod(f"{name}-{number}", requests, node=name, scheduled=-lot.randrange(200), priority=priority)
            world.put(placed)
        if lot.random() < 0.8:
            reported = [pod_metric(f"{name}-{number}", str(lot.randrange(1, 9))) for number in range(lot.randrange(3))]
            world.put(
                node_metric(
                    name,
                    cpu=lot.choice([None, str(lot.randrange(96))]),
                    memory=f"{lot.randrange(40)}Gi",
                    updated=lot.choice([None, -lot.randrange(300)]),
                    pods=reported,
                    system={"cpu": "1"},
                    aggregated=lot.choice([{}, {"5m0s": {"p95": {"cpu": str(lot.randrange(96))}}}]),
                )
            )
    return nodes


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_arrays_match_loop(seed: int) -> None:
    """Filter and score over arrays say for every node what the rules say for that node alone."""
    lot = random.Random(seed)  # noqa: S311 - a repeatable test
    world = World(_plugin(lot))
    nodes = _fill(world, lot)
    names = [item["metadata"]["name"] for item in nodes]
    incoming = pod("incoming", {"cpu": str(lot.randrange(9))}, priority=lot.choice([9500, 5500]))
    request = world.request(incoming)
    assert world.reasons(incoming, *names) == [_reason(world, item, request, NOW) for item in nodes]
    assert world.scores(incoming, *names) == [_score(world, item, request, NOW) for item in nodes]
