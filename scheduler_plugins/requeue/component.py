"""Waking and telling, put together as a part of the extender."""

import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from headroom.kube import ApiServer
from headroom.kube.events import EventRecorder
from headroom.runtime.clocks import Clocks
from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.framework.verdict import Verdict
from scheduler_plugins.requeue.events import RefusalEventRecorder
from scheduler_plugins.requeue.groups import Entry
from scheduler_plugins.requeue.metrics import RequeueMetrics
from scheduler_plugins.requeue.patching import Patcher
from scheduler_plugins.requeue.recovery import Recovery
from scheduler_plugins.requeue.requeuer import Requeuer
from scheduler_plugins.requeue.settings import RequeueSettings
from scheduler_plugins.requeue.unschedulable import UnschedulablePods
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.pod import PodRequest

COMPONENT: Final = "headroom-scheduler"
"""Who speaks in the Events."""

_LOG: Final = logging.getLogger(__name__)


class RequeueComponent:
    """What happens to pods after they were refused.

    Args:
        settings: how much of it.
        cache: the cluster.
        cycle: the plugins, unobserved: what is judged here is no request.
        api: the session.
        metrics: where it is counted.
        clock: the present time. [unix s]
        monotonic: a clock that never jumps. [s]
    """

    def __init__(
        self,
        settings: RequeueSettings,
        cache: ClusterCache,
        cycle: Cycle,
        api: ApiServer,
        metrics: RequeueMetrics,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.unschedulable = UnschedulablePods(settings.most_pods, lambda: len(cache.nodes), monotonic)
        """Who waits."""
        self._metrics = metrics
        self._monotonic = monotonic
        self.unschedulable.on_forgotten = self._forgotten
        self._told: list[Callable[[PodRequest, Mapping[str, Any], Sequence[str], Verdict], None]] = []
        self.background: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}
        """What runs until the end, by name."""
        if settings.enabled or settings.events:
            self._told.append(self.unschedulable.refused)
        if settings.enabled:
            clocks = Clocks(clock, monotonic)
            requeuer = Requeuer(self.unschedulable, cache, cycle, Patcher(api), settings, metrics, clocks)
            self.background["waking"] = requeuer.run
            self.unschedulable.adopt = Recovery(cache, cycle)
            self.unschedulable.read = cache.read
        if settings.events:
            recorder = EventRecorder(api, COMPONENT)
            teller = RefusalEventRecorder(
                self.unschedulable, cache, cycle, recorder, settings, metrics, clock, monotonic
            )
            self._told.append(teller.refused)
            self.background["telling"] = teller.run

    def refused(self, pod: PodRequest, json_pod: Mapping[str, Any], names: Sequence[str], verdict: Verdict) -> None:
        """Take note of a pod that was refused on all these nodes. One without a uid is no pod of the API server."""
        if not pod.uid:
            return
        try:
            for tell in self._told:
                tell(pod, json_pod, names, verdict)
        except Exception as error:  # noqa: BLE001 - the pod was answered for all the same
            _LOG.debug("Pod %s cannot be remembered: %s", pod.key, error)

    def put_pod(self, pod: Mapping[str, Any]) -> None:
        """Take note of a pod that changed."""
        self.unschedulable.put_pod(pod)

    def delete_pod(self, uid: str) -> None:
        """Take note of a pod that is gone."""
        self.unschedulable.delete_pod(uid)

    def absent_pods(self, uids: AbstractSet[str]) -> Sequence[str]:
        """Take note of all pods that there are: which of those that wait are gone."""
        return self.unschedulable.absent_pods(uids)

    def _forgotten(self, entry: Entry, placed: bool) -> None:  # noqa: FBT001 - a Forgotten
        if placed:
            self._metrics.waited.observe(self._monotonic() - entry.since)
