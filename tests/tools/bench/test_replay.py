"""A replayed node: what is sold follows what was used, writes follow the manager's rules, and counting counts."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from agent.samples import CPU, MEMORY
from crds.predict_policy import PredictPolicy
from headroom.backtest.trace import PodLifetime, Resource, Trace, TraceError
from tools.bench import replay_picture
from tools.bench.replay import DEFAULT, HARD, common, grid, main, rows
from tools.bench.replay import QUICK as PLAN
from tools.bench.replay_node import STEP_SECONDS, TICKS, ReplayedNode, nodes_of
from tools.bench.replay_publisher import Offering, Seller
from tools.bench.replay_run import Schedule, Trouble, replay
from tools.bench.replay_score import HORIZONS, score, together

START = 1_375_315_200.0
GIB = float(1 << 30)
SHORT = PredictPolicy(
    model="recent-max", parameters={"windowDays": 0.01}, safety_margin_percent=0, cold_start_period_seconds=600
)
"""The highest of the last three steps (0.01 days are 14.4 minutes), warm after two."""


def trace(resource: Resource, usage: Sequence[Sequence[float]], limits: Sequence[float]) -> Trace:
    """A trace of two series; usage is a row for each step."""
    values = np.array(usage, dtype=np.float64)
    times = START + STEP_SECONDS * np.arange(len(values), dtype=np.float64)
    names = tuple(f"vm{number}" for number in range(values.shape[1]))
    return Trace(resource, times, STEP_SECONDS, values, np.array(limits), names, source=resource)


def node_of(cpu: Sequence[float]) -> ReplayedNode:
    """A node with two pods of 4 cores and 4 GiB that use 1 GiB each, and so many cores between them."""
    half = [[cores / 2, cores / 2] for cores in cpu]
    memory = [[GIB, GIB]] * len(cpu)
    lifetimes = [PodLifetime(series, 0, 0, len(cpu)) for series in (0, 1)]
    return nodes_of(trace("cpu", half, [4.0, 4.0]), trace("memory", memory, [4 * GIB, 4 * GIB]), lifetimes)[0]


def sold(node: ReplayedNode, folder: Path, troubles: dict[int, Trouble] | None = None) -> Seller:
    """What the short policy sells."""
    return replay(node, [Offering("short", SHORT)], folder / "agent.db", Schedule(troubles or {}))[0]


def minutes_of(seller: Seller) -> list[tuple[float, int | None]]:
    """When the CPU on the Node changed, in minutes since the start, and to what. [milli-cores]"""
    found: list[tuple[float, int | None]] = []
    for when, cpu, _ in seller.written:
        if not found or found[-1][1] != cpu:
            found.append((round((when - START) / 60.0, 1), cpu))
    return found


def end_of(step: int) -> float:
    """When a step's report is made, in minutes since the start."""
    return round((step * STEP_SECONDS + TICKS[-1]) / 60.0, 1)


def test_what_prod_leaves_is_sold(tmp_path: Path) -> None:
    """Two pods request 8 cores and use 2, so 6 are sold once they are warm; nothing before."""
    seller = sold(node_of([2.0] * 8), tmp_path)
    changes = minutes_of(seller)
    assert changes[0] == (end_of(0), 0)  # what they requested is kept for them while they are cold
    assert changes[-1][1] == 6000
    assert [amount for _, amount in changes] == [0, 6000]
    assert seller.written[-1][2] == round(6 * GIB)


def test_falls_at_once_rises_after_holding(tmp_path: Path) -> None:
    """Use rises to 5 cores in step 8 and falls in step 10: Mid falls with the report, and rises two minutes late."""
    seller = sold(node_of([2.0] * 8 + [5.0] * 2 + [2.0] * 6), tmp_path)
    changes = minutes_of(seller)
    assert (end_of(8), 3000) in changes
    # The window still holds steps 9 and 10 at the end of step 11; at the end of 12 it holds 10 to 12 alone. No peak is
    # below the decayed mean, which the burst has raised above two cores.
    last_fall = changes.index((end_of(8), 3000))
    rises = changes[last_fall + 1 :]
    assert rises[0][0] == round(end_of(12) + 2.0, 1)
    amounts = [amount or 0 for _, amount in rises]
    assert amounts == sorted(amounts)
    assert 5500 < amounts[-1] < 6000


