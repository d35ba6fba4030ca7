"""The pure parts of the manager's benchmark: what nodes report, what is waited for, what the table says."""

import json

import pytest

from crds.codec import from_json
from crds.colocation import ColocationStrategy
from crds.node_metric import NodeMetric
from manager.calculators.mid import calculate
from manager.inputs import from_objects
from tools.bench import manager_report as made
from tools.bench.manager_latency import DECREASE, FIRST, Latencies
from tools.bench.manager_table import ROWS, growth, header, line, lines, measurements, percentiles, short
from tools.bench.table import markdown

NOW = 1_800_000_000.0


@pytest.mark.parametrize("level", range(made.LEVELS))
def test_reported_is_sold(level: int) -> None:
    """Nothing but what is reclaimable limits what a node sells, so that the load decides what is written."""
    metric = made.node_metric(7, level, NOW)
    strategy = from_json(ColocationStrategy, {"enable": True})
    result = calculate(from_objects(made.node(7, NOW), metric, [made.pod(1, 7)], strategy, NOW))
    cpu, memory_mib = made.reclaimable(level)
    assert result.desired is not None
    assert (result.desired.cpu, result.desired.memory) == (cpu, memory_mib << 20)


def test_report_fits_the_type() -> None:
    """A report has no field that a NodeMetric does not know, and the size of one with 30 pods."""
    status = from_json(NodeMetric, made.node_metric(1, 0, NOW)).status
    assert status is not None
    assert not status.unknown
    assert len(status.pods_metric or ()) == made.REPORTED_PODS
    assert 6_000 < len(json.dumps(made.report(0, NOW))) < 12_000


