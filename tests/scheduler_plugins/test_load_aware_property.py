"""LoadAwareScheduling over arrays says of every node what the rules of the reference say of that node alone."""

import json
import random
from typing import Any

from hypothesis import example
from hypothesis import strategies as st

from crds import names
from scheduler_plugins.arguments import decode
from scheduler_plugins.plugins.load_aware import NAME, LoadAware
from scheduler_plugins.snapshot.cache import ClusterCache
from tests.fuzz.strength import fuzz
from tests.golden.second_opinion.load_aware import Model, effective
from tests.golden.second_opinion.load_aware_verdict import Question, reason, score
from tests.scheduler_plugins.objects import NOW, Json, at, condition, node, node_metric, pod, pod_metric

NODES = 6


def _percents(lot: random.Random) -> Json | None:
    return lot.choice([None, {}, {"cpu": 0}, {"cpu": lot.randrange(20, 101)}, {"cpu": 60, "memory": 70, "gpu": 50}])


def _arguments(lot: random.Random) -> Json:
    """Any combination of arguments; those that contradict one another are left out by `_without_contradiction`."""
    aggregated = {
        "usageThresholds": _percents(lot),
        "usageAggregationType": lot.choice(["", "p95", "avg"]),
        "usageAggregatedDuration": lot.choice(["0s", "5m0s", "10m0s"]),
        "scoreAggregationType": lot.choice(["", "p95", "p50"]),
        "scoreAggregatedDuration": lot.choice(["0s", "300s", "10m0s"]),
    }
    return {
        "filterExpiredNodeMetrics": lot.choice([None, True, False]),
        "nodeMetricExpirationSeconds": lot.choice([None, 60, 300]),
        "enableScheduleWhenNodeMetricsExpired": lot.choice([None, True]),
        "resourceWeights": lot.choice([None, {"cpu": 2, "memory": 1}]),
        "dominantResourceWeight": lot.choice([0, 3]),
        "usageThresholds": _percents(lot),
        "prodUsageThresholds": _percents(lot),
        "prodUsageIncludeSys": lot.random() < 0.5,
        "scoreAccordingProdUsage": lot.choice([None, True]),
        "estimatedScalingFactors": lot.choice([None, {"cpu": 100}, {"gpu": 100, "memory": 33}]),
        "estimatedSecondsAfterPodScheduled": lot.choice([None, 120]),
        "estimatedSecondsAfterInitialized": lot.choice([None, 90]),
        "allowCustomizeEstimation": lot.random() < 0.5,
        "aggregated": lot.choice([None, aggregated]),
        "supportedResources": lot.choice([None, ["gpu"]]),
        "usePrediction": lot.random() < 0.5,
        "predictionExpirationSeconds": lot.choice([60, 900]),
    }


def _without_contradiction(arguments: Json) -> Json:
    plugin: LoadAware = decode(LoadAware, arguments, "args").defaulted()
    contradict = any(problem.field == "usePrediction" for problem in plugin.problems())
    return arguments | ({"usePrediction": False} if contradict else {})


def _annotation(lot: random.Random) -> str:
    group = {"usageThresholds": {"cpu": lot.randrange(100)}, "usageAggregationType": lot.choice(["p95", ""])}
    whole = {"usageThresholds": _percents(lot), "prodUsageThresholds": _percents(lot)}
    return lot.choice([json.dumps(whole), json.dumps(whole | {"aggregatedUsage": group}), '{"usageThresholds": 5}'])


def _node(lot: random.Random, name: str) -> Json:
    annotations = {}
    if lot.random() < 0.3:
        annotations[names.ANNOTATION_USAGE_THRESHOLDS] = _annotation(lot)
    if lot.random() < 0.2:
        annotations[names.ANNOTATION_RAW_ALLOCATABLE] = lot.choice(['{"cpu": "48"}', '{"cpu": 12, "gpu": 4}', "no"])
    made = node(name, str(lot.choice([0, 8, 96])), f"{lot.choice([0, 32])}Gi", annotations)
    if lot.random() < 0.5:
        made["status"]["allocatable"]["gpu"] = "8"
    return made


def _pod(lot: random.Random, name: str, on: str = "") -> Json:
    amounts = {"cpu": f"{lot.randrange(0, 9000)}m", "memory": f"{lot.randrange(3)}Gi", "gpu": str(lot.randrange(3))}
    item = pod(name, amounts, amounts if lot.random() < 0.3 else None, node=on)
    item["status"]["conditions"] = [
        condition(kind, -lot.randrange(0, 400, 20)) for kind in ("PodScheduled", "Initialized") if lot.random() < 0.6
    ]
    if lot.random() < 0.8:
        item["spec"]["priority"] = lot.choice([9500, 9500, 7500, 5500, 3500])
    if lot.random() < 0.2:
        item["metadata"]["annotations"] = {names.ANNOTATION_ESTIMATED_SCALING_FACTORS: '{"cpu": 130, "gpu": 50}'}
    return item


