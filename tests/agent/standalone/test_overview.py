"""A machine at a glance, from made-up histories."""

import dataclasses

import pytest

from agent.prediction.node import NodePrediction, NodeResources, predict
from agent.samples import CPU, MEMORY, NODE, SYS
from agent.standalone.overview import Overview, Row, Sources, build_overview, span
from agent.standalone.table import cores, size, table
from agent.trainer.trainer import Trainer
from crds.predict_policy import PredictPolicy
from crds.priority import PriorityBand
from tests.agent.made import GIB, INTERVAL, START, MadeStore, pod

MACHINE = {"cpu": 8000, "memory": 16 * GIB}
SAMPLES = 600


def _seen(
    *, cold_start: int = 0, requests: int = 0, node: NodeResources | None = None
) -> tuple[Overview, NodePrediction, Sources]:
    """A node of 8 cores where one Prod and one Batch pod ran for ten minutes."""
    store, trainer = MadeStore(), Trainer()
    web, job = pod("web", requests, requests << 20), pod("job", 0, 0, band=PriorityBand.BATCH)
    for metric, unit in ((CPU, 1.0), (MEMORY, float(GIB))):
        store.put(metric, "web", START, [0.5 * unit] * SAMPLES)
        store.put(metric, "job", START, [0.25 * unit] * SAMPLES)
        store.put(metric, SYS, START, [0.25 * unit] * SAMPLES)
        store.put(metric, NODE, START, [1.0 * unit] * SAMPLES)
    for step in range(1, round(SAMPLES / INTERVAL) + 1):
        trainer.train(START + step * INTERVAL, store, [web, job])
    now = START + SAMPLES
    facts = node or NodeResources(allocatable=MACHINE, capacity=MACHINE)
    policy = PredictPolicy(cold_start_period_seconds=cold_start)
    sources = Sources(store, trainer, [web, job], facts)
    prediction = predict(now, trainer, sources.pods, facts, policy)
    return build_overview(now, sources, prediction, window_seconds=10.0), prediction, sources


def _row(rows: tuple[Row, ...], name: str) -> Row:
    return next(row for row in rows if row.name.strip().startswith(name))


def test_usage_adds_up() -> None:
    """Used is the mean of the last seconds: of the node, the system, each class and each pod."""
    view, _, _ = _seen()
    assert _row(view.classes, "node").used == {CPU: 1.0, MEMORY: GIB}
    assert _row(view.classes, "system").used[CPU] == 0.25
    assert _row(view.classes, "prod, 1 pod").used[CPU] == 0.5
    assert _row(view.classes, "batch").used[MEMORY] == GIB / 4
    assert [row.name for row in view.pods] == ["shop/web", "shop/job"]
    assert not any(row.name.strip().startswith(("mid", "free")) for row in view.classes)


def test_peak_is_of_model() -> None:
    """A steady pod's peak is its usage; the node's is that of its parts."""
    view, prediction, _ = _seen()
    assert _row(view.pods, "shop/web").peak[CPU] == pytest.approx(0.5, rel=0.01)
    assert _row(view.classes, "node").peak[CPU] == prediction.classes[NODE].peak[CPU] / 1000
    assert view.free[CPU] == pytest.approx(8.0 - prediction.classes[NODE].peak[CPU] / 1000)
    assert view.model == "diversity + 0 %"


def test_unknown_requests_sell_nothing() -> None:
    """Where no pod names a request there is nothing to reclaim, and no pod has a number for it."""
    view, _, _ = _seen()
    assert _row(view.classes, "prod").reclaimable == {CPU: 0.0, MEMORY: 0.0}
    assert _row(view.pods, "shop/web").reclaimable == {}


def test_requests_are_reclaimable() -> None:
    """A pod that names its request shows what of it stays free: 1 core - 0.5."""
    view, prediction, _ = _seen(requests=1000)
    assert _row(view.pods, "shop/web").reclaimable[CPU] == pytest.approx(0.5, rel=0.02)
    assert _row(view.classes, "prod").reclaimable[CPU] == prediction.reclaimable[CPU] / 1000 > 0.0


