"""Shadow mode from end to end, with an API server in memory: nothing on Nodes, the account in a ConfigMap."""

import asyncio
import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crds.shadow_accounts import name_of
from headroom.kube import ApiError, ApiUnavailable, paths
from manager.handlers import node_metric, nodes
from manager.inputs import PodInputs
from manager.mid.shadow import Account, ShadowSimulation
from manager.reconcile.steps.shadow import ShadowState
from manager.settings import DEFAULT_NAMESPACE
from manager.shadow_store import FORBIDDEN_SECONDS, ShadowStore
from tests.support.objects import Json, mid_pod, node, report
from tests.support.world import ENABLED, METRIC, World, put_pods

SHADOW = '{"enable": true, "midIncreaseHoldSeconds": 0, "mode": "shadow"}'
GI = 1024**3
FORBIDDEN = ApiError(403, "Forbidden", "configmaps is forbidden")
ACCOUNTS = paths.config_map(DEFAULT_NAMESPACE, name_of("n1"))


class Shadowed(World):
    def __init__(self) -> None:
        super().__init__()
        self.has_node(node())
        self.configure(SHADOW)

    async def minute(self, usage: str = "6", reclaimable: str = "4") -> None:
        self.later(60)
        made = report(usage=(usage, "24Gi"), reclaimable=(reclaimable, "10Gi"), age=-self.steady.now)
        stored = self.api.objects[METRIC]
        status = {**stored.get("status", {}), **made["status"]}
        node_metric.observe(self.run, "MODIFIED", self.api.put(METRIC, {**stored, "status": status}))
        await self.reconcile()

    def account(self) -> Json:
        return dict(json.loads(self.api.objects.get(ACCOUNTS, {}).get("data", {}).get("n1", "{}")))

    def writes(self) -> list[Any]:
        """Every account that was written; the first patch finds nothing to merge into."""
        bodies = [*self.api.written("POST", "/configmaps"), *self.api.written("PATCH", ACCOUNTS)[1:]]
        return [text and json.loads(text) for body in bodies for name, text in body["data"].items() if name == "n1"]

    def metric(self, name: str, **labels: str) -> float | None:
        registry = self.run.context.metrics.registry
        return registry.get_sample_value(f"headroom_manager_shadow_{name}", {"node": "n1", **labels})

    def nodes(self) -> float | None:
        return self.run.context.metrics.registry.get_sample_value("headroom_manager_shadow_nodes")

    def state(self) -> ShadowState:
        return self.run.context.node_state("n1").state_of(ShadowState)

    def restart(self, *, store: bool = True) -> None:
        self.run.context.node_states.clear()
        if store:
            self.run.context.state_of(ShadowStore).clear()


@pytest.fixture
async def world() -> Shadowed:
    world = Shadowed()
    await world.reconcile()
    for _ in range(3):
        await world.minute()
    return world


async def test_nothing_reaches_the_node(world: Shadowed) -> None:
    assert world.published() == {}
    assert world.api.written("PATCH", "/nodes/") == []
    assert world.metric("published", resource="cpu") == 4000
    assert world.metric("mean", resource="cpu") == 2666  # two minutes of three
    assert world.nodes() == 1
    nodes.observe(world.run, "DELETED", node())
    for _ in range(2):
        await world.reconcile()
        assert (world.metric("observed_seconds"), world.nodes()) == (None, 0)


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 7, 20]), st.integers(0, 9), st.integers(0, 9), st.booleans()),
        min_size=3,
        max_size=12,
    )
)
def test_account_is_of_active_mode(minutes: list[tuple[int, int, int, bool]]) -> None:
    """At every moment the account has the amounts that the Node of an active node publishes."""

    async def compare() -> None:
        one, other = Shadowed(), Shadowed()
        other.configure(SHADOW.replace("shadow", "active"))
        for world in (one, other):
            await world.reconcile()
        for silent, reclaimable, usage, has_pod in minutes:
            for world in (one, other):
                world.later(60 * (silent - 1))
                allocated = PodInputs.from_object(mid_pod("m", cpu="2500", memory="3Gi"))
                put_pods(world.run.context.cluster, [allocated] if has_pod else [])
                await world.reconcile()
                await world.minute(usage=str(usage), reclaimable=str(reclaimable))
            simulation = one.state().simulation
            assert simulation is not None
            published = simulation.published
            shown = {} if published is None else {"cpu": str(published.cpu), "memory": str(published.memory)}
            assert shown == other.published()

    asyncio.run(compare())


async def test_account_is_written_at_once_and_then_every_ten_minutes_at_most(world: Shadowed) -> None:
    assert [write["observedSeconds"] for write in world.writes()[:2]] == [0, 60]
    for _ in range(40):
        await world.minute()
    before = len(world.writes())
    assert before <= 9
    for _ in range(40):
        await world.minute()
    assert len(world.writes()) - before in {3, 4}
    account = world.account()
    assert account["observedSeconds"] >= 600
    assert account["offered"] == {"cpu": "4000m", "memory": str(10 * GI)}
    assert account["tooMuchSeconds"] == {"cpu": 0, "memory": 0}


