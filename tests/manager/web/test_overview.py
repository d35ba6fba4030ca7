"""Sums, lists, filters and orders."""

from dataclasses import replace

import pytest

from manager.web.overview import ORDERS, PAGE_SIZE, Query, overview, select, waste
from manager.web.state import State
from tests.manager.web.made_cluster import World, metric, prediction_ready, published
from tests.support.objects import mid_pod, node, pod


@pytest.fixture
def world() -> World:
    """Four nodes: a publishes, b has a large wasted rest, c never reported, d is late and cold."""
    world = World()
    world.put(
        node("a", mid=("4000", "10Gi")), metric("a", used=2.0), pod("p", {"cpu": "9"}, on="a"), mid_pod("m", on="a")
    )
    off = (prediction_ready(ready=True), published("ColocationDisabled"))
    world.put(node("b", cpu="32"), metric("b", used=20.0, conditions=off), pod("q", {"cpu": "30"}, on="b"))
    world.put(node("c"))
    world.put(node("d"), metric("d", age=400.0, ready=False, cold_names=("shop/x",)))
    world.look()
    return world


def test_sums_of_what_is_known(world: World) -> None:
    """Sums count the nodes that say something, and states and pods are counted."""
    found = overview(world.recorder)
    assert (found.nodes, found.reporting) == (4, 2)
    numbers = {series.json_name: number for (series, resource), number in found.numbers.items() if resource == "cpu"}
    assert numbers == {
        "allocatable": 80.0,
        "requested": 39.0,
        "peak": 10.0,
        "usedByProd": 8.0,
        "used": 22.0,
        "offered": 4.0,
        "bought": 3.0,
    }
    assert found.states == {State.SILENT: 1, State.LATE: 1, State.SELLING: 1, State.OFF: 1}
    assert (found.warm, found.cold) == (4, 1)
    assert [row.name for row in found.attention] == ["c", "d"]
    assert [row.name for row in found.wasteful] == ["b"]


def test_waste_is_what_nobody_needs(world: World) -> None:
    """Requested, not needed at the peak, and not offered: 30 - 5 = 25 of b, 9 - 5 - 4 = 0 of a, not known of c."""
    rows = world.recorder.rows
    assert [waste(rows[name], "cpu") for name in "abc"] == [0.0, 25.0, None]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (Query(), ["c", "d", "a", "b"]),  # the most urgent first
        (Query(backwards=True), ["b", "a", "d", "c"]),
        (Query(sort="name"), ["a", "b", "c", "d"]),
        (Query(sort="cpu"), ["b", "a", "c", "d"]),  # what is not known comes last
        (Query(sort="cpu", backwards=True), ["a", "b", "c", "d"]),
        (Query(sort="waste-cpu"), ["b", "a", "c", "d"]),
        (Query(sort="report"), ["d", "a", "b", "c"]),
        (Query(q="A"), ["a"]),
        (Query(state="late"), ["d"]),
        (Query(prediction="ready", sort="name"), ["a", "b"]),
        (Query(prediction="not ready", sort="name"), ["c", "d"]),
        (Query(q="none"), []),
    ],
)
def test_lists_are_filtered_and_ordered(world: World, query: Query, names: list[str]) -> None:
    """A query chooses nodes and their order."""
    assert [row.name for row in select(world.recorder.rows.values(), query).rows] == names


def test_every_order_works(world: World) -> None:
    """Whatever is sorted by, no node is lost."""
    for order in ORDERS:
        assert select(world.recorder.rows.values(), Query(sort=order)).found == 4


def test_lists_have_pages(world: World) -> None:
    """A page has fifty nodes, and a page beyond the last one is the last one."""
    row = world.recorder.rows["a"]
    rows = [row] * (2 * PAGE_SIZE + 1)
    assert [len(select(rows, Query(page=page)).rows) for page in (1, 2, 3, 99)] == [50, 50, 1, 1]
    assert select(rows, Query(page=99)).page == select(rows, Query()).pages == 3


@pytest.mark.parametrize(
    "query",
    [
        Query(),
        Query(q='a "b"&c', state="late", prediction="not ready", sort="memory", backwards=True, page=7, range="24h"),
    ],
)
def test_queries_survive_links(query: Query) -> None:
    """What a link says is read again as the same, and what goes without saying is left out."""
    assert Query.of(query.words()) == query
    assert Query().words() == {}
    assert Query(page=3).words(page=1, state="off") == {"state": "off"}


def test_odd_words_say_nothing() -> None:
    """What cannot be understood counts as not said, and texts are cut."""
    odd = {"page": "-1", "sort": "x", "state": "<b>", "range": "9y", "prediction": "", "backwards": "2"}
    assert Query.of(odd) == Query()
    assert Query.of({"page": "١"}) == Query()  # noqa: RUF001 - a digit elsewhere
    assert len(Query.of({"q": "x" * 10_000}).q) == 253


def test_nodes_that_join_while_a_list_is_made(world: World) -> None:
    """Lists are made in threads of their own while the event loop adds nodes: such a list is of those before."""
    rows = world.recorder.rows

    class Name(str):
        """While it is looked at, a node joins."""

        __slots__ = ()

        def __contains__(self, part: object) -> bool:
            rows["new"] = rows["b"]
            return super().__contains__(str(part))

    rows["a"] = replace(rows["a"], name=Name("a"))
    assert select(rows.values(), Query()).found == 4
    assert len(rows) == 5
