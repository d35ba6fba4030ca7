"""What the status of quotas and the check of their ledger tell about themselves at /metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class QuotaMetrics:
    """The metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.differences = Gauge(
            "headroom_scheduler_quota_differences",
            "Namespaces that are charged something else than their pods come to, as of the last check. Must be 0.",
            ["against"],
            registry=registry,
        )
        """Namespaces in which the ledger is wrong, by what it was compared with (kept, listed)."""
        self.checks = Counter(
            "headroom_scheduler_quota_checks",
            "Comparisons of the ledger of quotas with all pods, by what it was compared with (kept, listed).",
            ["against"],
            registry=registry,
        )
        """Checks of the ledger."""
        self.writes = Counter(
            "headroom_scheduler_quota_status_writes",
            "Writes of the status of an ElasticQuota, by result (ok, gone, changed, refused, unavailable).",
            ["result"],
            registry=registry,
        )
        """Writes by result."""
        for against in ("kept", "listed"):
            self.differences.labels(against).set(0)
            self.checks.labels(against)