def test_cold_says_why() -> None:
    """A cold pod counts with its highest or its request, and says how far its evidence is."""
    view, _, _ = _seen(cold_start=3600)
    web = _row(view.pods, "shop/web")
    assert web.history == "cold: 10m of 1h"
    assert web.peak[CPU] == 0.5
    assert _row(view.classes, "prod").history == "1 cold"
    assert _row(view.classes, "system").history == "cold: 10m of 1h"
    assert _row(_seen()[0].pods, "shop/web").history == "warm"


def test_new_pod_is_unknown() -> None:
    """A pod that was never measured has no numbers, and no zeros."""
    _, prediction, sources = _seen()
    fresh = pod("fresh", 0, 0)
    sources = Sources(sources.store, sources.trainer, [*sources.pods, fresh], sources.node)
    row = _row(build_overview(START + SAMPLES, sources, prediction, window_seconds=10.0).pods, "shop/fresh")
    assert (row.used, row.peak, row.reclaimable, row.history) == ({}, {}, {}, "cold: nothing learned yet")


def test_unreadable_machine_shows_usage() -> None:
    """A machine whose size cannot be read has no peak; what is used is shown all the same."""
    view, _, _ = _seen(node=NodeResources())
    assert _row(view.pods, "shop/web").peak == {}
    assert _row(view.pods, "shop/web").used[CPU] == 0.5
    assert view.free == {}
    assert "? cores" in table(view, "vm", [])[0]


def test_table_is_aligned() -> None:
    """Columns line up; notes stand below."""
    view, _, _ = _seen()
    lines = table(view, "vm: cgroup v2", ["A note."])
    assert "vm: cgroup v2; 8 cores and 16.0Gi of memory; model diversity + 0 %" in lines[0]
    head = next(line for line in lines if "history" in line)
    named = [line for line in lines if line.startswith(("node", "  system", "  prod", "  batch", "shop"))]
    assert len(named) == 6
    for column in (head.index("used") + len("used"), head.rindex("used") + len("used")):
        assert {line[column] for line in named} == {" "}
        assert all(line[column - 1] != " " for line in named)
    assert {line[head.index("history") :] for line in named if "shop/" in line} == {"warm"}
    assert lines[-1] == "A note."
    assert table(view, "vm", ["A longer note."], width=10)[-2:] == ["A longer", "note."]


def test_narrow_table_keeps_numbers() -> None:
    """On a terminal of 80 columns a long name is cut, and all numbers and the history are there."""
    view, _, _ = _seen()
    long = dataclasses.replace(_row(view.pods, "shop/web"), name="0b6e1f6e-43c9-4221-9f1b-c2bebdfac73f")
    lines = table(dataclasses.replace(view, pods=(long,)), "vm: " + "cgroup " * 20, [], width=80)
    assert max(map(len, lines)) <= 80
    row = next(line for line in lines if line.startswith("0b6e"))
    assert "…" in row
    assert row.endswith("warm")


def test_table_fits_terminal() -> None:
    """Where there is no room for all pods, the first ones are shown, and how many are not."""
    view, _, _ = _seen()
    many = Overview(view.time, view.classes, view.pods * 50, view.free, view.capacity, view.model)
    lines = table(many, "vm", ["A note."], height=30)
    assert len(lines) <= 30
    shown = sum(line.startswith("shop/") for line in lines)
    assert f"… and {100 - shown} more pods" in lines
    assert len(table(many, "vm", [])) > 100


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (size(None), "-"),  # what is unknown is no zero
        (size(0.0), "0"),
        (size(900), "900"),
        (size(1 << 20), "1.0Mi"),
        (size(3328599654), "3.1Gi"),
        (size(500 << 30), "500Gi"),
        (cores(0.284), "0.28"),
        (cores(0.0), "0.00"),
        (cores(None), "-"),
        (span(0), "0s"),
        (span(59.9), "59s"),
        (span(75), "1m15s"),
        (span(86400), "1d"),
        (span(90061), "1d1h"),
    ],
)
def test_amounts_are_short(shown: str, text: str) -> None:
    """Bytes in the largest unit that fits, cores with two decimals, times in two units."""
    assert shown == text
