"""The writer of the status of quotas."""

import pytest

from headroom.kube import ApiError, ApiUnavailable
from tests.scheduler_plugins.objects import at, node
from tests.scheduler_plugins.quota.status.site import Site, bound, quota

GOOD = {
    "InForce": "OnlyQuota",
    "MinWithinMax": "Within",
    "MinWithinCapacity": "Within",
    "UsedWithinMax": "Within",
}


async def test_usage_of_bound_pods() -> None:
    site = Site(quota(minimum={"cpu": 2, "memory": 0}, maximum={"cpu": 4, "memory": 0, "example.com/x": 1}))
    site.cluster.put_pod(bound("p", cpu="1500m"))
    assert await site.reconcile() == ["a/q"]
    assert site.status()["used"] == {"cpu": "1500m", "memory": "0", "example.com/x": "0"}
    assert site.conditions() == GOOD
    assert site.recorder.events == []
    assert {condition["observedGeneration"] for condition in site.status()["conditions"]} == {1}


async def test_written_only_on_change() -> None:
    site = Site(quota(minimum={"cpu": 2}))
    assert await site.reconcile() == ["a/q"]
    for _ in range(3):
        assert await site.reconcile() == []
    site.watch()
    for _ in range(3):
        assert await site.reconcile() == []
    site.cluster.put_pod(bound("p"))
    assert await site.reconcile() == ["a/q"]
    assert site.api.patches[-1][1] == {"used": {"cpu": "1"}}
    site.cluster.delete_pod("uid-p")
    assert await site.reconcile() == ["a/q"]
    assert site.status()["used"] == {"cpu": "0"}


async def test_deleted_resource_is_removed() -> None:
    site = Site(quota(minimum={"cpu": 2, "example.com/x": 1}))
    await site.reconcile()
    assert set(site.status()["used"]) == {"cpu", "example.com/x"}
    changed = {**site.api.quotas["a/q"], "spec": {"min": {"cpu": 2}}}
    site.create(changed)
    assert await site.reconcile() == ["a/q"]
    assert site.status()["used"] == {"cpu": "0"}


async def test_other_notation_is_not_rewritten() -> None:
    site = Site(quota(minimum={"cpu": 2}))
    site.cluster.put_pod(bound("p"))
    await site.reconcile()
    site.api.quotas["a/q"]["status"]["used"] = {"cpu": "1000m"}
    site.watch()
    assert await site.reconcile() == []


async def test_foreign_conditions_survive() -> None:
    theirs = {"type": "Theirs", "status": "Unknown"}
    site = Site({**quota(minimum={"cpu": 2}), "status": {"conditions": [theirs]}})
    await site.reconcile()
    assert site.status()["conditions"][0] == theirs
    assert len(site.status()["conditions"]) == 5


async def test_definition_without_conditions(caplog: pytest.LogCaptureFixture) -> None:
    site = Site(quota(minimum={"cpu": 4}, maximum={"cpu": 2}))
    site.api.prunes = True
    assert await site.reconcile() == ["a/q"]
    site.watch()
    for _ in range(3):
        assert await site.reconcile() == []
    site.cluster.put_pod(bound("p"))
    assert await site.reconcile() == ["a/q"]
    assert site.api.quotas["a/q"]["status"] == {"used": {"cpu": "1"}}
    site.watch()
    assert await site.reconcile() == []
    assert [reason for _, reason, _ in site.recorder.events] == ["MinAboveMax"]
    (record,) = caplog.records
    assert "has no status.conditions" in record.message
    site.api.prunes = False
    site.create({**site.api.quotas["a/q"], "spec": {"min": {"cpu": 1}, "max": {"cpu": 2}}})
    assert await site.reconcile() == ["a/q"]
    assert site.conditions() == GOOD


async def test_only_the_leader_writes() -> None:
    site = Site(quota(minimum={"cpu": 2}))
    site.leads = False
    assert await site.reconcile() == []
    site.leads = True
    assert await site.reconcile() == ["a/q"]


async def test_several_quotas_in_a_namespace() -> None:
    """The oldest reports that it is in force and its usage, the other that it is not; each gets one warning."""
    site = Site(quota("old", minimum={"cpu": 1}, age=20))
    await site.reconcile()
    site.create(quota("new", minimum={"cpu": 2}, age=10))
    assert sorted(await site.reconcile()) == ["a/new", "a/old"]
    assert site.conditions("a/old")["InForce"] == "SeveralQuotas"
    assert site.conditions("a/new") == {"InForce": "-OtherQuotaInForce", "MinWithinMax": "Within"}
    assert "used" not in site.status("a/new")
    assert sorted(text[:2] for text in site.recorder.events) == [("new", "OtherQuotaInForce"), ("old", "SeveralQuotas")]
    site.watch()
    assert await site.reconcile() == []
    del site.api.quotas["a/old"]
    site.cluster.delete_quota("uid-a-old")
    assert await site.reconcile() == ["a/new"]
    assert site.conditions("a/new") == GOOD
    assert site.status("a/new")["used"] == {"cpu": "0"}


async def test_quota_no_longer_in_force() -> None:
    site = Site(quota("new", minimum={"cpu": 20}, age=10))
    await site.reconcile()
    assert site.conditions("a/new")["MinWithinCapacity"] == "-MinAboveCapacity"
    site.watch()
    site.create(quota("old", minimum={"cpu": 1}, age=20))
    await site.reconcile()
    assert site.conditions("a/new") == {"InForce": "-OtherQuotaInForce", "MinWithinMax": "Within"}
    assert "used" not in site.status("a/new")


