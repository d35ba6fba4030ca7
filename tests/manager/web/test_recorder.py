"""What the recorder sees of nodes, and when it looks."""

import asyncio

import numpy as np
import pytest

from crds import names
from manager.mid.node_filter import NodeFilter
from manager.web import recorder as recording
from manager.web.history import Series
from manager.web.recorder import Recorder, record
from manager.web.state import MEANINGS, State
from tests.manager.web.made_cluster import World, metric, prediction_ready, published, typical
from tests.support.objects import mid_pod, node, pod, report
from tests.support.world import put_pods


def test_a_row_has_the_numbers() -> None:
    """A look takes what the Node, the NodeMetric and the pods say, in cores and GiB."""
    row = typical().recorder.rows["n1"]
    numbers = {series: (row.number(series, "cpu"), row.number(series, "memory")) for series in Series}
    assert numbers == {
        Series.ALLOCATABLE: (16.0, 64.0),
        Series.REQUESTED: (9.0, 30.0),
        Series.PEAK: (5.0, pytest.approx(16.8, rel=1e-3)),
        Series.USED_BY_PROD: (4.0, 14.0),  # Prod pods and system
        Series.USED: (6.0, 24.0),
        Series.OFFERED: (4.0, 10.0),
        Series.BOUGHT: (3.0, 2.0),
    }
    assert (row.prediction, row.warm, row.cold, row.age) == ("ready", 2, 0, 10.0)


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, State.SELLING),
        ({"conditions": (prediction_ready(ready=True), published("ColocationDisabled"))}, State.OFF),
        ({"conditions": (prediction_ready(ready=True), published("Shadow"))}, State.SHADOW),
        ({"conditions": (prediction_ready(ready=True), published("Held"))}, State.RETURNING),
        ({"conditions": (prediction_ready(ready=True), published("ReportExpired")), "age": 2000.0}, State.EXPIRED),
        ({"age": 400.0}, State.LATE),
    ],
)
def test_states_of_nodes(change: dict[str, object], state: State) -> None:
    """A node's state follows from what the leader wrote and from the age of its report, on every replica alike."""
    world = World()
    world.put(node("n1", mid=("4000", "10Gi")), metric(**change))  # type: ignore[arg-type]
    world.look()
    assert world.recorder.rows["n1"].state is state


def test_states_without_an_offer() -> None:
    """A node that offers nothing says why: it learns, has nothing to publish, was not looked at, or never reported."""
    world = World()
    world.put(node("learns"), metric("learns", ready=False))
    world.put(node("empty"), metric("empty"))
    world.put(node("new"), metric("new", conditions=(prediction_ready(ready=True),)))
    world.put(node("silent"))
    world.put(node("owned"), metric("owned"))
    world.context.cluster.put_node_metric(
        {**metric("owned"), "metadata": {"name": "owned", "ownerReferences": [{"kind": "Node", "uid": "another"}]}}, 0.0
    )
    world.look()
    states = {name: row.state for name, row in world.recorder.rows.items()}
    assert states == {
        "learns": State.LEARNING,
        "empty": State.NOTHING,
        "new": State.NEW,
        "silent": State.SILENT,
        "owned": State.SILENT,  # what is reported about another machine of that name
    }
    assert "WarmingUp" in world.recorder.rows["learns"].reason
    assert set(MEANINGS) == set(State)


def test_deficit_comes_first() -> None:
    """A node whose Mid pods are short is shown as that, whatever else holds."""
    short = {**published(), "type": names.CONDITION_MID_DEFICIT, "status": "True", "reason": "Deficit"}
    world = World()
    world.put(node("n1", mid=("4000", "10Gi")), metric(age=400.0, conditions=(short,)))
    world.look()
    assert world.recorder.rows["n1"].state is State.DEFICIT


def test_excluded_nodes_say_so() -> None:
    """A node that is left alone is no trouble, though it never reports."""
    world = World()
    world.put(node("v1", labels={"type": "virtual-kubelet"}))
    world.look()
    assert world.recorder.rows["v1"].state is State.EXCLUDED


def test_another_agents_reports_count() -> None:
    """A NodeMetric without our fields shows what it has: usage of the node, no peak, no usage of Prod."""
    world = World()
    world.put(node("n1"), report(mid=None))
    world.look()
    row = world.recorder.rows["n1"]
    assert row.number(Series.USED, "cpu") == 6.0
    assert row.number(Series.PEAK, "cpu") is None
    assert row.number(Series.USED_BY_PROD, "cpu") is None
    assert (row.warm, row.cold) == (None, None)


def test_missing_reports_leave_a_gap() -> None:
    """While reports are missing nothing is drawn as measured; what the Node has and pods request is known still."""
    world = typical()
    world.now += 600
    world.look()
    plot = world.recorder.history.plot("n1", "2h", world.now)
    assert np.isnan(plot.of(Series.USED, "cpu")[-1])
    assert plot.of(Series.OFFERED, "cpu")[-1] == 4.0
    assert plot.of(Series.REQUESTED, "cpu")[-1] == 9.0


def test_pods_count_once_listed() -> None:
    """Until all pods have been listed, their sums are not known, instead of too small."""
    world = World()
    world.context.cluster.pods_synced = False
    world.put(node("n1"), metric(), pod("web", {"cpu": "1"}))
    world.look()
    assert world.recorder.rows["n1"].number(Series.REQUESTED, "cpu") is None


def test_history_survives_a_new_list() -> None:
    """When all is listed again, the same nodes keep their past."""
    world = typical()
    world.now += 60
    again = node("n1", mid=("4000", "10Gi"))
    world.context.cluster.put_node(again, listed=True)
    put_pods(world.context.cluster, [])
    world.look()
    offered = world.recorder.history.plot("n1", "2h", world.now).of(Series.OFFERED, "cpu")
    assert offered[-2:].tolist() == [4.0, 4.0]


def test_nodes_that_go_are_forgotten() -> None:
    """A deleted node goes with its past, and one made anew under its name begins without."""
    world = typical()
    made_anew = node("n1", mid=("4000", "10Gi"))
    made_anew["metadata"]["uid"] = "another"
    world.now += 60
    world.put(made_anew, metric(now=world.now), mid_pod("batch"))
    world.look()
    assert np.isnan(world.recorder.history.plot("n1", "2h", world.now).of(Series.OFFERED, "cpu")[-2])
    world.context.cluster.drop_node("n1", "another")
    world.look()
    assert world.recorder.rows == {}
    assert "n1" not in world.recorder.history


def test_a_node_that_vanishes_is_passed_over() -> None:
    """A node that goes between two handfuls of a round is no error."""
    world = World()
    world.recorder.look(world.context.cluster, "gone", NodeFilter(), world.now, 0.0)
    assert world.recorder.rows == {}


async def test_rounds_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes are looked at, a handful at a time, and a new one in the round after it came."""
    monkeypatch.setattr(recording, "HANDFUL", 2)
    world = World()
    for index in range(5):
        world.put(node(f"n{index}"), metric(f"n{index}"))
    task = asyncio.create_task(record(world.context, 0.0))
    seen = world.context.state_of(Recorder).rows
    async with asyncio.timeout(30):
        while len(seen) < 5:  # noqa: ASYNC110 - rounds are made of turns of the loop
            await asyncio.sleep(0)
        world.put(node("late"), metric("late"))
        while "late" not in seen:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
    task.cancel()
    assert world.recorder.history.plot_of_sums("2h", world.now).of(Series.ALLOCATABLE, "cpu")[-1] >= 5 * 16
