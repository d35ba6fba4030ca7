"""An Event for each refused pod: why no node took it, and by how much the node that came closest missed."""

import asyncio
import heapq
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from headroom.kube.events import EventRecorder
from headroom.runtime.token_bucket import TokenBucket
from scheduler_plugins.framework.cycle import Cycle, PluginError
from scheduler_plugins.framework.verdict import PASSES, Verdict
from scheduler_plugins.requeue.metrics import RequeueMetrics
from scheduler_plugins.requeue.settings import RequeueSettings
from scheduler_plugins.requeue.unschedulable import UnschedulablePod, UnschedulablePods
from scheduler_plugins.snapshot.arrays import Nodes
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.pod import PodRequest

REASON: Final = "HeadroomRefused"  # the reason of the Events
REPEAT_SECONDS: Final = 1800.0  # an unchanged Event is repeated after this time. Kubernetes keeps Events for an hour.

_SHORTEST_PAUSE_SECONDS: Final = 60.0
_INTERVAL_SECONDS: Final = 1.0
_REMEMBERED: Final = 20_000

_LOG: Final = logging.getLogger(__name__)

Reasons = frozenset[str]


@dataclass(frozen=True, slots=True)
class _Reported:
    reasons: Reasons
    at: float


class RefusalEventRecorder:
    """Writes the Events, at a limited rate and each reason once.

    Args:
        unschedulable: the pending pods.
        cache: the cluster.
        cycle: knows the numbers.
        recorder: writes.
        settings: how much of it.
        metrics: where it is counted.
        clock: the present time. [unix s]
        monotonic: a clock that never jumps. [s]
    """

    def __init__(
        self,
        unschedulable: UnschedulablePods,
        cache: ClusterCache,
        cycle: Cycle,
        recorder: EventRecorder,
        settings: RequeueSettings,
        metrics: RequeueMetrics,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._unschedulable = unschedulable
        self._cache = cache
        self._cycle = cycle
        self._recorder = recorder
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._monotonic = monotonic
        self._tokens = TokenBucket()
        self._due: dict[str, Reasons] = {}
        self._recorded: OrderedDict[str, _Reported] = OrderedDict()

    def refused(self, pod: PodRequest, verdict: Verdict) -> None:
        """Queue an Event about a pod, unless the same was recorded lately."""
        which = np.unique(verdict.refused).tolist()
        reasons = frozenset(verdict.refusals[row].family for row in which if row != PASSES)
        texts = self._recorded.get(pod.uid)
        if texts is not None:
            age = self._monotonic() - texts.at
            if age < (REPEAT_SECONDS if texts.reasons == reasons else _SHORTEST_PAUSE_SECONDS):
                self._metrics.events.labels("suppressed").inc()
                return
        self._due[pod.uid] = reasons

    async def run(self) -> None:
        """Record Events, until cancelled. A failure is logged once and retried the next time."""
        problem = ""
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            try:
                await self.record_due()
                problem = ""
            except Exception as error:  # noqa: BLE001 - the outer runner: the extender lives on
                if problem != (problem := f"{type(error).__name__}: {error}"):
                    texts = None if isinstance(error, PluginError) else error  # it names the plugin and the error
                    _LOG.error("Cannot record events for rejected pods: %s", error, exc_info=texts)

    async def record_due(self) -> None:
        """Write what may be written now, the most important pods first.

        Raises:
            PluginError: a plugin failed.
        """
        await self._recorder.flush()
        refill, now = 1 / self._settings.events_per_second, self._monotonic()
        left = self._tokens.left(self._settings.event_burst, refill, now)
        if not left or self._is_failing():
            return
        for uid in self._due.keys() - self._unschedulable.pods.keys():  # they no longer wait
            del self._due[uid]
            self._metrics.events.labels("suppressed").inc()
        for entry in heapq.nsmallest(left, (self._unschedulable.pods[uid] for uid in self._due), key=_rank):
            reasons = self._due.pop(entry.uid)
            note = self.note(entry)
            if note is None:
                self._metrics.events.labels("suppressed").inc()
                continue
            self._tokens.take(refill, now)
            self._remember(entry.uid, reasons)
            await self._recorder.record(_reference(entry), "Warning", REASON, "Scheduling", note)
            self._metrics.events.labels("posted").inc()
            if self._is_failing():
                return

    def _is_failing(self) -> bool:
        """Return whether an event could not be written: the API server is away, or refuses. The rest waits then."""
        return self._recorder.waiting > 0

    def note(self, entry: UnschedulablePod) -> str | None:
        """Return the content of an Event about a pod; None when it would no longer be refused.

        Raises:
            PluginError: a plugin failed.
        """
        snapshot, pod = self._cache.freeze(self._clock()), entry.request
        nodes = snapshot if entry.group.nodes is None else entry.group.nodes.of(snapshot)
        verdict = self._cycle.filter(pod, nodes)
        if not len(nodes) or verdict.passes.any():
            return None
        if (refusal := self._cycle.refuses(pod, nodes)) is not None:
            return f"No node may have it: {refusal.reason.rstrip('.')}."
        counts = Counter(verdict.refusals[which].reason for which in verdict.refused.tolist())
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items(), key=_most_first))
        row = int(self._cycle.score(pod, nodes).argmax())
        closest = self._binding(pod, nodes, row) or verdict.refusals[int(verdict.refused[row])].reason
        none = f"0/{len(nodes)} nodes that fit otherwise have headroom: {reasons}."
        return f"{none} Closest is {nodes.names[row]}: {closest}."

    def _binding(self, pod: PodRequest, nodes: Nodes, row: int) -> str:
        """Return the limit that refuses a node, with the numbers; empty when no plugin returns one."""
        texts = self._cycle.explain(pod, nodes.take(np.array([row])))
        result = [str(numbers[0]["binding"]) for numbers in texts.values() if numbers and numbers[0].get("binding")]
        return result[0].rstrip(".") if result else ""

    def _remember(self, uid: str, reasons: Reasons) -> None:
        self._recorded[uid] = _Reported(reasons, self._monotonic())
        self._recorded.move_to_end(uid)
        while len(self._recorded) > _REMEMBERED:
            self._recorded.popitem(last=False)


def _rank(entry: UnschedulablePod) -> tuple[int, float, str]:
    return -entry.group.pod.priority, entry.created, entry.key


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def _reference(entry: UnschedulablePod) -> dict[str, Any]:
    namespace, _, name = entry.key.partition("/")
    return {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": entry.uid}
