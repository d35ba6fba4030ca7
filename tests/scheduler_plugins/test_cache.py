"""The current cluster, and its snapshots."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crds import names
from scheduler_plugins.snapshot.arrays import NodeState
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.pod import PodRequest
from tests.scheduler_plugins.objects import NOW, Json, World, condition, node, node_metric, pod, records


def _delta(world: World, name: str = "n") -> int:
    ledger = world.cache.ledger(name)
    return 0 if ledger is None else ledger.sums.node_delta[0]


def test_pod_moves_between_nodes() -> None:
    world = World().put(pod("p", {"cpu": "1"}, node="a")).put(pod("p", {"cpu": "1"}, node="b"))
    assert (_delta(world, "a"), _delta(world, "b")) == (0, 1000)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_is_released(phase: str) -> None:
    world = World().put(pod("p", {"cpu": "1"}, node="n"))
    ended = pod("p", {"cpu": "1"}, node="n")
    ended["status"]["phase"] = phase
    assert _delta(world.put(ended)) == 0
    assert world.cache.ledger("n") is None


def test_label_change_is_seen() -> None:
    world = World().put(pod("p", {"cpu": "1"}, node="n"))
    relabelled = pod("p", {"cpu": "1"}, node="n")
    relabelled["metadata"]["labels"] = {names.LABEL_PRIORITY_CLASS: "koord-batch"}
    world.put(relabelled)
    ledger = world.cache.ledger("n")
    assert ledger is not None
    assert (ledger.sums.estimated[0], ledger.sums.prod_delta[0]) == (1000, 0)


def test_no_annotation_makes_absent() -> None:
    """A pod that the API server lists counts, whatever its labels: a placeholder of Koordinator is no pod."""
    placeholder = pod("p", {"cpu": "1"}, node="n")
    placeholder["metadata"]["annotations"] = {"scheduling.koordinator.sh/reserve-pod": "true"}
    assert _delta(World().put(placeholder)) == 1000


def test_ledger_lives_while_needed() -> None:
    world = World().put(node_metric(), pod("p", node="n"))
    world.cache.delete_node_metric("n")
    assert world.cache.ledger("n") is not None
    world.cache.delete_pod("uid-p")
    assert world.cache.ledger("n") is None


def test_snapshot_does_not_change() -> None:
    world = World().put(node(), node_metric(cpu="50"))
    before = world.cache.freeze(NOW)
    world.put(node_metric(cpu="60"), node("m"))
    world.cache.charge(world.request(pod("p")), ["n"], NOW)
    assert before.tables["LoadAwareScheduling"]["load"][0][0] == 50_000
    assert (len(before), before.in_flight.sum()) == (1, 0)
    with pytest.raises(ValueError, match="read-only"):
        before.in_flight[0] = 1


def test_select_keeps_order() -> None:
    world = World().put(*(node(name, cpu=cpu) for name, cpu in (("a", "1"), ("b", "2"), ("c", "3"))))
    nodes, unknown = world.cache.freeze(NOW).select(["c", "x", "a"])
    assert list(nodes.names) == ["c", "a"]
    assert nodes.tables["LoadAwareScheduling"]["allocatable"][:, 0].tolist() == [3000, 1000]
    assert unknown == ["x"]


def _failing_plugin(dtype: Any, bad: set[str]) -> Any:  # noqa: ANN401 - numpy's type of a record
    class Frail:
        def dtype(self) -> Any:  # noqa: ANN401
            return dtype

        def record(self, state: NodeState) -> tuple[Any, ...]:
            if state.name in bad:
                raise LookupError("no such thing")
            return (state.allocatable["cpu"],)

    return Frail()


def test_failing_record_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    bad: set[str] = set()
    plugins = {"Frail": _failing_plugin(np.dtype([("cpu", np.int64)]), bad), "LoadAwareScheduling": World().plugin}
    cache = ClusterCache(World().rules, plugins)
    for name in "ab":
        cache.put_node(node(name, cpu="1"))
    cache.freeze(NOW)
    bad.add("a")
    for cpu in ("2", "3"):
        for name in "ab":
            cache.put_node(node(name, cpu=cpu))
        nodes = cache.select(["a", "b"], NOW)[0]
    assert nodes.tables["Frail"]["cpu"].tolist() == [1000, 3000]
    assert nodes.tables["LoadAwareScheduling"]["allocatable"][:, 0].tolist() == [3000, 3000]
    assert cache.failures == {"a": "Frail keeps its former record: LookupError: no such thing"}
    assert len(caplog.records) == 1
    bad.clear()
    cache.put_node(node("a", cpu="4"))
    assert cache.select(["a"], NOW)[0].tables["Frail"]["cpu"].tolist() == [4000]
    assert not cache.failures


def test_record_is_whole_after_failed_one() -> None:
    """A record of which only a part could be written leaves nothing of itself behind."""
    good, records = (1.0, 2.0), dict[str, Any]()

    class Half:
        def dtype(self) -> Any:  # noqa: ANN401
            return np.dtype([("first", np.float64), ("second", np.float64)])

        def record(self, _state: NodeState) -> Any:  # noqa: ANN401
            return records["now"]

    cache = ClusterCache(World().rules, {"Half": Half()})
    for cpu, record in (("1", good), ("2", (9.0, "no number")), ("3", good)):
        records["now"] = record
        cache.put_node(node("a", cpu=cpu))
        nodes = cache.select(["a"], NOW)[0]
    assert nodes.tables["Half"].record(0) == {"first": 1.0, "second": 2.0}


# Pods in flight


def _charged(world: World) -> dict[str, int]:
    snapshot = world.cache.freeze(NOW)
    return dict(zip(snapshot.names, snapshot.in_flight[:, 0].tolist(), strict=True))


def _reserved(after: float = 0) -> World:
    world = World().put(node("a"), node("b"))
    world.cache.charge(world.request(pod("p", {"cpu": "2"})), ["a", "b"], NOW + after)
    return world


def test_binding_moves_the_charge() -> None:
    world = _reserved()
    assert _charged(world) == {"a": 1000, "b": 1000}
    world.put(pod("p", {"cpu": "2"}, node="b"))
    assert _charged(world) == {"a": 0, "b": 0}
    assert (_delta(world, "a"), _delta(world, "b")) == (0, 2000)


def test_deletion_drops_the_charge() -> None:
    world = _reserved()
    world.cache.delete_pod("uid-p")
    assert _charged(world) == {"a": 0, "b": 0}


@pytest.mark.parametrize(
    ("answered", "status", "charged"),
    [
        (0, {"conditions": [condition("PodScheduled", 0, "False")]}, 0),
        (0, {"conditions": [condition("PodScheduled", -5, "False")]}, 1000),  # an older refusal does not count
        # The API has whole seconds: a refusal with an earlier time may still belong to the attempt.
        (0.7, {"conditions": [condition("PodScheduled", 0, "False")]}, 0),
        (0, {"phase": "Failed"}, 0),  # before it was bound
    ],
)
def test_refusal_drops_the_charge(answered: float, status: Json, charged: int) -> None:
    world = _reserved(answered)
    assert _charged(world.put(pod("p", {"cpu": "2"}) | {"status": status})) == {"a": charged, "b": charged}


@dataclass(frozen=True)
class Ledger:
    pods: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def reserve(self, pod: PodRequest, names: Sequence[str], _now: float) -> None:
        self.pods[pod.uid] = tuple(names)

    def unreserve(self, uid: str) -> None:
        del self.pods[uid]


def test_plugins_receive_pods_in_flight() -> None:
    """The cache reports each reservation to a plugin, also of a pod without estimated usage, and its end once."""
    plugin = Ledger()  # which does not receive unconfirmed pods
    cache = ClusterCache(LoadRules(resources=("x",), factors={"x": 100}), {"ledger": plugin})
    for name in "abcd":
        cache.charge(cache.read(pod(name)), ["n", "m"], NOW)
    cache.charge(cache.read(pod("d")), ["m"], NOW + 10)
    assert plugin.pods == {"uid-a": ("n", "m"), "uid-b": ("n", "m"), "uid-c": ("n", "m"), "uid-d": ("m",)}
    cache.put_pod(pod("e"), NOW)
    cache.reserve_unconfirmed("uid-e", NOW)
    cache.put_pod(pod("a", node="n"), NOW)
    cache.delete_pod("uid-b")
    cache.delete_pod("uid-b")
    assert set(plugin.pods) == {"uid-c", "uid-d"}
    cache.freeze(NOW + 30)
    assert set(plugin.pods) == {"uid-c", "uid-d"}, "a charge lasts as long as the longest binding"
    cache.freeze(NOW + 600)
    assert set(plugin.pods) == {"uid-d"}


def test_failed_plugin_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    cache = ClusterCache(LoadRules(), {"ledger": (plugin := Ledger())})
    cache.charge(cache.read(pod("p")), ["a"], NOW)
    plugin.pods.clear()  # it no longer knows the pod
    cache.put_pod(pod("p", node="a"), NOW)
    assert not cache.in_flight
    assert [record.getMessage() for record in caplog.records] == ["A plugin could not unreserve pod uid-p"]


@pytest.mark.parametrize(
    ("kept", "dropped"), [(29, 30), (-20, -7200)], ids=["without a report", "clock set back by hours"]
)
def test_charge_ends_in_time(kept: float, dropped: float) -> None:
    world = _reserved()
    world.cache.freeze(NOW + kept)
    assert len(world.cache.in_flight) == 1
    world.cache.freeze(NOW + dropped)
    assert _charged(world) == {"a": 0, "b": 0}


def test_new_answer_replaces_charge() -> None:
    world = _reserved()
    world.cache.charge(world.request(pod("p", {"cpu": "2"})), ["b"], NOW)
    assert _charged(world) == {"a": 0, "b": 2000}


def test_bound_pod_is_not_charged() -> None:
    world = World().put(node("a"), pod("p", {"cpu": "2"}, node="a"))
    world.cache.charge(world.request(pod("p", {"cpu": "2"})), ["a"], NOW)
    assert _charged(world) == {"a": 0}


def test_answer_for_deleted_pod_is_not_charged() -> None:
    """kube-scheduler may still send a deleted pod: no event would release its charge."""
    world = _reserved()
    world.cache.delete_pod("uid-p")
    world.cache.charge(world.request(pod("p", {"cpu": "2"})), ["a"], NOW)
    assert _charged(world) == {"a": 0, "b": 0}
    world.cache.charge(world.request(pod("q", {"cpu": "2"})), ["a"], NOW)
    assert _charged(world) == {"a": 2000, "b": 0}


def test_pod_in_flight_counts_in_equal_parts() -> None:
    """A pod counts once on all of its nodes together, and a group of nodes has its part of the pod, rounded up."""
    world = World().put(node("a"), node("b"), node("c"))
    for number in range(200):
        world.cache.charge(world.request(pod(f"p{number}")), ["a", "b"] if number % 2 else ["b", "c"], NOW)

    def near(*nodes: str) -> int:
        return world.cache.view(world.cache.find(nodes)[0], NOW).pods_in_flight

    assert (near("a", "b", "c"), near("a"), near("b"), near("c")) == (200, 50, 100, 50)
    for number in range(20, 200):
        world.cache.release(f"uid-p{number}")
    assert (near("a", "b", "c"), near("a"), near("b"), near("c")) == (20, 5, 10, 5)
    world.cache.charge(world.request(pod("of-three")), ["a", "b", "c"], NOW)
    assert (near("a", "b", "c"), near("a")) == (21, 6)
    world.cache.delete_node("b")
    assert (near("a"), near("c"), near()) == (6, 6, 0)


def test_late_node_is_charged() -> None:
    world = World().put(node("a"))
    world.cache.charge(world.request(pod("p", {"cpu": "1999m"})), ["a", "new"], NOW)
    assert _charged(world) == {"a": 1000}
    assert _charged(world.put(node("new"))) == {"a": 1000, "new": 999}
    world.cache.release("uid-p")
    assert _charged(world) == {"a": 0, "new": 0}


def _change(world: World, lot: random.Random) -> None:
    name, who = lot.choice("abcde"), lot.choice("pqrs")
    item: Json = pod(who, {"cpu": str(lot.randrange(1, 9))}, scheduled=-lot.randrange(100))
    choice = lot.randrange(8)
    if choice == 0:
        world.put(node(name, cpu=str(lot.randrange(1, 99))))
    elif choice == 1:
        world.cache.delete_node(name)
    elif choice == 2:
        world.put(node_metric(name, cpu=str(lot.randrange(99))))
    elif choice == 3:
        world.cache.delete_node_metric(name)
    elif choice == 4:
        world.put(item | {"spec": item["spec"] | {"nodeName": name}})
    elif choice == 5:
        world.cache.delete_pod(f"uid-{who}")
    else:
        chosen: Sequence[str] = lot.sample("abcde", 2)
        if lot.random() < 0.5:
            chosen = world.cache.view(world.cache.find(chosen)[0], NOW).names
        world.cache.charge(world.request(item), chosen, NOW)


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_snapshots_follow_all_changes(seed: int) -> None:
    lot = random.Random(seed)  # noqa: S311 - a repeatable test
    world = World()
    for _ in range(40):
        _change(world, lot)
        if lot.random() < 0.3:
            world.cache.freeze(NOW)
    snapshot = world.cache.freeze(NOW)
    rebuilt = ClusterCache(world.rules, {"LoadAwareScheduling": world.plugin})
    for name, facts in world.cache._nodes.items():
        rebuilt._rows.add(name, 0)
        rebuilt._nodes[name] = facts
        rebuilt._stale[name] = None
    rebuilt._ledgers = world.cache._ledgers
    for charge in world.cache.in_flight.values():
        rebuilt.charge(charge.pod, charge.names, charge.since)
    expected = rebuilt.freeze(NOW).select(snapshot.names)[0]
    assert records(snapshot) == records(expected)
    assert np.array_equal(snapshot.in_flight, expected.in_flight)
    assert np.array_equal(snapshot.in_flight_prod, expected.in_flight_prod)


def test_selected_nodes_stay_as_they_were() -> None:
    world = World().put(node("a"), node("b"), node("c"), node_metric("b", cpu="20"))
    nodes, unknown = world.cache.select(["c", "x", "b"], NOW)
    frozen, missing = world.cache.freeze(NOW).select(["c", "x", "b"])
    assert (list(nodes.names), unknown) == (["c", "b"], ["x"]) == (list(frozen.names), missing)
    before = records(frozen)
    world.put(node("b", cpu="7"), node_metric("b", cpu="3"))
    world.cache.charge(world.request(pod("p", {"cpu": "4"})), ["b"], NOW)
    world.cache.delete_node("c")
    assert world.cache.select(["b"], NOW)[0].in_flight.tolist() != [nodes.in_flight.tolist()[1]]
    assert records(nodes) == before
    assert not nodes.in_flight.any()
