"""Eviction of Mid pods from a node that is overcommitted for longer than `midEviction.afterSeconds`."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from headroom.kube import ApiError, ApiUnavailable
from manager.context import Context, Run
from manager.inputs import Amounts, PodInputs, total
from manager.inputs.amounts import NOTHING
from manager.mid.eviction import text
from manager.mid.eviction.backoff import EvictionBackoff
from manager.mid.eviction.rates import MINUTE_SECONDS, SlidingMinute
from manager.mid.eviction.selection import Selection, select_victims
from manager.mid.eviction.settings import EvictionSettings
from manager.mid.eviction.shortage import (
    Shortage,
    ShortageTimer,
    Tombstones,
    shortage,
    unknown_inputs,
    unproven_deficit,
)
from manager.reconcile.steps.eviction_metrics import EvictionMetrics
from manager.reconcile.steps.eviction_request import EvictionOutcome, is_refusal, recheck, request
from manager.reconcile.steps.step import ReconcileResult
from manager.write_rate_limiter import ReportRateLimiter

_LOG: Final = logging.getLogger(__name__)
_REFUSED_SECONDS: Final = 60.0
"""An eviction that was refused is requested again after this time. [s]"""
_TERMINATION_SECONDS: Final = 60.0
"""An evicted pod that is not terminating after this time counts as staying. [s]"""

_SOON_SECONDS: Final = 1.0
"""Shortest time after which this step requeues a node. [s]"""


@dataclass(slots=True)
class NodeEvictionState:
    """Eviction state of one node."""

    tombstones: Tombstones = field(default_factory=Tombstones)
    """Mid pods that left."""
    timer: ShortageTimer = field(default_factory=ShortageTimer)
    """For how long each resource has been short."""
    unproven: ShortageTimer = field(default_factory=ShortageTimer)
    """For how long there has been a deficit for which no pod is evicted."""
    reported_unproven: tuple[str, ...] = ()
    """Why, as the last event reported."""
    evicting: dict[str, float] = field(default_factory=dict)
    """Evicted pods by uid, and when. [s]"""
    refused: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Pods whose eviction was refused, by uid: until when they are skipped, and why. [s]"""
    unconfirmed: dict[str, float] = field(default_factory=dict)
    """Pods whose eviction may have been accepted, by uid, and when it was requested; they count in the rates. [s]"""
    rate: SlidingMinute = field(default_factory=SlidingMinute)
    """Evictions of the last minute."""
    reported: tuple[str, ...] = ()
    """The pods that the last event named, by uid."""
    skipped: frozenset[tuple[str, str]] = frozenset()
    """Pods that were skipped at the last reconciliation, by uid, and why."""
    last_reconciled: tuple[float, Amounts] | None = None
    """When the last reconciliation was, and the deficit that it proved. [s; milli-cores, bytes]"""


@dataclass(slots=True)
class ClusterEvictionState:
    """Eviction state of the whole cluster."""

    rate: SlidingMinute = field(default_factory=SlidingMinute)
    """Evictions of the last minute."""
    backoff: EvictionBackoff = field(default_factory=EvictionBackoff)
    """Workloads that were evicted lately."""