def _metric(lot: random.Random, name: str) -> Json:
    windows = [{}, {"5m0s": {"p95": {"cpu": str(lot.randrange(96))}}}, {"5m0s": {"avg": {"memory": "9Gi"}, "p50": {}}}]
    metric = node_metric(
        name,
        cpu=lot.choice([None, str(lot.randrange(96)), "7777m"]),
        memory=f"{lot.randrange(40)}Gi",
        updated=lot.choice([None, -lot.randrange(0, 400, 20)]),
        pods=[
            pod_metric(f"{name}-{number}", str(lot.randrange(9)), priority=lot.choice(["koord-prod", "koord-mid"]))
            for number in range(3)
            if lot.random() < 0.5
        ],
        system={"cpu": "1"},
        aggregated=lot.choice(windows),
        interval=lot.choice([None, 60, 180]),
    )
    if lot.random() < 0.7:
        peak = lot.choice([{}, {"cpu": str(lot.randrange(96))}, {"cpu": "40", "memory": "20Gi", "other": "1"}])
        prediction: Json = {"classes": [{"name": "sys", "peak": {"cpu": "1"}}, {"name": "node", "peak": peak}]}
        if lot.random() < 0.9:
            prediction["time"] = at(-lot.choice([0, 59, 60, 899, 900, -30]))
        metric["status"]["prediction"] = prediction
    if lot.random() < 0.3:
        metric["status"]["conditions"] = [condition("PredictionReady", 0, lot.choice(["True", "False", "Unknown"]))]
    return metric


class _Both:
    """Our cache and the second opinion, fed with the same."""

    def __init__(self, lot: random.Random) -> None:
        arguments = _without_contradiction(_arguments(lot))
        self.plugin: LoadAware = decode(LoadAware, arguments, "args").defaulted()
        self.cache = ClusterCache(self.plugin.load_rules(), {NAME: self.plugin})
        self.model = Model(effective(arguments, defaults=True), ours=True)
        self.nodes = [_node(lot, f"n{index}") for index in range(NODES)]
        self.in_flight: dict[str, list[Json]] = {}
        for item in self.nodes:
            self._fill(lot, item)

    def _fill(self, lot: random.Random, item: Json) -> None:
        name = item["metadata"]["name"]
        self.cache.put_node(item)
        self.in_flight[name] = []
        for number in range(lot.randrange(4)):
            placed = _pod(lot, f"{name}-{number}", name)
            self.cache.put_pod(placed, NOW)
            self.model.deliver({"type": "podAdd", "pod": placed}, NOW)
        if lot.random() < 0.9:
            metric = _metric(lot, name)
            self.cache.put_node_metric(metric)
            self.model.deliver({"type": "nodeMetricUpsert", "nodeMetric": metric}, NOW)
        for number in range(lot.choice([0, 0, 1, 2])):
            coming = _pod(lot, f"coming-{name}-{number}")
            self.cache.charge(self.cache.read(coming), [name], NOW)
            self.in_flight[name].append(coming)

    def questions(self, item: Json) -> list[Question]:
        """The pod against each node."""
        flying = self.in_flight
        return [Question(self.model, each, item, NOW, flying[each["metadata"]["name"]]) for each in self.nodes]


def _refused(both: _Both, item: Json) -> tuple[list[str | None], list[int], list[Any]]:
    nodes, _ = both.cache.freeze(NOW).select([each["metadata"]["name"] for each in both.nodes])
    request = both.cache.read(item)
    verdict = both.plugin.filter(request, nodes)
    reasons = [refusal.reason if refusal else None for refusal in map(verdict.refusal, range(NODES))]
    scores: list[int] = both.plugin.score(request, nodes).tolist()
    return reasons, scores, list(both.plugin.explain(request, nodes))


@example(49884)  # reports that are silent about the CPU: one of an aggregation alone, one beside a predicted peak
@example(9521)
@fuzz(seed=st.integers(0, 2**32))
def test_arrays_match_the_reference(seed: int) -> None:
    """Filter and score over arrays say for every node what the rules say for that node alone."""
    lot = random.Random(seed)  # noqa: S311 - a repeatable test
    both, item = _Both(lot), _pod(lot, "incoming")
    if lot.random() < 0.1:
        item["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d"}]
    reasons, scores, told = _refused(both, item)
    questions = both.questions(item)
    assert reasons == [reason(question) for question in questions]
    assert scores == [score(question) for question in questions]
    assert ["binding" in each for each in told] == [each is not None for each in reasons]