def test_levels_move_both_ways() -> None:
    """Some reports go one level down, about as many go up, and most stay; no level leaves the range."""
    levels = made.Levels(10)
    before = [made.LEVELS // 2] * 10
    moves = []
    for turn in range(2000):
        now = levels.next(turn % 10)
        assert 0 <= now < made.LEVELS
        moves.append(now - before[turn % 10])
        before[turn % 10] = now
    assert set(moves) == {-1, 0, 1}
    assert moves.count(0) > 1500
    assert moves.count(-1) > 100
    assert moves.count(1) > 100


def test_first_publication_is_timed() -> None:
    """Time runs from the answer to the report until the Node shows its number."""
    latencies = Latencies()
    latencies.offers("a", None, 0.0)
    latencies.reports("a", 4000)
    latencies.answered("a", 1.0)
    latencies.offers("a", 4000, 1.25)
    assert latencies.times == {FIRST: [0.25]}
    assert (latencies.changes, latencies.missed, latencies.waiting()) == (1, 0, 0)


def test_faster_than_the_answer() -> None:
    """A Node that changes before the agent has its answer took no time at all, and not less."""
    latencies = Latencies()
    latencies.reports("a", 4000)
    latencies.offers("a", 4000, 0.9)
    latencies.answered("a", 1.0)
    assert latencies.times == {FIRST: [0.0]}


def test_only_urgent_numbers_are_timed() -> None:
    """A decrease is timed; an increase is not, for it holds first."""
    latencies = Latencies()
    latencies.offers("a", 4000, 0.0)
    latencies.reports("a", 5000)
    latencies.answered("a", 1.0)
    latencies.offers("a", 5000, 40.0)
    latencies.reports("a", 4000)
    latencies.answered("a", 61.0)
    latencies.offers("a", 5000, 61.1)  # a heartbeat
    latencies.offers("a", 4000, 61.5)
    assert latencies.times == {DECREASE: [0.5]}
    assert latencies.changes == 2


def test_number_that_never_comes_is_missed() -> None:
    """A number that the Node has not shown before the next report counts as missed."""
    latencies = Latencies()
    latencies.reports("a", 4000)
    latencies.answered("a", 1.0)
    latencies.reports("a", 5000)
    latencies.answered("a", 61.0)
    latencies.offers("a", 4000, 62.0)
    assert (latencies.missed, latencies.waiting(), latencies.times) == (1, 1, {})


def test_nodes_that_stay_behind_are_counted() -> None:
    """A Node is behind until it shows what was reported last, more or less; a report that got lost expects nothing."""
    latencies = Latencies()
    for node, milli in (("a", 4000), ("b", 4000), ("c", 4000)):
        latencies.offers(node, 4000, 0.0)
        latencies.reports(node, milli)
        latencies.answered(node, 0.5)
    assert latencies.behind() == 0
    latencies.reports("a", 5000)  # an increase, for which nobody is waiting
    latencies.reports("b", 3000)
    latencies.reports("c", 3000)
    assert (latencies.behind(), latencies.waiting()) == (3, 2)
    latencies.refused("c")
    latencies.offers("b", 3000, 1.0)
    assert latencies.behind() == 1
    latencies.offers("a", 5000, 40.0)
    assert latencies.behind() == 0


def test_line_is_found() -> None:
    """Three points on a line give its start and its slope."""
    assert line([500, 1000, 2000], [6.0, 11.0, 21.0]) == pytest.approx((1.0, 0.01))


@pytest.mark.parametrize(
    ("counts", "figures", "words"),
    [
        ([500, 1000], [6.0, 11.0], "1 + 10 per 1,000 nodes"),
        ([500, 1000, 2000], [6.0, None, 4.5], "6.5 - 1 per 1,000 nodes"),
        ([500, 1000], [5.001, 10.0], "0 + 10 per 1,000 nodes"),  # starts with next to nothing
        ([500], [6.0], ""),  # through one point go all lines
        ([500, 1000], [6.0, None], ""),
    ],
)
def test_growth_in_words(counts: list[int], figures: list[float | None], words: str) -> None:
    """Growth is a start and what every thousand nodes add."""
    assert growth(counts, figures) == words


@pytest.mark.parametrize(
    ("figure", "text"),
    [(None, "-"), (0.0, "0"), (0.2149, "0.215"), (9.996, "10"), (99.94, "99.9"), (99.96, "100"), (1234.5, "1,234")],
)
def test_short_figures(figure: float | None, text: str) -> None:
    """Figures have about three digits."""
    assert short(figure) == text


def test_percentiles_of_nothing() -> None:
    """Where nothing was timed there is no figure."""
    assert percentiles([]) == (None, None)
    assert percentiles([1.0] * 99 + [5.0])[0] == 1.0


def test_table_has_a_column_per_size() -> None:
    """Sizes stand side by side in order, each row has its budget, and a figure that is missing is a dash."""
    table = [header([500, 1000]), *lines({1000: {"manager_cpu": 9.0}, 500: {"manager_cpu": 5.0, "start_all": 2.0}})]
    assert table[0] == ["what", "500 nodes", "1,000 nodes", "growth", "budget"]
    assert table[1][1:] == ["5", "9", "1 + 8 per 1,000 nodes", "<= 100"]
    assert [row[1:3] for row in table if "for every node" in row[0]] == [["2", "-"]]
    assert {len(row) for row in table} == {5}
    assert len(table) == len(ROWS) + 1


def test_markdown_table() -> None:
    """The first row is the head."""
    assert markdown([["a", "b"], ["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"


def test_budgets_are_of_the_largest() -> None:
    """A figure that has a budget is told for every size, and judged by the largest."""
    found = {row.what: row for row in measurements({1000: {"first_p99": 2.5}, 500: {"first_p99": 0.5}})}
    row = found["NodeMetric to Node, first publication, p99"]
    assert (row.measured, row.budget, row.within) == ("0.5, 2.5 s with 500, 1,000 nodes", "<= 2 s", False)
    assert len(found) == len([row for row in ROWS if row.budget != "none"])
    assert found["manager, RSS at the end"].within is None
