"""Evicts pods so that others get the resources that their quota guarantees, in two steps with a crash allowed between.

1. Victims are selected, and stored as a hold on the pod that needs the resources: its node, the victims, and
      the time limit. The write is refused if the pod has changed meanwhile.
2. Once the watch of pods shows the hold, all earlier changes of pods are known here. The decision is
      repeated, pods and quotas are read again, and only then a pod is evicted.

After a crash or a change of leader, the new leader reads the hold and continues with the second step: terminating
victims are not evicted again, and no victim is selected while the hold lasts.
"""

import asyncio
import logging
from collections.abc import Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from headroom.kube import ApiError, ApiServer, ApiUnavailable
from headroom.kube.lease import LeaseFollower
from headroom.runtime.clocks import Clocks
from scheduler_plugins.preemption import events
from scheduler_plugins.preemption.equivalence import EquivalenceClass
from scheduler_plugins.preemption.evaluator import Evaluator
from scheduler_plugins.preemption.events import PreemptionEventRecorder, named
from scheduler_plugins.preemption.eviction import Evictor
from scheduler_plugins.preemption.hold_reconciler import HoldReconciler
from scheduler_plugins.preemption.metrics import PreemptionMetrics
from scheduler_plugins.preemption.over_max import OverMax
from scheduler_plugins.preemption.pending import Pending
from scheduler_plugins.preemption.selection.decide import Decision, Undecided
from scheduler_plugins.preemption.settings import PreemptionSettings
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod

INTERVAL_SECONDS: Final = 1.0  # interval without events [s]

WORK_SHARE: Final = 0.1
"""The share of a core for decisions in the long run: responses to kube-scheduler wait for each of them."""

_ROUND_SECONDS: Final = 0.1
_FIRST_WAIT_SECONDS: Final = 1.0
_LONGEST_WAIT_SECONDS: Final = 5.0
_REFUSED_SECONDS: Final = 30.0

_LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class _Undecided:
    """A pod without victims."""

    version: int | None  # of quotas and claims at that time; None: any
    wait: float  # how long it is left alone, unless that changes [s]
    until: float  # when that ends [s, monotonic]


