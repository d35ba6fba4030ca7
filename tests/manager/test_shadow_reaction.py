"""Shadow mode from end to end, with an API server in memory: nothing on Nodes, the account on the NodeMetric."""

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest

from kubeapi import ApiError
from manager.facts import PodFacts
from manager.handlers import node_metric, nodes
from manager.leader import Leadership
from manager.reactions.shadow import ShadowMemory
from manager.settings import LeaderSettings
from tests.manager.made import FakeApi, Json, mid_pod, node, report
from tests.manager.test_look_at import ENABLED, METRIC, World

SHADOW = '{"enable": true, "midIncreaseHoldSeconds": 0, "mode": "shadow"}'
GI = 1024**3


class Shadowed(World):
    """A node in shadow mode that reports each minute."""

    def __init__(self) -> None:
        super().__init__()
        self.has_node(node())
        self.configure(SHADOW)

    async def minute(self, usage: str = "6", reclaimable: str = "4") -> None:
        """Another minute, and its report."""
        self.wall.now += 60
        self.steady.now += 60
        made = report(usage=(usage, "24Gi"), reclaimable=(reclaimable, "10Gi"), age=-self.steady.now)
        stored = self.api.objects[METRIC]
        status = {**stored.get("status", {}), **made["status"]}
        node_metric.observe(self.run, "MODIFIED", self.api.put(METRIC, {**stored, "status": status}))
        await self.look()

    def account(self) -> Json | None:
        """The account on the NodeMetric."""
        found: Json | None = self.api.objects[METRIC].get("status", {}).get("shadow")
        return found

    def writes(self) -> list[Any]:
        """Every account that was written."""
        bodies = self.api.written("PATCH", f"{METRIC}/status")
        return [body["status"]["shadow"] for body in bodies if "shadow" in body["status"]]

    def metrics(self) -> str:
        """What /metrics shows."""
        return generate_latest(self.run.context.telemetry.registry).decode()


@pytest.fixture
async def world() -> Shadowed:
    """One that has reported for three minutes."""
    world = Shadowed()
    await world.look()
    for _ in range(3):
        await world.minute()
    return world


async def test_nothing_reaches_the_node(world: Shadowed) -> None:
    """The account says what would be sold, and the Node has nothing of it."""
    assert world.offered() == {}
    assert world.api.written("PATCH", "/nodes/") == []
    assert 'headroom_manager_shadow_offered{node="n1",resource="cpu"} 4000.0' in world.metrics()
    assert 'headroom_manager_shadow_mean{node="n1",resource="cpu"} 2666.0' in world.metrics()  # two minutes of three
    assert "headroom_manager_shadow_nodes 1.0" in world.metrics()


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 7, 20]), st.integers(0, 9), st.integers(0, 9), st.booleans()),
        min_size=3,
        max_size=12,
    )
)
def test_account_is_of_active_mode(minutes: list[tuple[int, int, int, bool]]) -> None:
    """Whatever happens, what stands in the account is what the Node of an active node offers, at every moment."""

    async def compare() -> None:
        one, other = Shadowed(), Shadowed()
        other.configure(SHADOW.replace("shadow", "active"))
        for world in (one, other):
            await world.look()
        for silent, reclaimable, usage, has_pod in minutes:
            for world in (one, other):
                world.wall.now += 60 * (silent - 1)
                world.steady.now += 60 * (silent - 1)
                bought = PodFacts.from_object(mid_pod("m", cpu="2500", memory="3Gi"))
                world.run.context.cluster.put_pods([bought] if has_pod else [])
                await world.look()
                await world.minute(usage=str(usage), reclaimable=str(reclaimable))
            rehearsal = one.run.context.memory("n1").part(ShadowMemory).rehearsal
            assert rehearsal is not None
            offered = rehearsal.offered
            shown = {} if offered is None else {"cpu": str(offered.cpu), "memory": str(offered.memory)}
            assert shown == other.offered()

    asyncio.run(compare())


async def test_account_is_written_rarely(world: Shadowed) -> None:
    """The account is there from the start, soon again, and in the end no more often than every ten minutes."""
    assert [each["observedSeconds"] for each in world.writes()[:2]] == [0, 60]
    for _ in range(40):
        await world.minute()
    before = len(world.writes())
    assert before <= 9
    for _ in range(40):
        await world.minute()
    assert len(world.writes()) - before in {3, 4}
    account = world.account()
    assert account is not None
    assert account["observedSeconds"] >= 600
    assert account["offered"] == {"cpu": "4000m", "memory": str(10 * GI)}
    assert account["tooMuchSeconds"] == {"cpu": 0, "memory": 0}


async def test_too_much_is_counted(world: Shadowed) -> None:
    """Load that takes what was on offer is in the account until the offer follows."""
    await world.minute(usage="16", reclaimable="0")
    assert 'headroom_manager_shadow_too_much_seconds{node="n1",resource="cpu"} 60.0' in world.metrics()
    assert 'headroom_manager_shadow_all_too_much_seconds{resource="cpu"} 60.0' in world.metrics()
    await world.minute(usage="16", reclaimable="0")
    assert 'headroom_manager_shadow_too_much_seconds{node="n1",resource="cpu"} 60.0' in world.metrics()


