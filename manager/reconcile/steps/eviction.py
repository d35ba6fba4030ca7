"""Eviction of Mid pods from a node that is overcommitted for longer than `midEviction.afterSeconds`."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headroom.kube import ApiError, ApiUnavailable
from manager.context import Context, Run
from manager.inputs import Amounts, PodInputs, total
from manager.inputs.amounts import NOTHING
from manager.mid.eviction import text
from manager.mid.eviction.limits import MINUTE_SECONDS, EvictionBackoff, EvictionSettings, SlidingMinute
from manager.mid.eviction.selection import Selection, select_victims
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
_REFUSED_SECONDS: Final = 60.0  # an eviction that was refused is requested again after this time [s]
_TERMINATION_SECONDS: Final = 60.0  # an evicted pod that is not terminating after this time counts as staying [s]
_SOON_SECONDS: Final = 1.0  # shortest time after which this step requeues a node [s]


@dataclass(slots=True)
class NodeEvictionState:
    """Eviction state of one node; pods by uid."""

    tombstones: Tombstones = field(default_factory=Tombstones)
    timer: ShortageTimer = field(default_factory=ShortageTimer)
    unproven: ShortageTimer = field(default_factory=ShortageTimer)
    """For how long there has been a deficit for which no pod is evicted."""
    reported_unproven: tuple[str, ...] = ()  # why, as the last event reported
    evicting: dict[str, float] = field(default_factory=dict)  # evicted pods, and when [s]
    refused: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Pods with a rejected eviction: the time until which they are skipped, and the reason. [s]"""
    unconfirmed: dict[str, float] = field(default_factory=dict)
    """Pods with an eviction that may have been accepted, and its time; they count in the rates. [s]"""
    rate: SlidingMinute = field(default_factory=SlidingMinute)
    reported: tuple[str, ...] = ()  # the pods that the last event named
    skipped: frozenset[tuple[str, str]] = frozenset()  # Pods that were skipped at the last reconciliation, and why
    last_reconciled: tuple[float, Amounts] | None = None
    """When the last reconciliation was, and the deficit that it proved. [s; milli-cores, bytes]"""

    def forget_observations(self) -> None:
        """Drop observations; evictions still count."""
        self.tombstones, self.timer, self.last_reconciled = Tombstones(), ShortageTimer(), None
        self.unproven, self.reported_unproven = ShortageTimer(), ()

    def is_terminating(self, pod: PodInputs) -> bool:
        return pod.uid in self.evicting or (pod.mid is not None and pod.mid.terminating)

    def observe(
        self, reconciled: ReconcileResult, window_seconds: int, pods: Mapping[str, PodInputs], now: float
    ) -> Shortage | None:
        """Update with the present Mid pods, and return the shortage that the report proves."""
        inputs, report = reconciled.inputs, reconciled.inputs.report
        self.tombstones.update(pods, report.pod_usage if report else {}, now)
        self.evicting = _since(self.evicting, pods, now - _TERMINATION_SECONDS)
        self.unconfirmed = _since(self.unconfirmed, pods, now - MINUTE_SECONDS)
        self.refused = {uid: each for uid, each in self.refused.items() if uid in pods}
        if not pods:
            return None
        ages = [age for age in (inputs.report_age, inputs.prediction_age) if age is not None]
        left = self.tombstones.still_reported(now - max(ages, default=0.0), window_seconds)
        return shortage(inputs, reconciled.result, left, [pod for pod in pods.values() if self.is_terminating(pod)])


def _since(times: Mapping[str, float], pods: Mapping[str, PodInputs], earliest: float) -> dict[str, float]:
    return {uid: when for uid, when in times.items() if uid in pods and when > earliest}


@dataclass(slots=True)
class ClusterEvictionState:
    """Eviction state of the whole cluster."""

    rate: SlidingMinute = field(default_factory=SlidingMinute)
    backoff: EvictionBackoff = field(default_factory=EvictionBackoff)


