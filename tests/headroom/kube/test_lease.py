import asyncio
from typing import cast

import pytest

from headroom.kube import ApiServer, ApiUnavailable
from headroom.kube.lease import LeaderElector, LeaderSettings, NotLeading
from headroom.runtime.clocks import Elapsed
from tests.support.api import FakeApi
from tests.support.objects import LEASE
from tests.support.world import Clock

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/headroom-manager"
SETTINGS = LeaderSettings(enabled=True, retry_seconds=0.001)


class Replica:
    """A replica in an election, with a count of its changes of leadership."""

    def __init__(self, api: FakeApi, name: str, clock: Clock, settings: LeaderSettings = SETTINGS) -> None:
        self.changes = 0
        self.leadership = LeaderElector(cast("ApiServer", api), LEASE, name, settings, clock, self._tell)

    def _tell(self) -> None:
        self.changes += 1

    async def try_once(self) -> bool:
        task = asyncio.create_task(self.leadership.run())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return self.leadership.is_leader


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_first_replica_leads(api: FakeApi, clock: Clock) -> None:
    """The first one creates the Lease and leads; the second one waits."""
    first, second = Replica(api, "a", clock), Replica(api, "b", clock)
    assert await first.try_once()
    assert first.changes == 1
    assert not await second.try_once()
    spec = api.objects[PATH]["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("a", 10)


async def test_silent_leader_is_replaced(api: FakeApi, clock: Clock) -> None:
    """A Lease that is not renewed for its duration, by our own clock, changes hands."""
    first, second = Replica(api, "a", clock), Replica(api, "b", clock)
    await first.try_once()
    await second.try_once()
    clock.now = 10.0
    assert not await second.try_once()
    clock.now = 10.1
    assert await second.try_once()
    assert api.objects[PATH]["spec"]["leaseTransitions"] == 1
    assert not first.leadership.is_leader


async def test_loss_is_reported(api: FakeApi, clock: Clock) -> None:
    """A replica is notified once when another takes its place; an outage alone notifies nothing."""
    first = Replica(api, "a", clock)
    task = asyncio.create_task(first.leadership.run())
    async with asyncio.timeout(30):
        while first.changes < 1:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0)
        api.fails["leases"] = ApiUnavailable("away")
        clock.now = 8.0
        await asyncio.sleep(0.01)
        assert (first.leadership.is_leader, first.changes) == (False, 1)
        lease = api.objects[PATH]
        api.put(PATH, {**lease, "spec": {**lease["spec"], "holderIdentity": "b"}})
        del api.fails["leases"]
        while first.changes < 2:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    assert (first.leadership.is_leader, first.changes) == (False, 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_leader_stops_before_lease_ends(api: FakeApi, clock: Clock) -> None:
    """Without the API server a leader stops writing before the Lease expires, and continues when it is back."""
    first = Replica(api, "a", clock)
    await first.try_once()
    api.fails["leases"] = ApiUnavailable("away")
    clock.now = 6.9
    assert await first.try_once()
    clock.now = 7.0
    assert not await first.try_once()
    api.fails.clear()
    assert await first.try_once()
    assert first.leadership.is_leader


async def test_released_lease_is_taken_at_once(api: FakeApi, clock: Clock) -> None:
    """A leader that ends gives the Lease back, and the other one need not wait."""
    first, second = Replica(api, "a", clock), Replica(api, "b", clock)
    await first.try_once()
    await first.leadership.release()
    assert not first.leadership.is_leader
    assert api.objects[PATH]["spec"]["holderIdentity"] == ""
    assert await second.try_once()
    await first.leadership.release()
    assert api.objects[PATH]["spec"]["holderIdentity"] == "b"


async def test_release_survives_absent_server(api: FakeApi, clock: Clock) -> None:
    """Giving back is an attempt: without the API server the Lease just expires."""
    first = Replica(api, "a", clock)
    await first.try_once()
    api.fails["leases"] = ApiUnavailable("away")
    await first.leadership.release()


async def test_concurrent_claim_has_one_winner(api: FakeApi, clock: Clock) -> None:
    """Of two replicas that claim the same version of the Lease, one is rejected and waits."""
    first, second = Replica(api, "a", clock), Replica(api, "b", clock)
    await first.try_once()
    await first.leadership.release()
    original = api.get

    async def get_then_lose(path: str, params: object = None) -> dict[str, object]:
        observed = await original(path, params)
        api.put(path, {**observed, "spec": {"holderIdentity": "c", "leaseDurationSeconds": 10, "renewTime": "later"}})
        return observed

    api.get = get_then_lose  # type: ignore[method-assign]
    assert not await second.try_once()
    assert api.objects[PATH]["spec"]["holderIdentity"] == "c"


async def test_renewal_is_one_request(api: FakeApi, clock: Clock) -> None:
    """A leader renews without reading; when another replica has written the Lease, it reads and gives up."""
    first = Replica(api, "a", clock)
    await first.try_once()
    api.calls.clear()
    await first.leadership._attempt()
    assert [method for method, _, _ in api.calls] == ["PATCH"]
    api.put(PATH, {**api.objects[PATH], "spec": {"holderIdentity": "b", "renewTime": "later"}})
    await first.leadership._attempt()
    assert not first.leadership.is_leader
    assert api.objects[PATH]["spec"]["holderIdentity"] == "b"
    del api.objects[PATH]
    assert await first.try_once()


async def test_write_ends_before_lease(api: FakeApi, clock: Clock) -> None:
    """A write must end before the Lease does; when leadership may have ended, none begins."""
    first = Replica(api, "a", clock)
    with pytest.raises(NotLeading):
        first.leadership.may_write_for()
    await first.try_once()
    assert first.leadership.may_write_for() == 10.0
    clock.now = 6.0
    assert first.leadership.may_write_for() == 4.0
    clock.now = 7.0
    with pytest.raises(NotLeading):
        first.leadership.may_write_for()


async def test_frozen_leader_loses_leadership(api: FakeApi, clock: Clock) -> None:
    """A leader whose own clock stopped while another clock went on does not count as leader."""
    wall = Clock()
    leadership = LeaderElector(
        cast("ApiServer", api),
        LEASE,
        "a",
        SETTINGS,
        clock,
        lambda: None,
        own_clock=Elapsed([clock, wall]),
    )
    await leadership._attempt()
    result = []
    for wall.now in (0.0, 8.0, 0.0):
        result.append(leadership.is_leader)
    assert result == [True, False, False]


async def test_words_name_the_leader(api: FakeApi, clock: Clock) -> None:
    first, second = Replica(api, "a", clock), Replica(api, "b", clock)
    assert second.leadership.description == "waits for the Lease"
    await first.try_once()
    await second.try_once()
    assert (first.leadership.description, second.leadership.description) == ("leads", "is a standby of a")


async def test_without_election_it_leads(api: FakeApi, clock: Clock) -> None:
    alone = Replica(api, "a", clock, LeaderSettings(enabled=False))
    assert await alone.try_once()
    assert alone.changes == 1
    assert alone.leadership.may_write_for() == float("inf")
    assert alone.leadership.description == "leads: there is no election"
    await alone.leadership.release()
    assert api.calls == []