def test_silence_takes_mid_away(tmp_path: Path) -> None:
    """Without reports for 15 minutes Mid goes; it is back two minutes after the agent's first report."""
    away = dict.fromkeys(range(8, 14), Trouble.SILENT)
    changes = minutes_of(sold(node_of([2.0] * 18), tmp_path, away))
    assert [amount for _, amount in changes[-3:]] == [6000, None, 6000]
    gone, back = changes[-2][0], changes[-1][0]
    assert gone == pytest.approx(end_of(7) + 15.0, abs=0.1)
    assert back == pytest.approx(end_of(14) + 2.0)


def test_nothing_is_written_without_server(tmp_path: Path) -> None:
    """While the API server is away the Node keeps what it offers; then the manager comes first, and the agent after."""
    away = dict.fromkeys(range(8, 14), Trouble.NO_API)
    changes = minutes_of(sold(node_of([2.0] * 18), tmp_path, away))
    assert [minute for minute, _ in changes if end_of(7) < minute < end_of(14)] == []
    assert changes[-2:] == [(end_of(14), None), (round(end_of(14) + 2.0, 1), 6000)]


def test_restart_forgets_nothing(tmp_path: Path) -> None:
    """An agent that is started anew goes on selling the same: what it learned is in its database."""
    node = node_of([2.0, 3.0] * 8)
    (tmp_path / "calm").mkdir()
    calm = minutes_of(sold(node, tmp_path / "calm"))
    assert minutes_of(sold(node, tmp_path, {9: Trouble.RESTART})) == calm
    assert calm[-1][1] == 5000


def test_pods_come_and_go(tmp_path: Path) -> None:
    """A pod that arrives counts with its request at once, and one that left counts no more."""
    cpu = trace("cpu", [[1.0, 1.0]] * 20, [4.0, 4.0])
    memory = trace("memory", [[GIB, GIB]] * 20, [4 * GIB, 4 * GIB])
    node = nodes_of(cpu, memory, [PodLifetime(0, 3, 0, 20), PodLifetime(1, 3, 8, 14)])[0]
    assert node.name == "node-3"
    assert node.allocatable == {CPU: 8000, MEMORY: round(8 * GIB)}
    assert node.used(CPU)[[7, 8, 13, 14]].tolist() == [1000.0, 2000.0, 2000.0, 1000.0]
    changes = dict(minutes_of(sold(node, tmp_path)))
    # 4 requested and 1 used: 3. The new one is cold for two steps, then 3 of its cores are sold as well.
    assert list(changes.values()) == [0, 3000, 6000, 3000]


def written(node: ReplayedNode, *changes: tuple[float, int]) -> Seller:
    """A seller that offered so many milli-cores from these hours on, and no memory."""
    seller = Seller(Offering("made"), node)
    seller.written = [(START + hours * 3600.0, amount, 0) for hours, amount in changes]
    return seller


def test_more_than_free_is_counted() -> None:
    """Of 8 cores 2 are used, but 5 for an hour of the second day; 4 are sold all the time: 3 are free, 1 is missing."""
    usage = np.full(3 * 288, 2.0)
    usage[36 * 12 : 37 * 12] = 5.0
    node = node_of(usage.tolist())
    found = score(node, written(node, (0.0, 4000)), CPU)
    hour = 1.0 / 24.0
    assert found.over == pytest.approx(
        {"now": hour, "15 min": 1.25 * hour, "1 h": 2 * hour, "6 h": 7 * hour, "24 h": 13 * hour}
    )
    assert found.missing == pytest.approx(1000.0)
    assert (found.sold, found.used, found.allocatable) == pytest.approx((4000.0, 2125.0, 8000.0))
    assert (found.writes_per_day, found.turns_per_day) == (0.0, 0.0)  # the one write was before the counted day


def test_exactly_free_is_not_too_much() -> None:
    """Selling all of what stays free is what Mid is for."""
    node = node_of([2.0] * (3 * 288))
    assert set(score(node, written(node, (0.0, 6000)), CPU).over.values()) == {0.0}
    assert set(score(node, written(node, (0.0, 6001)), CPU).over.values()) == {1.0}