@dataclass(frozen=True, slots=True)
class MidEvictions:
    """Evicts Mid pods, or reports which would be evicted, when a shortage lasts; see `manager.mid.eviction`."""

    async def execute(self, run: Run, reconciled: ReconcileResult) -> float | None:
        """Update the shortage, and evict after it has lasted for long enough."""
        name, context = reconciled.name, run.context
        settings, state = EvictionSettings.of(reconciled.effective.strategy), _state(context, name)
        now, metrics = context.steady(), context.metrics.of(EvictionMetrics)
        context.state_of(ClusterEvictionState).backoff.begin(now, context.wall())
        pods = {pod.uid: pod for pod in context.cluster.pods_on(name) if pod.holds_mid}
        if total(pod.mid_requests for pod in pods.values()) != reconciled.inputs.mid_requests:
            return _SOON_SECONDS  # they changed since the inputs were gathered: what left would count as short
        observed = state.observe(reconciled, settings.window_seconds, pods, now)
        before, state.last_reconciled = state.last_reconciled, (now, observed.deficit if observed else NOTHING)
        if before is not None:
            metrics.short_for(name, before[1], now - before[0])
        short = observed.short if observed is not None and settings.mode != "off" else NOTHING
        state.timer.update(short, now)
        cached = context.cluster.node_metrics.get(name)
        observed_at, due = cached.observed_at.report if cached else None, NOTHING
        if observed_at is not None:
            due = state.timer.due(short, settings.after_seconds, observed_at, now)
        eviction_pass = _EvictionPass(run, reconciled, settings, state, metrics, pods, observed or Shortage())
        await eviction_pass.report_unproven(observed)
        wait = state.timer.next_due(settings.after_seconds, now)
        if observed is None or not due:
            if not short:
                state.reported, state.skipped = (), frozenset()
                metrics.would_evict(name, 0)
            return wait
        eviction_pass.seen = observed.only(due)
        await (eviction_pass.evict() if settings.mode == "on" else eviction_pass.dry_run())
        times = [*eviction_pass.requeue_at, *([] if wait is None else [now + wait])]
        return max(min(times) - now, _SOON_SECONDS) if times else None

    def forget(self, context: Context, name: str) -> None:
        """Another replica leads now, or the node is gone: drop the observations."""
        context.metrics.of(EvictionMetrics).forget(name)
        if name in context.cluster.nodes:
            context.state_of(ClusterEvictionState).backoff.end()
        if name in context.node_states:
            _state(context, name).forget_observations()


def _state(context: Context, name: str) -> NodeEvictionState:
    return context.node_state(name).state_of(NodeEvictionState)


