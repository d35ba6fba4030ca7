"""What a hold says is done: whoever is named there leaves, if that is still right; then the pod is tried again."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from crds.elastic_quota import GROUP, PLURAL, VERSION
from headroom.cluster.pod import workload_key
from headroom.kube import ApiError, ApiServer, ApiUnavailable, paths
from headroom.kube.lease import LeaseFollower
from headroom.runtime.token_bucket import TokenBucket
from scheduler_plugins.preemption import events, hold_writer
from scheduler_plugins.preemption.evaluator import Evaluator, as_asked
from scheduler_plugins.preemption.events import PreemptionEventRecorder
from scheduler_plugins.preemption.eviction import Evicted, Outcome, evict
from scheduler_plugins.preemption.eviction_backoff import WorkloadBackoff
from scheduler_plugins.preemption.metrics import PreemptionMetrics
from scheduler_plugins.preemption.pending import Pending
from scheduler_plugins.preemption.selection.context import budget_is_about
from scheduler_plugins.preemption.selection.decide import Decision
from scheduler_plugins.preemption.settings import PreemptionSettings
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


class Evictions:
    """Evictions one by one, not too many of them, and what is told of them.

    Args:
        settings: how many, and by which rule.
        api: a session that writes only while this replica leads.
        leader: whether it does.
        recorder: writes Events.
        metrics: where it is counted.
        wall: times that objects bear. [unix s]
        monotonic: a clock that never jumps. [s]
    """

    def __init__(
        self,
        settings: PreemptionSettings,
        api: ApiServer,
        leader: LeaseFollower,
        recorder: PreemptionEventRecorder,
        metrics: PreemptionMetrics,
        wall: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.api = api
        self.recorder = recorder
        self.metrics = metrics
        self.wall = wall
        self._leader = leader
        self._monotonic = monotonic
        self._tokens = TokenBucket()
        self._begun: dict[str, tuple[str, float]] = {}

    def began(self, uid: str, arithmetic: str) -> None:
        """Remember why room is made for a pod, and since when."""
        self._begun[uid] = arithmetic, self._monotonic()

    def bound(self, uid: str) -> None:
        """A pod for which room was made has its node."""
        if uid in self._begun:
            self.metrics.bound_after.observe(self._monotonic() - self._begun.pop(uid)[1])

    def forget(self, there: AbstractSet[str]) -> None:
        """Forget pods that no room is made for any more."""
        self._begun = {uid: begun for uid, begun in self._begun.items() if uid in there}

    def may_take(self) -> bool:
        """Whether one more may be evicted now."""
        refill = 1 / self.settings.evictions_per_second
        return self._leader.leads() and self._tokens.left(self.settings.eviction_burst, refill, self._monotonic()) > 0

    async def evict(self, victim: QuotaPod, pod: QuotaPod, node: str, arithmetic: str) -> Outcome:
        """Evict a pod for another one, and tell it.

        Raises:
            ApiError: it cannot be read.
            ApiUnavailable: the API server is away, or this replica does not lead any more.
        """
        why, _ = self._begun.get(pod.uid, (arithmetic, 0.0))
        return await self.give_back(victim, f"Evicted for pod {pod.key}, which goes to {node}: {why}")

    async def give_back(self, victim: QuotaPod, note: str) -> Outcome:
        """Evict a pod and tell why.

        Raises:
            ApiError: it cannot be read.
            ApiUnavailable: the API server is away, or this replica does not lead any more.
        """
        self._tokens.take(1 / self.settings.evictions_per_second, self._monotonic())
        outcome = await evict(self.api, victim, self.settings.disruption_budgets, note, self.wall())
        self.metrics.evictions.labels(outcome.result).inc()
        if outcome.result is Evicted.EVICTED:
            _LOG.info("Pod %s: %s", victim.key, note)
            self.recorder.did(victim, "Normal", events.PREEMPTED, note)
        return outcome


@dataclass(slots=True)
class _Requeue:
    """A pod whose room is free and that is not bound yet."""

    at: float  # when it is tried again [s, monotonic]
    wait: float = _FIRST_WAKE_SECONDS  # how long after that once more [s]


@dataclass(slots=True)
class HoldReconciler:
    """Goes on with every hold until its pod is bound, gone, or late."""

    evictions: Evictions  # how somebody is evicted
    evaluator: Evaluator  # decides
    pending: Pending  # which holds the watch has shown
    guard: WorkloadBackoff  # knows for whom room was made
    monotonic: Callable[[], float]  # a clock that never jumps [s]
    _barred: dict[str, dict[str, float]] = field(default_factory=dict)
    _again: dict[str, float] = field(default_factory=dict)
    _rests: dict[str, float] = field(default_factory=dict)
    _wakes: dict[str, _Requeue] = field(default_factory=dict)

    @property
    def _cluster(self) -> QuotaCluster:
        return self.evaluator.cluster

    def rests(self, uid: str) -> bool:
        """Whether a hold of a pod was withdrawn a moment ago: two decisions that differ must not chase each other."""
        return self.monotonic() < self._rests.get(uid, 0.0)

    def barred(self, pod: QuotaPod) -> AbstractSet[str]:
        """Nodes on which an eviction for a pod was refused a moment ago."""
        now = self.monotonic()
        return {node for node, until in self._barred.get(pod.uid, {}).items() if now < until}

    async def reconcile(self, now: float) -> None:
        """Go on with every hold, in the order in which pods are served.

        Raises:
            ApiError: the API server refuses something.
            ApiUnavailable: the API server is away, or this replica does not lead any more.
        """
        holders = self._cluster.holding(now)
        there = {holder.uid for holder in holders}
        self.evictions.forget(there)
        self._again = {uid: when for uid, when in self._again.items() if uid in there}
        self._wakes = {uid: requeue for uid, requeue in self._wakes.items() if uid in there}
        self._rests = {uid: until for uid, until in self._rests.items() if self.monotonic() < until}
        self._barred = {uid: nodes for uid, nodes in self._barred.items() if uid in self._cluster.pods}
        uids = [
            holder.uid
            for holder in sorted(holders, key=lambda each: (-each.priority, each.created, each.key))
            if self.monotonic() >= self._again.get(holder.uid, 0.0)
        ]
        for some in (uids[start : start + _AT_ONCE] for start in range(0, len(uids), _AT_ONCE)):
            # What each may do is in its hold, so their order does not matter; one's trouble does not stop the others.
            results = await asyncio.gather(*map(self._go_on, some), return_exceptions=True)
            for uid, result in zip(some, results, strict=True):
                if isinstance(result, ApiError | ApiUnavailable) and not result.about_object:
                    raise result
                if isinstance(result, Exception):  # also one of its own: what a pod has must not stop the others
                    self._not_taken(uid, result)
                elif isinstance(result, BaseException):
                    raise result

    def _not_taken(self, uid: str, error: Exception) -> None:
        """Nothing can be done about a pod, as the API server takes nothing say: it is tried again later."""
        self._again[uid] = self.monotonic() + _AGAIN_SECONDS
        if (pod := self._cluster.pods.get(uid)) is not None:
            note = f"The room held for it cannot be seen to: {error}"
            self.evictions.recorder.explain(pod, "Warning", events.WITHHELD, note)

    async def _go_on(self, uid: str) -> None:
        pod = self._cluster.pods.get(uid)  # as it is now: others were gone on with since the holders were listed
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
            decision = self.evaluator(as_asked(pod), self.evictions.wall(), [hold.node], hold)
        except Exception as error:  # noqa: BLE001 - one pod that cannot be judged must not stop the others
            self._not_taken(pod.uid, error)
            return
        right = {victim.uid for victim in decision.victims} if isinstance(decision, Decision) else set()
        asked = self._cluster.preemption_grants.has(pod.uid, self.evictions.wall())  # while the hold was being written
        if untouched and (asked or right != set(hold.victims)):
            why = "kube-scheduler evicts for it itself" if asked else "the cluster has changed"
            await self._withdraw(pod, hold, why)
            return
        leaving = [victim for victim in staying if victim.uid in right]
        if not isinstance(decision, Decision) or not leaving:
            _LOG.debug("Nobody more leaves for pod %s for now: %s", pod.key, decision)
            return
        if not await self._as_known(pod, leaving):
            _LOG.debug("Nobody leaves for pod %s yet: it, or a quota, is not as it is known here", pod.key)
            return
        for victim in sorted(leaving, key=self._is_unprotected):  # who may be refused comes first
            if not self.evictions.may_take():
                return
            outcome = await self.evictions.evict(victim, pod, hold.node, decision.arithmetic)
            if outcome.result in (Evicted.BUDGET, Evicted.REFUSED):
                await self._refused(pod, hold, victim, outcome, untouched=untouched)
                return
            untouched = False
            self._leaves(victim)
            workload = workload_key(pod.json or {})
            if outcome.result is Evicted.EVICTED and workload is not None:
                self.guard.freed_resources(pod.uid, workload, self.monotonic())

    def _is_unprotected(self, victim: QuotaPod) -> bool:
        return not any(budget_is_about(budget, victim) for budget in self._cluster.budgets)

    def _leaves(self, victim: QuotaPod) -> None:
        """Know at once that a pod is leaving, unless the watch knows better already."""
        if self._cluster.pods.get(victim.uid) is victim:
            self._cluster.place(replace(victim, terminating=True))

    async def _as_known(self, pod: QuotaPod, leaving: Sequence[QuotaPod]) -> bool:
        """Whether the pod still needs the room, and the quotas are those that were decided by: read afresh."""
        api = self.evictions.api
        try:
            found = await api.get(paths.pod(pod.namespace, pod.name))
        except ApiError as error:
            if error.not_found:
                return False
            raise
        metadata, spec = found.get("metadata") or {}, found.get("spec") or {}
        if metadata.get("uid") != pod.uid or metadata.get("deletionTimestamp") or spec.get("nodeName"):
            return False
        if Hold.of_pod(found) != pod.hold:
            return False
        for namespace in dict.fromkeys([pod.namespace, *(victim.namespace for victim in leaving)]):
            try:
                items, _ = await api.list(_QUOTAS.format(namespace))
            except ApiError as error:
                if not error.not_found:  # else there is no such kind any more
                    raise
                items = []
            if not self._cluster.knows_quotas(namespace, items):
                return False
        return True

    async def _refused(self, pod: QuotaPod, hold: Hold, victim: QuotaPod, outcome: Outcome, *, untouched: bool) -> None:
        """Somebody stays. Where nobody has left yet, another node may do; else the others have left for good."""
        self._barred.setdefault(pod.uid, {})[hold.node] = self.monotonic() + _BARRED_SECONDS
        note = f"Pod {victim.key} on {victim.node} is not evicted for it: {outcome.why}"
        self.evictions.recorder.explain(pod, "Warning", events.WITHHELD, note)
        if untouched:
            await self._withdraw(pod, hold, f"pod {victim.key} stays")
        else:
            self._again[pod.uid] = self.monotonic() + _AGAIN_SECONDS

    async def _withdraw(self, pod: QuotaPod, hold: Hold, why: str) -> None:
        """Take back a hold for which nobody has left: it was no attempt."""
        former, now = None, self.evictions.wall()
        if hold.attempt > 1:
            former = Hold(hold.node, round(self._cluster.present(now), 3), (), hold.attempt - 1)
        written = await hold_writer.write(self.evictions.api, pod, former, now, nominate=False)
        if written is None:
            return
        hold_writer.take(self._cluster, written)
        self._rests[pod.uid] = self.monotonic() + _REST_SECONDS
        self.evictions.metrics.decisions.labels("withdrawn").inc()
        _LOG.info("Nobody leaves for pod %s: %s", pod.key, why)

    # Afterwards

    async def _requeue(self, pod: QuotaPod, hold: Hold) -> None:
        """Everybody has left. kube-scheduler notices most of the time; else it is told, later and later."""
        now = self.monotonic()
        known = self._wakes.setdefault(pod.uid, _Requeue(now + _FIRST_WAKE_SECONDS))
        if now < known.at or pod.uid in self._cluster.ledger.tentative:
            return
        known.wait *= 2
        known.at = now + known.wait
        if known.wait > _LONG_WAKE_SECONDS and self._is_taken(pod):
            await self._give_up(pod, hold)
            return
        try:
            await hold_writer.requeue(self.evictions.api, pod, hold.node, self.evictions.wall())
        except ApiUnavailable:
            known.at = now
            raise

    def _is_taken(self, pod: QuotaPod) -> bool:
        """Whether the room that was freed is another pod's by now, a more important one's: others would have to go."""
        try:
            return isinstance(self.evaluator(as_asked(pod), self.evictions.wall(), held=pod.hold), Decision)
        except Exception:  # noqa: BLE001 - it is woken as if nobody had the room
            return False

    async def _give_up(self, pod: QuotaPod, hold: Hold) -> None:
        """Let the hold expire now: there is nothing left to be held."""
        now = self.evictions.wall()
        ended = replace(hold, until=round(self._cluster.present(now), 3))
        written = await hold_writer.write(self.evictions.api, pod, ended, now, nominate=False)
        if written is not None:
            hold_writer.take(self._cluster, written)
