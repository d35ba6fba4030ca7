"""Metrics of requeueing and of Events about refused pods."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from scheduler_plugins.requeue.unschedulable import Cause, Group


class RequeueMetrics:
    """The metrics.

    Args:
        registry: where they are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.unschedulable = Gauge(
            "headroom_scheduler_waiting_pods", "Pods that were refused on every node and wait.", registry=registry
        )
        """Pods that wait."""
        self.groups = Gauge(
            "headroom_scheduler_waiting_groups",
            "Groups of unschedulable pods that are evaluated together.",
            registry=registry,
        )
        """Groups of them."""
        self.overflowed = Gauge(
            "headroom_scheduler_waiting_overflow",
            "Refusals of pods that were not remembered, as too many waited.",
            registry=registry,
        )
        """Pods that were not remembered."""
        self.by_cause = Gauge(
            "headroom_scheduler_waiting_pods_by_cause",
            "Pods that wait, by cause: quota (no node helps), load (all nodes are hot, requests fit), other.",
            ["cause"],
            registry=registry,
        )
        """Pods that wait, by cause."""
        self.requeued = Counter(
            "headroom_scheduler_woken_pods", "Pods that were requeued by a patch that succeeded.", registry=registry
        )
        """Pods requeued."""
        self.patches = Counter(
            "headroom_scheduler_wake_patches",
            "Patches to requeue a pod, by result (ok, gone, changed, forbidden, refused, unavailable).",
            ["result"],
            registry=registry,
        )
        """Patches by result."""
        self.waited = Histogram(
            "headroom_scheduler_waited_seconds",
            "Time from a pod's first refusal on every node until it is in flight to a node, or bound.",
            buckets=(1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400),
            registry=registry,
        )
        """Seconds waited by pods that found a node."""
        self.round_seconds = Histogram(
            "headroom_scheduler_requeue_round_seconds",
            "CPU-bound time of one pass over the unschedulable pods.",
            buckets=(0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
            registry=registry,
        )
        """Time of one look."""
        self.events = Counter(
            "headroom_scheduler_refusal_events",
            "Events about refused pods, by result (posted, suppressed).",
            ["result"],
            registry=registry,
        )
        """Events by result; suppressed: the same was reported lately, or the pod did not wait for its turn."""

    def count_causes(self, groups: Iterable[Group]) -> None:
        """Count the pods of the groups by the cause of their refusal."""
        counts = dict.fromkeys((Cause.POD, Cause.LOAD, Cause.OTHER), 0)
        for group in groups:
            if group.cause in counts:
                counts[group.cause] += len(group.pods)
        for cause, count in counts.items():
            self.by_cause.labels(cause.value).set(count)
