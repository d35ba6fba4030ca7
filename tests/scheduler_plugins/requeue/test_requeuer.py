"""Which refused pods are woken, when, and how many."""

from dataclasses import dataclass

import pytest

from crds.names import ANNOTATION_SCHEDULING_RETRY
from scheduler_plugins.framework.verdict import Verdict
from scheduler_plugins.requeue import requeuer
from scheduler_plugins.requeue.settings import RequeueSettings
from scheduler_plugins.snapshot.arrays import FloatArray, Nodes
from scheduler_plugins.snapshot.pod import PodRequest
from tests.scheduler_plugins.requeue.site import Room, Site, made, overloaded

BOUND = {"nodeName": "a"}


async def test_cooled_node_wakes_pod() -> None:
    """A refused pod is left alone while nothing changes, and patched once its node has room."""
    site = Site()
    site.room(a=0, b=0)
    site.refuse("p")
    assert await site.reconcile() == []
    site.room(b=1000)
    assert await site.reconcile() == ["p"]
    (path, body) = site.api.patches[0]
    assert path == "/api/v1/namespaces/default/pods/p/status"
    assert body["metadata"]["uid"] == "uid-p"
    assert body["metadata"]["annotations"][ANNOTATION_SCHEDULING_RETRY].startswith("2025-01-01T00:00:02")


async def test_only_refused_nodes_count() -> None:
    """A node that kube-scheduler did not ask about does not fit the pod: room on it wakes nobody."""
    site = Site()
    site.room(a=0, b=0)
    site.refuse("p", on=["a"])
    site.room(b=1000)
    assert await site.reconcile() == []
    site.room(a=1000)
    assert await site.reconcile() == ["p"]


async def test_room_decides_how_many() -> None:
    """Of many waiting pods as many are woken as have room together; further looks add none."""
    site = Site()
    site.room(a=0)
    site.refuse(*(f"p{number}" for number in range(20)))
    site.room(a=3500)
    assert len(await site.reconcile()) == 3
    for _ in range(10):
        assert await site.reconcile() == []


async def test_spread_over_nodes() -> None:
    """Room on several nodes counts together."""
    site = Site()
    site.room(a=0, b=0, c=0)
    site.refuse(*(f"p{number}" for number in range(20)))
    site.room(a=2000, b=1000, c=500)
    assert len(await site.reconcile()) == 3


async def test_important_pods_first() -> None:
    """The highest priority is woken first, then the oldest."""
    site = Site()
    site.room(a=0)
    site.refuse("young", created=-10)
    site.refuse("old", created=-20)
    site.refuse("important", created=-1, priority=100)
    site.room(a=2000)
    assert await site.reconcile() == ["important", "old"]


async def test_smaller_pod_fills_gap() -> None:
    """Where the most important pod does not fit, a smaller one is not held back."""
    site = Site()
    site.room(a=0)
    site.refuse("large", cpu="8", priority=100)
    site.refuse("small", cpu="1")
    site.room(a=1500)
    assert await site.reconcile() == ["small"]


async def test_bound_pods_make_way() -> None:
    """When woken pods were answered for and bound elsewhere, their room is there for the next."""
    site = Site()
    site.room(a=0)
    site.refuse("p", "q", created=0)
    site.room(a=1000)
    assert await site.reconcile() == ["p"]
    site.unschedulable.put_pod({"metadata": {"uid": "uid-p"}, "spec": BOUND})  # elsewhere, as far as our cache knows
    assert await site.reconcile() == ["q"]


async def test_answered_pods_are_forgotten() -> None:
    """A pod that passes when kube-scheduler asks again, woken by us or not, waits no more and counts as in flight."""
    site = Site()
    site.room(a=0)
    site.refuse("p", "q")
    site.room(a=1000)
    assert site.ask_again("q") == [True]
    assert await site.reconcile() == []
    assert set(site.unschedulable.entries) == {"uid-p"}
    site.cache.release("uid-q")
    assert await site.reconcile() == ["p"]


async def test_woken_in_vain_backs_off() -> None:
    """A pod that is refused again after it was woken waits longer each time."""
    site = Site()
    site.room(a=0)
    site.refuse("p")
    waits = []
    for _ in range(5):
        site.room(a=1000)
        looks = 1
        while await site.reconcile() == []:
            looks += 1
            assert looks < 100
        waits.append(looks)
        site.room(a=0)  # somebody else was faster
        assert site.ask_again("p") == [False]
    assert waits == [1, 1, 2, 4, 8]


