"""Decisions and evictions beside others: pods that take no hold, kube-scheduler's own preemption, quotas that go."""

from typing import Final

import pytest

from headroom.kube import ApiError, ApiUnavailable
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.preemption_grants import PreemptionGrant
from tests.scheduler_plugins.preemption.plays import Play
from tests.scheduler_plugins.preemption.worlds import GPU

TOO_LONG: Final = ApiError(422, "Invalid", "metadata.annotations: Too long: may not be more than 262144 bytes")


WEBHOOK = ApiUnavailable('failed calling webhook "a.b.c": connection refused', 500)
ONE_BY_ONE: Final = pytest.mark.parametrize("error", [TOO_LONG, WEBHOOK], ids=["refused", "webhook"])


@ONE_BY_ONE
async def test_pod_that_takes_no_hold(error: Exception) -> None:
    play = Play()
    play.wait("b", "b2", 2)
    play.watch()
    play.server.fail("PATCH b1", error)
    await play.live()
    assert not play.held()
    assert Hold.of_pod(play.pod("b2")) is not None
    assert play.server.evicted == ["a2"]
    assert play.server.log.count("GET a2") < 10  # b1 is left alone for a while


@ONE_BY_ONE
async def test_holder_that_cannot_be_woken(error: Exception) -> None:
    play = Play()
    await play.live(3)
    play.end("a2")
    play.server.fail("PATCH b1", error)
    play.add("c", "c1", 1, {"nodeName": "n2"}, {"phase": "Running", "startTime": "2026-01-01T00:00:09Z"})
    for namespace, least in (("c", 0), ("d", 1)):
        play.put_quota(namespace, least)
        play.world.cluster.put_quota(*play.server.quotas[namespace])
    play.world.cluster.put_node({"metadata": {"name": "n2"}, "status": {"allocatable": {GPU: "1", "pods": "9"}}})
    play.wait("d", "d1", 1)
    play.watch()
    await play.live(8)
    assert play.server.evicted == ["a2", "c1"]


@pytest.mark.parametrize(
    "error", [ApiError(403, "Forbidden", "cannot patch pods/status"), ApiUnavailable("away"), ApiUnavailable("", 503)]
)
async def test_trouble_of_all(error: Exception) -> None:
    play = Play()
    play.server.fail("PATCH b1", error)
    with pytest.raises(type(error)):
        await play.controller.reconcile()


async def test_pod_that_preempts_nobody_speaks_for_itself() -> None:
    play = Play()
    play.pod("b1")["spec"]["preemptionPolicy"] = "Never"
    play.wait("b", "b2", 2)
    play.watch()
    await play.live()
    assert not play.held()
    assert play.server.evicted == ["a2"]


async def test_kube_scheduler_evicts_at_the_same_moment() -> None:
    """kube-scheduler was allowed others while the hold was being written: ours stay, and the hold is taken back."""
    play = Play()
    cluster = play.world.cluster

    def asks(request: str) -> None:
        if request == "PATCH b1":
            pod, victim = cluster.pods["b/b1"], cluster.pods["a/a1"]
            cluster.preemption_grants.add(PreemptionGrant(pod, play.now, {"n1": [victim]}, {"n1": "why"}))
            play.server.before = lambda _: None

    play.server.before = asks
    await play.live(4)
    assert (play.held(), play.server.evicted) == (False, [])


@pytest.mark.parametrize("nominated", ["n1", ""])
async def test_kube_scheduler_has_evicted(nominated: str) -> None:
    """kube-scheduler evicted somebody as it was allowed, and took the nomination away again: nobody else leaves."""
    play = Play()
    cluster, status = play.world.cluster, play.pod("b1")["status"]
    cluster.preemption_grants.add(
        PreemptionGrant(cluster.pods["b/b1"], play.now, {"n1": [cluster.pods["a/a1"]]}, {"n1": "why"})
    )
    play.pod("a1")["metadata"]["deletionTimestamp"] = "2026-01-01T02:00:00Z"
    status["nominatedNodeName"] = nominated
    play.watch()
    await play.live(1)
    status["nominatedNodeName"] = ""
    play.watch()
    await play.live(20)
    assert (play.held(), play.server.evicted) == (False, [])
    await play.live(200)  # it never ends: after a while it is not waited for any longer
    assert play.held()


async def test_no_quota_any_more() -> None:
    """All quotas are gone after the hold was written: it would be right by priority, but is no matter of ours."""
    play = Play()
    play.pod("b1")["spec"]["priority"] = 10
    play.watch()
    await play.controller.reconcile()
    assert play.held()
    for uid in list(play.world.cluster.quota_objects):
        play.world.cluster.delete_quota(uid)
    play.server.quotas.clear()
    play.watch()
    await play.live()
    assert (play.held(), play.server.evicted) == (False, [])
