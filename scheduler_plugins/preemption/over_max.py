"""Pods that were bound beyond their quota's max, while the extender was away: they are named, and evicted if chosen."""

from dataclasses import dataclass
from typing import Final

from scheduler_plugins.preemption import events
from scheduler_plugins.preemption.eviction import Evictor
from scheduler_plugins.preemption.settings import OverMaxRule
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.over_max import over_max_usage

INTERVAL_SECONDS: Final = 5.0  # how often is looked for them [s]

_NOTE: Final = "Bound beyond the max of ElasticQuota {quota}: its scheduler called no extender, or it did not respond"


@dataclass(slots=True)
class OverMax:
    """Looks for them every few seconds."""

    cluster: QuotaCluster
    evictor: Evictor
    _next: float = float("-inf")

    async def reconcile(self) -> None:
        """Name them, and have them leave if that is wanted."""
        evictor, now = self.evictor, self.evictor.clocks.monotonic()
        if now < self._next:
            return
        self._next = now + INTERVAL_SECONDS
        result = over_max_usage(self.cluster.ledger, self.cluster.pods.values(), self.cluster.quota_objects)
        evictor.metrics.over_max_usage.clear()
        for usage in result:
            evictor.metrics.over_max_usage.labels(usage.quota.namespace, usage.quota.name).set(len(usage.pods))
        named = [(pod, _NOTE.format(quota=excess.quota.key)) for excess in result for pod in excess.pods]
        for pod, note in named:
            evictor.recorder.explain(pod, "Warning", events.BEYOND_MAX, note)
        if evictor.settings.over_max is not OverMaxRule.EVICT:
            return
        for pod, note in named:
            if pod.static:
                continue
            if evictor.settings.dry_run:
                evictor.recorder.explain(pod, "Normal", events.DRY_RUN, f"Would evict it. {note}")
            elif not evictor.allows():
                return
            else:
                await evictor.evict(pod, note)
