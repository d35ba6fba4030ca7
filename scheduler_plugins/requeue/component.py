"""Requeuing and Events of refused pods, wired as a component of the extender."""

import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from headroom.kube import ApiServer
from headroom.kube.events import EventRecorder
from headroom.runtime.clocks import Clocks
from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.framework.verdict import Verdict
from scheduler_plugins.requeue.events import RefusalEventRecorder
from scheduler_plugins.requeue.metrics import RequeueMetrics
from scheduler_plugins.requeue.requeuer import Requeuer
from scheduler_plugins.requeue.settings import RequeueSettings
from scheduler_plugins.requeue.unschedulable import UnschedulablePods
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.pod import PodRequest

COMPONENT: Final = "headroom-scheduler"  # reporting component of the Events

_LOG: Final = logging.getLogger(__name__)


class RequeueComponent:
    """The handling of refused pods.

    Args:
        settings: the enabled parts.
        cache: the cluster.
        cycle: the plugins, unobserved: an evaluation here is no request.
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
        self._settings = settings
        self.unschedulable = UnschedulablePods(settings.most_pods, cache, cycle, monotonic, metrics.waited.observe)
        """The pods that wait."""
        recorder = EventRecorder(api, COMPONENT)
        self._events = RefusalEventRecorder(
            self.unschedulable, cache, cycle, recorder, settings, metrics, clock, monotonic
        )
        self.background: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}  # what runs until the end, by name
        if settings.enabled:
            requeuer = Requeuer(self.unschedulable, cache, cycle, api, settings, metrics, Clocks(clock, monotonic))
            self.background["requeue"] = requeuer.run
        if settings.events:
            self.background["refusal events"] = self._events.run

    def refused(self, pod: PodRequest, json_pod: Mapping[str, Any], names: Sequence[str], verdict: Verdict) -> None:
        """Note a pod that was refused on all these nodes. One without a uid is no pod of the API server."""
        if not pod.uid or not self.background:
            return
        try:
            self.unschedulable.refused(pod, json_pod, names)
            if self._settings.events:
                self._events.refused(pod, verdict)
        except Exception as error:  # noqa: BLE001 - the pod has its response already
            _LOG.debug("Pod %s cannot be remembered: %s", pod.key, error)
