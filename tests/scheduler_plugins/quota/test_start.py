"""What is in doubt after a start: whom an earlier run may have let through."""

from collections.abc import AsyncIterator, Callable

import pytest

from kubeapi import ApiServer, Changed, Connection, Relisted, WatchHealth, paths
from scheduler_plugins.plugins.capacity_scheduling import NAME, CapacityScheduling, kept
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.snapshot import watch
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.reserving import Reservations
from scheduler_plugins.snapshot.watch import ClusterWatch
from tests.scheduler_plugins.objects import NOW, Json
from tests.scheduler_plugins.quota.things import pod


async def _followed(monkeypatch: pytest.MonkeyPatch, *changes: Relisted | Changed) -> QuotaCluster:
    """What is known after the pods' watch has brought these changes."""

    async def brought(
        _api: ApiServer, path: str, _selector: str, *, health: WatchHealth, keep: Callable[[Json], str], **_: object
    ) -> AsyncIterator[Relisted | Changed]:
        for change in changes if path == paths.PODS else ():
            if isinstance(change, Relisted):
                listed = [keep(item) for item in change.items]
                health.synced = True
                yield Relisted(listed)
            else:
                yield change

    monkeypatch.setattr(watch, "list_and_watch", brought)
    cache = ClusterCache(LoadRules(), {NAME: CapacityScheduling()})
    api = ApiServer(Connection("http://127.0.0.1:1", None, lambda: None), "test")
    await ClusterWatch(api, cache, lambda: NOW).run()
    return kept(cache.freeze(NOW))


def _going(name: str) -> Json:
    item = pod(name)
    item["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    return item


async def test_first_list_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pending pods of the first list are: no bound, gated, ended or terminating ones, nor what comes later."""
    gated = pod("gated", schedulingGates=[{"name": "x"}])
    first = [pod("pending"), pod("bound", node="n1"), gated, pod("ended", phase="Failed"), _going("going")]
    cluster = await _followed(
        monkeypatch,
        Relisted(first),
        Changed("ADDED", pod("new")),
        Relisted([*first, pod("new"), pod("newer")]),
    )
    assert len(cluster.doubts) == 1
    assert "uid-a-pending" in cluster.doubts
    assert not cluster.book.tentative


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(Changed("MODIFIED", pod("pending", node="n1")), id="bound"),
        pytest.param(Changed("DELETED", pod("pending")), id="gone"),
        pytest.param(Relisted([]), id="gone while nobody watched"),
    ],
)
async def test_doubt_ends(monkeypatch: pytest.MonkeyPatch, change: Relisted | Changed) -> None:
    """When the watch tells what became of the pod."""
    cluster = await _followed(monkeypatch, Relisted([pod("pending")]), change)
    assert not cluster.doubts


def test_only_who_wants_to_know_is_told() -> None:
    """A plugin that only reserves hears nothing of doubts; one that was answered for since is in none."""

    class Reserving:
        def __init__(self) -> None:
            self.told: list[str] = []

        def reserve(self, *_: object) -> None:
            self.told.append("reserve")

        def unreserve(self, _uid: str) -> None:
            self.told.append("unreserve")

    class Doubting(Reserving):
        def doubt(self, *_: object) -> None:
            self.told.append("doubt")

    plain, doubting = Reserving(), Doubting()
    reservations = Reservations([plain, doubting])
    cache = ClusterCache(LoadRules())
    first, second = cache.read(pod("first")), cache.read(pod("second"))
    reservations.doubt(first, NOW)
    reservations.doubt(first, NOW)
    assert doubting.told == ["doubt"]
    reservations.unreserve(first.uid)
    reservations.unreserve(first.uid)
    assert doubting.told == ["doubt", "unreserve"]
    assert plain.told == []
    reservations.reserve(second, ["n1"], NOW)
    reservations.doubt(second, NOW)
    reservations.unreserve(second.uid)
    assert plain.told == ["reserve", "unreserve"]
    assert doubting.told == ["doubt", "unreserve", "reserve", "unreserve"]
