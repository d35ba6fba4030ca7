"""Looking at nodes: several at a time, each again later where a write failed, and none stopped by another."""

import logging
import math
import random
from typing import Final

from headroom.kube import ApiError, ApiUnavailable
from manager.context import Run
from manager.leader import NotLeading
from manager.reconcile.node import reconcile

_LOG: Final = logging.getLogger(__name__)
_COMPLAIN_AGAIN_SECONDS: Final = 60.0
_LONGEST_RETRY_AFTER_SECONDS: Final = 300.0
_LAPSE_SECONDS: Final = 1.0
"""A node whose turn came while nobody could say who leads has its next one after this long. [s]"""


class Workers:
    """What the workers of one run share.

    A write that the API server refuses delays its own node only. While there is no answer at all, every node waits: one
    try finds out as much as thousands.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._outages = 0
        self._paused_until = float("-inf")

    async def work(self) -> None:
        """Look at one node after the other, for ever."""
        context = self._run.context
        while True:
            name = await self._run.queue.take()
            started = context.steady()
            try:
                if started < self._paused_until:
                    self._run.queue.add_at(name, self._paused_until)
                    continue
                await self._reconcile(name)
                context.metrics.reconcile_seconds.observe(context.steady() - started)
            finally:
                self._run.queue.done(name)

    async def _reconcile(self, name: str) -> None:
        run, memory = self._run, self._run.context.node_state(name)
        try:
            await reconcile(run, name)
        except NotLeading:
            # The Lease may be renewed without anybody noticing the lapse, so nothing else brings the node back.
            self._requeue(name, _LAPSE_SECONDS)
        except (ApiError, ApiUnavailable) as error:
            memory.failures += 1
            self._log_failure(name, error)
            asked = min(getattr(error, "retry_after", None) or 0.0, _LONGEST_RETRY_AFTER_SECONDS)
            self._requeue(name, max(asked, self._pause(memory.failures)), asked)
            if isinstance(error, ApiUnavailable) and error.status is None:
                self._record_outage()
        except Exception:  # noqa: BLE001 - the outer runner: what one node has, however odd, must not stop the others
            memory.failures += 1
            if memory.failures == 1:
                _LOG.exception("Node %s: an error that should not happen, trying again; please report it", name)
            self._requeue(name, self._pause(memory.failures))
        else:
            memory.failures = self._outages = 0

    def _requeue(self, name: str, pause: float, asked: float = 0.0) -> None:
        """Look again after a pause, or when the look that failed in a part of it has found that something falls due."""
        queue, now = self._run.queue, self._run.context.steady()
        planned, least = queue.planned(name), max(asked, self._run.context.settings.timing.first_retry_seconds)
        queue.add_at(name, min(now + pause, math.inf if planned is None else max(planned, now + least)))

    def _pause(self, failures: int) -> float:
        timing = self._run.context.settings.timing
        ceiling = min(timing.longest_retry_seconds, timing.first_retry_seconds * 2.0 ** min(failures - 1, 20))
        return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - it spreads retries

    def _record_outage(self) -> None:
        now = self._run.context.steady()
        if now >= self._paused_until:  # else another worker has asked in the same silence
            self._outages += 1
            self._paused_until = now + self._pause(self._outages)

    def _log_failure(self, name: str, error: ApiError | ApiUnavailable) -> None:
        """One line per kind of trouble and minute, not one per node."""
        context = self._run.context
        context.metrics.writes.labels("any", "failed").inc()
        now, kind = context.steady(), f"{type(error).__name__} {error.status}"
        if now - context.failure_logged_at.get(kind, float("-inf")) >= _COMPLAIN_AGAIN_SECONDS:
            context.failure_logged_at[kind] = now
            _LOG.warning("Node %s: a write failed, trying again (others may be affected): %s", name, error)
