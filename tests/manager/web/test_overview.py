from dataclasses import replace

import pytest

from manager.web.history import Series
from manager.web.overview import ORDERS, PAGE_SIZE, Query, overview, select, waste
from manager.web.state import State
from tests.manager.web.made_cluster import World, metric, prediction_ready, published
from tests.support.objects import mid_pod, node, pod


@pytest.fixture
def world() -> World:
    """Four nodes: a publishes, b has a large wasted rest, c never reported, d is late and cold."""
    world, prod = World(), pod("p", {"cpu": "9"}, on="a")
    world.put(node("a", mid=("4000", "10Gi")), metric("a", used=2.0), prod, mid_pod("m", on="a"))
    off = (prediction_ready(ready=True), published("ColocationDisabled"))
    world.put(node("b", cpu="32"), metric("b", used=20.0, conditions=off), pod("q", {"cpu": "30"}, on="b"))
    world.put(node("c"))
    world.put(node("d"), metric("d", age=400.0, ready=False, cold_names=("shop/x",)))
    world.sample()
    return world


def test_sums_count_nodes_that_report(world: World) -> None:
    result = overview(world.recorder)
    assert (result.nodes, result.reporting, result.warm, result.cold) == (4, 2, 4, 1)
    assert {series: number for (series, resource), number in result.numbers.items() if resource == "cpu"} == {
        Series.ALLOCATABLE: 80.0,
        Series.PROD_REQUESTED: 39.0,
        Series.PROD_PEAK: 10.0,
        Series.PROD_USAGE: 8.0,
        Series.USAGE: 22.0,
        Series.MID: 4.0,
        Series.MID_REQUESTED: 3.0,
    }
    assert result.states == {State.SILENT: 1, State.LATE: 1, State.PUBLISHING: 1, State.OFF: 1}
    assert ([row.name for row in result.attention], [row.name for row in result.wasteful]) == (["c", "d"], ["b"])


def test_waste_is_unneeded_and_unpublished(world: World) -> None:
    """Requested, not needed at the peak, and not published: 30 - 5 = 25 of b, 9 - 5 - 4 = 0 of a, not known of c."""
    assert [waste(world.recorder.rows[name], "cpu") for name in "abc"] == [0.0, 25.0, None]
    assert overview(world.recorder).waste == (25.0, 0.0)


def test_waste_is_unknown_without_a_prediction() -> None:
    world = World()
    world.put(node("cold"), metric("cold", ready=False), pod("p", {"cpu": "9"}, on="cold"))
    world.sample()
    assert waste(world.recorder.rows["cold"], "cpu") is None
    assert overview(world.recorder).waste == (None, None)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (Query(), "cdab"),  # the most urgent first
        (Query(backwards=True), "badc"),
        (Query(sort="name"), "abcd"),
        (Query(sort="cpu"), "bacd"),  # unknown values are last
        (Query(sort="cpu", backwards=True), "abcd"),
        (Query(sort="waste"), "bacd"),
        (Query(sort="report"), "dabc"),
        (Query(q="A"), "a"),
        (Query(state="late"), "d"),
        (Query(prediction="ready", sort="name"), "ab"),
        (Query(prediction="not ready", sort="name"), "cd"),
        (Query(q="none"), ""),
    ],
)
def test_lists_are_filtered_and_ordered(world: World, query: Query, names: str) -> None:
    assert [row.name for row in select(world.recorder.rows.values(), query).rows] == list(names)


@pytest.mark.parametrize("order", ORDERS)
def test_no_order_loses_a_node(world: World, order: str) -> None:
    assert select(world.recorder.rows.values(), Query(sort=order)).found == 4


def test_page_has_fifty_nodes_and_one_beyond_the_last_is_the_last(world: World) -> None:
    rows = [world.recorder.rows["a"]] * (2 * PAGE_SIZE + 1)
    assert [len(select(rows, Query(page=page)).rows) for page in (1, 2, 3, 99)] == [50, 50, 1, 1]
    assert select(rows, Query(page=99)).page == select(rows, Query()).pages == 3


def test_unknown_query_values_are_ignored_and_texts_are_cut() -> None:
    malformed = {"page": "-1", "sort": "x", "state": "<b>", "range": "9y", "prediction": "", "backwards": "2"}
    assert Query.of(malformed) == Query.of({"page": "١"}) == Query()  # noqa: RUF001 - a digit elsewhere
    assert len(Query.of({"q": "x" * 10_000}).q) == 253


def test_nodes_that_join_while_a_list_is_made(world: World) -> None:
    """Lists are made in threads of their own while the event loop adds nodes: such a list is of those before."""
    rows = world.recorder.rows

    class Name(str):
        __slots__ = ()

        def __contains__(self, part: object) -> bool:
            rows["new"] = rows["b"]
            return super().__contains__(str(part))

    rows["a"] = replace(rows["a"], name=Name("a"))
    assert select(rows.values(), Query()).found == 4
    assert len(rows) == 5
