"""CapacityScheduling: its refusals, their nodes, and its explanations."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from scheduler_plugins.framework.verdict import Refusal
from scheduler_plugins.plugins.capacity_scheduling import NAME, ROOM_HELD, CapacityScheduling, quota_cluster
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.snapshot.arrays import Nodes
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.scheduler_plugins.objects import NOW, Json
from tests.scheduler_plugins.quota.objects import GPU, node, pod, quota

PLUGIN = CapacityScheduling(MaxMissing.INFINITE)
HOLD = Hold("n1", NOW + 60)


class World:
    def __init__(self, *items: Json) -> None:
        self.cache = ClusterCache(LoadRules(), {NAME: PLUGIN})
        self.cluster = quota_cluster(self.cache.freeze(NOW))
        for entry in (node("n1", cpu="4", **{GPU: "4"}), node("n2", cpu="4", **{GPU: "4"})):
            self.cache.put_node(entry)
        self.put(*items)

    def put(self, *items: Json) -> None:
        for item in items:
            if "containers" in item["spec"]:
                self.cache.put_pod(item, NOW)
            else:
                self.cluster.put_quota(item)

    def nodes(self, *names: str) -> Nodes:
        return self.cache.freeze(NOW).select(names)[0]

    def reasons(self, item: Json, *names: str) -> list[str | None]:
        nodes = self.nodes(*(names or ("n1", "n2")))
        verdict = PLUGIN.filter(self.cache.read(item), nodes)
        refusals = [verdict.refusal(row) for row in range(len(nodes))]
        return [refusal.reason if refusal else None for refusal in refusals]

    def explained(self, item: Json) -> Sequence[Mapping[str, Any]]:
        return PLUGIN.explain(self.cache.read(item), self.nodes("n1", "n2"))


def test_refusal_covers_all_nodes() -> None:
    """A refusal by quota covers all nodes, no eviction by kube-scheduler resolves it, and it is recognised again."""
    world = World(quota("a", {"cpu": 9}, {"cpu": 1}), pod("x", "a", node="n1"))
    refusals = [
        PLUGIN.pre_filter(world.cache.read(pod("p", "a", {"cpu": cpu})), world.nodes("n1")) for cpu in ("1", "2")
    ]
    assert all(refusal is not None and not refusal.eviction_helps for refusal in refusals)
    assert len({refusal.reason for refusal in refusals if refusal}) == 2
    assert len({refusal.family for refusal in refusals if refusal}) == 1
    assert all(refusal is not None and PLUGIN.recognises(f"0/2 nodes: 2 {refusal.reason}.") for refusal in refusals)
    assert not PLUGIN.recognises("0/2 nodes are available: 2 Insufficient cpu.")


def _holder(name: str = "h", cpu: str = "2", priority: int = 0, victims: tuple[str, ...] = ()) -> Json:
    return pod(name, "a", {"cpu": cpu}, priority=priority, hold=Hold("n1", NOW + 60, victims))


TWO = [_holder("h1", "1500m"), _holder("h2", "1500m")]
# The resources of terminating victims belong to the holder; other free resources belong to other pods.
LEAVING = [pod("v", "b", {"cpu": "2"}, node="n1"), _holder(victims=("uid-b-v", "uid-b-gone"))]


@pytest.mark.parametrize(
    ("there", "incoming", "held"),
    [
        pytest.param([_holder()], pod("p", "b", {"cpu": "3"}), True, id="does not fit beside"),
        pytest.param([_holder()], pod("p", "b", {"cpu": "2"}), False, id="fits beside"),
        pytest.param([_holder()], pod("p", "b", {GPU: "4"}), False, id="requests another resource"),
        pytest.param(TWO[:1], pod("p", "b", {"cpu": "2"}), False, id="one holder"),
        pytest.param(TWO, pod("p", "b", {"cpu": "2"}), True, id="two holders"),
        pytest.param(TWO, pod("p", "b", {"cpu": "1"}), False, id="fits beside two"),
        pytest.param([_holder("h", "1", 5)], pod("p", "b", {"cpu": "4"}, priority=5), True, id="as important"),
        pytest.param([_holder("h", "1", 5)], pod("p", "b", {"cpu": "4"}, priority=6), False, id="more important"),
        pytest.param([_holder("h", "1", 5)], _holder("h", "4", 5), False, id="the holder itself"),
        pytest.param([_holder("h", "1", 5)], pod("p", "b", {"cpu": "0"}), False, id="requests nothing"),
        pytest.param(LEAVING, pod("p", "b", {"cpu": "2"}), False, id="fits beside the victims"),
        pytest.param(LEAVING, pod("p", "b", {"cpu": "2500m"}), True, id="in the resources of the victims"),
    ],
)
def test_resources_are_held(there: list[Json], incoming: Json, held: bool) -> None:  # noqa: FBT001 - the expected result
    assert World(*there).reasons(incoming) == [ROOM_HELD if held else None, None]


def test_pods_in_flight_reserve_resources() -> None:
    world = World(pod("h", "a", {"cpu": "2"}, hold=HOLD))
    first = world.cache.read(pod("first", "b", {"cpu": "1"}))
    world.cache.charge(first, ["n1"], NOW)
    assert world.reasons(pod("p", "b", {"cpu": "2"})) == [ROOM_HELD, None]
    assert world.reasons(pod("first", "b", {"cpu": "2"})) == [None, None]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda world: world.put(pod("h", "a", {"cpu": "4"}, node="n2")), id="bound"),
        pytest.param(lambda world: world.cluster.delete_pod("uid-a-h"), id="gone"),
        pytest.param(lambda world: world.cluster.delete_node("n1"), id="its node is gone"),
        pytest.param(lambda world: world.put(pod("h", "a", {"cpu": "4"})), id="withdrawn"),
    ],
)
def test_hold_ends(change: Any) -> None:  # noqa: ANN401 - an event
    world = World(pod("h", "a", {"cpu": "4"}, hold=HOLD))
    pending = pod("p", "b", {"cpu": "1"})
    assert world.reasons(pending, "n1") == [ROOM_HELD]
    change(world)
    assert world.reasons(pending, "n1") == [None]


def test_reasons_are_named_without_nodes() -> None:
    """The verdict names its possible refusals even without nodes: the index of waiting pods needs them."""
    world = World()
    assert PLUGIN.filter(world.cache.read(pod("p")), world.nodes()).refusals == (Refusal(ROOM_HELD),)


def test_explanation_has_the_amounts() -> None:
    world = World(
        quota("a", {"cpu": 4}, {"cpu": 6}),
        quota("b", {"cpu": 2}),
        pod("x", "a", {"cpu": "2500m"}, node="n1"),
        pod("c", "a", {"cpu": "1"}, hold=HOLD),
    )
    explained = world.explained(pod("p", "a", {"cpu": "3"}))
    assert explained[0] == {
        "quota": "a/q",
        "requested": {"cpu": "3"},
        "used": {"cpu": "2500m"},
        "claimedInNamespace": {"cpu": "1"},
        "max": {"cpu": "6", "memory": "unlimited", "ephemeral-storage": "unlimited"},
        "min": {"cpu": "4"},
        "usedByAll": {"cpu": "2500m"},
        "claimedByAll": {"cpu": "1"},
        "sumOfMin": {"cpu": "6"},
        "reservedFor": ["a/c"],
        "binding": (
            "ElasticQuota a/q: cpu used 2500m + claimed by pods before it 1 + requested 3 > max 6 (min 4, sum of min 6)"
        ),
    }
    assert explained[1]["reservedFor"] == []


def test_explanation_without_quota() -> None:
    explained = World(pod("h", "a", {"cpu": "2"}, hold=HOLD)).explained(pod("p", "free", {"cpu": "3"}))
    assert explained == [
        {
            "quota": None,
            "reservedFor": ["a/h"],
            "binding": "it does not fit beside resources reserved for a/h",
        },
        {"quota": None, "reservedFor": []},
    ]