@dataclass(frozen=True, slots=True)
class MidEvictions:
    """Evicts Mid pods, or reports which would be evicted, when a shortage lasts; see `manager.mid.eviction`."""

    async def execute(self, run: Run, reconciled: ReconcileResult) -> float | None:
        """Update the shortage, and evict for what has been short for long enough."""
        settings = EvictionSettings.of(reconciled.effective.strategy)
        state, now = run.context.node_state(reconciled.name).state_of(NodeEvictionState), run.context.steady()
        run.context.state_of(ClusterEvictionState).backoff.begin(now, run.context.wall())
        metrics = run.context.metrics.of(EvictionMetrics)
        pods = {pod.uid: pod for pod in run.context.cluster.pods_on(reconciled.name) if pod.holds_mid}
        if total(pod.mid_requests for pod in pods.values()) != reconciled.inputs.mid_requests:
            return _SOON_SECONDS  # they changed since the inputs were gathered: what left would count as short
        seen = _shortage(reconciled, settings, state, pods, now)
        before, state.last_reconciled = state.last_reconciled, (now, seen.deficit if seen else NOTHING)
        if before is not None:
            metrics.short_for(reconciled.name, before[1], now - before[0])
        short = seen.short if seen is not None and settings.mode != "off" else NOTHING
        state.timer.update(short, now)
        known = run.context.cluster.node_metrics.get(reconciled.name)
        observed_at = known.observed_at.report if known else None
        due = (
            state.timer.due(short, settings.after_seconds, observed_at or 0.0, now)
            if observed_at is not None
            else NOTHING
        )
        await _report_unproven(run, reconciled, settings, state, seen, pods)
        if seen is None or not due:
            if not short:
                state.reported, state.skipped = (), frozenset()
                metrics.would_evict(reconciled.name, 0)
            return state.timer.next_due(settings.after_seconds, now)
        eviction_pass = _EvictionPass(run, reconciled, settings, state, metrics, pods, seen.only(due))
        await (eviction_pass.evict() if settings.mode == "on" else eviction_pass.dry_run())
        waits = [
            *eviction_pass.requeue_at,
            *((now + wait,) if (wait := state.timer.next_due(settings.after_seconds, now)) else ()),
        ]
        return max(min(waits) - now, _SOON_SECONDS) if waits else None

    def forget(self, context: Context, name: str) -> None:
        """Another replica leads now, or the node is gone: what was observed here proves nothing any more."""
        context.metrics.of(EvictionMetrics).forget(name)
        if name in context.cluster.nodes:
            context.state_of(ClusterEvictionState).backoff.end()
        if name in context.node_states:
            state = context.node_states[name].state_of(NodeEvictionState)
            state.tombstones, state.timer, state.last_reconciled = Tombstones(), ShortageTimer(), None
            state.unproven, state.reported_unproven = ShortageTimer(), ()


def _shortage(
    reconciled: ReconcileResult,
    settings: EvictionSettings,
    state: NodeEvictionState,
    pods: Mapping[str, PodInputs],
    now: float,
) -> Shortage | None:
    state.tombstones.update(pods, now)
    state.evicting = {
        uid: when for uid, when in state.evicting.items() if uid in pods and now - when < _TERMINATION_SECONDS
    }
    state.refused = {uid: each for uid, each in state.refused.items() if uid in pods}
    state.unconfirmed = {
        uid: when for uid, when in state.unconfirmed.items() if uid in pods and now - when < MINUTE_SECONDS
    }
    if not pods:
        return None
    evicting = total(pod.mid_requests for pod in pods.values() if _is_leaving(pod, state))
    ages = [age for age in (reconciled.inputs.report_age, reconciled.inputs.prediction_age) if age is not None]
    tombstones = state.tombstones.still_reported(now - max(ages, default=0.0), settings.window_seconds)
    return shortage(reconciled.inputs, reconciled.result, tombstones, evicting)


async def _report_unproven(
    run: Run,
    reconciled: ReconcileResult,
    settings: EvictionSettings,
    state: NodeEvictionState,
    seen: Shortage | None,
    pods: Mapping[str, PodInputs],
) -> None:
    """Report once why no pod is evicted for a deficit that has lasted as long as one that evicts."""
    now, unproven = run.context.steady(), unproven_deficit(reconciled.inputs, reconciled.result, seen)
    if settings.mode == "off":
        unproven = NOTHING
    state.unproven.update(unproven, now)
    lasting, why = (
        state.unproven.due(unproven, settings.after_seconds, now + 1.0, now),
        unknown_inputs(reconciled.inputs),
    )
    if not unproven:
        state.reported_unproven = ()
    elif lasting and why != state.reported_unproven and not _held_back(run, reconciled):
        state.reported_unproven = why
        staying = [pod for pod in pods.values() if not _is_leaving(pod, state)]
        note = text.unproven(lasting, why, select_victims(staying, lasting, lambda _: "").victims)
        await run.events.record(
            run.context.cluster.reference(reconciled.name), "Warning", "MidEvictionWithheld", "EvictMid", note
        )


