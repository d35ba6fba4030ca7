"""Metrics of quotas: min, max and charge, and the writes of their status."""

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler_plugins.quota.amounts import UNLIMITED, Amounts
from scheduler_plugins.quota.ledger import QuotaLedger
from scheduler_plugins.quota.quota import Quota

LABELS: Final = ("quota_namespace", "quota", "resource")
"""The labels. Not `namespace`: Prometheus has the extender's namespace there."""
FAMILIES: Final[Mapping[str, str]] = {
    "headroom_scheduler_quota_used": "What a quota's namespace is charged, pods on their way included [cores, bytes].",
    "headroom_scheduler_quota_min": "Guaranteed by the quota [cores, bytes].",
    "headroom_scheduler_quota_max": "Upper bound of the namespace [cores, bytes]; absent: it is not limited.",
}
"""Names and texts."""
PASSED_OVER: Final = "headroom_scheduler_quotas_passed_over"  # name of the number of quotas that are not in force
_MILLI: Final = 1000


class QuotaLevels(Collector):
    """Nothing is kept here, so a quota that is deleted is gone from the next answer."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._books: list[QuotaLedger] = []
        registry.register(self)

    def show(self, ledger: QuotaLedger) -> None:
        self._books.append(ledger)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The families without their values."""
        for name, text in FAMILIES.items():
            yield GaugeMetricFamily(name, text, labels=LABELS)
        yield GaugeMetricFamily(PASSED_OVER, "Quotas that are not in force: their namespace has an older one.")

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The values of the moment."""
        *levels, passed_over = self.describe()
        for ledger in self._books:
            for quota in ledger.in_force:
                for family, amounts in zip(levels, _levels(quota, ledger.used(quota.namespace)), strict=True):
                    for resource, amount in amounts.items():
                        value = amount / _MILLI if resource == "cpu" else float(amount)
                        family.add_metric([quota.namespace, quota.name, resource], value)
        count = sum(len(ledger.passed_over(name)) for ledger in self._books for name in ledger.namespaces)
        passed_over.add_metric([], count)
        yield from (*levels, passed_over)


def _levels(quota: Quota, used: Amounts) -> tuple[Amounts, Amounts, Amounts]:
    """Used, min and max; without resources that neither the quota names nor a pod uses."""
    counted = [name for name in quota.named if name in quota.min or name in quota.max]
    return (
        {
            **dict.fromkeys(counted, 0),
            **{name: amount for name, amount in used.items() if amount and quota.concerns(name)},
        },
        quota.min,
        {name: quota.max[name] for name in counted if quota.max.get(name, UNLIMITED) < UNLIMITED},
    )


class QuotaMetrics:
    """The metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.writes = Counter(
            "headroom_scheduler_quota_status_writes",
            "Writes of the status of an ElasticQuota, by result (ok, gone, changed, refused, unavailable).",
            ["result"],
            registry=registry,
        )
