"""Requeues unschedulable pods that would pass now, at a limited rate, by a patch of an annotation."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from crds import names
from headroom.kube import MERGE_PATCH, ApiError, ApiServer, ApiUnavailable, paths
from headroom.kube.server_clock import micro_time
from headroom.runtime.backoff import Backoff
from headroom.runtime.clocks import Clocks
from headroom.runtime.token_bucket import TokenBucket
from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.requeue import scale_up_delay
from scheduler_plugins.requeue.metrics import RequeueMetrics
from scheduler_plugins.requeue.settings import RequeueSettings
from scheduler_plugins.requeue.unschedulable import Cause, Group, UnschedulablePod, UnschedulablePods
from scheduler_plugins.snapshot.arrays import Nodes, Snapshot
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.pod import PodRequest

MISSING_RIGHT: Final = 'apiGroups: [""], resources: [pods/status], verbs: [patch]'
"""The rule that a role needs, as the chart gives it."""

_INTERVAL_SECONDS: Final = 1.0
_ROUND_SECONDS: Final = 0.1  # a tenth of a core at most: groups that are left are evaluated in the next rounds
_AT_ONCE: Final = 10
_FORBIDDEN: Final = 403
_FORBIDDEN_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = (1.0, 30.0)

_LOG: Final = logging.getLogger(__name__)


class Requeuer:
    """Evaluates the groups in turn, whatever changed, and requeues the first pods of those that pass.

    Args:
        unschedulable: the pods.
        cache: the cluster.
        cycle: evaluates.
        api: the session.
        settings: how many are requeued.
        metrics: where it is counted.
        clocks: the time.
    """

    def __init__(
        self,
        unschedulable: UnschedulablePods,
        cache: ClusterCache,
        cycle: Cycle,
        api: ApiServer,
        settings: RequeueSettings,
        metrics: RequeueMetrics,
        clocks: Clocks | None = None,
    ) -> None:
        self._unschedulable = unschedulable
        self._cache = cache
        self._cycle = cycle
        self._api = api
        self._settings = settings
        self._metrics = metrics
        self._clocks = clocks or Clocks()
        self._tokens = TokenBucket()
        self._turn = 0
        self._resume_at = float("-inf")
        self._unavailable = Backoff(*_PAUSE_SECONDS)
        self._forbidden = False

    async def run(self) -> None:
        """Evaluate and requeue, until cancelled. A failed round is logged; the next one starts over."""
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            try:
                await self.reconcile()
            except Exception:  # noqa: BLE001 - the outer runner: the extender lives on
                _LOG.exception("Unschedulable pods cannot be requeued")

    async def reconcile(self) -> Sequence[str]:
        """A round: the keys of the pods that were requeued, highest priority first, then oldest."""
        unschedulable = self._unschedulable
        unschedulable.settle()
        self._metrics.unschedulable.set(len(unschedulable.pods))
        self._metrics.groups.set(len(unschedulable.groups))
        self._metrics.overflowed.set(unschedulable.overflowed)
        ready = await self._evaluate() if unschedulable.groups else []
        chosen = self._choose(ready)
        requeued: list[str] = []
        while chosen and self._clocks.monotonic() >= self._resume_at:
            # After an error one alone is tried.
            count = 1 if self._forbidden or self._unavailable.failures else _AT_ONCE
            done = await asyncio.gather(*map(self._requeue, chosen[:count]))
            requeued += [entry.key for entry, patched in zip(chosen, done, strict=False) if patched]
            chosen = chosen[count:]
        for entry in chosen:
            entry.group.answered(entry.uid, self._clocks.monotonic(), placed=None)
        await self._delay_scale_up()
        self._metrics.count_causes(unschedulable.groups.values())
        return requeued

    async def _delay_scale_up(self) -> None:
        """Update the annotation for Cluster Autoscaler of as many pods as the tokens allow."""
        refill, now = 1 / self._settings.patches_per_second, self._clocks.monotonic()
        if not self._settings.scale_up_delay or now < self._resume_at:
            return
        left = self._tokens.left(self._settings.patch_burst, refill, now)
        groups, placed = list(self._unschedulable.groups.values()), self._unschedulable.placed
        for entry, annotations in scale_up_delay.patches(groups, placed, left):
            self._tokens.take(refill, now)
            if not await self._patch(entry, annotations):
                entry.group.unsettled.add(entry.uid)
                return  # the next round goes on

    async def _evaluate(self) -> list[Group]:
        """The groups for which a node passes, of as many as there is time for. Requests are answered in between."""
        snapshot = self._cache.freeze(self._clocks.wall())
        groups, now, spent = list(self._unschedulable.groups.values()), self._clocks.monotonic(), 0.0
        ready, first = [], self._turn % len(groups)
        for number, group in enumerate(groups[first:] + groups[:first], first + 1):
            if group.pods and not group.requeued and now >= group.not_before:
                started = time.perf_counter()
                group.refused_by(self._cause(group, snapshot))
                if group.cause is Cause.NONE:
                    ready.append(group)
                spent += time.perf_counter() - started
                if spent >= _ROUND_SECONDS:
                    self._turn = number
                    break
                await asyncio.sleep(0)
        self._metrics.round_seconds.observe(spent)
        return ready

    def _cause(self, group: Group, snapshot: Snapshot) -> Cause:
        """Return why no node passes, if none does. A group that cannot be evaluated is logged, and stops no other."""
        try:
            pod, nodes = next(iter(group.pods.values())).request, group.fitting(snapshot)
            result, group.problem = self._evaluated(pod, nodes), ""
        except Exception as error:  # noqa: BLE001 - whatever its pods hold
            if group.problem != (problem := str(error)):
                _LOG.error("Pod %s and those like it cannot be evaluated: %s", group.pod.key, error)
            result, group.problem = Cause.UNKNOWN, problem
        return result

    def _evaluated(self, pod: PodRequest, nodes: Nodes) -> Cause:
        # First what refuses a pod as such: it costs little.
        if self._cycle.refuses(pod, nodes) is not None:
            return Cause.POD
        if not len(nodes):
            return Cause.OTHER
        verdict = self._cycle.filter(pod, nodes)
        if verdict.passes.any():
            return Cause.NONE
        loads = np.array([refusal.by_load for refusal in verdict.refusals])
        return Cause.LOAD if loads[verdict.refused].all() else Cause.OTHER

    def _choose(self, ready: Sequence[Group]) -> list[UnschedulablePod]:
        """The pods to requeue: the first ones of each group, as many as there are tokens."""
        refill, now = 1 / self._settings.patches_per_second, self._clocks.monotonic()
        left = self._tokens.left(self._settings.patch_burst, refill, now) if now >= self._resume_at else 0
        result = [entry for group in ready for entry in group.oldest(min(group.window, left))]
        result.sort(key=lambda entry: (-entry.group.pod.priority, entry.created, entry.key))
        for entry in result[:left]:
            self._tokens.take(refill, now)
            entry.group.requeued[entry.uid] = now
        return result[:left]

    async def _requeue(self, entry: UnschedulablePod) -> bool:
        """Patch a pod, unless another one has taken its name; whether that succeeded."""
        entry.retried = micro_time(self._clocks.wall())
        annotations = {names.ANNOTATION_SCHEDULING_RETRY: entry.retried, **scale_up_delay.of_waiting(entry)}
        if not await self._patch(entry, annotations):
            return False
        self._metrics.requeued.inc()
        return True

    async def _patch(self, entry: UnschedulablePod, annotations: Mapping[str, str | None]) -> bool:
        """Patch annotations of a pod; None removes one. Returns whether that succeeded."""
        namespace, _, name = entry.key.partition("/")
        body = {"metadata": {"uid": entry.uid, "annotations": dict(annotations)}}
        try:
            # By the subresource, which takes annotations, too: the right to patch pods themselves would be the right to
            # run any image in another user's pod.
            await self._api.patch(f"{paths.pod(namespace, name)}/status", body, content_type=MERGE_PATCH)
        except (ApiError, ApiUnavailable) as error:
            result = self._failed(entry, error)
            entry.group.answered(entry.uid, self._clocks.monotonic(), placed=False if result == "refused" else None)
            self._metrics.patches.labels(result).inc()
            return False
        self._metrics.patches.labels("ok").inc()
        if names.ANNOTATION_SCALE_UP_DELAY in annotations:
            entry.scale_up_delay = annotations[names.ANNOTATION_SCALE_UP_DELAY] or ""
        if self._forbidden:
            _LOG.info("Refused pods are requeued again")
        self._unavailable.succeeded()
        self._forbidden = False
        return True

    def _failed(self, entry: UnschedulablePod, error: ApiError | ApiUnavailable) -> str:
        """Handle a patch that did not succeed; the result's name in the metrics."""
        now = self._clocks.monotonic()
        if isinstance(error, ApiUnavailable):
            pause = self._unavailable.failed()
            self._resume_at = now + (error.retry_after or pause)
            return "unavailable"
        if error.not_found or error.other_uid:
            self._unschedulable.forget(entry)
            return "gone" if error.not_found else "changed"
        if error.status == _FORBIDDEN and 'cannot patch resource "pods/status"' in error.message:
            self._resume_at = now + _FORBIDDEN_SECONDS
            if not self._forbidden:
                text = "Refused pods are not requeued when a reason goes away, a role lacks the rule {%s}: %s"
                _LOG.warning(text, MISSING_RIGHT, error)
            self._forbidden = True
            return "forbidden"
        _LOG.warning("Pod %s could not be requeued, it is tried again later: %s", entry.key, error)
        return "refused"
