"""The choice of pods to requeue, and the time and number of requeues."""

import logging
from itertools import pairwise

import pytest

from crds.names import ANNOTATION_SCHEDULING_RETRY
from headroom.kube import ApiError
from scheduler_plugins.framework.verdict import Verdict
from scheduler_plugins.requeue.requeuer import MISSING_RIGHT
from scheduler_plugins.requeue.settings import RequeueSettings
from scheduler_plugins.snapshot.arrays import Nodes
from scheduler_plugins.snapshot.pod import PodRequest
from tests.scheduler_plugins.requeue.site import FreeCpu, Site, forbidden, new_pod, overloaded


async def test_cooled_node_requeues_pod() -> None:
    site = Site()
    site.set_free(a=0, b=0)
    site.refuse("p")
    assert await site.reconcile() == []
    site.set_free(b=1000)
    assert await site.reconcile() == ["p"]
    (path, body) = site.api.patches[0]
    assert path == "/api/v1/namespaces/default/pods/p/status"
    assert body["metadata"]["uid"] == "uid-p"
    assert body["metadata"]["annotations"][ANNOTATION_SCHEDULING_RETRY].startswith("2025-01-01T00:00:02")


async def test_only_refused_nodes_count() -> None:
    site = Site()
    site.set_free(a=0, b=0, c=0)
    site.refuse("p", on=["a"])
    site.set_free(b=1000)
    assert await site.reconcile() == []
    site.cache.delete_node("a")
    assert await site.reconcile() == []
    site.refuse("p", on=["c"])
    site.set_free(c=1000)
    assert await site.reconcile() == ["p"]


async def test_sample_represents_all_nodes() -> None:
    site = Site()
    site.set_free(**{f"n{number}": 0 for number in range(250)})
    site.refuse("p", on=[f"n{number}" for number in range(100)])
    assert await site.reconcile() == []
    site.set_free(n200=1000)
    assert await site.reconcile() == ["p"]


async def test_slow_start() -> None:
    """Among many pods one is requeued, then as many more as were placed; a rejected one restarts the count, later."""
    site = Site.refusing(*(f"p{number:02d}" for number in range(40)))
    site.set_free(a=11_500)
    rounds = []
    for _ in range(8):
        names = await site.reconcile()
        site.retry(*names)
        rounds.append(len(names))
    assert rounds == [1, 2, 4, 8, 0, 0, 0, 0]
    assert len(site.unschedulable.pods) == 40 - 11
    site.set_free(a=12_500)
    assert await site.reconcile() == ["p11"]


async def test_important_pods_first() -> None:
    site = Site(RequeueSettings(patches_per_second=1, patch_burst=2))
    site.set_free(a=0)
    for number, (name, priority, created) in enumerate(
        [("young", 0, -10), ("old", 0, -20), ("important", 100, -1), ("third", 0, -15)]
    ):
        site.refuse(name, priority=priority, created=created, nodeSelector={"n": str(number)})
    site.set_free(a=9000)
    assert [await site.reconcile() for _ in range(4)] == [["important", "old"], ["third"], ["young"], []]
    assert site.counted("woken_pods_total") == 4


async def test_smaller_pod_fills_gap() -> None:
    site = Site.refusing()
    site.refuse("large", cpu="8", priority=100)
    site.refuse("small", cpu="1")
    site.set_free(a=1500)
    assert await site.reconcile() == ["small"]


async def test_placed_pods_are_removed() -> None:
    site = Site.refusing("p", "q")
    site.set_free(a=1000)
    assert site.retry("q") == [True]
    assert await site.reconcile() == []
    assert set(site.unschedulable.pods) == {"uid-p"}
    site.cache.release("uid-q")
    assert await site.reconcile() == ["p"]


async def test_useless_requeue_backs_off() -> None:
    site = Site.refusing("p")
    waits = []
    for _ in range(8):
        site.set_free(a=1000)
        rounds = 1
        while await site.reconcile() == []:
            rounds += 1
        waits.append(rounds)
        site.set_free(a=0)  # another pod was faster
        assert site.retry("p") == [False]
    assert waits == [1, 1, 2, 4, 8, 16, 32, 60]


async def test_unanswered_requeue_removes_pod() -> None:
    """A pod that does not return is not patched again, the next is: kube-scheduler's own filters reject it."""
    site = Site.refusing("p", "q")
    site.set_free(a=1000)
    assert await site.reconcile() == ["p"]
    assert await site.reconcile(after=29.0) == []
    assert await site.reconcile() == ["q"]
    assert set(site.unschedulable.pods) == {"uid-q"}


async def test_requeue_by_time_alone() -> None:
    site = Site(plugin=FreeCpu(by_time=True))
    site.set_free(a=site.now + 7)
    site.refuse("p")
    assert [await site.reconcile() for _ in range(7)] == [[]] * 6 + [["p"]]


