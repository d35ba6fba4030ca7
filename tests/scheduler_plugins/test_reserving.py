"""The end of the charge of an admitted pod."""

import pytest

from headroom.kube import ApiServer, Connection
from scheduler_plugins.plugins.capacity_scheduling import NAME, CapacityScheduling, quota_cluster
from scheduler_plugins.settings import load
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.in_flight import LATE_SECONDS, LONGEST_SECONDS, UNCONFIRMED_SECONDS
from scheduler_plugins.wiring import assemble
from tests.scheduler_plugins.objects import NOW, Json, at, condition
from tests.scheduler_plugins.quota.objects import pod, quota

OURS = "0/3 nodes are available: 3 ElasticQuota a/q: cpu used 5 + requested 1 > max 5."
IN_TREE = "0/3 nodes are available: 3 Insufficient cpu."


class Site:
    def __init__(self, *, steady: bool = False, words: str = OURS) -> None:
        self.passed = 0.0
        clock = (lambda: self.passed) if steady else None
        self.cache = ClusterCache(LoadRules(), {NAME: CapacityScheduling()}, steady=clock)
        self.cluster = quota_cluster(self.cache.freeze(NOW))
        self.cluster.put_quota(quota("a", {"cpu": 5, "memory": 1}, {"cpu": 5, "memory": 1}))
        self.admitted = _refused(words, -60) if words else pod("p")
        self.show(self.admitted, -1)
        self.cache.charge(self.cache.read(self.admitted), ["n1"], NOW)

    def show(self, item: Json, now: float) -> None:
        self.cache.put_pod(item, NOW + now)

    @property
    def charged(self) -> bool:
        return self.cluster.ledger.charge_of("uid-a-p") is not None


def _refused(words: str, written: float | None, since: float = -60, nominated: str = "") -> Json:
    """Return the rejected pod as kube-scheduler writes it; `written`: when, in seconds after NOW."""
    item = pod("p", nominated=nominated)
    item["status"]["conditions"] = [
        {**condition("PodScheduled", since, "False"), "reason": "Unschedulable", "message": words}
    ]
    if written is not None:
        fields: Json = {"f:status": {"f:conditions": {'k:{"type":"PodScheduled"}': {"f:message": {}}}}}
        ours = {"manager": "headroom", "subresource": "status", "time": at(3600), "fieldsV1": {"f:status": {}}}
        theirs = {"manager": "kube-scheduler", "subresource": "status", "time": at(written), "fieldsV1": fields}
        item["metadata"]["managedFields"] = [ours, theirs]
    return item


@pytest.mark.parametrize("written", [1, 30])
def test_refused_again_by_others(written: float) -> None:
    site = Site()
    site.show(_refused(IN_TREE, written), written)
    assert not site.charged


@pytest.mark.parametrize("arrives", [0.1, 30])
def test_event_of_earlier_refusal(arrives: float) -> None:
    """A refusal from before the response, or from the same second, does not count, whenever it arrives."""
    site = Site()
    site.show(_refused(IN_TREE, 0), arrives)
    assert site.charged
    site.show(_refused(IN_TREE, 40, nominated="n1"), 40)
    assert site.charged, "a write of another field is no refusal"
    site.show(_refused(OURS, 50), 50)
    assert not site.charged


@pytest.mark.parametrize(("arrives", "charged"), [(LATE_SECONDS - 0.5, True), (LATE_SECONDS + 0.5, False)])
def test_refusal_without_time(arrives: float, charged: bool) -> None:  # noqa: FBT001 - a row
    site = Site()
    site.show(_refused(IN_TREE, None), arrives)
    assert site.charged == charged


def test_first_refusal_has_its_time() -> None:
    site = Site(words="")
    site.show(_refused(IN_TREE, None, since=-1), 30)
    assert site.charged
    site = Site(words="")
    site.show(_refused(IN_TREE, None, since=1), 30)
    assert not site.charged


@pytest.mark.parametrize("step", [-86_400.0, -700.0, 700.0, 86_400.0])
def test_clock_adjustment_ends_no_charge(step: float) -> None:
    site = Site(steady=True)
    other = pod("q")
    site.cache.put_pod(other, NOW)
    site.cache.reserve_unconfirmed(other["metadata"]["uid"], NOW)
    site.passed = UNCONFIRMED_SECONDS - 1
    site.cache.freeze(NOW + step)
    assert site.charged
    assert len(site.cluster.unconfirmed) == 1
    site.passed = UNCONFIRMED_SECONDS + 1
    site.cache.freeze(NOW + step)
    assert site.charged
    assert not site.cluster.unconfirmed
    site.passed = LONGEST_SECONDS + 1
    site.cache.freeze(NOW + step)
    assert not site.charged


def test_extender_uses_a_steady_clock() -> None:
    parts = assemble(load([], {}), ApiServer(Connection("http://127.0.0.1:1", None, lambda: None), "test"))
    pending = parts.cache.read(pod("p"))
    parts.cache.charge(pending, ["n1"], NOW)
    for step in (-86_400.0, 86_400.0):
        parts.cache.freeze(NOW + step)
        assert pending.uid in parts.cache.in_flight