async def test_follower_forgets_and_reads_the_account_when_it_leads_again(world: Shadowed) -> None:
    world.lead(leads=False)
    await world.reconcile()
    assert (world.metric("observed_seconds"), world.nodes(), world.state()) == (None, 0, ShadowState())
    world.lead(leads=True)
    await world.reconcile()
    assert world.nodes() == 1


@pytest.mark.parametrize("config", [ENABLED, '{"enable": false, "mode": "shadow"}'])
async def test_node_that_leaves_shadow_mode_loses_its_account(world: Shadowed, config: str) -> None:
    since = world.account()["since"]
    world.configure(config)
    await world.reconcile()
    assert (world.account(), world.nodes()) == ({}, 0)
    written = len(world.writes())
    await world.reconcile()
    assert len(world.writes()) == written
    world.configure(SHADOW)
    await world.minute()
    assert world.account()["since"] > since
    assert world.account()["observedSeconds"] == 0


async def test_leaving_publishes_at_once(world: Shadowed) -> None:
    """Active mode after shadow mode begins like a first publication, also where the account cannot be taken away."""
    world.api.fails[f"PATCH {ACCOUNTS}"] = ApiError(422, "Invalid", "no")
    world.configure(ENABLED)
    with pytest.raises(ApiError):
        await world.reconcile()
    assert world.published() == {"cpu": "4000", "memory": str(10 * GI)}


async def test_due_account_is_written_with_others_and_those_of_gone_nodes_go(world: Shadowed) -> None:
    twin = next(name for number in range(2, 999) if name_of(name := f"n{number}") == name_of("n1"))
    memory = world.run.context.node_state(twin).state_of(ShadowState)
    memory.simulation, memory.node_uid = ShadowSimulation(Account(world.wall()), None, world.steady()), "uid-twin"
    made = copy.deepcopy(node())
    made["metadata"].update(name=twin, uid="uid-twin")
    nodes.observe(world.run, "ADDED", made)
    for _ in range(20):
        await world.minute()
    assert set(world.api.objects[ACCOUNTS]["data"]) == {"n1", twin}
    nodes.observe(world.run, "DELETED", made)
    world.run.context.node_states.pop(twin)
    for _ in range(16):
        await world.minute()
    assert set(world.api.objects[ACCOUNTS]["data"]) == {"n1"}


async def test_failed_write_is_due_seconds_later(world: Shadowed) -> None:
    world.api.fails[f"PATCH {ACCOUNTS}"] = ApiUnavailable("away", status=500)
    memory = world.state()
    memory.written_at = None
    with pytest.raises(ApiUnavailable):
        await world.minute()
    world.steady.now += 1
    await world.reconcile()  # the worker tries again
    assert [memory.written_at, world.due_in()] == [None, 4.0]
    del world.api.fails[f"PATCH {ACCOUNTS}"]
    world.steady.now += 4
    await world.reconcile()
    assert (world.state().written_at, world.account()["observedSeconds"]) == (world.steady.now, 240)


@pytest.mark.parametrize("mode", ["shadow", "active"])
@pytest.mark.parametrize("verb", ["GET", "PATCH", "POST", ""])
async def test_missing_right_stops_nothing_else(mode: str, verb: str, caplog: pytest.LogCaptureFixture) -> None:
    """With a role that does not know the ConfigMaps all else is done; it is said once and costs few requests."""
    world = Shadowed()
    world.api.fails[f"{verb} /api/v1/namespaces/{DEFAULT_NAMESPACE}/configmaps".strip()] = FORBIDDEN
    world.configure(SHADOW.replace("shadow", mode))
    await world.reconcile()
    for _ in range(30):
        await world.minute(reclaimable="5")
    assert world.published() == ({} if mode == "shadow" else {"cpu": "5000", "memory": str(10 * GI)})
    warned = [message for message in caplog.messages if "accounts of shadow mode cannot be stored" in message]
    needed = mode == "shadow" or verb in {"GET", ""}
    assert len(warned) == (1 if needed else 0)
    requests = [call for call in world.api.calls if "/configmaps" in call[1]]
    assert len(requests) <= 2 + 2 * (30 * 60 // FORBIDDEN_SECONDS + 1)
    if mode == "shadow":
        assert world.metric("observed_seconds") == 1800


async def test_account_from_before_a_missing_right_is_not_replaced(world: Shadowed) -> None:
    for _ in range(30):
        await world.minute()
    before = world.account()["observedSeconds"]
    world.restart()
    world.api.fails[ACCOUNTS] = FORBIDDEN
    for _ in range(3):
        await world.minute()
    assert world.account()["observedSeconds"] == before
    del world.api.fails[ACCOUNTS]
    for _ in range(40):
        await world.minute()
    assert world.account()["observedSeconds"] >= before + 20 * 60


async def test_other_machine_starts_over(world: Shadowed) -> None:
    again = node()
    again["metadata"]["uid"] = "uid-again"
    world.has_node(again)
    await world.minute()
    assert world.metric("observed_seconds") == 0