async def test_unanswered_pod_is_let_go() -> None:
    """A pod that does not come back after it was woken is not patched again: kube-scheduler's own filters have it."""
    site = Site()
    site.room(a=0)
    site.refuse("p")
    site.room(a=1000)
    assert await site.reconcile() == ["p"]
    assert await site.reconcile(after=29.0) == []
    assert len(site.unschedulable) == 1
    assert await site.reconcile() == []
    assert len(site.unschedulable) == 0


async def test_rate_is_limited() -> None:
    """Not more pods are woken than the bucket has tokens; all are in the end."""
    site = Site(RequeueSettings(patches_per_second=2, patch_burst=5))
    site.room(a=0)
    site.refuse(*(f"p{number:02d}" for number in range(12)))
    site.room(a=100_000)
    requeued = [len(await site.reconcile()) for _ in range(6)]
    assert requeued == [5, 2, 2, 2, 1, 0]
    assert site.counted("woken_pods_total") == 12


async def test_time_alone_is_enough() -> None:
    """A reason that goes by time alone, without any change, is noticed within a few seconds."""
    site = Site(plugin=Room(by_time=True))
    site.room(a=site.now + 7)
    site.refuse("p")
    requeued = [await site.reconcile() for _ in range(13)]
    assert [] in requeued
    assert requeued.count(["p"]) == 1
    assert requeued.index(["p"]) in range(6, 12)


async def test_added_node_counts_once_asked_about() -> None:
    """A node that is added makes kube-scheduler ask anew, and from then on it can wake the pod."""
    site = Site()
    site.room(a=0)
    site.refuse("p", on=["a"])
    site.room(b=0)
    site.refuse("p", on=["a", "b"])
    site.room(b=1000)
    assert await site.reconcile() == ["p"]


async def test_removed_node_is_no_help() -> None:
    """A node that is gone is no candidate any more, and one of the same name that comes back is."""
    site = Site()
    site.room(a=0, b=0)
    site.refuse("p")
    site.cache.delete_node("b")
    assert await site.reconcile() == []
    site.room(b=1000)
    assert await site.reconcile() == ["p"]


async def test_unsampled_nodes_count() -> None:
    """Where kube-scheduler has sent a part of the nodes only, room on another one wakes a pod, so that it is found."""
    site = Site()
    site.room(**{f"n{number}": 0 for number in range(250)})
    site.refuse("p", on=[f"n{number}" for number in range(100)])
    assert await site.reconcile() == []
    site.room(n200=1000)
    assert await site.reconcile() == ["p"]


async def test_complete_lists_are_believed() -> None:
    """When attempts bring no further nodes there are none: room elsewhere wakes nobody."""
    site = Site()
    site.room(**{f"n{number}": 0 for number in range(250)})
    for _ in range(4):
        site.refuse("p", on=[f"n{number}" for number in range(100)])
    site.room(n200=1000)
    assert await site.reconcile() == []
    site.room(n50=1000)
    assert await site.reconcile() == ["p"]


@pytest.mark.parametrize("retry_after", [None, 7.0])
async def test_overload_is_respected(retry_after: float | None) -> None:
    """When the API server has too much to do nothing is sent for a while, and the pod is woken afterwards."""
    site = Site()
    site.room(a=0)
    site.refuse("p")
    site.room(a=1000)
    site.api.failures[""] = overloaded(retry_after)
    assert await site.reconcile() == []
    site.api.failures.clear()
    if retry_after:
        assert await site.reconcile(after=retry_after - 1) == []
        assert len(site.api.patches) == 1
    assert await site.reconcile() == ["p"]
    assert site.counted("wake_patches_total", result="unavailable") == 1
    assert site.counted("wake_patches_total", result="ok") == 1


async def test_changed_constraints_regroup() -> None:
    """A pod whose constraints change meanwhile is judged by its new ones."""
    site = Site()
    site.room(a=0, b=0)
    site.refuse("p", on=["a"], nodeSelector={"zone": "a"})
    site.refuse("q", on=["a"], nodeSelector={"zone": "a"})
    site.refuse("p", on=["b"], nodeSelector={"zone": "b"})
    site.room(b=1000)
    assert await site.reconcile() == ["p"]


async def test_new_generation_regroups() -> None:
    """A pod whose spec says that it was changed is looked at anew; one that says that it was not, is not."""
    site = Site()
    site.room(a=0, b=0)
    asked = (("p", 1, "a", "a"), ("q", 1, "a", "a"), ("p", 1, "a", "unseen"), ("p", 2, "b", "b"))
    for at, (name, generation, node, zone) in enumerate(asked):
        item = made(name, nodeSelector={"zone": zone})
        item["metadata"]["generation"] = generation
        assert not site.ask(item, node)
        assert len(site.unschedulable.groups) == (1 if at < 3 else 2)
    site.room(a=1000)
    assert await site.reconcile() == ["q"]
    site.room(b=1000)
    assert await site.reconcile() == ["p"]


