"""Pods that an earlier run refused, after a restart."""

import pytest

from crds import names
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.plugins.load_aware import EXPIRED
from scheduler_plugins.plugins.mid_resources import ABSENT, DEFICIT, STALE
from scheduler_plugins.profile.load import load_profile
from scheduler_plugins.profile.model import DEFAULT_PROFILE
from scheduler_plugins.requeue.recovery import Recovery
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.scheduler_plugins.objects import Json
from tests.scheduler_plugins.objects import pod as made_pod
from tests.scheduler_plugins.requeue.site import HOT, Site, made

QUOTE = f"0/2 nodes are available: 1 {HOT}, 1 node(s) didn't match Pod's node affinity/selector. preemption: ..."


def _pending(name: str, message: str = QUOTE, reason: str = "Unschedulable") -> Json:
    item = made(name)
    item["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": reason, "message": message, "lastTransitionTime": None}
    ]
    return item


def _restarted(*pods: Json) -> Site:
    """An extender that has just listed these pods."""
    site = Site()
    site.room(a=0, b=0)
    site.unschedulable.adopt = Recovery(site.cache, site.cycle)
    for pod in pods:
        site.pods[pod["metadata"]["name"]] = pod
        site.unschedulable.put_pod(pod)
    site.unschedulable.absent_pods({pod["metadata"]["uid"] for pod in pods})
    return site


async def test_pod_of_earlier_run_is_woken() -> None:
    """A pod whose condition quotes one of our reasons is woken when some node would take it."""
    site = _restarted(_pending("p"))
    assert await site.reconcile() == []
    site.room(b=1000)
    assert await site.reconcile() == ["p"]


@pytest.mark.parametrize(
    "pod",
    [
        made("new"),
        _pending("other", "0/2 nodes are available: 2 Insufficient cpu."),
        _pending("gated", "Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated"),
        {**_pending("bound"), "spec": {"nodeName": "a", "containers": []}},
    ],
    ids=lambda pod: str(pod["metadata"]["name"]),
)
def test_others_are_left_alone(pod: Json) -> None:
    """Pods that wait for other reasons, or for none, are not ours."""
    assert len(_restarted(pod).unschedulable) == 0


def test_later_pods_are_not_taken_over() -> None:
    """After the first list the extender knows whom it refused."""
    site = _restarted()
    site.unschedulable.put_pod(_pending("p"))
    assert len(site.unschedulable) == 0


async def test_one_pod_is_tried_first() -> None:
    """Of pods taken over one is woken; kube-scheduler's next question tells which nodes the others wait for, too."""
    site = _restarted(*(_pending(f"p{number}") for number in range(5)))
    site.room(b=100_000)
    assert await site.reconcile() == ["p0"]
    assert await site.reconcile() == []
    assert not site.ask(site.pods["p0"], "a")
    assert await site.reconcile(after=5.0) == []
    site.room(a=100_000)
    assert len(await site.reconcile(after=5.0)) == 5


async def test_pods_of_another_replica_are_let_go() -> None:
    """Without a question after the first wake the pods are another replica's: none of them is woken any more."""
    site = _restarted(*(_pending(f"p{number}") for number in range(5)))
    site.room(b=100_000)
    assert await site.reconcile() == ["p0"]
    assert await site.reconcile(after=31.0) == []
    assert len(site.unschedulable) == 0


@pytest.mark.parametrize("reason", ["node(s) cpu usage exceed threshold", EXPIRED, DEFICIT, STALE, ABSENT])
def test_reasons_of_shipped_plugins_are_known(reason: str) -> None:
    """Whatever a shipped plugin may refuse a pod for is known from the start, before it has refused anything."""
    plugins = {enabled.name: enabled.plugin for enabled in load_profile(DEFAULT_PROFILE).enabled}
    cache = ClusterCache(LoadRules(), plugins)
    cycle = Cycle([Enabled(name, 1.0, plugin) for name, plugin in plugins.items()])
    mid = made_pod("mid", {names.MID_CPU: "100"}, priority=7500)
    conditions = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": f"0/1: 1 {reason}."}
    ]
    assert Recovery(cache, cycle)({**mid, "status": {"conditions": conditions}}) is not None