def _is_leaving(pod: PodInputs, state: NodeEvictionState) -> bool:
    return pod.uid in state.evicting or (pod.mid is not None and pod.mid.terminating)


@dataclass(slots=True)
class _EvictionPass:
    """One pass over a node whose shortage has lasted for long enough."""

    run: Run
    reconciled: ReconcileResult
    settings: EvictionSettings
    state: NodeEvictionState
    metrics: EvictionMetrics
    pods: Mapping[str, PodInputs]
    seen: Shortage
    requeue_at: list[float] = field(default_factory=list)
    _skipped: set[tuple[str, str]] = field(default_factory=set)

    async def dry_run(self) -> None:
        """Report which pods would be evicted, once for each change of the list."""
        selection = self._choose()
        self.metrics.would_evict(self.reconciled.name, len(selection.victims))
        self._count_skipped()
        if selection.victims:
            await self._report(
                selection.victims, "MidEvictionDryRun", text.dry_run(selection.victims, self.seen, self._seconds)
            )
        else:
            await self._report_none_evictable(selection.spared)

    async def evict(self) -> None:
        """Request one eviction after the other while something is short and the limits allow it."""
        self.metrics.would_evict(self.reconciled.name, 0)
        acted = False
        while self.run.leader.is_leader:
            selection = self._choose()
            if not selection.victims:
                if self.seen.short and not acted:
                    await self._report_none_evictable(selection.spared)
                break
            if not self._may_take(selection.victims[0]):
                break
            acted = True
            await self._evict(selection.victims[0])
        self._count_skipped()

    async def _request(self, pod: PodInputs, now: float, *, again: bool) -> tuple[EvictionOutcome, str] | None:
        """Request an eviction; one that certainly failed is given back to the limits."""
        requested = False
        try:
            found = await recheck(self.run.api, pod)
            if found is None and self.run.leader.is_leader:
                requested = True
                found = await request(self.run.api, pod)
        except (ApiError, ApiUnavailable) as error:
            if requested and isinstance(error, ApiUnavailable):
                self._record_eviction(pod)  # it may have been accepted
            if again or (requested and not is_refusal(error)):
                self.state.unconfirmed[pod.uid] = now
            else:
                self._give_back(now)
            raise
        return found

    async def _evict(self, pod: PodInputs) -> None:
        now, earlier = self.run.context.steady(), self.state.unconfirmed.pop(pod.uid, None)
        if earlier is not None:  # what is requested again counts once
            self._give_back(earlier)
        self._take(now)
        found = await self._request(pod, now, again=earlier is not None)
        answer, why = found or (None, "")
        if answer is not EvictionOutcome.EVICTED and not (answer is EvictionOutcome.GONE and earlier is not None):
            self._give_back(now)
        if answer is None:
            return
        self.metrics.evictions.labels(answer.value).inc()
        if answer in (EvictionOutcome.BUDGET, EvictionOutcome.REFUSED):
            self.state.refused[pod.uid] = (now + _REFUSED_SECONDS, why)
            note = f"Mid pod {pod.key} stays, although the node is short: it {why}"
            if not _held_back(self.run, self.reconciled):
                await self._event("Warning", "MidEvictionRefused", note)
            return
        self.state.evicting[pod.uid] = now
        seen, self.seen = self.seen, replace(self.seen, terminating=self.seen.terminating + pod.mid_requests)
        if answer is EvictionOutcome.EVICTED:
            self._record_eviction(pod)
            note = text.evicted(pod, self.reconciled.name, seen, self._seconds)
            _LOG.info("%s", note)
            self.state.reported = ()
            await self._event("Warning", "MidPodEvicted", note)
            await self.run.events.record(_reference(pod), "Warning", "MidPodEvicted", "EvictMid", note)

    def _take(self, now: float) -> None:
        self.state.rate.take(now)
        self.run.context.state_of(ClusterEvictionState).rate.take(now)

    def _give_back(self, taken_at: float) -> None:
        self.state.rate.give_back(taken_at)
        self.run.context.state_of(ClusterEvictionState).rate.give_back(taken_at)

    def _record_eviction(self, pod: PodInputs) -> None:
        """Start the backoff of the pod's workload."""
        if pod.mid is not None:
            context = self.run.context
            backoff = context.state_of(ClusterEvictionState).backoff
            backoff.evicted(pod.mid.workload, pod.mid.created, context.steady(), context.wall())

    def _choose(self) -> Selection:
        candidates = [pod for pod in self.pods.values() if not _is_leaving(pod, self.state)]
        selection = select_victims(candidates, self.seen.short, self._spare)
        self._skipped |= {(pod.uid, "kept") for pod, _ in selection.spared if pod.mid and pod.mid.kept}
        return selection

    def _spare(self, pod: PodInputs) -> str:
        """Why a pod is skipped although it is next; requeues the node when that ends."""
        now = self.run.context.steady()
        until, why = self.state.refused.get(pod.uid, (now, ""))
        if until > now:
            self.requeue_at.append(until)
            return why
        self.state.refused.pop(pod.uid, None)
        if pod.mid is None or pod.uid in self.state.unconfirmed:
            return ""
        guarded = self.run.context.state_of(ClusterEvictionState).backoff.backoff_until(
            pod.mid.workload, pod.mid.created, now
        )
        if guarded is None:
            return ""
        self.requeue_at.append(guarded)
        self._skipped.add((pod.uid, "loop-guard"))
        return (
            f"may replace a pod of {pod.mid.workload} that was evicted, and is not evicted for {round(guarded - now)} s"
        )

    def _may_take(self, pod: PodInputs) -> bool:
        """Whether both limits allow one more eviction now; an unconfirmed one is already counted."""
        if pod.uid in self.state.unconfirmed:
            return True
        now, everywhere = self.run.context.steady(), self.run.context.state_of(ClusterEvictionState)
        for reason, rate, limit in (
            ("node-rate", self.state.rate, self.settings.per_node),
            ("cluster-rate", everywhere.rate, self.settings.per_cluster),
        ):
            free_at = rate.free_at(limit, now)
            if free_at is None or free_at > now:
                self._skipped.add((pod.uid, reason))
                if free_at is not None:
                    self.requeue_at.append(free_at)
                return False
        return True

    def _count_skipped(self) -> None:
        """Count each pod and reason once for as long as it lasts."""
        for _, reason in self._skipped - self.state.skipped:
            self.metrics.skipped.labels(reason).inc()
        self.state.skipped = frozenset(self._skipped)

    @property
    def _seconds(self) -> float:
        """For how long the longest shortage has lasted."""
        now = self.run.context.steady()
        return now - min((self.state.timer.since[each] for each in self.seen.resources), default=now)

    async def _report_none_evictable(self, spared: tuple[tuple[PodInputs, str], ...]) -> None:
        if spared:
            pods = tuple(pod for pod, _ in spared)
            await self._report(pods, "MidEvictionImpossible", text.none_evictable(spared, self.seen, self._seconds))

    async def _report(self, pods: tuple[PodInputs, ...], reason: str, note: str) -> None:
        """One event for each list of pods."""
        reported = (reason, *(pod.uid for pod in pods))
        if reported != self.state.reported and not _held_back(self.run, self.reconciled):
            self.state.reported = reported
            await self._event("Warning", reason, note)

    async def _event(self, type_: str, reason: str, note: str) -> None:
        await self.run.events.record(
            self.run.context.cluster.reference(self.reconciled.name), type_, reason, "EvictMid", note
        )


def _held_back(run: Run, reconciled: ReconcileResult) -> bool:
    """Whether events about the node are rate-limited now; a later reconciliation records them."""
    limiter, now = run.context.node_state(reconciled.name).state_of(ReportRateLimiter), run.context.steady()
    if limiter.wait(limiter.events, now):
        return True
    limiter.take(limiter.events, now)
    return False


def _reference(pod: PodInputs) -> dict[str, str]:
    namespace, _, name = pod.key.partition("/")
    return {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": pod.uid}