class Controller:
    """Evaluates unschedulable pods, one after the other."""

    def __init__(
        self,
        settings: PreemptionSettings,
        evaluator: Evaluator,
        pending: Pending,
        api: ApiServer,
        leader: LeaseFollower,
        recorder: PreemptionEventRecorder,
        metrics: PreemptionMetrics,
        clocks: Clocks | None = None,
    ) -> None:
        self._settings = settings
        self._evaluator = evaluator
        self._cluster: QuotaCluster = evaluator.cluster
        self._pending = pending
        self._leader = leader
        self._recorder = recorder
        self._metrics = metrics
        self._clocks = clocks or Clocks()
        self._evictor = Evictor(settings, api, leader, recorder, metrics, self._clocks)
        self._holds = HoldReconciler(self._evictor, evaluator, pending)
        self.bound = self._holds.bound
        self._equivalence_class = EquivalenceClass(self._cluster, evaluator.cache)
        self._spent, self._rested = 0.0, float("-inf")
        self._over_max = OverMax(self._cluster, self._evictor)
        self._undecided: dict[str, _Undecided] = {}
        self._turn: tuple[str, ...] = ()

    async def reconcile(self) -> None:
        """Continue the holds, then decide for waiting pods."""
        self._pending.changed.clear()
        self._record_granted_preemptions()
        if not self._leader.leads():
            return
        self._holds.note_ended()
        if not self._settings.dry_run:
            await self._holds.reconcile()
        await self._over_max.reconcile()
        await self._decide_for_all()
        self._metrics.rounds.inc()

    # Pending pods

    def _waiting(self, now: float) -> list[QuotaPod]:
        """Return the pods that may preempt, by priority, then by age."""
        ledger, present, result = self._cluster.ledger, self._cluster.present(now), []
        for uid in self._pending.waiting:
            pod = self._cluster.pods.get(uid)
            if (
                pod is not None
                and not pod.node
                and not pod.terminating
                and ledger.quota(pod.namespace) is not None
                and not (pod.hold is not None and pod.hold.lasts(present) and not self._holds.lost(pod.hold))
                and uid not in ledger.tentative  # it has just been admitted
                and not self._cluster.preemption_grants.has(uid, now)  # kube-scheduler may be evicting for it itself
            ):
                result.append(pod)
        return sorted(result, key=rank)

    async def _decide_for_all(self) -> None:
        now, steady = self._clocks.wall(), self._clocks.monotonic()
        waiting = self._waiting(now)
        self._metrics.pending.set(len(waiting))
        self._metrics.holds.set(len(self._cluster.holding(now)))
        self._undecided = {pod.uid: self._undecided[pod.uid] for pod in waiting if pod.uid in self._undecided}
        if steady < self._rested:
            return  # the next look comes within a second
        due = [pod for pod in waiting if self._is_due(pod, steady)]
        self._equivalence_class.begin(waiting)
        self._spent = 0.0
        try:
            await self._decide_for(due)
        finally:
            self._rested = self._clocks.monotonic() + self._spent * (1 / WORK_SHARE - 1)

    async def _decide_for(self, due: list[QuotaPod]) -> None:
        undecided: dict[Hashable, Undecided] = {}
        for pod in self._in_turn(due):
            if self._spent > _ROUND_SECONDS:
                self._turn = pod.key, pod.uid
                return
            if self._cluster.pods.get(pod.uid) is not pod:
                continue  # it has changed while others were decided about
            if not self._settings.dry_run and not self._evictor.allows():
                self._metrics.decisions.labels("throttled").inc()
                return  # none of them may preempt now
            try:
                await self._decide_about(pod, undecided)
            except Exception as error:  # one pod, and what may be written onto it, stops no other
                if isinstance(error, ApiError | ApiUnavailable) and not error.about_object:
                    raise
                self._withhold(pod, error)
            await asyncio.sleep(0)
        self._turn = ()

    async def _decide_about(self, pod: QuotaPod, undecided: dict[Hashable, Undecided]) -> None:
        """Decide for a pod and those alike, and reserve resources for it if that is allowed."""
        blocked_nodes = self._blocked_nodes(pod)
        started = self._clocks.monotonic()
        key = self._like(pod), blocked_nodes
        result = undecided.get(key) or self._decided(pod, blocked_nodes)
        self._spent += self._clocks.monotonic() - started
        if isinstance(result, Undecided):
            undecided[key] = result
            self._record_no_victims(pod, result)
        else:
            await self._act(pod, result)

    def _in_turn(self, due: list[QuotaPod]) -> Iterator[QuotaPod]:
        """Order pods so that those skipped in the last round come first: expensive pods must not starve others."""
        start = next((row for row, pod in enumerate(due) if (pod.key, pod.uid) == self._turn), 0)
        return iter([*due[start:], *due[:start]])

    def _is_due(self, pod: QuotaPod, steady: float) -> bool:
        undecided = self._undecided.get(pod.uid)
        if self._holds.in_cooldown(pod.uid):
            return False
        return undecided is None or undecided.version not in {None, self._cluster.version} or steady >= undecided.until

    def _blocked_nodes(self, pod: QuotaPod) -> frozenset[str]:
        """Nodes that are no place for a pod for now."""
        blocked_nodes = frozenset(self._holds.blocked_nodes(pod))
        if pod.hold is not None and any(uid in self._cluster.pods for uid in pod.hold.victims):
            blocked_nodes |= {pod.hold.node}  # its victims did not end in time
        return blocked_nodes

    def _like(self, pod: QuotaPod) -> Hashable:
        """Return the key of a pod's decision; for an unreadable pod, the pod itself."""
        try:
            return self._equivalence_class.of(pod)
        except Exception:  # noqa: BLE001 - as the next one: it is evaluated alone, and its error is reported
            return pod.uid

    def _decided(self, pod: QuotaPod, blocked_nodes: AbstractSet[str]) -> Decision | Undecided:
        now = self._clocks.wall()
        nodes: Iterable[str] | None = (
            [name for name in self._cluster.nodes if name not in blocked_nodes] if blocked_nodes else None
        )
        try:
            return self._evaluator(pod, now, nodes)
        except Exception as error:  # noqa: BLE001 - one pod that cannot be evaluated must not stop the others
            if pod.uid not in self._undecided:
                _LOG.warning("Pod %s: no victims; it cannot be evaluated: %s", pod.key, error)
            return Undecided(f"it cannot be evaluated: {error}", {})

    def _record_no_victims(self, pod: QuotaPod, found: Undecided) -> None:
        steady, known = self._clocks.monotonic(), self._undecided.get(pod.uid)
        wait = min(known.wait * 2, _LONGEST_WAIT_SECONDS) if known is not None else _FIRST_WAIT_SECONDS
        self._undecided[pod.uid] = _Undecided(self._cluster.version, wait, steady + wait)
        self._metrics.decisions.labels("no_victims").inc()
        self._recorder.explain(pod, "Normal", events.NO_VICTIMS, f"No victims: {found.reason}")

    # Reserving

    def _withhold(self, pod: QuotaPod, error: Exception) -> None:
        """Drop a pod that cannot be patched, for example because of its annotations' size: it must not block others."""
        until = self._clocks.monotonic() + _REFUSED_SECONDS
        self._undecided[pod.uid] = _Undecided(None, _REFUSED_SECONDS, until)
        self._metrics.decisions.labels("refused").inc()
        taken = isinstance(error, ApiError | ApiUnavailable)
        why = f"the API server rejects the evictions, {error}" if taken else f"{type(error).__name__}: {error}"
        self._recorder.explain(pod, "Warning", events.WITHHELD, f"No victims: {why}")

    async def _act(self, pod: QuotaPod, decision: Decision) -> None:
        if (until := self._holds.backoff_seconds(pod)) > 0:
            self._metrics.decisions.labels("guarded").inc()
            wait = min(until, _LONGEST_WAIT_SECONDS)
            self._undecided[pod.uid] = _Undecided(self._cluster.version, wait, self._clocks.monotonic() + wait)
            return
        victims = f"{named(decision.victims)}, so that it fits on {decision.node}: {decision.arithmetic}"
        if self._settings.dry_run:
            self._metrics.decisions.labels("dry-run").inc()
            self._undecided[pod.uid] = _Undecided(
                self._cluster.version, _LONGEST_WAIT_SECONDS, self._clocks.monotonic() + _LONGEST_WAIT_SECONDS
            )
            self._recorder.explain(pod, "Normal", events.DRY_RUN, f"Would evict {victims}")
        elif await self._holds.hold(pod, decision):
            self._metrics.decisions.labels("held").inc()
            self._recorder.did(pod, "Normal", events.RECLAIMING, f"Evicting {victims}")
        else:
            self._metrics.decisions.labels("changed").inc()

    # What kube-scheduler's own preemption does

    def _record_granted_preemptions(self) -> None:
        """Record the numbers behind kube-scheduler's preemption, on every replica."""
        for grant in self._cluster.preemption_grants.recent(self._clocks.wall()):
            pod = self._cluster.pods.get(grant.pod.uid)
            node = (pod.node or pod.nominated) if pod is not None else ""
            # It may have taken the nomination away again.
            nodes = [node] if node else list(grant.victims)
            node = next((node for node in nodes if self._have_left(grant.victims.get(node, ()))), "")
            victims = grant.victims.get(node, ())
            if pod is None or not victims:
                continue
            self._cluster.preemption_grants.acted_on(pod.uid, node)
            note = f"kube-scheduler evicts {named(victims)}, so that it fits on {node}: {grant.why[node]}"
            self._recorder.did(pod, "Normal", events.RECLAIMING, note)
            for victim in victims:
                note = f"Evicted by kube-scheduler for pod {pod.key}, which goes to {node}: {grant.why[node]}"
                self._recorder.did(victim, "Normal", events.PREEMPTED, note)

    def _have_left(self, victims: Sequence[QuotaPod]) -> bool:
        pods = [self._cluster.pods.get(victim.uid) for victim in victims]
        return bool(pods) and all(pod is None or pod.terminating for pod in pods)


def rank(pod: QuotaPod) -> tuple[int, float, str]:
    """Sorts pods, the most important first, then the oldest."""
    return -pod.priority, pod.created, pod.key
