"""Looks at the waiting pods once a second and wakes those for which the reason has gone."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from weakref import WeakKeyDictionary

from headroom.runtime.clocks import Clocks
from headroom.runtime.token_bucket import TokenBucket
from scheduler_plugins.framework.cycle import Cycle, PluginError
from scheduler_plugins.requeue.candidates import Trial, choose
from scheduler_plugins.requeue.groups import Entry, Group
from scheduler_plugins.requeue.metrics import RequeueMetrics
from scheduler_plugins.requeue.node_sets import Changes
from scheduler_plugins.requeue.patching import Patched, Patcher
from scheduler_plugins.requeue.settings import RequeueSettings
from scheduler_plugins.requeue.unschedulable import UnschedulablePods
from scheduler_plugins.snapshot.arrays import Snapshot
from scheduler_plugins.snapshot.cache import ClusterCache

INTERVAL_SECONDS: Final = 1.0
"""How often we look."""
SWEEP_SECONDS: Final = 5.0
"""How often all nodes are judged again, changed or not: some reasons go by time alone."""

_SLICE_SECONDS: Final = 0.005
_ROUND_SECONDS: Final = 0.1
_AT_ONCE: Final = 10

_LOG: Final = logging.getLogger(__name__)


class Requeuer:
    """Wakes pods.

    A reason goes away when a node, its report, its pods or a provider's reading changes: nodes that changed are judged
    again. When what plugins keep of the cluster changes, such as quotas and what is charged to them, all nodes are.
    Sometimes it goes by time alone (a report expires where `enableScheduleWhenNodeMetricsExpired` is set), so all nodes
    are judged every few seconds.

    Args:
        unschedulable: who waits.
        cache: the cluster.
        cycle: judges.
        patcher: patches.
        settings: how much of it.
        metrics: where it is counted.
        clocks: the time.
    """

    def __init__(
        self,
        unschedulable: UnschedulablePods,
        cache: ClusterCache,
        cycle: Cycle,
        patcher: Patcher,
        settings: RequeueSettings,
        metrics: RequeueMetrics,
        clocks: Clocks | None = None,
    ) -> None:
        self._unschedulable = unschedulable
        self._cache = cache
        self._cycle = cycle
        self._patcher = patcher
        self._settings = settings
        self._metrics = metrics
        self._clocks = clocks or Clocks()
        self._tokens = TokenBucket()
        self._changes = Changes()
        self._swept_at = float("-inf")
        self._versions: dict[str, int] = {}
        self._charged: dict[str, str] = {}
        self._turn = 0
        self._behind = False
        self._last_trouble = ""
        self._unjudged: WeakKeyDictionary[Group, str] = WeakKeyDictionary()

    async def run(self) -> None:
        """Look, and wake, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.reconcile_and_survive()

    async def reconcile_and_survive(self) -> None:
        """Look, and wake. What fails is told once, and is tried again the next time: answers go on without us."""
        try:
            await self.reconcile()
            self._last_trouble = ""
        except Exception as error:  # noqa: BLE001 - the outer runner: the extender lives on
            trouble = f"{type(error).__name__}: {error}"
            if trouble != self._last_trouble:
                told = None if isinstance(error, PluginError) else error  # it names the plugin and says how
                _LOG.error("Waiting pods cannot be judged: %s", error, exc_info=told)
            self._last_trouble = trouble

    async def reconcile(self) -> list[Entry]:
        """Judge what changed, and wake whom it helps; the pods that were patched.

        Raises:
            PluginError: a plugin failed.
        """
        unschedulable, now = self._unschedulable, self._clocks.monotonic()
        unschedulable.forget_answered(self._cache.in_flight.keys())
        unschedulable.forget_unanswered(now)
        self._count()
        if not len(unschedulable):
            self._changes.forget()
            return []
        snapshot = self._cache.freeze(self._clocks.wall())
        unschedulable.tidy(snapshot)
        self._mark(snapshot, now)
        await self._judge(snapshot)
        left = self._left()
        if not left or self._patcher.paused(self._clocks.monotonic()):
            return []
        chosen = await self._choose(left)
        return await self._requeue(chosen)

    def _count(self) -> None:
        self._metrics.unschedulable.set(len(self._unschedulable))
        self._metrics.groups.set(len(self._unschedulable.groups))
        self._metrics.overflowed.set(self._unschedulable.overflowed)

    def _left(self) -> int:
        settings = self._settings
        return self._tokens.left(settings.patch_burst, 1 / settings.patches_per_second, self._clocks.monotonic())

    # What to judge

    def _mark(self, snapshot: Snapshot, now: float) -> None:
        """Mark the nodes that have to be judged again."""
        charged = {entry.uid: entry.target for entry in self._unschedulable.requeued()}
        freed = [node for uid, node in self._charged.items() if charged.get(uid) != node]
        self._charged = charged
        changed = self._changes.since_last(snapshot)
        # While groups are left from the last sweep, another one would only keep changes from being looked at.
        sweep = now - self._swept_at >= SWEEP_SECONDS and not self._behind
        if sweep:
            self._swept_at = now
        sweep = self._kept_changed(snapshot, freed) or sweep
        if not (sweep or freed or changed.any()):
            return
        bits = self._unschedulable.numbers.of_rows(changed, snapshot) | self._unschedulable.numbers.bits(freed)
        everything = self._unschedulable.numbers.all
        for group in self._unschedulable.groups:
            fitting = group.fitting(everything)
            group.pending |= fitting if sweep else fitting & bits

    def _kept_changed(self, snapshot: Snapshot, freed: Sequence[str]) -> bool:
        """Whether something changed that may hold for all nodes: in what plugins keep, or as woken pods were let go."""
        versions = {name: kept.version for name, kept in snapshot.kept.items()}
        changed = versions != self._versions or bool(freed and versions)
        if self._behind:  # the groups that are left will be judged by what is kept now; the others soon
            return False
        self._versions = versions
        return changed

    # Judging

    async def _judge(self, snapshot: Snapshot) -> None:
        """Find the groups for which a node passes. Requests are answered in between; too much of it goes on later."""
        groups = [group for group in self._unschedulable.groups if group.pending and not group.ready]
        spent, started = 0.0, time.perf_counter()
        self._behind = False
        for number in range(len(groups)):
            group = groups[(self._turn + number) % len(groups)]
            self._attempt(group, snapshot)
            if (slice_ := time.perf_counter() - started) >= _SLICE_SECONDS:
                spent += slice_
                if spent >= _ROUND_SECONDS:
                    self._behind = number + 1 < len(groups)
                    self._turn = (self._turn + number + 1) % len(groups)
                    break
                await asyncio.sleep(0)
                started = time.perf_counter()
        self._metrics.round_seconds.observe(spent + time.perf_counter() - started)

    def _attempt(self, group: Group, snapshot: Snapshot) -> None:
        """Look at a group; one that cannot be judged stops no other."""
        try:
            self._look_at(group, snapshot)
        except Exception as error:  # noqa: BLE001 - whatever its pods hold
            self._name(group, error)

    def _name(self, group: Group, error: Exception) -> None:
        """Say once of each reason that a group cannot be judged."""
        if self._unjudged.get(group) != str(error):
            self._unjudged[group] = str(error)
            key = next((entry.key for entry in group.entries.values()), group.pod.key)
            _LOG.error("Pod %s waits and cannot be judged, nor can those like it: %s", key, error)

    def _look_at(self, group: Group, snapshot: Snapshot) -> None:
        rows = self._unschedulable.numbers.rows(group.pending, snapshot)
        group.pending = 0
        # First what refuses pods as such: it costs little, and then no node has to be copied.
        if len(rows) and self._cycle.refuses(group.pod, snapshot) is None:
            group.ready = bool(self._cycle.filter(group.pod, snapshot.take(rows)).passes.any())

    # Waking

    async def _choose(self, left: int) -> list[Entry]:
        """Choose whom to wake, charged beside those that were woken already. Requests are answered in between."""
        trial = Trial.of(self._cache.freeze(self._clocks.wall()))
        index = trial.nodes.index
        for entry in self._unschedulable.requeued():
            if entry.target in index:
                trial.charge(index[entry.target], entry.request)
        chosen = []
        refill, now = 1 / self._settings.patches_per_second, self._clocks.monotonic()
        started = time.perf_counter()
        for entry, node in choose(self._unschedulable, self._cycle, trial, now, left, self._name):
            if time.perf_counter() - started >= _SLICE_SECONDS:
                await asyncio.sleep(0)
                started = time.perf_counter()
            chosen.append((entry, node))
        # Only now, so that a plugin that fails on the way leaves nobody behind who counts as woken and never was.
        requeued = [(entry, node) for entry, node in chosen if entry.uid in self._unschedulable.entries]
        for entry, node in requeued:
            entry.requeue(node, now)
            self._tokens.take(refill, now)
        self._charged = {entry.uid: entry.target for entry in self._unschedulable.requeued()}
        return [entry for entry, _ in requeued]

    async def _requeue(self, chosen: list[Entry]) -> list[Entry]:
        """Patch some pods, a few at the same time; one alone after trouble. Those that were left wait again."""
        done, left = [], deque(chosen)
        while left:
            if self._patcher.paused(self._clocks.monotonic()):
                for entry in left:
                    entry.woken_at = None
                break
            some = [left.popleft() for _ in range(min(1 if self._patcher.troubled else _AT_ONCE, len(left)))]
            results = await asyncio.gather(*(self._patch(entry) for entry in some))
            done += [entry for entry, result in zip(some, results, strict=True) if result is Patched.OK]
        return done

    async def _patch(self, entry: Entry) -> Patched:
        now = self._clocks.wall()
        entry.retried = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        result = await self._patcher.patch(entry.key, entry.uid, entry.retried, self._clocks.monotonic())
        self._metrics.patches.labels(result).inc()
        match result:
            case Patched.OK:
                self._metrics.requeued.inc()
                _LOG.debug("Pod %s is tried again: node %s would take it now", entry.key, entry.target)
            case Patched.GONE | Patched.CHANGED:
                self._unschedulable.forget(entry)
            case Patched.REFUSED:
                entry.back_off(self._clocks.monotonic())
            case _:
                entry.woken_at = None
        return result
