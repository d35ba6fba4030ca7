"""The extender with every configuration of kube-scheduler, and in its preemption."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugins.extender.service import Answering, Extender, Mode, Refused
from scheduler_plugins.extender.wire import Arguments, Preemption
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.framework.plugin import Victims
from scheduler_plugins.framework.shortlist import Shortlist
from scheduler_plugins.framework.verdict import PASSES, Refusal, Verdict
from scheduler_plugins.plugins.load_aware import NAME
from scheduler_plugins.snapshot.arrays import Nodes
from scheduler_plugins.snapshot.pod import PodRequest
from tests.scheduler_plugins.objects import NOW, Json, World, node, node_metric, pod, records

HOT = "node(s) cpu usage exceed threshold"


@dataclass(frozen=True, slots=True)
class Crowded:
    full: frozenset[str]
    rewrite: Mapping[str, Victims] | None = None
    seen: list[Sequence[str]] = field(default_factory=list)

    def filter(self, _pod: PodRequest, nodes: Nodes) -> Verdict:
        refused = np.array([0 if name in self.full else PASSES for name in nodes.names], np.int64)
        return Verdict(refused, (Refusal("full", eviction_helps=True),))

    def post_filter(self, _pod: PodRequest, nodes: Nodes, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        self.seen.append(list(nodes.names))
        return victims if self.rewrite is None else self.rewrite


def _extender(
    world: World, mode: Mode, *more: object, size: int = 2, on_refused: Refused = lambda *_: None
) -> Extender:
    enabled = [Enabled(NAME, 1.0, world.plugin), *(Enabled(f"more{at}", 1.0, one) for at, one in enumerate(more))]
    generator = np.random.default_rng(1)
    return Extender(
        world.cache, Cycle(enabled), Answering(mode, Shortlist(size, 0)), lambda: NOW, generator, on_refused
    )


def _cluster(**used: str) -> World:
    world = World()
    for name, cpu in used.items():
        world.put(node(name), node_metric(name, cpu=cpu))
    return world


def _ask(item: Json, *names: str) -> Arguments:
    return Arguments(item, list(names))


def _charged(world: World, name: str = "p") -> tuple[str, ...]:
    charge = world.cache.in_flight.get(f"uid-{name}")
    return () if charge is None else tuple(charge.names)


# Configured verbs


@pytest.mark.parametrize("mode", Mode)
def test_prioritize_alone_spreads(mode: Mode) -> None:
    world = _cluster(a="10", b="12", c="14", d="16")
    extender = _extender(world, mode)
    winners = []
    for index in range(8):
        scores = extender.prioritize(_ask(pod(f"p{index}", {"cpu": "10"}), "a", "b", "c", "d"))
        winners.append("abcd"[int(scores.argmax())])
        assert _charged(world, f"p{index}") == (winners[-1],)
    assert sorted(map(winners.count, "abcd")) == [2, 2, 2, 2]


@pytest.mark.parametrize("mode", Mode)
def test_repeated_prioritize_ignores_own_charge(mode: Mode) -> None:
    world = _cluster(a="10", b="40")
    extender = _extender(world, mode)
    item = pod("p", {"cpu": "20"})
    first, again = (extender.prioritize(_ask(item, "a", "b")).tolist() for _ in range(2))
    assert first == again
    assert world.nodes("a").in_flight[0].tolist()[0] == 20_000


def test_shortlist_with_prioritize_is_charged_once() -> None:
    world = _cluster(a="10", b="20", c="60")
    extender = _extender(world, Mode.SHORTLIST)
    item = pod("p", {"cpu": "5"})
    untouched = _extender(_cluster(a="10", b="20", c="60"), Mode.WEIGHTED).prioritize(_ask(item, "a", "b"))
    assert list(extender.filter(_ask(item, "a", "b", "c")).names) == ["a", "b"]
    assert extender.prioritize(_ask(item, "a", "b")).tolist() == untouched.tolist()
    assert _charged(world) == ("a", "b")
    assert [row[0] for row in world.nodes("a", "b", "c").in_flight.tolist()] == [2500, 2500, 0]
    extender.prioritize(_ask(item, "b"))
    assert [row[0] for row in world.nodes("a", "b", "c").in_flight.tolist()] == [0, 5000, 0]


def test_filter_alone_charges_known_nodes() -> None:
    """In weighted mode filter alone does not know the pod's node, unless one node is left: it charges nothing."""
    world = _cluster(a="10", b="20", c="90")
    extender = _extender(world, Mode.WEIGHTED)
    assert list(extender.filter(_ask(pod("p"), "a", "b", "c")).names) == ["a", "b"]
    assert _charged(world) == ()
    assert list(extender.filter(_ask(pod("p"), "a", "c")).names) == ["a"]
    assert _charged(world) == ("a",)
    assert list(extender.filter(_ask(pod("p"), "a", "b")).names) == ["a", "b"]
    assert _charged(world) == ()


