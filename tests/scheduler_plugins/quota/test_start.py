"""Pods that a previous run of the extender may have admitted, after a start."""

import pytest

from crds import names
from headroom.kube import Changed, Relisted, paths
from scheduler_plugins.plugins.capacity_scheduling import NAME, CapacityScheduling, quota_cluster, sentence
from scheduler_plugins.quota.admission import QuotaExceeded, refusal
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.in_flight import SETTLED_SECONDS, UNCONFIRMED_SECONDS
from tests.scheduler_plugins.following import Change, follow
from tests.scheduler_plugins.objects import NOW, Json, at, condition
from tests.scheduler_plugins.quota.objects import pod, quota


async def _followed(monkeypatch: pytest.MonkeyPatch, *changes: Change) -> QuotaCluster:
    cache = ClusterCache(LoadRules(), {NAME: CapacityScheduling()})
    await follow(cache, monkeypatch, {paths.PODS: changes})
    return quota_cluster(cache.freeze(NOW))


def _going(name: str) -> Json:
    item = pod(name)
    item["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    return item


async def test_first_list_is_unconfirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    gated = pod("gated", schedulingGates=[{"name": "x"}])
    first = [pod("pending"), pod("bound", node="n1"), gated, pod("ended", phase="Failed"), _going("going")]
    cluster = await _followed(
        monkeypatch,
        Relisted(first),
        Changed("ADDED", pod("new")),
        Relisted([*first, pod("new"), pod("newer")]),
    )
    assert len(cluster.unconfirmed) == 1
    assert "uid-a-pending" in cluster.unconfirmed
    assert not cluster.ledger.tentative


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(Changed("MODIFIED", pod("pending", node="n1")), id="bound"),
        pytest.param(Changed("DELETED", pod("pending")), id="gone"),
        pytest.param(Relisted([]), id="deleted while no watch ran"),
    ],
)
async def test_unconfirmed_ends(monkeypatch: pytest.MonkeyPatch, change: Relisted | Changed) -> None:
    cluster = await _followed(monkeypatch, Relisted([pod("pending")]), change)
    assert not cluster.unconfirmed


def _restarted(waiting: int, used: int, most: int) -> QuotaCluster:
    """Return a cluster: namespace a (min 100) uses some cores and has waiting pods of one; b (min 100) uses none."""
    cluster = QuotaCluster(NAME, MaxMissing.INFINITE)
    cluster.put_quota(quota("a", {"cpu": 100, "memory": "1Ti"}, {"cpu": most}))
    cluster.put_quota(quota("b", {"cpu": 100, "memory": "1Ti"}, {"cpu": 100}))
    for number in range(used):
        cluster.put_pod(pod(f"there-{number}", "a", node="n1"))
    for number in range(waiting):
        item = pod(f"waiting-{number}", "a")
        cluster.put_pod(item)
        cluster.unconfirmed.put(QuotaPod.from_json(item))
    return cluster


def _over(cluster: QuotaCluster, item: Json) -> QuotaExceeded | None:
    return refusal(QuotaPod.from_json(item), cluster.ledger, cluster.nominations(NOW), cluster.unconfirmed)


@pytest.mark.parametrize(("used", "most"), [(0, 100), (60, 100), (100, 100), (100, 199), (120, 100)])
def test_backlog_counts_as_far_as_it_fits(used: int, most: int) -> None:
    cluster = _restarted(500, used, most)
    assert _over(cluster, pod("first", "b", {"cpu": max(200 - max(used, most), 1)})) is None


def test_namespace_with_a_backlog_waits_for_itself() -> None:
    cluster = _restarted(500, 60, 100)
    over = _over(cluster, pod("new", "a"))
    assert over is not None
    assert (over.unconfirmed, over.waits_for) == (40_000, ("a",))
    assert "possibly admitted before a restart 40" in sentence(over)
    assert "waits until pods of a that were pending at the extender's start are bound or requested, 30 s" in sentence(
        over
    )


def test_sum_of_min_names_unconfirmed_namespaces() -> None:
    over = _over(_restarted(500, 0, 1000), pod("first", "b"))
    assert over is not None
    assert (over.total, over.unconfirmed, over.waits_for) == (True, 200_000, ("a",))
    assert "waits until pods of a " in sentence(over)
    later = _over(_restarted(0, 200, 1000), pod("first", "b"))
    assert later is not None
    assert (later.waits_for, "waits until" in sentence(later)) == ((), False)


@pytest.mark.parametrize("charged", [0, 1, 40])
def test_requested_pod_is_confirmed(charged: int) -> None:
    cluster = _restarted(41, 59, 100)
    for number in range(charged):
        cluster.ledger.admit(cluster.pods[f"uid-a-waiting-{number}"])
    over = _over(cluster, pod("waiting-40", "a"))
    assert over is None
    assert _over(cluster, pod("new", "a")) is not None


OURS, THEIRS = "headroom-scheduler", "default-scheduler"
CLAIM = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def _refused(item: Json, message: str = "0/3 nodes are available") -> Json:
    refused = {**condition("PodScheduled", -60, "False"), "reason": "Unschedulable", "message": message}
    return {**item, "status": {**item["status"], "conditions": [refused]}}