@pytest.mark.parametrize("part", ["filter", "fitting"])
async def test_failed_group_stops_no_other(part: str, caplog: pytest.LogCaptureFixture) -> None:
    site = Site(plugin=_FailsForOne() if part == "filter" else None)
    site.set_free(a=0, b=0)
    site.refuse("bad", priority=1000)
    site.refuse("p")
    if part == "fitting":
        next(iter(site.unschedulable.groups.values())).nodes = 7  # type: ignore[assignment]
    site.set_free(a=5000)
    assert await site.story(5) == ["p"]
    (said,) = [record.message for record in caplog.records if "cannot be evaluated" in record.message]
    assert "default/bad" in said


class _FailsForOne(FreeCpu):
    def filter(self, pod: PodRequest, nodes: Nodes) -> Verdict:
        if pod.priority and nodes.tables["FreeCpu"]["free"].any():
            raise TypeError("unhashable type: 'dict'")
        return super().filter(pod, nodes)


async def test_pods_are_identified_by_uid() -> None:
    site = Site.refusing("p")
    again = new_pod("p")
    again["metadata"]["uid"] = "another"
    assert not site.admits(again)
    site.unschedulable.delete_pod("uid-p")
    assert set(site.unschedulable.pods) == {"another"}


async def test_clock_set_back_blocks_no_pod() -> None:
    site = Site.refusing("p")
    site.set_free(a=1000)
    assert await site.reconcile() == ["p"]
    assert site.retry("p") == [True]
    site.cache.release("uid-p")
    site.set_free(a=0)
    assert site.retry("p") == [False]
    site.set_clock_back(3600)
    site.set_free(a=2000)
    assert await site.story(2) == ["p"]


# Patches that do not succeed

GONE = ApiError(404, "NotFound", 'pods "p" not found')
CHANGED = ApiError(422, "Invalid", 'Pod "p" is invalid: metadata.uid: Invalid value: "u": field is immutable')
CONTENDED = ApiError(409, "Conflict", "the object has been modified; please apply your changes to the latest version")
WEBHOOK = ApiError(403, "Forbidden", 'admission webhook "x" denied the request')
INVALID = ApiError(422, "Invalid", "no")


@pytest.mark.parametrize("error", [GONE, CHANGED])
async def test_deleted_pods_are_removed(error: ApiError) -> None:
    site = Site.refusing("p")
    site.set_free(a=1000)
    site.api.failures["p"] = error
    assert await site.reconcile() == []
    assert not site.unschedulable.pods


@pytest.mark.parametrize("error", [WEBHOOK, INVALID, CONTENDED])
async def test_refused_patch_backs_off(error: ApiError) -> None:
    site = Site.refusing("p")
    site.refuse("q", cpu="2")
    site.set_free(a=5000)
    site.api.failures["/p"] = error
    assert await site.reconcile() == ["q"]
    for _ in range(8):
        await site.reconcile()
    assert site.api.names.count("p") == 4  # after 1, 2 and 4 s
    assert site.counted("wake_patches_total", result="refused") == 4
    site.api.failures.clear()
    assert "p" in await site.story(8)


@pytest.mark.parametrize("retry_after", [None, 7.0])
async def test_overload_is_respected(retry_after: float | None) -> None:
    site = Site.refusing("p")
    site.set_free(a=1000)
    site.api.failures[""] = overloaded(retry_after)
    assert await site.reconcile() == []
    site.api.failures.clear()
    if retry_after:
        assert await site.reconcile(after=retry_after - 1) == []
        assert len(site.api.patches) == 1
    assert await site.reconcile() == ["p"]
    assert site.counted("wake_patches_total", result="unavailable") == 1
    assert site.counted("wake_patches_total", result="ok") == 1


async def test_backoff_grows() -> None:
    site = Site.refusing()
    for number in range(20):
        site.refuse(f"p{number:02d}", nodeSelector={"n": str(number)})
    site.set_free(a=90_000)
    site.api.failures[""] = overloaded()
    sent = []
    for _ in range(100):
        before = len(site.api.patches)
        await site.reconcile()
        sent.append(len(site.api.patches) - before)
    assert sent[0] == 10
    gaps = [second for second, count in enumerate(sent) if count]
    assert sum(sent) == 10 + len(gaps) - 1
    assert [later - earlier for earlier, later in pairwise(gaps)][-2:] == [30, 30]


async def test_missing_right_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    site = Site.refusing()
    for number in range(30):
        site.refuse(f"p{number}", nodeSelector={"n": str(number)})
    site.set_free(a=100_000)
    site.api.failures[""] = forbidden()
    for _ in range(180):
        await site.reconcile()
    assert len(site.api.patches) == 10 + 2  # those that were in flight at the same time, and one a minute
    (texts,) = [record.getMessage() for record in caplog.records]
    assert MISSING_RIGHT in texts
    site.api.failures.clear()
    await site.story()
    assert len(set(site.api.names[12:])) == 30
    assert caplog.records[-1].getMessage() == "Refused pods are requeued again"
