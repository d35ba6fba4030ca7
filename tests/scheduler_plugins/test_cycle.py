"""The plugins of a profile: their verdicts, the shortlist, and their sums."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from scheduler_plugins.framework.cycle import Cycle, Enabled, PluginError, rounded
from scheduler_plugins.framework.shortlist import Shortlist, best
from scheduler_plugins.framework.verdict import PASSES, Refusal, Verdict
from scheduler_plugins.snapshot.accounts import Accounts
from scheduler_plugins.snapshot.arrays import FloatArray, Nodes
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.preferences import Groups
from tests.scheduler_plugins.objects import NOW, World, node, pod


@dataclass(frozen=True)
class Refuser:
    names: str
    reason: str

    def filter(self, _pod: PodRequest, nodes: Nodes) -> Verdict:
        refused = np.array([0 if name in self.names else PASSES for name in nodes.names])
        return Verdict(refused, [Refusal(self.reason)])


@dataclass(frozen=True)
class Scorer:
    scores: tuple[float, ...]

    def score(self, _pod: PodRequest, _nodes: Nodes) -> FloatArray:
        return np.array(self.scores)


@dataclass(frozen=True)
class Broken:
    def filter(self, _pod: PodRequest, _nodes: Nodes) -> Verdict:
        raise KeyError("table")


WORLD = World().put(node("a"), node("b"), node("c"))
POD = WORLD.request(pod())


def _cycle(*plugins: object, weights: tuple[float, ...] = ()) -> Cycle:
    weighted = zip(plugins, weights or (1.0,) * len(plugins), strict=True)
    return Cycle([Enabled(type(plugin).__name__, weight, plugin) for plugin, weight in weighted])


def test_first_refusal_wins() -> None:
    verdict = _cycle(Refuser("a", "first"), Refuser("ab", "second")).filter(POD, WORLD.nodes("a", "b", "c"))
    refusals = [verdict.refusal(row) for row in range(3)]
    assert refusals == [Refusal("first"), Refusal("second"), None]
    assert verdict.passes[[0, 2]].tolist() == [False, True]
    assert verdict.passes.tolist() == [False, False, True]


def test_plugin_runs_at_its_points() -> None:
    nodes = WORLD.nodes("a", "b", "c")
    for points, passes in ((None, 2), (frozenset({"filter"}), 2), (frozenset({"score"}), 3), (frozenset[str](), 3)):
        cycle = Cycle([Enabled("r", 1, Refuser("a", "no"), points)])
        assert int(cycle.filter(POD, nodes).passes.sum()) == passes
    for points, scored in ((None, 1), (frozenset({"score"}), 1), (frozenset({"filter"}), 0)):
        assert len(list(Cycle([Enabled("s", 1, Scorer((1, 2, 3)), points)]).scores(POD, nodes))) == scored


def test_scores_are_weighed() -> None:
    """The score is the weighted mean: (3 * 100 + 1 * 50) / 4 = 87.5."""
    cycle = _cycle(Scorer((100, 0, 60)), Scorer((50, 0, 60)), weights=(3, 1))
    assert cycle.score(POD, WORLD.nodes("a", "b", "c")).tolist() == [87.5, 0, 60]


def test_scores_are_clipped() -> None:
    assert _cycle(Scorer((-5, 105, 7))).score(POD, WORLD.nodes("a", "b", "c")).tolist() == [0, 100, 7]


def test_weight_zero_is_silent() -> None:
    assert _cycle(Scorer((9, 9, 9)), weights=(0,)).score(POD, WORLD.nodes("a", "b", "c")).tolist() == [0, 0, 0]


def test_failure_names_the_plugin() -> None:
    with pytest.raises(PluginError, match=r"Broken could not filter: KeyError: 'table'"):
        _cycle(Broken()).filter(POD, WORLD.nodes("a"))
    with pytest.raises(PluginError, match="the score of node b is not a number"):
        _cycle(Scorer((1, float("nan"), 1))).score(POD, WORLD.nodes("a", "b", "c"))
    with pytest.raises(PluginError, match=r"Scorer could not score: its scores for 3 nodes have the shape \(2,\)"):
        _cycle(Scorer((1, 2))).score(POD, WORLD.nodes("a", "b", "c"))


def test_calls_are_observed() -> None:
    observed: list[tuple[str, str, bool]] = []

    def observe(name: str, step: str, seconds: float | None) -> None:
        observed.append((name, step, seconds is not None))

    plugins = [Enabled("r", 1, Refuser("", "")), Enabled("b", 1, Broken())]
    for sampled in (1.0, 0.0):
        with pytest.raises(PluginError):
            Cycle(plugins, observe, sampled).filter(POD, WORLD.nodes("a"))
    assert observed == [("r", "filter", True), ("b", "filter", False), ("b", "filter", False)]


def test_rounding_happens_once() -> None:
    assert rounded(np.array([87.5, 0.4, 99.5])).tolist() == [88, 0, 100]


@pytest.mark.parametrize(
    ("scores", "count", "expected"),
    [([50, 10, 90], 1, [2]), ([50, 10, 90], 2, [2, 0]), ([50, 10, 90], 9, [2, 0, 1]), ([], 8, [])],
)
def test_best_come_first(scores: list[float], count: int, expected: list[int]) -> None:
    assert best(np.array(scores, np.float64), count, np.random.default_rng(1)).tolist() == expected


def test_equal_scores_are_drawn() -> None:
    generator = np.random.default_rng(1)
    scores = np.array([90.0, *[50.0] * 9])
    drawn = [best(scores, 3, generator).tolist() for _ in range(60)]
    assert all(rows[0] == 0 and len(set(rows)) == 3 for rows in drawn)
    assert {row for rows in drawn for row in rows} == set(range(10))


SCORES = np.array([50.0, 90.0, 10.0, 70.0, 30.0, 80.0])


def _choose(numbers: list[int], avoided: list[int] = [], **length: float) -> list[int]:  # noqa: B006 - not changed
    groups = Groups(
        np.array(numbers, np.int32), np.zeros(6, np.int32), np.isin(np.arange(6), avoided), even=not avoided
    )
    chosen: list[int] = Shortlist(**length).choose(SCORES, groups, np.random.default_rng(1)).tolist()  # type: ignore[arg-type]
    return chosen


@pytest.mark.parametrize(
    ("numbers", "avoided", "size", "share", "chosen"),
    [
        ([0] * 6, [], 1, 0, [1]),
        ([0] * 6, [], 4, 0, [1, 5, 3, 0]),
        ([0] * 6, [], 1, 0.5, [1, 5, 3]),
        ([0] * 6, [], 1, 0.51, [1, 5, 3, 0]),  # rounded up
        ([0] * 6, [], 9, 0, [1, 5, 3, 0, 4, 2]),
        ([7, 0, 7, 0, 7, 0], [], 1, 0, [1, 0]),  # the best of each group
        ([0, 7, 0, 7, 0, 7], [], 1, 0.5, [0, 4, 1, 5]),
        ([7, 0, 7, 0, 7, 0], [], 1, 0.5, [1, 5, 0, 4]),
        ([0] * 6, [1, 5], 3, 0, [3, 0, 4]),  # avoided nodes last, however good
        ([0] * 6, [1, 5], 5, 0, [3, 0, 4, 2, 1]),
        ([3, 0, 3, 3, 3, 0], [1, 5], 1, 0, [1, 3]),  # a group of only avoided nodes has its best one
    ],
)
def test_chooses(numbers: list[int], avoided: list[int], size: int, share: float, chosen: list[int]) -> None:
    assert _choose(numbers, avoided, size=size, share=share) == chosen


@pytest.mark.parametrize(("in_flight", "chosen"), [(0, [1, 5, 0, 4]), (1, [1, 0]), (2, [1, 0]), (99, [1, 0])])
def test_bursts_shorten_groups(in_flight: int, chosen: list[int]) -> None:
    groups = Groups(np.array([7, 0, 7, 0, 7, 0], np.int32), np.zeros(6, np.int32), np.zeros(6, np.bool_))
    assert Shortlist(1, 0.5).choose(SCORES, groups, np.random.default_rng(1), in_flight).tolist() == chosen


def test_equal_nodes_are_drawn() -> None:
    groups = Groups(np.zeros(40, np.int32), np.zeros(40, np.int32), np.zeros(40, np.bool_))
    lots = np.random.default_rng(1)
    named = {row for _ in range(30) for row in Shortlist(1, 0).choose(np.zeros(40), groups, lots).tolist()}
    assert len(named) > 10


def test_no_node() -> None:
    groups = Groups(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.bool_))
    assert Shortlist().choose(np.zeros(0), groups, np.random.default_rng(1)).tolist() == []


@dataclass(frozen=True)
class Two:
    given: tuple[int, ...]

    def width(self) -> int:
        return 2

    def amounts(self, _pod: Mapping[str, Any]) -> tuple[int, ...]:
        return self.given


@pytest.mark.parametrize(
    ("amounts", "problem"),
    [
        ((1,), "gives 1 numbers of a pod, not 2"),
        ((0, 2**53 + 1), "gives 9007199254740993 of a pod"),
        ((-(2**53) - 1, 0), "gives -9007199254740993 of a pod"),
    ],
)
def test_invalid_amounts_are_rejected(amounts: tuple[int, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=f"greedy {problem}"):
        Accounts({"greedy": Two(amounts)}).read(pod("p"))


class _Broken(Two):
    def amounts(self, _pod: Mapping[str, Any]) -> tuple[int, ...]:
        return self.given[9:][0], 0


def test_plugin_that_fails_makes_the_pod_unreadable() -> None:
    with pytest.raises(ValueError, match="broken cannot read it: IndexError: tuple index out of range"):
        Accounts({"broken": _Broken((1, 2))}).read(pod("p"))


def test_largest_amounts_of_many_pods_are_summed() -> None:
    cache = ClusterCache(LoadRules(), {"large": Two((2**53, -(2**53)))})
    cache.put_node(node("a"))
    for number in range(250):
        cache.put_pod(pod(f"p{number}", node="a"), NOW)
    assert cache.freeze(NOW).bound("large").tolist() == [[250 * 2**53, -250 * 2**53]]


def test_oversized_amounts_block_no_pod() -> None:
    cache = ClusterCache(LoadRules(), {"large": Two((2**53, -(2**53)))})
    for name in ("a", "b"):
        cache.put_node(node(name))
    for number in range(1100):
        cache.put_pod(pod(f"p{number}", node="a"), NOW)
    sums = cache.select(["a", "b"], NOW)[0].bound("large")
    assert sums[1].tolist() == [0, 0]
    assert sums[0][0] > 2**60
    assert sums[0][1] < -(2**60)
