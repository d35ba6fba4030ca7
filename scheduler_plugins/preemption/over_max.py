"""Pods that were bound beyond their quota's max, while the extender was away: they are named, and evicted if chosen."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from scheduler_plugins.preemption import events
from scheduler_plugins.preemption.events import PreemptionEventRecorder
from scheduler_plugins.preemption.metrics import PreemptionMetrics
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.over_max import over_max_usage
from scheduler_plugins.quota.pod import QuotaPod

INTERVAL_SECONDS: Final = 5.0  # how often is looked for them [s]

_NOTE: Final = "Bound beyond the max of ElasticQuota {quota}: its scheduler asked no extender, or got no answer in time"


class OverMaxRule(StrEnum):
    """What becomes of pods that were bound beyond max."""

    TELL = "tell"  # they stay; Events, a metric and an alert name them
    EVICT = "evict"  # they leave, the least important and last bound first, until the namespace is within its max


class OverMax:
    """Looks for them.

    Args:
        rule: what becomes of them.
        cluster: the quotas.
        recorder: writes Events.
        metrics: where they are counted.
        monotonic: a clock that never jumps. [s]
    """

    def __init__(
        self,
        rule: OverMaxRule,
        cluster: QuotaCluster,
        recorder: PreemptionEventRecorder,
        metrics: PreemptionMetrics,
        monotonic: Callable[[], float],
    ) -> None:
        self._rule, self._cluster, self._recorder = rule, cluster, recorder
        self._metrics, self._monotonic = metrics, monotonic
        self._next = float("-inf")

    def reconcile(self) -> list[tuple[QuotaPod, str]]:
        """Name them; whom to evict, and why. Nobody between two looks, which are some seconds apart."""
        now = self._monotonic()
        if now < self._next:
            return []
        self._next = now + INTERVAL_SECONDS
        found = over_max_usage(self._cluster.ledger, self._cluster.pods.values(), self._cluster.quota_objects)
        self._metrics.over_max_usage.clear()
        for each in found:
            self._metrics.over_max_usage.labels(each.quota.namespace, each.quota.name).set(len(each.pods))
        named = [(pod, _NOTE.format(quota=each.quota.key)) for each in found for pod in each.pods]
        for pod, note in named:
            self._recorder.explain(pod, "Warning", events.BEYOND_MAX, note)
        return [(pod, note) for pod, note in named if not pod.static] if self._rule is OverMaxRule.EVICT else []