async def test_restart_reads_it_back(world: Shadowed) -> None:
    """A manager that starts, or takes over, goes on with the account that was written, and does not write at once."""
    for _ in range(20):
        await world.minute()
    before, written = world.account(), len(world.writes())
    assert before is not None
    world.run.context.memories.clear()
    await world.look()
    assert len(world.writes()) == written
    assert f'shadow_observed_seconds{{node="n1"}} {float(before["observedSeconds"])}' in world.metrics()
    for _ in range(16):
        await world.minute()
    after = world.account()
    assert after is not None
    assert after["since"] == before["since"]
    assert after["observedSeconds"] > before["observedSeconds"]


async def test_follower_forgets(world: Shadowed) -> None:
    """A replica that no longer leads shows nothing, and reads the account again when it leads again."""
    leading = world.run.leader
    api: Any = world.api
    world.run.leader = Leadership(api, "ns", "b", LeaderSettings(enabled=True), world.steady, lambda: None)
    await world.look()
    assert 'node="n1"' not in world.metrics()
    assert "headroom_manager_shadow_nodes 0.0" in world.metrics()
    assert world.run.context.memory("n1").part(ShadowMemory) == ShadowMemory()
    world.run.leader = leading
    await world.look()
    assert "headroom_manager_shadow_nodes 1.0" in world.metrics()


@pytest.mark.parametrize("config", [ENABLED, '{"enable": false, "mode": "shadow"}'])
async def test_leaving_resets(world: Shadowed, config: str) -> None:
    """A node that leaves shadow mode, or is disabled, has no account any more; the next one begins anew."""
    since = (world.account() or {})["since"]
    world.configure(config)
    await world.look()
    assert world.account() is None
    assert "headroom_manager_shadow_nodes 0.0" in world.metrics()
    written = len(world.writes())
    await world.look()
    assert len(world.writes()) == written
    world.configure(SHADOW)
    await world.minute()
    account = world.account()
    assert account is not None
    assert account["since"] > since
    assert account["observedSeconds"] == 0


async def test_leaving_publishes_at_once(world: Shadowed) -> None:
    """Active mode after shadow mode begins like a first publication, also where the account cannot be taken away."""
    world.api.fails[f"PATCH {METRIC}/status"] = ApiError(403, "Forbidden", "no")
    world.configure(ENABLED)
    with pytest.raises(ApiError):
        await world.look()
    assert world.offered() == {"cpu": "4000", "memory": str(10 * GI)}


async def test_entering_takes_away(world: Shadowed) -> None:
    """Mid resources that are on the Node when shadow mode begins are taken away, down to what Mid pods bought."""
    world.configure(ENABLED)
    await world.look()
    assert world.offered()["cpu"] == "4000"
    bought = PodFacts.from_object(mid_pod("m", cpu="1000", memory="1Gi"))
    world.run.context.cluster.put_pod(bought)
    world.configure(SHADOW)
    await world.look()
    assert world.offered() == {"cpu": "1000", "memory": str(GI)}
    world.run.context.cluster.drop_pod(bought.uid)
    await world.look()
    assert world.offered() == {}


async def test_foreign_definition_keeps_metrics(world: Shadowed, caplog: pytest.LogCaptureFixture) -> None:
    """Koordinator's definition drops the account: it is in memory and metrics, said once, and not sent again."""
    world.api.unknown_fields = {"status.shadow"}
    caplog.set_level(logging.WARNING)
    for _ in range(20):
        await world.minute()
    assert len([line for line in caplog.records if "does not know status.shadow" in line.message]) == 1
    assert len(world.writes()) <= 7  # while the account is young, then a try every ten minutes
    assert 'shadow_observed_seconds{node="n1"} 1380.0' in world.metrics()


async def test_other_machine_begins_anew(world: Shadowed) -> None:
    """A Node that comes back as another one has an account of its own."""
    again = node()
    again["metadata"]["uid"] = "uid-again"
    world.has_node(again)
    await world.minute()
    assert 'shadow_observed_seconds{node="n1"} 0.0' in world.metrics()


async def test_gone_node_shows_nothing(world: Shadowed) -> None:
    """With the Node its metrics go."""
    nodes.observe(world.run, "DELETED", node())
    await world.look()
    assert 'node="n1"' not in world.metrics()
    assert "headroom_manager_shadow_nodes 0.0" in world.metrics()


async def test_waiting_increase_is_planned(world: Shadowed) -> None:
    """An increase that would be written later is looked at then: the account follows the clock, not only reports."""
    world.configure('{"enable": true, "midIncreaseHoldSeconds": 60, "mode": "shadow"}')
    await world.minute(reclaimable="6")
    assert world.due_in() == 60.0


async def test_lost_metric_gets_account_again(world: Shadowed) -> None:
    """A NodeMetric that somebody deletes is made again, and gets the account at its next writing."""
    api: FakeApi = world.api
    gone = api.objects.pop(METRIC)
    node_metric.observe(world.run, "DELETED", gone)
    await world.look()
    for _ in range(16):
        await world.minute()
    account = world.account()
    assert account is not None
    assert account["observedSeconds"] >= 15 * 60
