import asyncio

import numpy as np
import pytest

from crds import names
from manager.mid.node_filter import NodeFilter
from manager.web import recorder as recording
from manager.web.history import Series
from manager.web.recorder import Recorder, Row, record
from manager.web.state import MEANINGS, State
from tests.manager.web.made_cluster import World, metric, prediction_ready, published, typical
from tests.support.objects import Json, mid_pod, node, pod, report
from tests.support.waiting import until
from tests.support.world import put_pods

READY = prediction_ready(ready=True)
DEFICIT = {**published(), "type": names.CONDITION_MID_DEFICIT, "status": "True", "reason": "Deficit"}
OF_ANOTHER = {"name": "n1", "ownerReferences": [{"kind": "Node", "uid": "another"}]}
MID = ("4000", "10Gi")
AWAY = {"type": "Ready", "status": "Unknown"}


def seen(the_node: Json, its_metric: Json | None, *pods: Json) -> Row:
    world = World()
    world.put(the_node, its_metric, *pods)
    world.sample()
    return world.recorder.rows["n1"]


def test_a_row_has_the_numbers() -> None:
    row = typical().recorder.rows["n1"]
    numbers = {series: (row.number(series, "cpu"), row.number(series, "memory")) for series in Series}
    assert numbers == {
        Series.ALLOCATABLE: (16.0, 64.0),
        Series.PROD_REQUESTED: (9.0, 30.0),
        Series.PROD_PEAK: (5.0, pytest.approx(16.8, rel=1e-3)),
        Series.PROD_USAGE: (4.0, 14.0),  # Prod pods and system
        Series.USAGE: (6.0, 24.0),
        Series.MID: (4.0, 10.0),
        Series.MID_REQUESTED: (3.0, 2.0),
    }
    assert (row.prediction, row.warm, row.cold, row.age) == ("ready", 2, 0, 10.0)


@pytest.mark.parametrize(
    ("the_node", "its_metric", "state"),
    [
        (node(mid=MID), metric(), State.PUBLISHING),
        (node(mid=MID), metric(conditions=(READY, published("ColocationDisabled"))), State.OFF),
        (node(mid=MID), metric(conditions=(READY, published("Shadow"))), State.SHADOW),
        (node(mid=MID), metric(conditions=(READY, published("Held"))), State.RETURNING),
        (node(mid=MID), metric(conditions=(READY, published("ReportExpired")), age=2000.0), State.EXPIRED),
        (node(mid=MID), metric(age=400.0), State.LATE),
        (node(mid=MID), metric(age=400.0, conditions=(DEFICIT,)), State.DEFICIT),
        (node(), metric(ready=False), State.LEARNING),
        (node(), metric(), State.NOTHING),
        (node(), metric(conditions=(READY,)), State.NEW),
        (node(), None, State.SILENT),
        (node(mid=MID, conditions=(AWAY,)), metric(conditions=(DEFICIT,)), State.NOT_READY),  # whatever else holds
        (node(conditions=({**AWAY, "status": "True"}, {**AWAY, "type": "DiskPressure"})), None, State.SILENT),
        (node(labels={"type": "virtual-kubelet"}, conditions=(AWAY,)), None, State.EXCLUDED),
        (node(), {**metric(), "metadata": OF_ANOTHER}, State.SILENT),  # of another machine of that name
        (node(labels={"type": "virtual-kubelet"}), None, State.EXCLUDED),
    ],
)
def test_states(the_node: Json, its_metric: Json | None, state: State) -> None:
    """State follows the leader's writes and the age of the report, on every replica alike."""
    row = seen(the_node, its_metric)
    assert row.state is state
    assert set(MEANINGS) == set(State)
    assert ("WarmingUp" in row.reason) is (state is State.LEARNING)


def test_report_of_another_agent_is_shown() -> None:
    row = seen(node(), report(mid=None))
    numbers = [row.number(series, "cpu") for series in (Series.USAGE, Series.PROD_PEAK, Series.PROD_USAGE)]
    assert (numbers, row.warm, row.cold) == ([6.0, None, None], None, None)


def test_missing_reports_leave_a_gap() -> None:
    """Without reports no measurement is drawn; the Node's amounts and pods' requests still are."""
    world = typical()
    world.now += 600
    world.sample()
    plot = world.recorder.history.plot("n1", "2h", world.now)
    assert np.isnan(plot.of(Series.USAGE, "cpu")[-1])
    assert [plot.of(series, "cpu")[-1] for series in (Series.MID, Series.PROD_REQUESTED)] == [4.0, 9.0]


def test_pods_count_once_listed() -> None:
    world = World()
    world.context.cluster.pods_synced = False
    world.put(node(), metric(), pod("web", {"cpu": "1"}))
    world.sample()
    assert world.recorder.rows["n1"].number(Series.PROD_REQUESTED, "cpu") is None


def test_past_survives_a_relist_and_goes_with_the_node() -> None:
    world, mid_node = typical(), node(mid=MID)

    def past() -> list[float]:
        world.sample()
        plot = world.recorder.history.plot("n1", "2h", world.now)
        return [float(entry) for entry in plot.of(Series.MID, "cpu")[-2:]]

    world.now += 60
    world.context.cluster.put_node(mid_node, listed=True)
    put_pods(world.context.cluster, [])
    assert past() == [4.0, 4.0]
    world.now += 60
    made_anew = {**mid_node, "metadata": {**mid_node["metadata"], "uid": "another"}}
    world.put(made_anew, metric(now=world.now), mid_pod("batch"))
    assert np.isnan(past()[0])
    world.context.cluster.drop_node("n1", "another")
    world.sample()
    world.recorder.sample(world.context.cluster, "n1", NodeFilter(), world.now, 0.0)  # it went during a round
    assert world.recorder.rows == {}
    assert "n1" not in world.recorder.history


async def test_rounds_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "HANDFUL", 2)
    world = World()
    for index in range(5):
        world.put(node(f"n{index}"), metric(f"n{index}"))
    task = asyncio.create_task(record(world.context, 0.0))
    rows = world.context.state_of(Recorder).rows
    await until(lambda: len(rows) == 5, "all nodes are seen")
    world.put(node("late"), metric("late"))
    await until(lambda: "late" in rows, "the new node is seen")
    task.cancel()
    assert world.recorder.history.plot_of_sums("2h", world.now).of(Series.ALLOCATABLE, "cpu")[-1] >= 5 * 16