@dataclass(slots=True)
class _EvictionPass:
    """A pass over a node."""

    run: Run
    reconciled: ReconcileResult
    settings: EvictionSettings
    state: NodeEvictionState
    metrics: EvictionMetrics
    pods: Mapping[str, PodInputs]
    seen: Shortage
    requeue_at: list[float] = field(default_factory=list)
    _skipped: set[tuple[str, str]] = field(default_factory=set)

    async def report_unproven(self, seen: Shortage | None) -> None:
        """Report once why no pod is evicted for a deficit that has lasted as long as one that evicts."""
        now, state, inputs = self.run.context.steady(), self.state, self.reconciled.inputs
        deficit = NOTHING
        if self.settings.mode != "off":
            deficit = unproven_deficit(inputs, self.reconciled.result, seen)
        state.unproven.update(deficit, now)
        lasting = state.unproven.due(deficit, self.settings.after_seconds, now + 1.0, now)
        why = unknown_inputs(inputs)
        if not deficit:
            state.reported_unproven = ()
        elif lasting and why != state.reported_unproven and self._may_report():
            state.reported_unproven = why
            staying = [pod for pod in self.pods.values() if not state.is_terminating(pod)]
            usage = inputs.report.pod_usage if inputs.report else {}
            victims = select_victims(staying, lasting, lambda _: "", usage).victims
            note = text.unproven(lasting, why, victims, usage)
            await self._event("MidEvictionWithheld", note)

    async def dry_run(self) -> None:
        """Report which pods would be evicted, once for each change of the list."""
        selection = self._choose()
        self.metrics.would_evict(self.reconciled.name, len(selection.victims))
        self._count_skipped()
        if selection.victims:
            note = text.dry_run(selection.victims, self.seen, self._seconds)
            await self._report(selection.victims, "MidEvictionDryRun", note)
        else:
            await self._report_none_evictable(selection)

    async def evict(self) -> None:
        """Request one eviction after the other while something is short and the limits allow it."""
        self.metrics.would_evict(self.reconciled.name, 0)
        acted = False
        while self.run.leader.is_leader:
            selection = self._choose()
            if not selection.victims:
                if self.seen.short and not acted:
                    await self._report_none_evictable(selection)
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
            result = await recheck(self.run.api, pod)
            if result is None and self.run.leader.is_leader:
                requested = True
                result = await request(self.run.api, pod)
        except (ApiError, ApiUnavailable) as error:
            if requested and isinstance(error, ApiUnavailable):
                self._record_eviction(pod)  # it may have been accepted
            if again or (requested and not is_refusal(error)):
                self.state.unconfirmed[pod.uid] = now
            else:
                self._give_back(now)
            raise
        return result

    async def _evict(self, pod: PodInputs) -> None:
        now, earlier = self.run.context.steady(), self.state.unconfirmed.pop(pod.uid, None)
        if earlier is not None:  # a repeated request counts once
            self._give_back(earlier)
        for rate in self._rates:
            rate.take(now)
        result = await self._request(pod, now, again=earlier is not None)
        answer, why = result or (None, "")
        if answer is not EvictionOutcome.EVICTED and not (answer is EvictionOutcome.GONE and earlier is not None):
            self._give_back(now)
        if answer is None:
            return
        self.metrics.evictions.labels(answer.value).inc()
        if answer in (EvictionOutcome.BUDGET, EvictionOutcome.REFUSED):
            self.state.refused[pod.uid] = (now + _REFUSED_SECONDS, why)
            if self._may_report():
                note = f"Mid pod {pod.key} stays, although the node is short: it {why}"
                await self._event("MidEvictionRefused", note)
            return
        self.state.evicting[pod.uid] = now
        seen, self.seen = self.seen, self.seen.without(pod)
        if answer is EvictionOutcome.EVICTED:
            self._record_eviction(pod)
            note = text.evicted(pod, self.reconciled.name, seen, self._seconds)
            _LOG.info("%s", note)
            self.state.reported = ()
            await self._event("MidPodEvicted", note)
            await self.run.events.record(_reference(pod), "Warning", "MidPodEvicted", "EvictMid", note)

    @property
    def _cluster(self) -> ClusterEvictionState:
        return self.run.context.state_of(ClusterEvictionState)

    @property
    def _rates(self) -> tuple[SlidingMinute, SlidingMinute]:
        return self.state.rate, self._cluster.rate

    def _give_back(self, taken_at: float) -> None:
        for rate in self._rates:
            rate.give_back(taken_at)

    def _record_eviction(self, pod: PodInputs) -> None:
        """Start the backoff of the pod's workload."""
        if pod.mid is not None:
            context = self.run.context
            self._cluster.backoff.evicted(pod.mid.workload, pod.mid.created, context.steady(), context.wall())

    def _choose(self) -> Selection:
        candidates = [pod for pod in self.pods.values() if not self.state.is_terminating(pod)]
        selection = select_victims(candidates, self.seen.short, self._spare, self.seen.usage)
        self._skipped |= {(pod.uid, "kept") for pod, _ in selection.spared if pod.mid and pod.mid.kept}
        return selection

    def _spare(self, pod: PodInputs) -> str:
        """Return why a pod is skipped although it is next; requeues the node when that ends."""
        now = self.run.context.steady()
        until, why = self.state.refused.get(pod.uid, (now, ""))
        if until > now:
            self.requeue_at.append(until)
            return why
        self.state.refused.pop(pod.uid, None)
        if pod.mid is None or pod.uid in self.state.unconfirmed:
            return ""
        guarded = self._cluster.backoff.backoff_until(pod.mid.workload, pod.mid.created, now)
        if guarded is None:
            return ""
        self.requeue_at.append(guarded)
        self._skipped.add((pod.uid, "loop-guard"))
        wait = round(guarded - now)
        return f"may replace a pod of {pod.mid.workload} that was evicted, and is not evicted for {wait} s"

    def _may_take(self, pod: PodInputs) -> bool:
        """Return whether both limits allow one more eviction now; an unconfirmed one is already counted."""
        if pod.uid in self.state.unconfirmed:
            return True
        now, limits = self.run.context.steady(), (self.settings.per_node, self.settings.per_cluster)
        for reason, rate, limit in zip(("node-rate", "cluster-rate"), self._rates, limits, strict=True):
            free_at = rate.free_at(limit, now)
            if free_at is None or free_at > now:
                self._skipped.add((pod.uid, reason))
                self.requeue_at += [] if free_at is None else [free_at]
                return False
        return True

    def _count_skipped(self) -> None:
        """Count each pod and reason once for as long as it lasts."""
        for _, reason in self._skipped - self.state.skipped:
            self.metrics.skipped.labels(reason).inc()
        self.state.skipped = frozenset(self._skipped)

    @property
    def _seconds(self) -> float:
        now = self.run.context.steady()
        return now - min((self.state.timer.since[resource] for resource in self.seen.resources), default=now)

    async def _report_none_evictable(self, selection: Selection) -> None:
        if selection.spared:
            note = text.none_evictable(selection.spared, self.seen, self._seconds)
            await self._report(tuple(pod for pod, _ in selection.spared), "MidEvictionImpossible", note)

    async def _report(self, pods: tuple[PodInputs, ...], reason: str, note: str) -> None:
        """An event for each list of pods."""
        reported = (reason, *(pod.uid for pod in pods))
        if reported != self.state.reported and self._may_report():
            self.state.reported = reported
            await self._event(reason, note)

    def _may_report(self) -> bool:
        """Return whether an event about the node may be recorded now; a later reconciliation records it otherwise."""
        context = self.run.context
        return context.node_state(self.reconciled.name).state_of(ReportRateLimiter).take_event(context.steady())

    async def _event(self, reason: str, note: str) -> None:
        await self.run.record(self.reconciled.name, "Warning", reason, "EvictMid", note)


def _reference(pod: PodInputs) -> dict[str, str]:
    namespace, _, name = pod.key.partition("/")
    return {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": pod.uid}
