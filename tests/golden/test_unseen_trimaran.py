"""Vectors of Trimaran and NodeResourcesAllocatable that nobody recorded: adapters and rules hold for them, too."""

import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.fuzz.strength import fuzz
from tests.golden.runner import Outcome, judge
from tests.golden.second_opinion import allocatable, low_risk
from tests.scheduler_plugins.objects import Json, node, pod

FINE = {Outcome.PASSED, Outcome.DEVIATION}


def _outcome(family: str, given: Json, expected: Json, tolerance: float | None = None) -> Outcome:
    vector = {"name": "unseen", "input": given, "expected": expected, "source": "", "tolerance": tolerance}
    judged = judge(family, {key: value for key, value in vector.items() if value is not None})
    assert judged.outcome in FINE, judged.detail
    return judged.outcome


# Scores


def _amounts(lot: random.Random) -> Json:
    cpu = lot.choice(["0", "100m", "0.0005", "750m", "2", "3.3"])
    memory = lot.choice(["0", "512Mi", "1G", "3Gi", "6.5Gi"])
    return {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if lot.random() < 0.8}


def _pod(lot: random.Random, name: str) -> Json:
    if lot.random() < 0.15:
        return pod(name)
    item = pod(name, _amounts(lot), _amounts(lot))
    if lot.random() < 0.2:
        item["spec"]["overhead"] = {"cpu": "10m", "memory": "1Mi"}
    if lot.random() < 0.3:
        resources = {"requests": _amounts(lot), "limits": _amounts(lot)}
        item["spec"]["initContainers"] = [{"name": "init", "resources": resources}]
    return item


def _metric(lot: random.Random) -> Json:
    value = lot.choice([0, 5, 40, 100, round(lot.uniform(0, 110), 3)])
    kind = lot.choice(["CPU", "CPU", "Memory", "Memory", "cpu", "Disk"])
    return {
        "name": "",
        "type": kind,
        "operator": lot.choice(["AVG", "AVG", "STD", "Latest", "", "MAX"]),
        "value": value,
    }


def _score_vector(lot: random.Random) -> Json:
    weights = {name: lot.choice([0, 0.3, 0.5, 1]) for name in ("cpu", "memory")}
    names = [f"n{index}" for index in range(lot.randrange(1, 5))]
    known = {name: {"metrics": [_metric(lot) for _ in range(lot.randrange(5))]} for name in names if lot.random() < 0.8}
    nodes = [
        {
            "node": node(name, lot.choice(["0", "4", "16"]), lot.choice(["0", "8Gi", "30Gi"])),
            "pods": [_pod(lot, f"p{number}") for number in range(lot.randrange(4))],
        }
        for name in names
    ]
    return {
        "op": "score",
        "args": {"smoothingWindowSize": lot.choice([1, 5, 9]), "riskLimitWeights": weights},
        "pod": _pod(lot, "incoming"),
        "nodes": nodes,
        "watcher": {"timestamp": 0, "window": {}, "data": {"NodeMetricsMap": known}},
    }


@fuzz(seed=st.integers(0, 2**32))
def test_scores_match_the_peer(seed: int) -> None:
    """What the peer would score, or what the rule for nodes without metrics says."""
    vector = _score_vector(random.Random(seed))  # noqa: S311 - a repeatable test
    theirs = low_risk.scores(vector, parity=True)
    outcome = _outcome("low_risk_overcommitment", vector, {"scores": theirs})
    if theirs != low_risk.scores(vector):
        assert outcome is Outcome.DEVIATION
    best = max(theirs, key=lambda each: int(each["score"]))["name"]
    _outcome("low_risk_overcommitment", {**vector, "op": "schedule"}, {"selectedNode": best})


def test_parity_is_the_peer() -> None:
    """With `parity: true` nothing deviates."""
    lot = random.Random(7)  # noqa: S311 - a repeatable test
    for _ in range(20):
        vector = _score_vector(lot)
        vector["args"]["parity"] = True
        expected = {"scores": low_risk.scores(vector, parity=True)}
        assert _outcome("low_risk_overcommitment", vector, expected) is Outcome.PASSED


