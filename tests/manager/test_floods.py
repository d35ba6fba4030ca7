"""A node's objects are huge, or change all the time: the work for them is bounded, and named."""

import difflib
import json
from typing import Any

import pytest

from crds.names import ANNOTATION_COLOCATION_STRATEGY, ANNOTATION_NODE_RESERVATION, ANNOTATION_RAW_ALLOCATABLE
from manager.cluster import ClusterState
from manager.config.merge import effective_strategy
from manager.handlers import nodes
from manager.inputs.reading import LONGEST_ANNOTATION, Reader
from manager.reconcile.steps.events import ReportedState
from tests.manager.test_matching import Counted
from tests.support.objects import Json, node, report
from tests.support.world import METRIC, World

MEGABYTE = 1_200_000
QUARTER = 250_000
USAGE = {"resources": {"cpu": "1234567n", "memory": "x"}}


def _many(item: Json, characters: int) -> list[Json]:
    return [item] * (characters // len(json.dumps(item)))


UNKNOWN_MODELS = [
    {"nodePredictPolicy": {"model": "max", "of": [{"model": f"nsigma-w{number}"} for number in range(10_000)]}},
    {"nodePredictPolicy": {"model": "max", "parameters": {f"windowDay{number}": 1 for number in range(10_000)}}},
    {"nodePredictPolicy": {"model": "diversity", "parameters": {f"windowDay{number}": 1 for number in range(10_000)}}},
    {f"midPolicies{number}": 1 for number in range(10_000)},
    {"midEviction": {f"modes{number}": 1 for number in range(10_000)}},
]


def _first(document: Any, characters: int) -> str:  # noqa: ANN401 - JSON
    """The document with as many of its unknown names as fit."""
    while len(text := json.dumps(document)) > characters:
        document = json.loads(text, object_hook=_half)
    return text


def _half(data: Json) -> Json:
    items = list(data.items())[: max(len(data) // 2, 3)]
    return {name: value[: len(value) // 2] if isinstance(value, list) else value for name, value in items}


@pytest.mark.parametrize("document", UNKNOWN_MODELS)
@pytest.mark.parametrize("characters", [QUARTER, LONGEST_ANNOTATION])
def test_unknown_names_are_searched_for_a_few_times(
    document: Any,  # noqa: ANN401 - JSON
    characters: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An annotation with many unknown names is rejected; a suggestion is computed for a few of them."""
    searched = Counted(difflib.get_close_matches)
    monkeypatch.setattr(difflib, "get_close_matches", lambda *args, **_: searched(*args))
    world = World()
    text = json.dumps(document) if characters == QUARTER else _first(document, characters)
    effective = effective_strategy(world.run.context.in_force.config, {}, {ANNOTATION_COLOCATION_STRATEGY: text})
    assert searched.calls <= 11
    assert effective.findings
    assert sum(len(str(finding)) for finding in effective.findings) < 20_000
    assert effective.strategy == effective_strategy(world.run.context.in_force.config).strategy


@pytest.mark.parametrize("name", [ANNOTATION_RAW_ALLOCATABLE, ANNOTATION_NODE_RESERVATION])
async def test_long_annotation_is_neither_kept_nor_read(name: str) -> None:
    world = World()
    text = json.dumps({"reservedCPUs": ",".join(["1"] * (QUARTER // 2)), "cpu": "1"})
    world.has_node(node(annotations={name: text}))
    world.reports(report())
    await world.reconcile()
    annotation = world.run.context.cluster.nodes["n1"]["metadata"]["annotations"][name]
    assert len(annotation) <= LONGEST_ANNOTATION + 1
    assert world.published()["cpu"] == "4000"


@pytest.mark.parametrize(
    "status",
    [
        {"podsMetric": _many({"namespace": "n", "name": "p", "podUsage": USAGE}, MEGABYTE)},
        {"hostApplicationMetric": _many({"name": "a", "priority": "koord-prod", "usage": USAGE}, MEGABYTE)},
        {"conditions": _many({"type": "Collecting", "status": "True"}, MEGABYTE)},
        {"prediction": {"classes": _many({"name": "prod", "usage": USAGE}, MEGABYTE)}},
    ],
)
async def test_report_with_a_huge_list_is_refused_by_its_name(status: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.has_node(node(mid=("4000", "10Gi")))
    read = Counted(Reader._amount)
    monkeypatch.setattr(Reader, "_amount", lambda *args: read(*args))  # noqa: PLW0108 - as a method
    made = report(mid=None)
    world.reports({**made, "status": {**made["status"], **status}})
    assert read.calls <= 20
    await world.reconcile()
    assert world.published() == {}
    cached = world.run.context.cluster.node_metrics["n1"].report
    assert cached is not None
    assert "at most 2000 items are read" in cached.problems[0]
    world.reports(report())
    await world.reconcile()
    assert world.events_recorded().count("DegradedMid") == 1


def test_many_unreadable_numbers_are_few_sentences() -> None:
    cluster = ClusterState()
    bad = {"namespace": "n", "name": "p", "podUsage": {"resources": {"cpu": "x", "memory": "y"}}}
    cluster.put_node_metric(report(mid=None, podsMetric=[bad] * 1900), 0.0)
    cached = cluster.node_metrics["n1"].report
    assert cached is not None
    assert len(cached.problems) == 20


async def test_flapping_reports_are_reported_rarely() -> None:
    """Reports that change each second cause a few events and writes, and the last state is recorded."""
    world = World()
    world.has_node(node())
    world.reports(report())
    await world.reconcile()
    for second in range(200):
        world.later(1.0)
        world.reports(report(age=-second if second % 2 else 2000 + second))
        await world.reconcile()
    flood = len(world.events_recorded()), len(world.api.written("PATCH", f"{METRIC}/status"))
    assert max(flood) <= 10 + 200 / 60 + 2
    while (due := world.due_in()) is not None and due <= 60.0:
        world.steady.now += due
        await world.reconcile()
    (published,) = [
        condition
        for condition in world.api.objects[METRIC]["status"]["conditions"]
        if condition["type"] == "MidPublished"
    ]
    assert (published["status"], world.run.context.node_state("n1").state_of(ReportedState).degraded) == ("True", "")


async def test_flapping_annotation_is_reported_rarely() -> None:
    world = World()
    for second in range(200):
        world.steady.now += 1.0
        text = f'{{"midUnallocatedPercent": {second % 100}, "x{second}": 1}}'
        made = node(annotations={ANNOTATION_COLOCATION_STRATEGY: text})
        nodes.observe(world.run, "MODIFIED", world.api.put("/api/v1/nodes/n1", made))
        await world.reconcile()
    assert len(world.events_recorded()) <= 10 + 200 / 60 + 4
