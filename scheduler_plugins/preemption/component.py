"""Giving back, put together as a part of the extender."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from headroom.kube import ApiError, ApiServer, ApiUnavailable
from headroom.kube.events import EventRecorder
from headroom.kube.lease import LeaseFollower, NotLeading
from headroom.runtime.backoff import Backoff
from headroom.runtime.clocks import Clocks, SlewedClock
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.preemption.controller import INTERVAL_SECONDS, Controller
from scheduler_plugins.preemption.evaluator import Evaluator
from scheduler_plugins.preemption.events import PreemptionEventRecorder
from scheduler_plugins.preemption.metrics import PreemptionMetrics
from scheduler_plugins.preemption.pending import Pending
from scheduler_plugins.preemption.settings import PreemptionSettings
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.hold import LONGEST_SECONDS
from scheduler_plugins.snapshot.cache import ClusterCache

COMPONENT: Final = "headroom-scheduler"  # reporting component of the Events

_SOONEST_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 30.0

_LOG: Final = logging.getLogger(__name__)


class PreemptionComponent:
    """Evicts pods so that others get what their quota guarantees them."""

    def __init__(
        self,
        settings: PreemptionSettings,
        name: str,
        enabled: Sequence[Enabled],
        cache: ClusterCache,
        cluster: QuotaCluster,
        api: ApiServer,
        leader: LeaseFollower,
        metrics: PreemptionMetrics,
    ) -> None:
        self._problem = ""
        self._backoff = Backoff(2 * INTERVAL_SECONDS, _LONGEST_PAUSE_SECONDS)
        self._pause = _SOONEST_SECONDS
        self.trusted: Callable[[], bool] = lambda: True
        """Whether the cluster state is up to date: otherwise no pod is evicted."""
        self.pending = Pending(frozenset(settings.scheduler_names), self._bound)
        """The waiting pods; it must receive pods after the ledger of quotas."""
        writing = api.guarded(leader.may_write_for)
        evaluator = Evaluator(cluster, cache, Cycle([part for part in enabled if part.name != name]), settings, metrics)
        recorder = PreemptionEventRecorder(EventRecorder(api, COMPONENT))
        # A change of the machine's clock must not end all holds.
        calm = SlewedClock(api.server_time, reach=LONGEST_SECONDS)
        cluster.present = lambda _: calm()
        self._controller = Controller(
            settings, evaluator, self.pending, writing, leader, recorder, metrics, Clocks(api.server_time)
        )
        self.background: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}  # what runs until the end, by name
        if settings.enabled:
            self.background["reclaim"] = self.run
            self.background["events of reclaim"] = recorder.run

    async def run(self) -> None:
        """Look, as soon as there is something to do and once a second, until cancelled."""
        while True:
            await self.reconcile_and_survive()
            await asyncio.sleep(self._pause)
            try:
                await asyncio.wait_for(self.pending.changed.wait(), INTERVAL_SECONDS)
            except TimeoutError:
                continue

    async def reconcile_and_survive(self) -> None:
        """Run a round. A failure is logged once and retried; requests are served meanwhile."""
        if not self.trusted():
            return
        try:
            await self._controller.reconcile()
        except NotLeading:
            return
        except Exception as error:  # noqa: BLE001 - the outer runner: the extender lives on
            expected = isinstance(error, ApiUnavailable | ApiError)
            problem = f"{error}" if expected else f"{type(error).__name__}: {error}"
            if problem != self._problem:
                traceback = None if expected else error
                _LOG.error("Cannot reclaim borrowed resources, trying again: %s", problem, exc_info=traceback)
            self._problem, self._pause = problem, self._backoff.failed()
            return
        if self._problem:
            _LOG.info("Borrowed resources are given back again")
        self._problem, self._pause = "", _SOONEST_SECONDS
        self._backoff.succeeded()

    def _bound(self, uid: str) -> None:
        self._controller.bound(uid)
