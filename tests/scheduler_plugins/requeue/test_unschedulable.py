"""The recorded pods, their lifetime and groups, and the ends of the shipped plugins' refusals."""

from types import ModuleType
from typing import Any

import pytest

from crds import names
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.plugins import load_aware as load_aware_plugin
from scheduler_plugins.plugins import mid_resources
from scheduler_plugins.plugins.load_aware import EXPIRED
from scheduler_plugins.plugins.mid_resources import ABSENT, DEFICIT, STALE, MidResources
from scheduler_plugins.profile.load import load_profile
from scheduler_plugins.profile.model import DEFAULT_PROFILE
from scheduler_plugins.requeue.settings import RANGES, RequeueSettings
from scheduler_plugins.requeue.unschedulable import UnschedulablePods
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.scheduler_plugins.objects import Json, load_aware, node, node_metric
from tests.scheduler_plugins.objects import pod as made_pod
from tests.scheduler_plugins.requeue.site import HOT, Site, new_pod, overloaded

RETRY = names.ANNOTATION_SCHEDULING_RETRY
QUOTE = f"0/2 nodes are available: 1 {HOT}, 1 node(s) didn't match Pod's node affinity/selector. preemption: ..."


def _watched(name: str, retry: str = "", **spec: Any) -> Json:  # noqa: ANN401 - any field of a PodSpec
    item = new_pod(name, **spec)
    item["metadata"]["annotations"] = {RETRY: retry} if retry else {}
    return item


def _names(site: Site) -> set[str]:
    return {pod.key.partition("/")[2] for pod in site.unschedulable.pods.values()}


def test_bound_and_deleted_pods_are_removed() -> None:
    site = Site.refusing("p", "q")
    site.unschedulable.put_pod(_watched("p", nodeName="a"))
    site.unschedulable.put_pod(_watched("other", nodeName="a"))
    assert _names(site) == {"q"}
    site.unschedulable.delete_pod("other")
    site.unschedulable.delete_pod("uid-q")
    assert (site.unschedulable.pods, site.unschedulable.groups) == ({}, {})


def test_refusal_of_deleted_pod_is_ignored() -> None:
    """kube-scheduler may send a pod after the watch has deleted it."""
    site = Site.refusing("p")
    for name in "pq":
        site.unschedulable.delete_pod(f"uid-{name}")
        site.refuse(name)
    assert not site.unschedulable.pods


@pytest.mark.parametrize(("after", "left"), [(1700, 1), (1801, 0)])
async def test_pod_without_requests_is_removed(after: float, left: int) -> None:
    """kube-scheduler tries unschedulable pods every five minutes: a pod without a later request is not pending."""
    site = Site.refusing("p")
    await site.reconcile(after=after)
    assert len(site.unschedulable.pods) == left


async def test_other_replica_takes_over() -> None:
    """A pod that another replica patches belongs to that replica; the watch returns our own patches as well."""
    site = Site.refusing("p")
    site.refuse("q", cpu="2")
    site.set_free(a=9000)
    assert await site.reconcile() == ["p", "q"]
    ours = site.api.patches[0][1]["metadata"]["annotations"][RETRY]
    site.unschedulable.put_pod(_watched("p", retry=ours))
    site.unschedulable.put_pod(_watched("q", retry="2030-01-01T00:00:00Z"))
    assert _names(site) == {"p"}


async def test_failed_patch_keeps_pod() -> None:
    site = Site.refusing()
    item = _watched("p", retry="2020-01-01T00:00:00.000000Z")
    assert not site.admits(item)
    site.set_free(a=9000)
    site.api.failures["/p"] = overloaded()
    assert await site.reconcile() == []
    site.unschedulable.put_pod(item)
    assert _names(site) == {"p"}


def test_memory_is_bounded() -> None:
    site = Site(RequeueSettings(most_pods=3))
    site.set_free(a=0)
    site.refuse(*(f"p{number}" for number in range(5)))
    assert (len(site.unschedulable.pods), site.unschedulable.overflowed) == (3, 2)


def test_deleted_nodes_share_no_rows() -> None:
    site = Site()
    site.set_free(a=0, b=0, c=0)
    site.refuse("p", on=["b", "c"])
    site.cache.delete_node("a")
    site.cache.delete_node("c")
    site.set_free(d=0)
    site.refuse("q", on=["d"], nodeSelector={"n": "d"})
    first, second = site.unschedulable.groups.values()
    snapshot = site.cache.freeze(site.now)
    assert (list(first.fitting(snapshot).names), list(second.fitting(snapshot).names)) == (["b"], ["d"])


@pytest.mark.parametrize(
    "other",
    [
        {"nodeSelector": {"zone": "a"}},
        {"priority": 7},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}]},
        {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "3"}}}]},
        {"initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}]},
        {"resources": {"requests": {"cpu": "3"}}},
        {"overhead": {"cpu": "250m"}},
    ],
    ids=lambda other: str(next(iter(other))),
)
def test_groups(other: dict[str, Any]) -> None:
    site = Site.refusing("p", "q")
    site.refuse("r", volumes=[{"name": "kube-api-access-x1", "projected": {}}])
    assert len(site.unschedulable.groups) == 1
    site.refuse("s", **other)
    assert len(site.unschedulable.groups) == 2
    site.refuse("s")  # its constraints were changed meanwhile
    assert len(site.unschedulable.groups) == 1