def _requeued(item: Json) -> Json:
    return {**item, "metadata": {**item["metadata"], "annotations": {names.ANNOTATION_SCHEDULING_RETRY: at(0)}}}


class _Restarted:
    """A backlog of a, with a max equal to the guaranteed sum, when the extender starts; b uses nothing."""

    def __init__(self, *waiting: Json) -> None:
        self.cache = ClusterCache(LoadRules(), {NAME: CapacityScheduling(MaxMissing.INFINITE)})
        self.cluster = quota_cluster(self.cache.freeze(NOW))
        self.cluster.put_quota(quota("a", {"cpu": 100, "memory": "1Ti"}, {"cpu": 200}))
        self.cluster.put_quota(quota("b", {"cpu": 100, "memory": "1Ti"}, {"cpu": 100}))
        for item in waiting or [_refused(pod(f"w-{number}", "a", schedulerName=OURS)) for number in range(500)]:
            self.cache.put_pod(item, NOW)
            self.cache.reserve_unconfirmed(item["metadata"]["uid"], NOW)

    def admits(self, item: Json, now: float) -> bool:
        self.cache.freeze(NOW + now)
        self.cache.release(item["metadata"]["uid"])
        if _over(self.cluster, item) is not None:
            return False
        self.cache.charge(self.cache.read(item), ["n1"], NOW + now)
        return True


def test_backlog_of_a_large_max_blocks_others_for_seconds() -> None:
    site, first = _Restarted(), pod("first", "b", schedulerName=OURS)
    site.cache.put_pod(first, NOW)
    assert not site.admits(first, 1)
    site.cache.put_pod(_refused(first), NOW + 2)
    assert not site.admits(first, 2 + SETTLED_SECONDS - 1)
    assert site.admits(first, 2 + SETTLED_SECONDS + 1)


def test_later_binding_confirms() -> None:
    """kube-scheduler binds in the order of the responses: the binding of a later pod confirms the earlier ones."""
    site, other = _Restarted(), pod("other", "without-quota", schedulerName=OURS)
    site.cache.put_pod(other, NOW)
    assert site.admits(other, 1)
    site.cache.put_pod(pod("other", "without-quota", node="n1", schedulerName=OURS), NOW + 2)
    assert site.admits(pod("first", "b", schedulerName=OURS), 2 + SETTLED_SECONDS + 1)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_refused(pod("theirs", schedulerName=THEIRS), "new"), id="of another scheduler"),
        pytest.param(_requeued(_refused(pod("w", "a", schedulerName=OURS))), id="not by kube-scheduler"),
        pytest.param(pod("w", "a", node="n1", schedulerName=OURS), id="of a pod that was admitted before"),
        pytest.param(pod("w2", "a", node="n1", schedulerName=OURS), id="bound without a request"),
    ],
)
def test_changes_without_order(change: Json) -> None:
    """A pod stays unconfirmed without a write of its kube-scheduler that follows a response of this run."""
    waiting = [pod("w", "a", {"cpu": "100"}, schedulerName=OURS), pod("v", "a", {"cpu": "100"}, schedulerName=OURS)]
    site = _Restarted(*map(_refused, waiting))
    theirs = pod("theirs", schedulerName=THEIRS)
    site.cache.put_pod(theirs, NOW)
    site.cache.release("uid-a-theirs")
    site.cache.put_pod(change, NOW + 1)
    assert not site.admits(pod("first", "b", {"cpu": "100"}, schedulerName=OURS), SETTLED_SECONDS + 3)
    assert site.admits(pod("first", "b", {"cpu": "100"}, schedulerName=OURS), UNCONFIRMED_SECONDS + 1)


def test_repeated_requeue_is_no_refusal() -> None:
    """A pod that is sent twice before its refusal is observed again keeps its refusal."""
    waiting = _refused(pod("w", "a", schedulerName=OURS))
    site = _Restarted(waiting, pod("v", "a", {"cpu": "200"}, schedulerName=OURS))
    for seconds in (1, 2):
        site.admits(waiting, seconds)
    site.cache.put_pod(_requeued(waiting), NOW + 3)
    assert not site.admits(pod("first", "b", schedulerName=OURS), 3 + SETTLED_SECONDS + 1)


@pytest.mark.parametrize(
    "spec", [{"volumes": CLAIM}, {"volumes": [{"ephemeral": {}}]}, {"resourceClaims": [{"name": "x"}]}]
)
def test_delayed_binding_stays_unconfirmed(spec: Json) -> None:
    """A pod with a binding that may wait for a volume or device stays unconfirmed, despite later bindings."""
    site = _Restarted(pod("w", "a", {"cpu": "200"}, schedulerName=OURS, **spec))
    first = pod("first", "b", schedulerName=OURS)
    assert not site.admits(first, 1)
    site.cache.put_pod(_refused(first), NOW + 2)
    assert not site.admits(first, UNCONFIRMED_SECONDS - 1)
    assert site.admits(first, UNCONFIRMED_SECONDS + 1)