def test_writes_and_turns_are_counted() -> None:
    """Up, up, down, up in the counted day are four writes that turn twice; writes outside of it do not count."""
    node = node_of([2.0] * (3 * 288))
    seller = written(
        node, (1.0, 1000), (25.0, 1100), (26.0, 1200), (27.0, 1100), (28.0, 1300), (28.5, 1300), (60.0, 900)
    )
    found = score(node, seller, CPU)
    assert (found.writes_per_day, found.turns_per_day) == (4.0, 2.0)


def test_too_short_a_trace_is_refused() -> None:
    """A trace of two days has nothing between the first day and the last."""
    node = node_of([2.0] * (2 * 288))
    with pytest.raises(ValueError, match="576 steps leave nothing"):
        score(node, written(node, (0.0, 1000)), CPU)


def test_traces_must_match() -> None:
    """CPU and memory are of the same series and times, in steps of five minutes."""
    cpu, memory = trace("cpu", [[1.0]] * 3, [2.0]), trace("memory", [[1.0]] * 4, [2.0])
    with pytest.raises(TraceError, match="not of the same series and times"):
        nodes_of(cpu, memory, [])
    minutes = Trace("cpu", np.array([0.0, 60.0, 120.0]), 60.0, np.ones((3, 1)), np.ones(1), ("vm0",), source="minutes")
    with pytest.raises(TraceError, match="has a value every 60 s"):
        nodes_of(minutes, minutes, [])


def test_common_series_are_chosen() -> None:
    """What only one of the two traces has is left out, and both are in the same order."""
    cpu = Trace("cpu", np.zeros(1), STEP_SECONDS, np.array([[1.0, 2.0]]), np.ones(2), ("a", "b"))
    memory = Trace("memory", np.zeros(1), STEP_SECONDS, np.array([[4.0, 3.0, 2.0]]), np.ones(3), ("c", "b", "a"))
    first, second = common([memory, cpu])
    assert first.names == second.names == ("a", "b")
    assert second.usage.tolist() == [[2.0, 3.0]]


def test_hard_month_has_everything() -> None:
    """A restart a day, and by turns hours without the agent or the API server."""
    schedule = Schedule.of_days(30)
    counts = {trouble: list(schedule.by_step.values()).count(trouble) for trouble in Trouble}
    assert counts == {Trouble.RESTART: 29, Trouble.SILENT: 7 * 24, Trouble.NO_API: 7 * 24}


def test_figures_are_for_people() -> None:
    """Rows and table name what was sold, of how much, and what others would have done."""
    node = node_of([2.0] * (3 * 288))
    found = []
    for name, amount in ((DEFAULT, 5000), ("static", 7000), (HARD, 4000)):
        seller = written(node, (0.0, amount))
        seller.offering = Offering(name)
        found += [score(node, seller, resource) for resource in (CPU, MEMORY)]
    fleets = together(found)
    first, *others = rows(fleets, PLAN)
    assert first.measured == "5 cores (62.5%) of 8 cores that Prod requested, 2 cores of it used"
    assert first.reference == "static 87.5%"
    assert others[0].measured == "0.00%, 0.00%, 0.00%"
    assert others[0].reference == "static 100.00%, 100.00%, 100.00%"
    cells = grid(fleets, PLAN).cells
    assert {len(row) for row in cells} == {7 + len(HORIZONS)}
    assert [row[1] for row in cells[1:]] == [DEFAULT, "static", HARD] * 2


def test_picture_is_the_same_again() -> None:
    """The drawing depends on what it shows alone."""
    node = node_of([2.0] * 288)
    lines = replay_picture.lines_of(node, [written(node, (0.0, 5000))])
    first = replay_picture.draw(lines)
    assert "<svg" in first.svg
    assert first == replay_picture.draw(lines)


@pytest.mark.parametrize("days", ["2", "0", "-1", "nan"])
def test_too_few_days_are_refused(days: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Days that leave nothing to count are refused before anything is replayed."""
    with pytest.raises(SystemExit):
        main([f"--days={days}"])
    assert "--days: the first day is warm-up" in capsys.readouterr().err
