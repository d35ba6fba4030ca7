from collections.abc import Sequence
from dataclasses import replace

import pytest

from agent.prediction.node import NodePrediction, NodeResources, predict
from agent.samples import CPU, MEMORY, NODE, SYS
from agent.standalone.overview import Overview, Row, Sources, build_overview, span
from agent.standalone.table import cores, size, table
from agent.trainer.trainer import Trainer
from crds.predict_policy import PredictPolicy
from crds.priority import PriorityBand
from tests.agent.made import GIB, INTERVAL, START, MadeStore, pod

AMOUNTS = {"cpu": 8000, "memory": 16 * GIB}
MACHINE = NodeResources(allocatable=AMOUNTS, capacity=AMOUNTS)
SAMPLES = 600


def seen(*, cold_start: int = 0, requests: int = 0, node: NodeResources = MACHINE) -> tuple[Overview, NodePrediction]:
    """A node of 8 cores where one Prod and one Batch pod ran for ten minutes, and one was never measured."""
    store, trainer = MadeStore(), Trainer()
    pods = [pod("web", requests, requests << 20), pod("job", 0, 0, band=PriorityBand.BATCH)]
    for metric, unit in ((CPU, 1.0), (MEMORY, float(GIB))):
        for entity, used in (("web", 0.5), ("job", 0.25), (SYS, 0.25), (NODE, 1.0)):
            store.put(metric, entity, START, [used * unit] * SAMPLES)
    for step in range(1, round(SAMPLES / INTERVAL) + 1):
        trainer.train(START + step * INTERVAL, store, pods)
    now, policy = START + SAMPLES, PredictPolicy(cold_start_period_seconds=cold_start)
    prediction = predict(now, trainer, pods, node, policy)
    sources = Sources(store, trainer, [*pods, pod("fresh", 0, 0, band=PriorityBand.BATCH)], node)
    return build_overview(now, sources, prediction, window_seconds=10.0), prediction


def row(rows: Sequence[Row], name: str) -> Row:
    return next(row for row in rows if row.name.strip().startswith(name))


def test_used_is_the_mean_of_the_last_seconds_and_peaks_are_the_models() -> None:
    """A pod that was never measured has no numbers, and no zeros."""
    view, prediction = seen()
    assert row(view.classes, "node").used == {CPU: 1.0, MEMORY: GIB}
    assert [row(view.classes, name).used[CPU] for name in ("system", "prod, 1 pod", "batch")] == [0.25, 0.5, 0.25]
    assert [pod.name for pod in view.pods] == ["shop/web", "shop/job", "shop/fresh"]
    assert not any(cls_.name.strip().startswith(("mid", "free")) for cls_ in view.classes)
    assert row(view.pods, "shop/web").peak[CPU] == pytest.approx(0.5, rel=0.01)
    whole = prediction.classes[NODE].peak[CPU] / 1000
    assert row(view.classes, "node").peak[CPU] == whole
    assert view.free[CPU] == pytest.approx(8.0 - whole)
    assert view.model == "coincidence + 0 %"
    fresh = row(view.pods, "shop/fresh")
    assert (fresh.used, fresh.peak, fresh.reclaimable, fresh.history) == ({}, {}, {}, "cold: nothing learned yet")


def test_requests_are_reclaimable_and_none_is_nothing() -> None:
    """A pod with a request shows its unused part: 1 core - 0.5."""
    view, _ = seen()
    assert row(view.classes, "prod").reclaimable == {CPU: 0.0, MEMORY: 0.0}
    assert row(view.pods, "shop/web").reclaimable == {}
    view, prediction = seen(requests=1000)
    assert row(view.pods, "shop/web").reclaimable[CPU] == pytest.approx(0.5, rel=0.02)
    assert row(view.classes, "prod").reclaimable[CPU] == prediction.reclaimable[CPU] / 1000 > 0.0


def test_cold_pod_counts_with_its_highest_and_has_its_history() -> None:
    view, _ = seen(cold_start=3600)
    web = row(view.pods, "shop/web")
    assert (web.history, web.peak[CPU]) == ("cold: 10m of 1h", 0.5)
    assert (row(view.classes, "prod").history, row(view.classes, "system").history) == ("1 cold", "cold: 10m of 1h")
    assert row(seen()[0].pods, "shop/web").history == "warm"


def test_machine_whose_size_cannot_be_read_has_no_peak() -> None:
    view, _ = seen(node=NodeResources())
    web = row(view.pods, "shop/web")
    assert (web.peak, web.used[CPU], view.free) == ({}, 0.5, {})
    assert "? cores" in table(view, "vm", [])[0]


def test_columns_line_up_and_notes_stand_below() -> None:
    view, _ = seen()
    lines = table(view, "vm: cgroup v2", ["A note."])
    assert "vm: cgroup v2; 8 cores and 16.0Gi of memory; model coincidence + 0 %" in lines[0]
    head = next(line for line in lines if "history" in line)
    named = [
        line for line in lines if line.startswith(("node", "  system", "  prod", "  batch", "shop/web", "shop/job"))
    ]
    assert len(named) == 6
    for column in (head.index("used") + len("used"), head.rindex("used") + len("used")):
        assert {line[column] for line in named} == {" "}
        assert all(line[column - 1] != " " for line in named)
    assert {line[head.index("history") :] for line in named if "shop/" in line} == {"warm"}
    assert lines[-1] == "A note."
    assert table(view, "vm", ["A longer note."], width=10)[-2:] == ["A longer", "note."]


def test_table_fits_the_terminal() -> None:
    """A long name is cut, and all numbers and the history are there; of many pods the first ones are."""
    view, _ = seen()
    long = replace(row(view.pods, "shop/web"), name="0b6e1f6e-43c9-4221-9f1b-c2bebdfac73f")
    lines = table(replace(view, pods=(long,)), "vm: " + "cgroup " * 20, [], width=80)
    assert max(map(len, lines)) <= 80
    (result,) = (line for line in lines if line.startswith("0b6e"))
    assert "…" in result
    assert result.endswith("warm")
    many = replace(view, pods=view.pods[:2] * 50)
    lines = table(many, "vm", ["A note."], height=30)
    assert len(lines) <= 30
    assert f"… and {100 - sum(line.startswith('shop/') for line in lines)} more pods" in lines
    assert len(table(many, "vm", [])) > 100


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (size(None), "-"),  # unknown is not zero
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
    assert shown == text
