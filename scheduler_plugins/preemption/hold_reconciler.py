"""Reconciles holds: evicts the named victims while the decision is right, then has the pod scheduled again."""

import asyncio
import logging
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from crds.elastic_quota import GROUP, PLURAL, VERSION
from headroom.cluster.pod import workload_key
from headroom.kube import ApiError, ApiUnavailable
from headroom.runtime.backoff import Backoff
from scheduler_plugins.preemption import events, hold_writer
from scheduler_plugins.preemption.evaluator import Evaluator, as_requested
from scheduler_plugins.preemption.events import named
from scheduler_plugins.preemption.eviction import Evicted, Evictor, Outcome, grace_of
from scheduler_plugins.preemption.eviction_backoff import WorkloadBackoff
from scheduler_plugins.preemption.pending import Pending
from scheduler_plugins.preemption.selection.context import budget_is_about
from scheduler_plugins.preemption.selection.decide import Decision
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.pod import QuotaPod

_QUOTAS: Final = f"/apis/{GROUP}/{VERSION}/namespaces/{{}}/{PLURAL}"
_BARRED_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 5.0
_REST_SECONDS: Final = 1.0
_AT_ONCE: Final = 8
_FIRST_WAKE_SECONDS: Final = 1.0
_LONG_WAKE_SECONDS: Final = 4.0

_LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class _Requeue:
    """A pod with free reserved resources that is not bound yet."""

    at: float  # when it is tried again [s, monotonic]
    wait: float = _FIRST_WAKE_SECONDS  # how long after that once more [s]