def _pending(name: str, message: str = QUOTE, reason: str = "Unschedulable") -> Json:
    item = new_pod(name)
    item["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]
    return item


def _restarted(*pods: Json) -> Site:
    site = Site()
    site.set_free(a=0, b=0)
    for pod in pods:
        site.pods[pod["metadata"]["name"]] = pod
        site.unschedulable.put_pod(pod)
    site.unschedulable.pods_listed()
    return site


async def test_pods_of_earlier_process_are_recovered() -> None:
    site = _restarted(*(_pending(f"p{number}") for number in range(5)))
    assert await site.reconcile() == []
    site.set_free(b=100_000)
    assert await site.reconcile() == ["p0"]
    assert await site.reconcile() == []
    assert not site.admits(site.pods["p0"], "a")  # the response names the nodes of the others, too
    assert await site.reconcile(after=5.0) == []
    site.set_free(a=100_000)
    assert sorted(await site.story(10)) == [f"p{number}" for number in range(5)]


@pytest.mark.parametrize(
    "pod",
    [
        new_pod("new"),
        _pending("other", "0/2 nodes are available: 2 Insufficient cpu."),
        _pending("gated", "Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated"),
        {**_pending("bound"), "spec": {"nodeName": "a", "containers": []}},
    ],
    ids=lambda pod: str(pod["metadata"]["name"]),
)
def test_other_pods_are_ignored(pod: Json) -> None:
    assert not _restarted(pod).unschedulable.pods
    site = _restarted()
    site.unschedulable.put_pod(_pending("p"))
    assert not site.unschedulable.pods


@pytest.mark.parametrize("reason", ["node(s) cpu usage exceed threshold", EXPIRED, DEFICIT, STALE, ABSENT])
def test_reasons_of_shipped_plugins_are_known(reason: str) -> None:
    plugins = {enabled.name: enabled.plugin for enabled in load_profile(DEFAULT_PROFILE).enabled}
    cache, cycle = ClusterCache(LoadRules(), plugins), Cycle([Enabled(name, 1, plugins[name]) for name in plugins])
    unschedulable = UnschedulablePods(9, cache, cycle, lambda: 0.0)
    mid = made_pod("mid", {names.MID_CPU: "100"}, priority=7500)
    unschedulable.put_pod({**mid, "status": _pending("mid", f"0/1: 1 {reason}.")["status"]})
    assert len(unschedulable.pods) == 1


def test_defaults_are_in_range() -> None:
    assert RequeueSettings().problems() == ()
    wrong = RequeueSettings(patches_per_second=0, event_burst=0)
    assert [problem.field for problem in wrong.problems()] == ["patchesPerSecond", "eventBurst"]
    assert set(RANGES) < set(RequeueSettings.__slots__)


def _load_aware(**arguments: Any) -> Site:  # noqa: ANN401 - any argument of the plugin
    site = Site(plugin=load_aware(**arguments), name=load_aware_plugin.NAME)
    site.cache.put_node(node("a"))
    return site


def _deficit(status: str) -> Json:
    metric = node_metric("a")
    metric["status"]["conditions"] = [{"type": "MidDeficit", "status": status}]
    return metric


@pytest.mark.parametrize(
    ("plugin", "before", "after"),
    [
        (load_aware_plugin, node_metric("a", cpu="90"), node_metric("a", cpu="20", updated=2)),
        (load_aware_plugin, node_metric("a", cpu="20", updated=-600), node_metric("a", cpu="20", updated=1)),
        (mid_resources, _deficit("True"), _deficit("False")),
    ],
    ids=["cooled", "reports again", "no deficit"],
)
async def test_report_ends_refusal(plugin: ModuleType, before: Json, after: Json) -> None:
    site = Site(plugin=load_aware() if plugin is load_aware_plugin else MidResources(), name=plugin.NAME)
    site.cache.put_node(node("a"))
    site.cache.put_node_metric(before)
    site.refuse("p", priority=7500 if plugin is mid_resources else 9500)
    assert await site.reconcile() == []
    site.cache.put_node_metric(after)
    assert await site.reconcile() == ["p"]


async def test_expired_report_lets_pass() -> None:
    """Where nodes with expired reports are used unchecked, the expiry ends a refusal: only time passes."""
    site = _load_aware(enable_schedule_when_node_metrics_expired=True)
    site.cache.put_node_metric(node_metric("a", cpu="90"))
    site.refuse("p")
    assert await site.reconcile(after=100.0) == []
    assert await site.reconcile(after=80.0) == ["p"]


async def test_pod_leaves_node() -> None:
    site = _load_aware()
    site.cache.put_node_metric(node_metric("a", cpu="20"))
    site.cache.put_pod(new_pod("large", "60", nodeName="a"), site.now)
    site.refuse("p", cpu="5")
    assert await site.reconcile() == []
    site.cache.delete_pod("uid-large")
    assert await site.reconcile() == ["p"]
