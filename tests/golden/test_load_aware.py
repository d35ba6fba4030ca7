"""LoadAwareScheduling against a second opinion, and the second opinion against what Koordinator recorded."""

import json
import random
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.fuzz.strength import fuzz
from tests.golden.__main__ import VECTORS
from tests.golden.adapters.load_aware_cache import CACHE
from tests.golden.results import difference
from tests.golden.runner import Outcome, judge
from tests.golden.second_opinion import load_aware as second
from tests.golden.second_opinion.load_aware_verdict import question, reason, score

Json = dict[str, Any]


def _recorded(family: str) -> list[Any]:
    vectors = json.loads((VECTORS / f"{family}.json").read_text(encoding="utf-8"))
    return [pytest.param(vector, id=vector["name"]) for vector in vectors]


@pytest.mark.parametrize("vector", _recorded("loadaware_cache"))
def test_model_answers_recorded_caches(vector: Json) -> None:
    """For Koordinator, the model says of every recorded cache what Koordinator said."""
    assert difference(vector["expected"], second.states(vector["input"], ours=False), None) is None


@pytest.mark.parametrize("vector", _recorded("loadaware_filter"))
def test_model_answers_recorded_filters(vector: Json) -> None:
    """The model refuses what Koordinator refused, for the same reason."""
    assert reason(question(vector["input"], ours=False)) == vector["expected"]["reason"]


@pytest.mark.parametrize("vector", _recorded("loadaware_score"))
def test_model_answers_recorded_scores(vector: Json) -> None:
    """The model scores as Koordinator did."""
    assert score(question(vector["input"], ours=False)) == vector["expected"]["score"]


def _with_negative_factor(given: Json) -> Json:
    """The same question about a pod that says that it will use less than nothing."""
    metadata = given["pod"]["metadata"]
    annotations = {**(metadata.get("annotations") or {}), second.FACTORS: '{"cpu": -100, "memory": 50}'}
    pod = {**given["pod"], "metadata": {**metadata, "annotations": annotations}}
    return {**given, "pod": pod, "args": {**(given.get("args") or {}), "allowCustomizeEstimation": True}}


@pytest.mark.parametrize("vector", _recorded("loadaware_filter") + _recorded("loadaware_score"))
def test_negative_factors_have_a_rule(vector: Json) -> None:
    """What Koordinator makes of a negative factor passes, or falls under the rule that says that we ignore it."""
    given = _with_negative_factor(vector["input"])
    asked = question(given, ours=False)
    if given["op"] == "filter":
        expected: Json = {"reason": reason(asked), "allowed": reason(asked) is None}
    else:
        expected = {"score": score(asked)}
    found = judge(f"loadaware_{given['op']}", {"name": "unseen", "input": given, "expected": expected})
    assert found.outcome in (Outcome.PASSED, Outcome.DEVIATION), found.detail


# Events that nobody recorded

AMOUNTS = ("0", "250m", "1", "1500u", "3", "4k")
LABEL = "koordinator.sh/priority-class"


def _at(seconds: int) -> str:
    return f"2025-01-01T00:{10 + seconds // 60:02d}:{seconds % 60:02d}Z"


def _pod(lot: random.Random) -> Json:
    name = lot.choice("pqr")
    annotations = {
        second.FACTORS: lot.choice(['{"cpu": 50}', '{"cpu": 150, "memory": 0}', '{"cpu": -5}', "no", '{"cpu": "1"}']),
        second.AFTER_SCHEDULED: lot.choice(["90", "0", "-1", "soon", " 5"]),
        second.AFTER_INITIALIZED: lot.choice(["45", "0", "+5"]),
        second.RESERVE_POD: lot.choice(["true", "false"]),
    }
    kept = {key: text for key, text in annotations.items() if lot.random() < 0.15}
    labels = {LABEL: lot.choice(["koord-prod", "koord-mid", "koord-batch", "koord-free", "odd"])}
    cpu = lot.choice(["cpu", "kubernetes.io/mid-cpu", "kubernetes.io/batch-cpu"])
    resources = {
        kind: {cpu: lot.choice(AMOUNTS), "memory": lot.choice(["0", "1Gi", "3G", "1500m"])}
        for kind in ("requests", "limits")
        if lot.random() < 0.6
    }
    kinds = [kind for kind in ("PodScheduled", "Initialized") if lot.random() < 0.4]
    conditions = [
        {"type": kind, "status": lot.choice(["True", "False"]), "lastTransitionTime": _at(lot.randrange(0, 240, 30))}
        for kind in kinds
    ]
    spec: Json = {"containers": [{"name": "c", "resources": resources}]}
    if lot.random() < 0.85:
        spec["nodeName"] = lot.choice(["a", "a", "b"])
    if lot.random() < 0.7:
        spec["priority"] = lot.choice([9500, 9000, 7500, 5500, 3500, 0])
    metadata: Json = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "annotations": kept}
    if lot.random() < 0.25:
        metadata["labels"] = labels
    phase = lot.choice(["Pending", "Running", "Running", "Running", "Succeeded", "Failed"])
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, "conditions": conditions}}