@dataclass(slots=True)
class HoldReconciler:
    """Goes on with every hold until its pod is bound, gone, or late."""

    evictor: Evictor
    evaluator: Evaluator
    pending: Pending  # which holds the watch has shown
    _blocked_nodes: dict[str, dict[str, float]] = field(default_factory=dict)
    _again: dict[str, float] = field(default_factory=dict)
    _rests: dict[str, float] = field(default_factory=dict)
    _wakes: dict[str, _Requeue] = field(default_factory=dict)
    _begun: dict[str, tuple[str, float]] = field(default_factory=dict)
    _expired: dict[str, Hold] = field(default_factory=dict)
    _backoff: Backoff = field(init=False)
    _workloads: WorkloadBackoff = field(init=False)

    def __post_init__(self) -> None:
        settings = self.evictor.settings
        self._backoff = Backoff(settings.back_off_seconds, settings.longest_back_off_seconds)
        self._workloads = WorkloadBackoff(self._backoff)

    def bound(self, uid: str) -> None:
        if uid in self._begun:
            self.evictor.metrics.bound_after.observe(self.monotonic() - self._begun.pop(uid)[1])

    def note_ended(self) -> None:
        self._workloads.reconcile(self._cluster.pods, self.monotonic())

    def monotonic(self) -> float:
        """The time of a clock that never jumps. [s]"""
        return self.evictor.clocks.monotonic()

    @property
    def _cluster(self) -> QuotaCluster:
        return self.evaluator.cluster

    def in_cooldown(self, uid: str) -> bool:
        """Return whether a reservation of a pod was withdrawn a moment ago: a cooldown stops alternating decisions."""
        return self.monotonic() < self._rests.get(uid, 0.0)

    def blocked_nodes(self, pod: QuotaPod) -> AbstractSet[str]:
        """Nodes on which an eviction for a pod was refused a moment ago."""
        now = self.monotonic()
        return {node for node, until in self._blocked_nodes.get(pod.uid, {}).items() if now < until}

    # Making a hold

    def backoff_seconds(self, pod: QuotaPod) -> float:
        """Return the time without evictions for a pod after failed attempts. [s]"""
        delay = 0.0
        if pod.hold is not None and not self.lost(pod.hold):
            delay = self._may_try_again(pod.hold) - self._cluster.present(self.evictor.clocks.wall())
        workload = workload_key(pod.json or {})
        return max(delay, self._workloads.waits(workload, self.monotonic()) if workload else 0.0)

    def _may_try_again(self, hold: Hold) -> float:
        """Return when a pod may preempt again whose hold expires, or has expired. [unix s]"""
        return hold.until + self._backoff.after(hold.attempt)

    def lost(self, hold: Hold) -> bool:
        return hold.node not in self._cluster.nodes

    async def hold(self, pod: QuotaPod, decision: Decision) -> bool:
        """Store the victims in a hold; return whether that succeeded."""
        running = [victim for victim in decision.victims if not victim.terminating]
        graces = await asyncio.gather(*(grace_of(self.evictor.api, victim) for victim in running))
        limits = [grace for grace in graces if grace is not None]
        if len(limits) < len(running):
            return False  # a pod has changed meanwhile
        longest = max(limits, default=0.0)
        attempt = 1
        if pod.hold is not None:  # a lost node is no failed attempt
            attempt = pod.hold.attempt + (not self.lost(pod.hold))
        now = self.evictor.clocks.wall()
        until = round(self._cluster.present(now) + longest + self.evictor.settings.hold_seconds, 3)
        victims, relief = tuple(victim.uid for victim in decision.victims), self.evaluator.relief(decision)
        hold = Hold(decision.node, until, victims, attempt, relief)
        written = await hold_writer.write(self.evictor.api, pod, hold, now, nominate=True)
        if written is None:
            return False
        hold_writer.take(self._cluster, written)
        self._begun[pod.uid] = decision.arithmetic, self.monotonic()
        _LOG.info("Pod %s: evicting %s from node %s", pod.key, named(decision.victims), decision.node)
        return True

    # Going on with it

    async def reconcile(self) -> None:
        """Go on with every hold, in the order in which pods are served."""
        await self._report_expired()
        now = self.evictor.clocks.wall()
        holders = self._cluster.holding(now)
        there = {holder.uid for holder in holders}
        self._begun = {uid: begun for uid, begun in self._begun.items() if uid in there}
        self._again = {uid: when for uid, when in self._again.items() if uid in there}
        self._wakes = {uid: requeue for uid, requeue in self._wakes.items() if uid in there}
        self._rests = {uid: until for uid, until in self._rests.items() if self.monotonic() < until}
        self._blocked_nodes = {uid: nodes for uid, nodes in self._blocked_nodes.items() if uid in self._cluster.pods}
        uids = [
            holder.uid
            for holder in sorted(holders, key=lambda each: (-each.priority, each.created, each.key))
            if self.monotonic() >= self._again.get(holder.uid, 0.0)
        ]
        for some in (uids[start : start + _AT_ONCE] for start in range(0, len(uids), _AT_ONCE)):
            # Each hold lists its own victims, so their order does not matter; a failure of one does not stop others.
            results = await asyncio.gather(*map(self._go_on, some), return_exceptions=True)
            for uid, result in zip(some, results, strict=True):
                if isinstance(result, ApiError | ApiUnavailable) and not result.about_object:
                    raise result
                if isinstance(result, Exception):  # also one of its own: what a pod has must not stop the others
                    self._not_taken(uid, result)
                elif isinstance(result, BaseException):
                    raise result

    def _not_taken(self, uid: str, error: Exception) -> None:
        """Handle a pod whose requests the API server rejects: it is retried later."""
        self._again[uid] = self.monotonic() + _AGAIN_SECONDS
        if (pod := self._cluster.pods.get(uid)) is not None:
            note = f"Cannot process the reservation: {error}"
            self.evictor.recorder.explain(pod, "Warning", events.WITHHELD, note)

    async def _go_on(self, uid: str) -> None:
        pod = self._cluster.pods.get(uid)  # its present state: other holds were processed since the list
        hold = pod.hold if pod is not None else None
        if pod is None or hold is None or self.pending.shown.get(uid) != hold or pod.node or pod.terminating:
            return
        there = [self._cluster.pods[uid] for uid in hold.victims if uid in self._cluster.pods]
        staying = [victim for victim in there if victim.counted and not victim.terminating]
        if not there:
            await self._requeue(pod, hold)
        elif staying:
            await self._evict(pod, hold, staying)

    # Evicting

    async def _evict(self, pod: QuotaPod, hold: Hold, staying: Sequence[QuotaPod]) -> None:
        untouched = len(staying) == len(hold.victims)
        try:
            decision = self.evaluator(as_requested(pod), self.evictor.clocks.wall(), [hold.node], hold)
        except Exception as error:  # noqa: BLE001 - one pod that cannot be evaluated must not stop the others
            self._not_taken(pod.uid, error)
            return
        right = {victim.uid for victim in decision.victims} if isinstance(decision, Decision) else set()
        preempted = self._cluster.preemption_grants.has(
            pod.uid, self.evictor.clocks.wall()
        )  # while the hold was being written
        if untouched and (preempted or right != set(hold.victims)):
            why = "kube-scheduler evicts for it itself" if preempted else "the cluster has changed"
            await self._withdraw(pod, hold, why)
            return
        victims = [victim for victim in staying if victim.uid in right]
        if not isinstance(decision, Decision) or not victims:
            _LOG.debug("Pod %s: no further eviction for now: %s", pod.key, decision)
            return
        if not await self._as_known(pod, victims):
            _LOG.debug("Pod %s: no eviction yet, pod or quota changed", pod.key)
            return
        for victim in sorted(victims, key=self._is_unprotected):  # protected victims first
            if not self.evictor.allows():
                return
            why, _ = self._begun.get(pod.uid, (decision.arithmetic, 0.0))
            outcome = await self.evictor.evict(victim, f"Evicted for pod {pod.key}, which goes to {hold.node}: {why}")
            if outcome.result in (Evicted.BUDGET, Evicted.REFUSED):
                await self._refused(pod, hold, victim, outcome, untouched=untouched)
                return
            untouched = False
            self._mark_terminating(victim)
            workload = workload_key(pod.json or {})
            if outcome.result is Evicted.EVICTED and workload is not None:
                self._workloads.freed_resources(pod.uid, workload, self.monotonic())

    def _is_unprotected(self, victim: QuotaPod) -> bool:
        return not any(budget_is_about(budget, victim) for budget in self._cluster.budgets)

    def _mark_terminating(self, victim: QuotaPod) -> None:
        """Record at once that a pod is terminating, unless the watch has a newer state."""
        if self._cluster.pods.get(victim.uid) is victim:
            self._cluster.place(replace(victim, terminating=True))

    async def _as_known(self, pod: QuotaPod, victims: Sequence[QuotaPod]) -> bool:
        """Return whether the pod still needs the resources, and the quotas are unchanged: read again."""
        api = self.evictor.api
        if await hold_writer.waiting(api, pod) is None:
            return False
        for namespace in dict.fromkeys([pod.namespace, *(victim.namespace for victim in victims)]):
            try:
                items, _ = await api.list(_QUOTAS.format(namespace))
            except ApiError as error:
                if not error.not_found:  # else the kind is gone
                    raise
                items = []
            if not self._cluster.knows_quotas(namespace, items):
                return False
        return True

    async def _refused(self, pod: QuotaPod, hold: Hold, victim: QuotaPod, outcome: Outcome, *, untouched: bool) -> None:
        """A victim cannot be evicted. Without any eviction so far, another node may do; otherwise the hold stays."""
        self._blocked_nodes.setdefault(pod.uid, {})[hold.node] = self.monotonic() + _BARRED_SECONDS
        note = f"Pod {victim.key} on {victim.node} is not evicted for it: {outcome.why}"
        self.evictor.recorder.explain(pod, "Warning", events.WITHHELD, note)
        if untouched:
            await self._withdraw(pod, hold, f"pod {victim.key} stays")
        else:
            self._again[pod.uid] = self.monotonic() + _AGAIN_SECONDS

    async def _withdraw(self, pod: QuotaPod, hold: Hold, why: str) -> None:
        """Withdraw a hold without an eviction: it was no attempt."""
        former, now = None, self.evictor.clocks.wall()
        if hold.attempt > 1:
            former = Hold(hold.node, round(self._cluster.present(now), 3), (), hold.attempt - 1)
        written = await hold_writer.write(self.evictor.api, pod, former, now, nominate=False)
        if written is None:
            return
        hold_writer.take(self._cluster, written)
        self._rests[pod.uid] = self.monotonic() + _REST_SECONDS
        self.evictor.metrics.decisions.labels("withdrawn").inc()
        _LOG.info("Pod %s: no eviction: %s", pod.key, why)

    # Afterwards

    async def _requeue(self, pod: QuotaPod, hold: Hold) -> None:
        """All victims have ended. kube-scheduler notices in most cases; else it is notified, with a growing delay."""
        now = self.monotonic()
        requeue = self._wakes.setdefault(pod.uid, _Requeue(now + _FIRST_WAKE_SECONDS))
        if now < requeue.at or pod.uid in self._cluster.ledger.tentative:
            return
        requeue.wait *= 2
        requeue.at = now + requeue.wait
        if requeue.wait > _LONG_WAKE_SECONDS and self._is_taken(pod):
            await self._give_up(pod, hold)
            return
        try:
            await hold_writer.requeue(self.evictor.api, pod, hold.node, self.evictor.clocks.wall())
        except ApiUnavailable:
            requeue.at = now
            raise

    def _is_taken(self, pod: QuotaPod) -> bool:
        """Return whether a pod of higher priority has taken the reserved resources: further pods would be evicted."""
        try:
            return isinstance(self.evaluator(as_requested(pod), self.evictor.clocks.wall(), held=pod.hold), Decision)
        except Exception:  # noqa: BLE001 - it is requeued as if the resources were free
            return False

    async def _give_up(self, pod: QuotaPod, hold: Hold) -> None:
        """Let the hold expire now: there is nothing left to be held."""
        now = self.evictor.clocks.wall()
        ended = replace(hold, until=round(self._cluster.present(now), 3))
        written = await hold_writer.write(self.evictor.api, pod, ended, now, nominate=False)
        if written is not None:
            hold_writer.take(self._cluster, written)

    # When a hold expires

    async def _report_expired(self) -> None:
        """A pod that has not used its reservation in time loses it, and its nomination."""
        wall = self.evictor.clocks.wall()
        now = self._cluster.present(wall)
        self._expired = {uid: hold for uid, hold in self._expired.items() if self.pending.shown.get(uid) == hold}
        for uid, hold in list(self.pending.shown.items()):
            pod = self._cluster.pods.get(uid)
            if now < hold.until or self._expired.get(uid) == hold or pod is None or pod.node or pod.terminating:
                continue
            if pod.nominated and pod.nominated == hold.node and not await self._unnominate(pod, hold, wall):
                continue
            self._expired[uid] = hold
            if not hold.victims:
                continue  # it was withdrawn
            if now - hold.until > self._backoff.after(hold.attempt):
                continue  # long ago: it was recorded then
            self.evictor.metrics.decisions.labels("expired").inc()
            again = max(self._may_try_again(hold) - now, 0.0)
            note = f"The resources reserved on {hold.node} were not used in time; no eviction for {again:.0f} s"
            self.evictor.recorder.did(pod, "Warning", events.EXPIRED, note)

    async def _unnominate(self, pod: QuotaPod, hold: Hold, now: float) -> bool:
        """Take a pod's nomination away; whether there is nothing more to try."""
        try:
            return await hold_writer.write(self.evictor.api, pod, hold, now, nominate=False) is not None
        except (ApiError, ApiUnavailable) as error:
            if not error.about_object:
                raise
            _LOG.warning("The nomination of pod %s stays: %s", pod.key, error)
            return True