def test_wrong_scores_fail() -> None:
    """A rule asserts what we answer instead: another score is a failure, with metrics or without."""
    vector = _score_vector(random.Random(3))  # noqa: S311 - a repeatable test
    for watcher in (vector["watcher"], None):
        given = {**vector, "pod": pod("p", {"cpu": "1"}), "watcher": watcher}
        wrong = [{**each, "score": -1} for each in low_risk.scores(given)]
        name = wrong[0]["name"]
        judged = judge("low_risk_overcommitment", {"name": "x", "input": given, "expected": {"scores": wrong}})
        found = judged.outcome
        lacks = any(not low_risk.metrics_of(given, each["node"]["metadata"]["name"]) for each in given["nodes"])
        assert found is (Outcome.DEVIATION if lacks else Outcome.FAILED), name


@pytest.mark.parametrize(("measured", "value", "theirs", "ours"), [(80, -5, 83, 33), (20, 1001, 33, 83)])
def test_no_measurements_are_left_out(measured: int, value: int, theirs: int, ours: int) -> None:
    """A percentage that cannot be is no measurement; the peer cuts it to 0..100."""
    metrics = [{"type": "CPU", "operator": "AVG", "value": each} for each in (measured, value)]
    given = {
        "op": "score",
        "args": {},
        "pod": pod("p", {"cpu": "1"}, {"cpu": "1"}),
        "nodes": [{"node": node("n", "4", "8Gi"), "pods": [pod("q", {"cpu": "1"}, {"cpu": "4"})]}],
        "watcher": {"data": {"NodeMetricsMap": {"n": {"metrics": metrics}}}},
    }
    expected = {"scores": [{"name": "n", "score": theirs}]}
    assert _outcome("low_risk_overcommitment", given, expected) is Outcome.DEVIATION
    assert low_risk.scores(given) == [{"name": "n", "score": ours}]


@fuzz(seed=st.integers(0, 2**32))
def test_allocatable_matches_fractions(seed: int) -> None:
    """Scores of NodeResourcesAllocatable, with and without arguments."""
    lot = random.Random(seed)  # noqa: S311 - a repeatable test
    nodes = [node(f"n{index}", lot.choice(["1", "3500m", "64"]), lot.choice(["7", "3Gi", "4Ti"])) for index in range(4)]
    listed = [{"name": name, "weight": lot.choice([1, 7, 10**12])} for name in lot.sample(["cpu", "memory", "pods"], 2)]
    for arguments in ({"mode": lot.choice(["Least", "Most"]), "resources": listed}, {"mode": "Most"}):
        vector = {"op": "score", "args": arguments, "pod": pod("p"), "nodes": nodes, "existingPods": []}
        expected = {"scores": allocatable.scores(vector)}
        assert _outcome("noderesources_allocatable", vector, expected) is Outcome.PASSED
    nothing = {"scores": [{"name": each["metadata"]["name"], "score": 0} for each in nodes]}
    absent = {"op": "score", "args": None, "pod": pod("p"), "nodes": nodes}
    _outcome("noderesources_allocatable", absent, nothing)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"mode": "Most"}, {"error": None, "mode": "Most"}),
        ({"mode": ""}, {"error": None, "mode": "Least"}),
        (None, {"error": None, "mode": ""}),
        ({"mode": "most"}, {"error": 'mode: Invalid value: "most": invalid support ModeType'}),
        (
            {"mode": "x", "resources": [{"name": "cpu", "weight": -1}]},
            {
                "error": "[resources[0].weight: Invalid value: -1: resource weight of cpu should be a positive value, "
                'got :-1, mode: Invalid value: "x": invalid support ModeType]'
            },
        ),
    ],
)
def test_allocatable_is_made(arguments: Any, expected: Json) -> None:  # noqa: ANN401
    """What the peer's constructor answers, in its words or ours."""
    _outcome("noderesources_allocatable", {"op": "new_plugin", "args": arguments}, expected)


# Arguments


def _peer_defaults(arguments: Json) -> Json:
    """What the peer fills in and repairs."""
    effective: Json = {key: value for key, value in arguments.items() if value is not None}
    provider = {name: each for name, each in (arguments.get("metricProvider") or {}).items() if each is not None}
    if arguments.get("watcherAddress") is None and not provider.get("type"):
        provider["type"] = "KubernetesMetricsServer"
    if provider.get("type") == "Prometheus" and provider.get("insecureSkipVerify") is None:
        provider["insecureSkipVerify"] = True
    window, weights = (
        arguments.get("smoothingWindowSize"),
        arguments.get("riskLimitWeights") or {"cpu": 0.5, "memory": 0.5},
    )
    effective["metricProvider"] = provider
    effective["smoothingWindowSize"] = 5 if window is None or window <= 0 else window
    effective["riskLimitWeights"] = {name: each if 0 <= each <= 1 else 0.5 for name, each in weights.items()}
    return effective


