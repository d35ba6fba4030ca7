"""An eviction through the API server: the pod is read once more, then evicted, never by force."""

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from headroom.cluster.pod import is_terminal
from headroom.kube import STRATEGIC_MERGE_PATCH, ApiError, ApiServer, ApiUnavailable, paths
from headroom.kube.lease import LeaseFollower
from headroom.runtime.clocks import Clocks
from headroom.runtime.token_bucket import TokenBucket
from scheduler_plugins.preemption import events
from scheduler_plugins.preemption.events import PreemptionEventRecorder
from scheduler_plugins.preemption.metrics import PreemptionMetrics
from scheduler_plugins.preemption.selection.context import BudgetsRule
from scheduler_plugins.preemption.settings import PreemptionSettings
from scheduler_plugins.quota.pod import QuotaPod

LONGEST_GRACE_SECONDS: Final = 3600.0  # a longer grace period of a victim counts as this long for a hold [s]
CONDITION: Final = "DisruptionTarget"  # condition of a pod that is evicted
REASON: Final = "PreemptionByScheduler"  # its reason, as kube-scheduler's own preemption gives it

_DEFAULT_GRACE_SECONDS: Final = 30
_ATTEMPTS: Final = 3  # attempts at a pod that changes meanwhile
_LOG: Final = logging.getLogger(__name__)


class Evicted(StrEnum):
    """The result of an eviction; the values are those of the metric's label."""

    EVICTED = "evicted"  # it leaves
    GONE = "gone"  # it has ended or is terminating, or is another pod now
    BUDGET = "refused-by-budget"  # a PodDisruptionBudget forbids it now
    REFUSED = "refused"  # something else forbids it: an admission webhook, or missing rights


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an eviction, and the reason where the pod stays."""

    result: Evicted  # the result
    why: str = ""  # why it stays


async def grace_of(api: ApiServer, victim: QuotaPod) -> float | None:
    """Return the grace period of a pod; None when the pod has changed. [s]"""
    result = await _read(api, victim)
    if result is None:
        return None
    grace = (result.get("spec") or {}).get("terminationGracePeriodSeconds")
    return min(float(_DEFAULT_GRACE_SECONDS if grace is None else grace), LONGEST_GRACE_SECONDS)


async def evict(api: ApiServer, victim: QuotaPod, rule: BudgetsRule, message: str, now: float) -> Outcome:
    """Have this very pod leave, within its own grace period; if ApiUnavailable is raised it may leave all the same."""
    for _ in range(_ATTEMPTS):
        if await _read(api, victim) is None:
            return Outcome(Evicted.GONE)
        try:
            outcome = await _once(api, victim, rule, message, now)
        except ApiUnavailable:
            if await _read(api, victim) is not None:
                raise
            return Outcome(Evicted.EVICTED)  # only the answer was lost
        if outcome is not None:
            return outcome
    return Outcome(Evicted.REFUSED, f"it has changed each of {_ATTEMPTS} times")


async def _once(api: ApiServer, victim: QuotaPod, rule: BudgetsRule, message: str, now: float) -> Outcome | None:
    """Evict it once; None: it is another pod by now, or has just changed: a conflict does not show which."""
    if rule is BudgetsRule.COUNT:
        unmarked = await _mark(api, victim, message, now)
        return await _delete(api, victim) if unmarked is None else _refused(unmarked)
    outcome = await _ask(api, victim)
    if outcome is not None and outcome.result is Evicted.EVICTED:
        # Only now: the Eviction API writes its own condition, and a pod that stays must not have one. It is evicted
        # in any case, also when this replica may no longer write.
        with contextlib.suppress(ApiUnavailable):
            await _mark(api, victim, message, now)
    return outcome


async def _read(api: ApiServer, victim: QuotaPod) -> Mapping[str, Any] | None:
    """Return the present pod; None when it must not be evicted any longer."""
    try:
        result = await api.get(_path(victim))
    except ApiError as error:
        if error.not_found:
            return None
        raise
    metadata, spec = result.get("metadata") or {}, result.get("spec") or {}
    same = metadata.get("uid") == victim.uid and spec.get("nodeName") == victim.node
    return result if same and not metadata.get("deletionTimestamp") and not is_terminal(result) else None


async def _mark(api: ApiServer, victim: QuotaPod, message: str, now: float) -> ApiError | None:
    """Write the reason into the pod's status; return the API server's error."""
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": CONDITION,
        "status": "True",
        "reason": REASON,
        "message": message,
        "lastTransitionTime": stamp,
    }
    body = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
    try:
        await api.patch(paths.status(_path(victim)), body, content_type=STRATEGIC_MERGE_PATCH)
    except ApiError as error:
        return error
    return None


async def _delete(api: ApiServer, victim: QuotaPod) -> Outcome | None:
    try:
        await api.delete(_path(victim), {"preconditions": {"uid": victim.uid}})
    except ApiError as error:
        return _refused(error)
    return Outcome(Evicted.EVICTED)


async def _ask(api: ApiServer, victim: QuotaPod) -> Outcome | None:
    """Evict through the Eviction API, which respects PodDisruptionBudgets."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": victim.name, "namespace": victim.namespace},
        "deleteOptions": {"preconditions": {"uid": victim.uid}},
    }
    try:
        await api.create(f"{_path(victim)}/eviction", body)
    except ApiError as error:
        return _refused(error)
    except ApiUnavailable as error:
        if _by_budget(error):
            return Outcome(Evicted.BUDGET, "its PodDisruptionBudget keeps it")
        raise
    return Outcome(Evicted.EVICTED)


def _refused(error: ApiError) -> Outcome | None:
    if error.conflict:
        return None
    return Outcome(Evicted.GONE) if error.not_found else Outcome(Evicted.REFUSED, f"the API server keeps it: {error}")


def _by_budget(error: ApiUnavailable) -> bool:
    """Return whether a budget rejects (429, or 500 where two budgets select a pod), not an overloaded server."""
    words = str(error).lower()
    return "disruption budget" in words or "poddisruptionbudget" in words


def _path(pod: QuotaPod) -> str:
    return paths.pod(pod.namespace, pod.name)


@dataclass(slots=True)
class Evictor:
    """Evicts pods one by one, not too many of them, and reports it."""

    settings: PreemptionSettings  # how many, and by which rule
    api: ApiServer  # a session that writes only while this replica leads
    leader: LeaseFollower  # whether it does
    recorder: PreemptionEventRecorder  # writes Events
    metrics: PreemptionMetrics  # where it is counted
    clocks: Clocks
    _tokens: TokenBucket = field(default_factory=TokenBucket)

    def allows(self) -> bool:
        burst, refill = self.settings.eviction_burst, 1 / self.settings.evictions_per_second
        return self.leader.leads() and self._tokens.left(burst, refill, self.clocks.monotonic()) > 0

    async def evict(self, victim: QuotaPod, note: str) -> Outcome:
        """Evict a pod, and report why. Raises what `evict` does."""
        self._tokens.take(1 / self.settings.evictions_per_second, self.clocks.monotonic())
        outcome = await evict(self.api, victim, self.settings.disruption_budgets, note, self.clocks.wall())
        self.metrics.evictions.labels(outcome.result).inc()
        if outcome.result is Evicted.EVICTED:
            _LOG.info("Pod %s: %s", victim.key, note)
            self.recorder.did(victim, "Normal", events.PREEMPTED, note)
        return outcome
