"""Metrics of the min, max and charge of quotas."""

from prometheus_client import CollectorRegistry, generate_latest

from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.quota.status.metrics import QuotaLevels
from tests.scheduler_plugins.quota.status.site import Bounds, bound, quota

GI = 2**30


class Page:
    def __init__(self, max_missing: MaxMissing = MaxMissing.INFINITE) -> None:
        self.cluster = QuotaCluster("CapacityScheduling", max_missing)
        self.registry = CollectorRegistry()
        QuotaLevels(self.registry).show(self.cluster.ledger)

    def put(self, minimum: Bounds | None, maximum: Bounds | None, namespace: str = "a", name: str = "q") -> None:
        self.cluster.put_quota(quota(name, namespace, minimum, maximum))

    def value(self, level: str, resource: str, namespace: str = "a", name: str = "q") -> float | None:
        labels = {"quota_namespace": namespace, "quota": name, "resource": resource}
        return self.registry.get_sample_value(f"headroom_scheduler_quota_{level}", labels)


def test_levels_are_in_cores_and_bytes() -> None:
    page = Page()
    page.put({"cpu": "1500m", "memory": "2Gi"}, {"cpu": "4", "memory": "8Gi"})
    page.cluster.put_pod(bound("p", cpu="250m"))
    assert [page.value(level, "cpu") for level in ("used", "min", "max")] == [0.25, 1.5, 4]
    assert [page.value(level, "memory") for level in ("used", "min", "max")] == [0, 2 * GI, 8 * GI]


def test_unlimited_is_absent() -> None:
    page = Page()
    page.put({"cpu": "1"}, None)
    assert page.value("max", "cpu") is None
    page.put({"cpu": "1"}, {"memory": "1Gi"})
    assert [page.value("max", entry) for entry in ("cpu", "memory", "pods")] == [None, GI, None]


def test_unnamed_zeros_are_absent() -> None:
    page = Page(MaxMissing.ZERO)
    page.put(None, {"memory": "1Gi"})
    assert page.value("used", "cpu") is None
    assert page.value("max", "ephemeral-storage") is None
    page.cluster.put_pod(bound("p", cpu="2"))
    assert page.value("used", "cpu") == 2


def test_deleted_quota_has_no_metrics() -> None:
    page = Page()
    page.put({"cpu": "1"}, None)
    page.put({"cpu": "2"}, None, "b")
    page.cluster.delete_quota("uid-a-q")
    assert b'quota_namespace="a"' not in generate_latest(page.registry)
    assert page.value("min", "cpu", "b") == 2
    page.cluster.put_quota(quota("older", "b", {"cpu": "3"}, age=60))
    assert (page.value("min", "cpu", "b"), page.value("min", "cpu", "b", "older")) == (None, 3)
    assert page.registry.get_sample_value("headroom_scheduler_quotas_passed_over") == 1
