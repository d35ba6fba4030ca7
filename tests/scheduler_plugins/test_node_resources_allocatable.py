"""NodeResourcesAllocatable: small nodes or large nodes first, in exact integers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from scheduler_plugins.arguments import decode
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.plugins.node_resources_allocatable import (
    NAME,
    NodeResourcesAllocatable,
    ResourceWeight,
    counts,
    normalised,
)
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.scheduler_plugins.objects import NOW, Json, pod

INT64_MAX = 2**63 - 1


def _plugin(arguments: Any) -> NodeResourcesAllocatable:  # noqa: ANN401 - JSON
    plugin: NodeResourcesAllocatable = decode(NodeResourcesAllocatable, arguments, "args")
    return plugin


def _node(name: str, amounts: Mapping[str, str]) -> Json:
    return {"metadata": {"name": name, "annotations": {}}, "status": {"allocatable": dict(amounts)}}


def _scores(arguments: Any, *nodes: Json, pods: tuple[Json, ...] = ()) -> list[dict[str, Any]]:  # noqa: ANN401 - JSON
    plugin = _plugin(arguments).defaulted()
    cache = ClusterCache(LoadRules(), {NAME: plugin})
    for item in nodes:
        cache.put_node(item)
    for item in pods:
        cache.put_pod(item, NOW)
    rows, _ = cache.freeze(NOW).select([item["metadata"]["name"] for item in nodes])
    scores = plugin.score(cache.read(pod()), rows).tolist()
    raw = rows.tables[NAME]["raw"].tolist()
    return [
        {"name": name, "raw": each, "score": score} for name, each, score in zip(rows.names, raw, scores, strict=True)
    ]


def _plain(arguments: Any, *amounts: Mapping[str, str]) -> list[int]:  # noqa: ANN401 - JSON
    nodes = [_node(f"n{index}", each) for index, each in enumerate(amounts)]
    return [score["score"] for score in _scores(arguments, *nodes)]


# Worked examples


def test_default_weighs_cores_and_memory() -> None:
    small, large = {"cpu": "8", "memory": "16Gi"}, {"cpu": "16", "memory": "32Gi"}
    result = _scores({}, _node("small", small), _node("large", large))
    assert result == [
        {"name": "small", "raw": -24383, "score": 100},
        {"name": "large", "raw": -48767, "score": 0},
    ]


def test_means_truncate_toward_zero() -> None:
    arguments = {
        "mode": "Least",
        "resources": [{"name": "memory", "weight": 1}, {"name": "example.com/a", "weight": 1}],
    }
    nodes = [
        _node(name, {"memory": memory, "example.com/a": piece})
        for name, memory, piece in (("a", "74", "74"), ("b", "75", "76"), ("c", "76", "76"))
    ]
    assert [(score["raw"], score["score"]) for score in _scores(arguments, *nodes)] == [(-74, 100), (-75, 50), (-76, 0)]


@pytest.mark.parametrize("amounts", [[{"cpu": "4"}], [{"cpu": "4"}, {"cpu": "4"}], [{}, {}]])
def test_equal_nodes_score_nothing(amounts: list[Json]) -> None:
    assert set(_plain({"mode": "Most"}, *amounts)) == {0}


def test_only_nodes_in_question_are_compared() -> None:
    plugin = _plugin({"mode": "Most", "resources": [{"name": "cpu", "weight": 1}]}).defaulted()
    cache = ClusterCache(LoadRules(), {NAME: plugin})
    for name, cpu in (("a", "1"), ("b", "2"), ("c", "4")):
        cache.put_node(_node(name, {"cpu": cpu}))
    snapshot, requested = cache.freeze(NOW), cache.read(pod())
    cycle = Cycle([Enabled(NAME, 1.0, plugin)])
    assert cycle.score(requested, snapshot.select(["a", "b", "c"])[0]).tolist() == [0, 33, 100]
    assert cycle.score(requested, snapshot.select(["b", "a"])[0]).tolist() == [100, 0]
    assert plugin.score(requested, snapshot.select([])[0]).tolist() == []


# Amounts


def test_allocatable_changes_are_followed() -> None:
    plugin = _plugin({"mode": "Most"}).defaulted()
    cache = ClusterCache(LoadRules(), {NAME: plugin})
    for name, cpu in (("a", "1"), ("b", "2"), ("a", "3")):
        cache.put_node(_node(name, {"cpu": cpu}))
    assert plugin.score(cache.read(pod()), cache.freeze(NOW).select(["a", "b"])[0]).tolist() == [100, 0]


@pytest.mark.parametrize(
    ("resource", "known"),
    [
        ("cpu", True),
        ("memory", True),
        ("ephemeral-storage", True),
        ("nvidia.com/gpu", True),
        ("kubernetes.io/mid-cpu", True),
        ("hugepages-2Mi", True),
        ("attachable-volumes-aws-ebs", True),
        ("pods", False),
        ("storage", False),
        ("requests.nvidia.com/gpu", False),
    ],
)
def test_which_resources_count(resource: str, known: bool) -> None:  # noqa: FBT001
    """Resources that kube-scheduler tracks count; the weight of another one only divides."""
    assert counts(resource) is known
    arguments = {"mode": "Most", "resources": [{"name": resource, "weight": 3}, {"name": "memory", "weight": 1}]}
    raw = _scores(arguments, _node("a", {resource: "8", "memory": "8"}))[0]["raw"]
    full = 8000 * 3 + 8 if resource == "cpu" else 8 if resource == "memory" else 32
    assert raw == (full // (1 if resource == "memory" else 4) if known else 2)


def test_nothing_overflows() -> None:
    weights = [{"name": name, "weight": INT64_MAX} for name in ("memory", "ephemeral-storage")]
    nodes = [
        _node("none", {}),
        _node("half", {"memory": str(2**62), "ephemeral-storage": str(2**62)}),
        _node("all", {"memory": "9223372036854775807", "ephemeral-storage": "8Ei"}),
        _node("uneven", {"memory": str(2**53 + 1), "ephemeral-storage": str(2**53 + 1)}),
    ]
    for mode, sign in (("Most", 1), ("Least", -1)):
        result = _scores({"mode": mode, "resources": weights}, *nodes)
        assert [entry["raw"] for entry in result] == [0, sign * 2**62, sign * INT64_MAX, sign * (2**53 + 1)]


def test_wide_spans_are_exact() -> None:
    raw = [0, INT64_MAX // 3, INT64_MAX // 100 * 99, INT64_MAX - 1, INT64_MAX]
    assert normalised(np.array(raw, np.int64)).tolist() == [entry * 100 // INT64_MAX for entry in raw]


# Arguments


@pytest.mark.parametrize(
    ("arguments", "expected_problems"),
    [
        ({"mode": "least"}, ['mode: Invalid value: "least": invalid support ModeType: must be Least or Most']),
        (
            {"resources": [{"name": "cpu", "weight": 0}, {"name": "memory", "weight": -2}]},
            [
                "resources[0].weight: Invalid value: 0: resource weight of cpu should be a positive value, got :0",
                "resources[1].weight: Invalid value: -2: resource weight of memory should be a positive value, got :-2",
            ],
        ),
        ({"resources": [{"name": "cpu"}]}, ["resources[0].weight: Invalid value: 0: resource weight of cpu"]),
        ({"mode": "Most", "resources": [{"name": "a", "weight": 1}]}, []),
        ({"mode": "", "resources": []}, []),
        ({}, []),
    ],
)
def test_invalid_values_are_reported(arguments: Any, expected_problems: list[str]) -> None:  # noqa: ANN401
    result = [f"{problem.field}: {problem.message}" for problem in _plugin(arguments).defaulted().problems()]
    assert len(result) == len(expected_problems)
    assert all(text.startswith(expected) for text, expected in zip(result, expected_problems, strict=True))


def test_explains_means() -> None:
    plugin = NodeResourcesAllocatable("Least", (ResourceWeight("cpu", 1),))
    cache = ClusterCache(LoadRules(), {NAME: plugin})
    for name, cpu in (("a", "1"), ("b", "2")):
        cache.put_node(_node(name, {"cpu": cpu}))
    texts = plugin.explain(cache.read(pod()), cache.freeze(NOW).select(["a", "b"])[0])
    assert texts == [
        {"mode": "Least", "weightedMean": 1000, "score": 100},
        {"mode": "Least", "weightedMean": 2000, "score": 0},
    ]
