"""The workers that reconcile nodes: several at a time, each retried with backoff, none stopped by another."""

import logging
import math
from typing import Final

from headroom.kube import ApiError, ApiUnavailable
from headroom.kube.lease import NotLeading
from headroom.runtime.backoff import LONGEST_RETRY_AFTER_SECONDS, Backoff
from manager.context import Run
from manager.reconcile.node import reconcile

_LOG: Final = logging.getLogger(__name__)
_LOG_AGAIN_SECONDS: Final = 60.0
_LAPSE_SECONDS: Final = 1.0
"""A node that was taken while it was unknown which replica leads is retried after this long. [s]"""


class Workers:
    """The state that the workers of one run share.

    A write that the API server refuses delays its own node only. During an outage every node waits: one request finds
    out as much as thousands.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._outages = 0
        self._paused_until = float("-inf")

    async def work(self) -> None:
        """Reconcile one node after the other, forever."""
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
        run, state = self._run, self._run.context.node_state(name)
        try:
            await reconcile(run, name)
        except NotLeading:
            # The Lease may be renewed before the lapse is noticed, so nothing else requeues the node.
            self._requeue(name, _LAPSE_SECONDS)
        except (ApiError, ApiUnavailable) as error:
            state.failures += 1
            self._log_failure(name, error)
            retry_after = min(getattr(error, "retry_after", None) or 0.0, LONGEST_RETRY_AFTER_SECONDS)
            self._requeue(name, max(retry_after, self._pause(state.failures)), retry_after)
            if isinstance(error, ApiUnavailable) and error.status is None:
                self._record_outage()
        except Exception:  # noqa: BLE001 - the outer runner: a malformed node must not stop the others
            state.failures += 1
            if state.failures == 1:
                _LOG.exception("Node %s: an error that should not happen, trying again; please report it", name)
            self._requeue(name, self._pause(state.failures))
        else:
            state.failures = self._outages = 0

    def _requeue(self, name: str, pause: float, retry_after: float = 0.0) -> None:
        """Requeue after a pause, or earlier if the failed reconciliation has scheduled a deadline."""
        queue, now = self._run.queue, self._run.context.steady()
        planned, least = queue.planned(name), max(retry_after, self._run.context.settings.timing.first_retry_seconds)
        queue.add_at(name, min(now + pause, math.inf if planned is None else max(planned, now + least)))

    def _pause(self, failures: int) -> float:
        timing = self._run.context.settings.timing
        return Backoff(timing.first_retry_seconds, timing.longest_retry_seconds, (0.5, 1.0), failures - 1).failed()

    def _record_outage(self) -> None:
        now = self._run.context.steady()
        if now >= self._paused_until:  # else another worker has recorded the same outage
            self._outages += 1
            self._paused_until = now + self._pause(self._outages)

    def _log_failure(self, name: str, error: ApiError | ApiUnavailable) -> None:
        """Log one line per kind of failure and minute, not one per node."""
        context = self._run.context
        context.metrics.writes.labels("any", "failed").inc()
        now, kind = context.steady(), f"{type(error).__name__} {error.status}"
        if now - context.failure_logged_at.get(kind, float("-inf")) >= _LOG_AGAIN_SECONDS:
            context.failure_logged_at[kind] = now
            _LOG.warning("Node %s: a write failed, trying again (others may be affected): %s", name, error)
