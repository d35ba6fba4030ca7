"""Decisions and evictions beside other components: failed holds, kube-scheduler's own preemption, deleted quotas."""

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
async def test_hold_write_fails(error: Exception) -> None:
    play = Play()
    play.wait("b", "b2", 2)
    play.watch()
    play.server.fail("PATCH b1", error)
    await play.live()
    assert not play.held()
    assert Hold.of_pod(play.pod("b2")) is not None
    assert play.server.evicted == ["a2"]
    assert play.server.log.count("GET a2") < 10  # the controller skips b1 for a while


@ONE_BY_ONE
async def test_requeue_of_holder_fails(error: Exception) -> None:
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
async def test_general_failure_is_raised(error: Exception) -> None:
    play = Play()
    play.server.fail("PATCH b1", error)
    with pytest.raises(type(error)):
        await play.controller.reconcile()


async def test_pod_without_preemption_blocks_no_other() -> None:
    play = Play()
    play.pod("b1")["spec"]["preemptionPolicy"] = "Never"
    play.wait("b", "b2", 2)
    play.watch()
    await play.live()
    assert not play.held()
    assert play.server.evicted == ["a2"]


async def test_concurrent_preemption_by_kube_scheduler() -> None:
    """kube-scheduler preempts other pods while the hold is being written: the hold is withdrawn without an eviction."""
    play = Play()
    cluster = play.world.cluster

    def preempts(request: str) -> None:
        if request == "PATCH b1":
            pod, victim = cluster.pods["b/b1"], cluster.pods["a/a1"]
            cluster.preemption_grants.add(PreemptionGrant(pod, play.now, {"n1": [victim]}, {"n1": "why"}))
            play.server.before = lambda _: None

    play.server.before = preempts
    await play.live(4)
    assert (play.held(), play.server.evicted) == (False, [])


@pytest.mark.parametrize("nominated", ["n1", ""])
async def test_earlier_preemption_by_kube_scheduler(nominated: str) -> None:
    """kube-scheduler evicted an allowed victim, and cleared the nomination: no other pod is evicted."""
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
    await play.live(200)  # it never ends: after a while the controller stops waiting
    assert play.held()


async def test_all_quotas_deleted() -> None:
    """All quotas are deleted after the hold was written: an eviction by priority alone is kube-scheduler's task."""
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
