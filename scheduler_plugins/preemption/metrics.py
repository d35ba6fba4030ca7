"""Metrics of reclaiming."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class PreemptionMetrics:
    """The metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.rounds = Counter(
            "headroom_scheduler_reclaim_rounds",
            "Evaluations of unschedulable pods by the leading replica.",
            registry=registry,
        )
        self.pending = Gauge(
            "headroom_scheduler_reclaim_pending_pods",
            "Pods with a quota that found no node and for which no pod is being evicted.",
            registry=registry,
        )
        self.holds = Gauge("headroom_scheduler_reclaim_holds", "Pods with a hold on a node.", registry=registry)
        self.over_max_usage = Gauge(
            "headroom_scheduler_quota_pods_beyond_max",
            "Pods that were bound beyond their quota's max since it was last changed, by the replica that leads.",
            ["quota_namespace", "quota"],
            registry=registry,
        )
        self.decisions = Counter(
            "headroom_scheduler_reclaim_decisions",
            "Decisions for unschedulable pods, by outcome (held, dry-run, no_victims, changed, guarded,"
            " throttled, withdrawn, expired).",
            ["outcome"],
            registry=registry,
        )
        self.evictions = Counter(
            "headroom_scheduler_reclaim_evictions",
            "Evictions requested, by result (evicted, gone, refused-by-budget, refused).",
            ["result"],
            registry=registry,
        )
        self.bound_after = Histogram(
            "headroom_scheduler_reclaim_bound_seconds",
            "Time from the decision to evict for a pod until it was seen bound.",
            buckets=(0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600),
            registry=registry,
        )
        self.decision_seconds = Histogram(
            "headroom_scheduler_reclaim_decision_seconds",
            "CPU-bound time of one decision.",
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0),
            registry=registry,
        )
