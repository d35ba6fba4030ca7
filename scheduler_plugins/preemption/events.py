"""Events about victims and preemptors, with the numbers."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from headroom.kube.events import EventRecorder
from headroom.runtime.token_bucket import TokenBucket
from scheduler_plugins.quota.pod import QuotaPod

ACTION: Final = "Preempting"  # the action in Events, as kube-scheduler names it
RECLAIMING: Final = "Reclaiming"  # of the pod for which others are evicted
PREEMPTED: Final = "Preempted"  # of a pod that was evicted, as kube-scheduler calls it
BEYOND_MAX: Final = "BoundBeyondMax"  # of a pod that was bound beyond its quota's max
NO_VICTIMS: Final = "ReclaimImpossible"  # of a pod without victims
WITHHELD: Final = "ReclaimWithheld"  # of a pod with victims that are not evicted for now
EXPIRED: Final = "ReclaimExpired"  # of a pod that did not use its reservation in time
DRY_RUN: Final = "ReclaimDryRun"  # of a pod for which others would be evicted if that were not only a rehearsal

_BURST: Final = 50
_REFILL_SECONDS: Final = 0.5
_REMEMBERED: Final = 10_000
_MOST_NAMES: Final = 8
_MOST_QUEUED: Final = 10_000
_FLUSH_SECONDS: Final = 5.0


class PreemptionEventRecorder:
    """Writes the Events. An action is always recorded; a reason for inaction once, and not too often.

    Args:
        recorder: writes.
        monotonic: a clock that never jumps. [s]
    """

    def __init__(self, recorder: EventRecorder, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._recorder = recorder
        self._monotonic = monotonic
        self._tokens = TokenBucket()
        self._recorded: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._queue: deque[tuple[dict[str, Any], str, str, str]] = deque(maxlen=_MOST_QUEUED)
        self._filled = asyncio.Event()

    async def run(self) -> None:
        """Write the queued Events, until cancelled: no eviction waits for it."""
        while True:
            try:
                await asyncio.wait_for(self._filled.wait(), _FLUSH_SECONDS)
            except TimeoutError:
                await self._recorder.flush()
                continue
            self._filled.clear()
            while self._queue:
                regarding, type_, reason, note = self._queue.popleft()
                await self._recorder.record(regarding, type_, reason, ACTION, note)

    def did(self, pod: QuotaPod, type_: str, reason: str, note: str) -> None:
        self._queue.append((_reference(pod), type_, reason, note))
        self._filled.set()

    def explain(self, pod: QuotaPod, type_: str, reason: str, note: str) -> None:
        """Record why no pod is evicted, or which would be, if that is not the last Event."""
        key, now = (pod.uid, reason), self._monotonic()
        if self._recorded.get(key) == note or not self._tokens.left(_BURST, _REFILL_SECONDS, now):
            return
        self._tokens.take(_REFILL_SECONDS, now)
        self._recorded[key] = note
        self._recorded.move_to_end(key)
        while len(self._recorded) > _REMEMBERED:
            self._recorded.popitem(last=False)
        self.did(pod, type_, reason, note)


def named(pods: Sequence[QuotaPod]) -> str:
    """Some pods by name and node: "2 pods: a/p1 on n1, a/p2 on n1"."""
    shown = ", ".join(f"{pod.key} on {pod.node}" for pod in pods[:_MOST_NAMES])
    more = f" and {len(pods) - _MOST_NAMES} more" if len(pods) > _MOST_NAMES else ""
    return f"{len(pods)} pod{'s' if len(pods) != 1 else ''}: {shown}{more}"


def _reference(pod: QuotaPod) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