async def test_min_above_max() -> None:
    site = Site(quota(minimum={"cpu": 4, "memory": "1Gi"}, maximum={"cpu": 2}))
    await site.reconcile()
    assert site.conditions()["MinWithinMax"] == "-MinAboveMax"
    ((_, _, note),) = site.recorder.events
    assert "cpu: min 4 is above max 2" in note
    assert "memory: min 1Gi is above max 0 (cpu, memory and ephemeral-storage count as 0" in note


async def test_min_above_capacity() -> None:
    site = Site(quota(minimum={"cpu": 6}), quota(namespace="b", minimum={"cpu": 5}), quota(namespace="c", maximum={}))
    await site.reconcile()
    result = [site.conditions(f"{name}/q")["MinWithinCapacity"] for name in "abc"]
    assert result == ["-MinAboveCapacity", "-MinAboveCapacity", "Within"]
    assert site.recorder.events[0][2] == "cpu: all quotas together guarantee 11, the nodes have 10."
    site.watch()
    site.cluster.put_node(node("further", cpu="1"))
    assert sorted(await site.reconcile()) == ["a/q", "b/q"]
    assert site.conditions() == GOOD


async def test_changing_numbers_are_not_written_at_once() -> None:
    site = Site(quota(minimum={"cpu": 90}))
    await site.reconcile()
    assert "the nodes have 10." in site.status()["conditions"][2]["message"]
    since = site.status()["conditions"][2]["lastTransitionTime"]
    written = 0
    for number in range(30):
        site.cluster.put_node(node(f"n{number}", cpu="1"))
        written += len(await site.reconcile())
    assert written == 0
    assert await site.reconcile(after=60) == ["a/q"]
    assert "the nodes have 40." in site.status()["conditions"][2]["message"]
    assert site.status()["conditions"][2]["lastTransitionTime"] == since == at(1)
    assert len(site.recorder.events) == 1


async def test_quota_that_changed_meanwhile() -> None:
    """A write applies only to the version that it was made for; the next round has the new version."""
    site = Site(quota(minimum={"cpu": 2}))
    site.api.quotas["a/q"]["metadata"]["resourceVersion"] = "5"  # the watch has not delivered it
    assert await site.reconcile() == []
    site.watch()
    assert await site.reconcile() == ["a/q"]
    assert site.metrics.writes.labels("changed")._value.get() == 1


async def test_deleted_quota() -> None:
    site = Site(quota(minimum={"cpu": 2}))
    del site.api.quotas["a/q"]
    assert await site.reconcile() == []
    assert site.metrics.writes.labels("gone")._value.get() == 1
    site.cluster.delete_quota("uid-a-q")
    assert await site.reconcile() == []


async def test_unavailable_server_is_retried_later() -> None:
    site = Site(quota(minimum={"cpu": 2}))
    for pause in (1.0, 2.0):
        site.api.failures = [ApiUnavailable("away")]
        assert await site.reconcile() == []
        assert site.api.failures == []
        site.api.failures = [AssertionError("request too early")]
        assert await site.reconcile(after=pause - 0.5) == []
        site.api.failures = []
    assert await site.reconcile(after=4) == ["a/q"]


async def test_missing_right_is_recorded_once(caplog: pytest.LogCaptureFixture) -> None:
    site = Site(quota(minimum={"cpu": 2}), quota(namespace="b", minimum={"cpu": 2}))
    site.api.failures = [ApiError(403, "Forbidden", "no")] * 2
    for _ in range(5):
        assert await site.reconcile() == []
    (record,) = caplog.records
    assert "resources: [elasticquotas/status], verbs: [patch]" in record.message
    assert await site.reconcile(after=60) == ["a/q", "b/q"]


async def test_used_above_max() -> None:
    site = Site(quota(minimum={"cpu": 1}, maximum={"cpu": 2}))
    for name in "pqr":
        site.cluster.put_pod(bound(name))
    assert await site.reconcile() == ["a/q"]
    assert site.conditions() == {**GOOD, "UsedWithinMax": "-UsedAboveMax"}
    assert site.status()["conditions"][-1]["message"] == "cpu: its pods have 3, max is 2."
    assert [reason for _, reason, _ in site.recorder.events] == ["UsedAboveMax"]
    site.watch()
    site.cluster.delete_pod("uid-r")
    assert await site.reconcile() == ["a/q"]
    assert site.conditions() == GOOD


async def test_names_that_limit_nothing() -> None:
    """An older quota may have them: the condition is there as long as they are."""
    site = Site(quota(maximum={"requests.cpu": 2, "cpu": 4, "count/jobs.batch": 1}))
    await site.reconcile()
    assert site.conditions() == {**GOOD, "ResourcesCounted": "-NamesWithoutEffect"}
    ((_, reason, note),) = site.recorder.events
    assert (reason, note[:60]) == ("NamesWithoutEffect", "requests.cpu, count/jobs.batch: no pod requests a resource o")
    site.create({**site.api.quotas["a/q"], "spec": {"max": {"cpu": 4}}})
    await site.reconcile()
    assert site.conditions() == GOOD
