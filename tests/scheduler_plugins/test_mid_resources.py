"""MidResources: the nodes that reject Mid pods."""

from collections.abc import Mapping
from typing import Any

import pytest

from crds import names
from scheduler_plugins.framework.plugin import Configurable, ExplainingPlugin, FilterPlugin
from scheduler_plugins.framework.verdict import Verdict
from scheduler_plugins.plugins.mid_resources import ABSENT, DEFICIT, NAME, STALE, MidResources
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.scheduler_plugins.objects import NOW, Json, at, condition, node, node_metric, pod

MID = pod("mid", priority=7500)
REQUESTING = pod("requests", {names.MID_CPU: "500"}, priority=9500)


def reporting(
    updated: float | None = -10, predicted: float | None = -10, *, deficit: bool | None = False, other: bool = False
) -> Json:
    """Return a NodeMetric with these times, in seconds after NOW; `other`: of an agent without `status.prediction`."""
    metric = node_metric(updated=updated)
    if not other:
        metric["status"]["prediction"] = {} if predicted is None else {"time": at(predicted)}
    if deficit is not None:
        metric["status"]["conditions"] = [condition(names.CONDITION_MID_DEFICIT, -5, str(deficit))]
    return metric


def _verdict(plugin: MidResources, item: Json, *metrics: Json | None) -> tuple[Verdict, list[Mapping[str, Any]]]:
    cache = ClusterCache(LoadRules(), {NAME: plugin})
    for index, metric in enumerate(metrics):
        cache.put_node(node(f"n{index}"))
        if metric is not None:
            cache.put_node_metric({**metric, "metadata": {"name": f"n{index}"}})
    nodes, request = cache.freeze(NOW), cache.read(item)
    return plugin.filter(request, nodes), list(plugin.explain(request, nodes))


def _reason(plugin: MidResources, item: Json, metric: Json | None) -> str | None:
    refusal = _verdict(plugin, item, metric)[0].refusal(0)
    return None if refusal is None else refusal.reason


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        (reporting(), None),
        (reporting(deficit=True), DEFICIT),
        (reporting(deficit=None), None),  # the manager has not computed it yet
        (reporting(predicted=-900), None),  # exactly that old still counts, as for the manager
        (reporting(predicted=-901), STALE),
        (reporting(updated=-901), STALE),  # fast reports go on while full ones do not
        (reporting(predicted=60), None),  # from the future: fresh
        (reporting(predicted=None), ABSENT),
        (reporting(updated=None), ABSENT),
        (None, ABSENT),  # no NodeMetric
        (reporting(other=True), None),  # Koordinator's agent predicts with each report
        (reporting(updated=-901, other=True), STALE),
        (reporting(predicted=-901, deficit=True), DEFICIT),  # the deficit needs an operator
    ],
)
def test_nodes_are_refused(metric: Json | None, reason: str | None) -> None:
    assert _reason(MidResources(), MID, metric) == reason


@pytest.mark.parametrize(
    ("item", "refused"),
    [
        (MID, True),
        (REQUESTING, True),  # Mid by its requests, whatever its priority
        (pod(priority=9500), False),
        (pod(priority=5500), False),
        (pod(), False),
    ],
)
def test_only_mid_pods_are_refused(item: Json, *, refused: bool) -> None:
    assert (_reason(MidResources(), item, reporting(deficit=True)) is not None) == refused


@pytest.mark.parametrize(
    ("seconds", "age", "reason"), [(60, 61, STALE), (60, 60, None), (0, 10**6, None), (0, None, None)]
)
def test_age_can_be_set(seconds: int, age: float | None, reason: str | None) -> None:
    metric = reporting(predicted=None if age is None else -age)
    plugin = MidResources(prediction_expiration_seconds=seconds)
    assert _reason(plugin, MID, metric) == reason
    assert _reason(plugin, MID, {**metric, "status": metric["status"] | reporting(deficit=True)["status"]}) == DEFICIT


def test_eviction_resolves_no_refusal() -> None:
    verdict, _ = _verdict(MidResources(), MID, reporting(deficit=True), reporting(predicted=-999), None)
    refusals = [verdict.refusal(row) for row in range(3)]
    assert [refusal and refusal.eviction_helps for refusal in refusals] == [False, False, False]


def test_explanation_names_binding_limit() -> None:
    _, texts = _verdict(MidResources(), MID, reporting(), reporting(deficit=True), reporting(predicted=-1000), None)
    assert texts[0] == {"midPod": True, "deficit": False, "predictionAgeSeconds": 10.0}
    assert (texts[1]["deficit"], "MidDeficit" in texts[1]["binding"]) == (True, True)
    assert texts[2]["binding"] == "report or prediction is 1000 s old, predictionExpirationSeconds is 900"
    assert "no prediction" in texts[3]["binding"]
    assert "binding" not in _verdict(MidResources(), pod(), reporting(deficit=True))[1][0]


def test_arguments_are_checked() -> None:
    assert [problem.field for problem in MidResources(-1).problems()] == ["predictionExpirationSeconds"]
    assert not MidResources(0).defaulted().problems()
    assert all(isinstance(MidResources(), kind) for kind in (FilterPlugin, ExplainingPlugin, Configurable))