def _arguments(lot: random.Random) -> Json:
    weights = {name: lot.choice([-0.1, 0, 0.25, 1, 1.5]) for name in lot.sample(["cpu", "memory", "example.com/a"], 2)}
    provider = {
        "type": lot.choice(["", "Prometheus", "SignalFx", "KubernetesMetricsServer", "prometheus", "Datadog"]),
        "address": lot.choice(["", "http://prometheus:9090", "https://10.0.0.1"]),
        "token": lot.choice(["", "t"]),
        "insecureSkipVerify": lot.choice([None, True, False]),
    }
    whole = {
        "smoothingWindowSize": lot.choice([None, -3, 0, 1, 12]),
        "riskLimitWeights": lot.choice([None, {}, weights]),
        "metricProvider": lot.choice([None, {}, {key: provider[key] for key in lot.sample(list(provider), 3)}]),
        "watcherAddress": lot.choice([None, "", "http://load-watcher:2020"]),
    }
    return {key: whole[key] for key in lot.sample(list(whole), lot.randrange(5))}


@fuzz(seed=st.integers(0, 2**32))
def test_defaults_match_the_peer(seed: int) -> None:
    """Defaults are the peer's, but for the provider and for what it would repair."""
    arguments = _arguments(random.Random(seed))  # noqa: S311 - a repeatable test
    vector = {"op": "defaults", "kind": "LowRiskOverCommitmentArgs", "args": arguments}
    _outcome("trimaran_args", vector, _peer_defaults(arguments))
    _outcome("trimaran_args", {"op": "new_low_risk_plugin", "args": arguments}, {"error": None})


@fuzz(seed=st.integers(0, 2**32))
def test_decoding_matches_the_peer(seed: int) -> None:
    """The same when decoded from a KubeSchedulerConfiguration, with every field, or an error for what is unknown."""
    lot = random.Random(seed)  # noqa: S311 - a repeatable test
    arguments = _arguments(lot)
    wrong: Json = lot.choice(
        [{}, {}, {"riskLimitWeight": 0.4}, {"riskLimitWeight": 7}, {"window": 5}, {"smoothingWindowSize": "5"}]
    )
    expected: Json = {"error": "strict decoding error"}
    if not wrong:
        effective = _peer_defaults(arguments)
        provider = {"type": "", "address": "", "token": "", "insecureSkipVerify": False, **effective["metricProvider"]}
        provider["insecureSkipVerify"] = bool(provider["insecureSkipVerify"])
        expected = {"error": None, "args": {"watcherAddress": "", **effective, "metricProvider": provider}}
    vector = {"op": "decode_plugin_config", "plugin": "LowRiskOverCommitment", "args": {**arguments, **wrong}}
    _outcome("trimaran_args", vector, expected)


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"watcherAddress": "http://lw:2020", "metricProvider": {"type": "nonsense"}}, None),
        ({"watcherAddress": "", "metricProvider": {"type": ""}}, "invalid MetricProvider.Type, got "),
        ({"metricProvider": {"type": "Datadog"}}, "invalid MetricProvider.Type, got Datadog"),
        ({"metricProvider": {"type": "KubernetesMetricsServer"}}, None),
        ({}, "invalid MetricProvider.Type, got "),
    ],
)
def test_collectors_match_the_peer(spec: Mapping[str, Any], error: str | None) -> None:
    """Which providers there are."""
    _outcome("trimaran_args", {"op": "collector_spec", "trimaranSpec": spec}, {"error": error})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"mode": "Most"}, {"mode": "Most"}),
        ({"mode": "most"}, {"mode": "most"}),
        ({"resources": [{"name": "cpu", "weight": 0}]}, {"resources": [{"name": "cpu", "weight": 0}]}),
    ],
)
def test_allocatable_arguments(arguments: Json, expected: Json) -> None:
    """The peer's defaults check nothing; ours do."""
    given = {"kind": "NodeResourcesAllocatableArgs", "args": arguments}
    _outcome("trimaran_args", {"op": "defaults", **given}, expected)
    vector = {"op": "decode_plugin_config", "plugin": "NodeResourcesAllocatable", "args": arguments}
    _outcome("trimaran_args", vector, {"error": None, "args": expected})