def _metric(lot: random.Random) -> Json:
    pods: list[Json | None] = [
        {
            "namespace": "ns",
            "name": name,
            "priority": lot.choice(["koord-prod", "koord-batch", ""]),
            "podUsage": {"resources": lot.choice([{}, {"cpu": "0"}, {"cpu": "2", "memory": "2Gi", "gpu": "1"}])},
        }
        for name in "pqrs"
        if lot.random() < 0.6
    ]
    windows = [
        {"duration": duration, "usage": {"p95": {"resources": lot.choice([{}, {"cpu": "7"}])}, "avg": None}}
        for duration in ("5m0s", "300s", "30m0s")
        if lot.random() < 0.4
    ]
    status: Json = {"podsMetric": [*pods, None]}
    if lot.random() < 0.8:
        status["updateTime"] = _at(lot.randrange(0, 240, 30))
    if lot.random() < 0.8:
        measured = {"nodeUsage": {"resources": {"cpu": lot.choice(AMOUNTS), "memory": "5Gi"}}}
        status["nodeMetric"] = measured | {
            "aggregatedNodeUsages": windows,
            "systemUsage": {"resources": {"cpu": "1"}},
        }
    spec = lot.choice([{}, {"metricCollectPolicy": {"reportIntervalSeconds": lot.choice([30, 60, 180])}}])
    return {"metadata": {"name": lot.choice("ab")}, "spec": spec, "status": status}


def _event(lot: random.Random) -> Json:
    kind = lot.choice(
        [
            "nodeMetricUpsert",
            "nodeMetricDelete",
            "podAdd",
            "podUpdate",
            "podUpdate",
            "podDelete",
            "reserve",
            "unreserve",
        ]
    )
    event: Json = {"type": kind, "checkpoint": lot.random() < 0.4, "at": _at(lot.randrange(240))}
    if kind == "nodeMetricUpsert":
        return event | {"nodeMetric": _metric(lot)}
    if kind == "nodeMetricDelete":
        return event | {"node": lot.choice(["a", "b", "unknown"])}
    event["pod"] = _pod(lot)
    if kind in ("reserve", "unreserve"):
        event["node"] = lot.choice("ab")
    elif kind == "podUpdate" and lot.random() < 0.4:
        event["oldPod"] = _pod(lot)
    return event


def _vector(seed: int) -> Json:
    lot = random.Random(seed)  # noqa: S311 - a repeatable test
    args: Json = {
        "estimatedScalingFactors": lot.choice([None, {"cpu": 100, "memory": 100}, {"cpu": 85}]),
        "prodUsageIncludeSys": lot.random() < 0.3,
        "allowCustomizeEstimation": lot.random() < 0.6,
        "estimatedSecondsAfterPodScheduled": lot.choice([None, 0, 60]),
        "estimatedSecondsAfterInitialized": lot.choice([None, 0, 120]),
    }
    return {
        "op": "cache",
        "now": _at(0),
        "args": args,
        "applyDefaults": lot.random() < 0.3,
        "resources": lot.choice([["cpu", "memory"], ["cpu", "gpu", "memory"], None]),
        "nodes": ["a", "b", "unknown"],
        "events": [_event(lot) for _ in range(lot.randrange(1, 14))],
    }


@fuzz(seed=st.integers(0, 2**32))
def test_caches_of_any_history(seed: int) -> None:
    """Whatever comes in whatever order, the cache holds what the second opinion works out anew."""
    vector = _vector(seed)
    assert difference(second.states(vector, ours=True), CACHE["cache"](vector), None) is None


@fuzz(seed=st.integers(0, 2**32))
def test_unseen_caches_have_a_rule(seed: int) -> None:
    """Koordinator's answer to any events passes, or falls under the rule that says what we see beyond."""
    vector = _vector(seed)
    recorded = {"name": "unseen", "input": vector, "expected": second.states(vector, ours=False)}
    assert judge("loadaware_cache", recorded).outcome in (Outcome.PASSED, Outcome.DEVIATION)