@pytest.mark.parametrize("mode", Mode)
def test_no_nodes_is_no_answer(mode: Mode) -> None:
    texts: list[object] = []
    extender = _extender(_cluster(a="10"), mode, on_refused=lambda *each: texts.append(each))
    result = extender.filter(_ask(pod()))
    assert (list(result.names), result.failed, result.unresolvable, texts) == ([], {}, {}, [])
    assert extender.prioritize(_ask(pod())).tolist() == []


def test_refusals_are_reported() -> None:
    texts: list[tuple[str, str, list[str], list[str]]] = []

    def note(request: PodRequest, item: Mapping[str, Any], names: Sequence[str], verdict: Verdict) -> None:
        reasons = [refusal.reason for row in range(len(names)) if (refusal := verdict.refusal(row))]
        texts.append((request.key, item["metadata"]["name"], list(names), reasons))

    extender = _extender(_cluster(a="90", b="10"), Mode.SHORTLIST, on_refused=note)
    extender.filter(_ask(pod(), "a", "b"))
    assert not texts
    extender.filter(_ask(pod(), "a"))
    assert texts == [("default/p", "p", ["a"], [HOT])]


# Preemption


def _victims(*names: str) -> dict[str, Victims]:
    return {name: Victims((f"uid-on-{name}",)) for name in names}


def test_preemption_where_it_helps() -> None:
    world = _cluster(a="10", hot="90", full="10")
    crowded = Crowded(frozenset({"full"}))
    extender = _extender(world, Mode.SHORTLIST, crowded)
    result = extender.preempt(Preemption(pod(), _victims("a", "hot", "full", "new")))
    assert dict(result) == _victims("a", "full", "new")
    assert crowded.seen == [["a", "full"]]
    assert extender.preempt(Preemption(pod(), _victims("hot"))) == {}
    assert extender.preempt(Preemption(pod(), {})) == {}
    assert len(crowded.seen) == 1


def test_victims_free_resources() -> None:
    world = _cluster(a="10")
    world.put(pod("victim", {"cpu": "40"}, node="a", scheduled=-1), pod("other", {"cpu": "5"}, node="a", scheduled=-1))
    before = records(world.nodes("a"))
    extender = _extender(world, Mode.SHORTLIST)
    big = pod("p", {"cpu": "30"})
    assert extender.filter(_ask(big, "a")).unresolvable == {"a": HOT}
    assert extender.preempt(Preemption(big, _victims("a"))) == {}
    victims = {"a": Victims(("uid-victim",))}
    assert extender.preempt(Preemption(big, victims)) == victims
    assert records(world.nodes("a")) == before
    assert extender.filter(_ask(big, "a")).unresolvable == {"a": HOT}


def test_plugins_rewrite_victims() -> None:
    rewritten = {"a": Victims(("uid-other",), 1)}
    extender = _extender(_cluster(a="10", b="10"), Mode.SHORTLIST, Crowded(frozenset(), rewritten))
    assert extender.preempt(Preemption(pod(), {"a": Victims(()), **_victims("b")})) == rewritten


def test_preemption_ends_the_attempt() -> None:
    world = _cluster(a="10")
    extender = _extender(world, Mode.SHORTLIST)
    extender.filter(_ask(pod("p", {"cpu": "5"}), "a"))
    assert _charged(world) == ("a",)
    extender.preempt(Preemption(pod("p", {"cpu": "5"}), _victims("a")))
    assert _charged(world) == ()


# The modes agree

_USED = st.lists(st.integers(0, 100), min_size=1, max_size=8)


@given(used=_USED, cpu=st.integers(0, 30), in_flight=st.lists(st.integers(0, 7), max_size=4), seed=st.integers(0, 9))
def test_modes_agree(used: list[int], cpu: int, in_flight: list[int], seed: int) -> None:
    world = _cluster(**{f"n{index}": str(value) for index, value in enumerate(used)})
    names = list(world.cache.nodes)
    for number, at in enumerate(in_flight):
        other = pod(f"other{number}", {"cpu": "9"})
        world.cache.charge(world.request(other), [names[at % len(names)]], NOW)
    cycle = Cycle([Enabled(NAME, 1.0, world.plugin)])
    shortlist, weighted = (
        Extender(world.cache, cycle, Answering(mode, Shortlist(1, 0)), lambda: NOW, np.random.default_rng(seed))
        for mode in Mode
    )
    arguments = _ask(pod("p", {"cpu": str(cpu)}), *names)
    answered = weighted.filter(arguments)
    world.cache.release("uid-p")
    picked = shortlist.filter(arguments)
    world.cache.release("uid-p")
    assert (picked.failed, picked.unresolvable) == (answered.failed, answered.unresolvable)
    assert bool(picked.names) == bool(answered.names)
    if picked.names:
        left = list(answered.names)
        scores = weighted.prioritize(_ask(pod("p", {"cpu": str(cpu)}), *left))
        (winner,) = picked.names
        world.cache.release("uid-p")
        exact = cycle.score(world.request(pod("p", {"cpu": str(cpu)})), world.nodes(*left))
        assert exact[left.index(winner)] == exact.max()
        assert exact[int(scores.argmax())] == exact.max()