async def test_room_for_two_wakes_two() -> None:
    """Hundreds of waiting pods of one workload are one group; room for two wakes two of them, and no more later."""
    site = Site()
    site.room(a=0, b=0)
    site.refuse(*(f"p{number}" for number in range(200)))
    assert len(site.unschedulable.groups) == 1
    site.room(a=2000)
    for _ in range(20):
        await site.reconcile()
    assert len(site.api.patches) == 2


async def test_many_groups_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where judging takes too long for one look the rest has its turn in the next ones."""
    monkeypatch.setattr(requeuer, "_SLICE_SECONDS", 0.0)
    monkeypatch.setattr(requeuer, "_ROUND_SECONDS", 0.0)
    site = Site()
    site.room(a=0)
    for number in range(5):
        site.refuse(f"p{number}", nodeSelector={"n": str(number)})
    for _ in range(7):
        assert await site.reconcile() == []
    site.room(a=100_000)
    requeued = [await site.reconcile() for _ in range(5)]
    assert sorted(name for names in requeued for name in names) == [f"p{number}" for number in range(5)]
    assert max(map(len, requeued)) == 1


async def test_failed_plugin_is_survived(caplog: pytest.LogCaptureFixture) -> None:
    """A plugin that fails while waiting pods are judged is told once and ends nothing."""
    site = Site()
    site.room(a=0)
    site.refuse("p")
    site.cycle._filters[0] = ("Room", _Broken())  # type: ignore[assignment]
    for _ in range(3):
        await site.requeuer.reconcile_and_survive()
        site.now += 5
    assert [record.message for record in caplog.records] == [
        "Pod default/p waits and cannot be judged, nor can those like it: Room could not filter: ValueError: broken"
    ]


class _Broken:
    def filter(self, *_: object) -> None:
        raise ValueError("broken")


async def test_pods_are_told_apart_by_uid() -> None:
    """A pod that was created anew under its name is another pod."""
    site = Site()
    site.room(a=0)
    site.refuse("p")
    again = made("p")
    again["metadata"]["uid"] = "another"
    assert not site.ask(again)
    assert len(site.unschedulable) == 2
    site.unschedulable.delete_pod("uid-p")
    assert set(site.unschedulable.entries) == {"another"}


async def test_clock_that_is_set_back_stops_nobody() -> None:
    """Pods that wait, and one that was woken and not heard of, go by a clock that is never set."""
    site = Site()
    site.room(a=0)
    site.refuse("p", "q")
    site.room(a=1000)
    assert await site.reconcile() == ["p"]
    site.room(a=0)
    assert site.ask_again("p") == [False]
    site.set_clock_back(3600)
    site.room(a=2000)
    assert sorted([*await site.reconcile(), *await site.reconcile()]) == ["p", "q"]
    site.set_clock_back(3600)
    await site.reconcile(after=30)
    assert len(site.unschedulable) == 0


@dataclass(frozen=True)
class FailsSecond(Room):
    """Fails as soon as a pod is in flight."""

    def filter(self, pod: PodRequest, nodes: Nodes) -> Verdict:
        """Refuse nodes without room, or fail."""
        if nodes.in_flight.any():
            raise RuntimeError("broken")
        return super().filter(pod, nodes)


async def test_plugin_that_fails_midway_strands_nobody() -> None:
    """A pod that was chosen before a plugin failed over the next one is tried again, and the next one later."""
    site = Site(plugin=FailsSecond())
    site.room(a=0)
    site.refuse("p", "q")
    site.room(a=5000)
    for _ in range(40):
        site.now += 1
        await site.requeuer.reconcile_and_survive()
    assert set(site.api.names) == {"p", "q"}


@dataclass(frozen=True)
class FailsForOne(Room):
    """Cannot score one pod, whose priority tells it."""

    def score(self, pod: PodRequest, nodes: Nodes) -> FloatArray:
        """Fail, or prefer room."""
        if pod.priority:
            raise TypeError("unhashable type: 'dict'")
        return super().score(pod, nodes)


async def test_pod_that_cannot_be_chosen_for_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """A pod over which choosing fails, however important, keeps no other waiting, and is named once."""
    site = Site(plugin=FailsForOne())
    site.room(a=0)
    site.refuse("odd", priority=1000)
    site.refuse("p")
    site.room(a=5000)
    for _ in range(20):
        site.now += 1
        await site.requeuer.reconcile_and_survive()
    assert set(site.api.names) == {"p"}
    (said,) = [record.message for record in caplog.records if "cannot be judged" in record.message]
    assert "default/odd" in said
