"""The ledger against all pods: nothing where it is right, and by how much it is wrong otherwise."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from headroom.kube import ApiServer, ApiUnavailable
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.quota.status import verification
from scheduler_plugins.quota.status.metrics import QuotaMetrics
from scheduler_plugins.quota.status.verification import (
    CATCH_UP_SECONDS,
    CHECK_SECONDS,
    FIRST_SECONDS,
    LIST_SECONDS,
    LedgerVerifier,
)
from tests.scheduler_plugins.quota.status.site import FakeApi, bound, quota


class Site:
    """A checker over 30 pods of three namespaces, one of which has no quota."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cluster = QuotaCluster("CapacityScheduling", MaxMissing.INFINITE)
        self.api = FakeApi()
        self.metrics = QuotaMetrics(CollectorRegistry())
        self.waited: list[float] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.ready = True
        self.checker = LedgerVerifier(
            self.cluster, cast("ApiServer", self.api), lambda: self.ready, self.metrics, lambda: self.now, self.sleep
        )
        for namespace in "ab":
            self.cluster.put_quota(quota(namespace=namespace))
        for number in range(30):
            self.put(f"p{number}", "abc"[number % 3])

    def put(self, name: str, namespace: str, cpu: str = "1", *, told: bool = True) -> None:
        """Bind a pod, or change it; with or without the watch telling."""
        item = bound(name, namespace, cpu)
        self.api.pods[f"{namespace}/{name}"] = item
        if told:
            self.cluster.put_pod(item)

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(0)
        self.now += seconds
        self.waited.append(seconds)
        self.meanwhile()

    def differences(self, against: str) -> float:
        """The metric."""
        return float(self.metrics.differences.labels(against)._value.get())


async def test_right_ledger_differs_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """Where the ledger is right both checks find nothing, and say nothing."""
    site = Site()
    assert await site.checker.check_kept() == {}
    assert await site.checker.check_listed() == {}
    assert (site.differences("kept"), site.differences("listed"), caplog.records, site.waited) == (0, 0, [], [])


async def test_wrong_ledger_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A charge that no pod comes to is found by both checks; the metric counts it and the log names the amounts."""
    site = Site()
    site.cluster.ledger.discharge("uid-p0")
    wrong = {"a": ({"cpu": 9000}, {"cpu": 10000})}
    assert await site.checker.check_kept() == wrong
    assert await site.checker.check_listed() == {"a": ({}, {"cpu": 1000})}
    assert (site.differences("kept"), site.differences("listed")) == (1, 1)
    assert "a is charged cpu 9, its pods come to cpu 10" in caplog.records[0].message
    site.put("p0", "a")
    assert await site.checker.check_kept() == {}
    assert site.differences("kept") == 0


async def test_pods_on_their_way_do_not_count() -> None:
    """A pod that was admitted and is not bound is charged, and is no difference."""
    site = Site()
    item = bound("new", "a", where="")
    site.api.pods["a/new"] = item
    site.cluster.put_pod(item)
    site.cluster.ledger.admit(site.cluster.pods["uid-new"])
    assert await site.checker.check_kept() == {}
    assert await site.checker.check_listed() == {}


async def test_pod_on_lost_node_is_no_difference() -> None:
    """A pod of which nobody hears any more is not charged, and its node keeps its room."""
    site = Site()
    item = site.api.pods["a/p0"]
    item["status"]["phase"] = "Unknown"
    site.cluster.put_pod(item)
    assert site.cluster.ledger.bound("a") == {"cpu": 9000}
    assert await site.checker.check_kept() == {}
    assert await site.checker.check_listed() == {}


async def test_change_during_a_check_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods that come and go while the sums are made, in slices, do not make a difference."""
    monkeypatch.setattr(verification, "_SLICE", 1)
    site = Site()
    check = asyncio.ensure_future(site.checker.check_kept())
    for number in range(20):
        await asyncio.sleep(0)
        site.put(f"p{29 - number}", "abc"[(29 - number) % 3], "3")
        site.cluster.delete_pod(f"uid-p{number // 2}")
    assert not check.done()
    assert await check == {}


async def test_watch_that_lags_is_waited_for() -> None:
    """What a list tells before the watch does is looked at again: it is no difference once the watch has caught up."""
    site = Site()
    site.put("new", "b", told=False)
    del site.api.pods["c/p2"]

    def caught_up() -> None:
        site.put("new", "b")
        site.cluster.delete_pod("uid-p2")

    site.meanwhile = caught_up
    assert await site.checker.check_listed() == {}
    assert site.waited == [CATCH_UP_SECONDS]


@pytest.mark.parametrize("missed", ["bound", "gone", "resized", "another"])
async def test_missed_change_is_found(missed: str) -> None:
    """A change that the watch never told is found by a new list of all pods, though the ledger agrees with itself."""
    site = Site()
    wrong: dict[str, tuple[dict[str, int], dict[str, int]]]
    if missed == "bound":
        site.put("new", "a", told=False)
        wrong = {"a": ({}, {"cpu": 1000})}
    elif missed == "gone":
        del site.api.pods["a/p0"]
        wrong = {"a": ({"cpu": 1000}, {})}
    elif missed == "resized":
        site.put("p0", "a", "3", told=False)
        wrong = {"a": ({"cpu": 1000}, {"cpu": 3000})}
    else:  # deleted, and created anew on another node
        site.put("p0", "a", told=False)
        site.api.pods["a/p0"]["metadata"]["uid"] = "another"
        wrong = {"a": ({"cpu": 1000}, {"cpu": 1000})}
    assert await site.checker.check_kept() == {}
    assert await site.checker.check_listed() == wrong
    assert site.differences("listed") == 1


async def test_checks_are_periodic(caplog: pytest.LogCaptureFixture) -> None:
    """Known pods are summed up soon and then every half minute, all are listed every hour, whatever fails."""
    site = Site()
    rounds = int(2 * LIST_SECONDS / CHECK_SECONDS)

    def meanwhile() -> None:
        looks = len(site.waited)
        site.ready = looks not in {3, 4}
        if looks == rounds // 2 + 3:
            site.api.failures = [ApiUnavailable("away")]
        if looks == rounds + 4:
            raise asyncio.CancelledError

    site.meanwhile = meanwhile
    with pytest.raises(asyncio.CancelledError):
        await site.checker.run()
    assert site.waited[:6] == [FIRST_SECONDS, CHECK_SECONDS, CHECK_SECONDS, FIRST_SECONDS, FIRST_SECONDS, CHECK_SECONDS]
    assert site.metrics.checks.labels("kept")._value.get() == rounds + 1
    assert site.metrics.checks.labels("listed")._value.get() == 1
    assert [record.message for record in caplog.records] == ["The ledger of quotas could not be checked"]


async def test_nothing_is_listed_without_quotas() -> None:
    """Where there are no quotas the API server is not asked for all pods every hour: nobody is charged."""
    site = Site()
    for uid in list(site.cluster.quota_objects):
        site.cluster.delete_quota(uid)

    def meanwhile() -> None:
        if site.now > 2 * LIST_SECONDS:
            raise asyncio.CancelledError

    site.meanwhile = meanwhile
    with pytest.raises(asyncio.CancelledError):
        await site.checker.run()
    assert site.metrics.checks.labels("kept")._value.get()
    assert site.metrics.checks.labels("listed")._value.get() == 0
