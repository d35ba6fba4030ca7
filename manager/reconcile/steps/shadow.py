"""Shadow mode: keeps the account of what a node would have sold, in a ConfigMap of our own and in metrics."""

import zlib
from dataclasses import dataclass, replace
from typing import Final

from crds.colocation import DEFAULTS
from crds.shadow_accounts import Kept, name_of
from headroom.kube import ApiError, paths
from manager import node_metric
from manager.calculators.mid import calculate
from manager.context import Context, Run
from manager.mid.shadow import Account, ShadowSimulation, StoredAccount
from manager.reconcile.steps.shadow_metrics import ShadowMetrics
from manager.reconcile.steps.step import ReconcileResult
from manager.shadow_store import ShadowStore

WRITE_SECONDS: Final = 600
"""The account is written at most this often, once it is twice as old. [s]"""
_FIRST_WRITE_SECONDS: Final = 60
"""A young account is written each time it has doubled, but at most this often, so that one sees it grow. [s]"""
_SPREAD_SECONDS: Final = 300
"""Nodes that entered shadow mode together write within this time of one another. [s]"""


@dataclass(slots=True)
class ShadowState:
    """What is remembered of a node in shadow mode."""

    rehearsal: ShadowSimulation | None = None
    """What it would do; `None` while it is not in shadow mode."""
    node_uid: str = ""
    """Which Node of that name."""
    written_at: float | None = None
    """When the account was last written. [s]"""
    unread: bool = False
    """Whether it began while nobody could tell what was written of it before."""

    def clear(self) -> None:
        """Forget it; what was written can be read again."""
        self.rehearsal, self.node_uid, self.written_at, self.unread = None, "", None, False


@dataclass(frozen=True, slots=True)
class ShadowAccounts:
    """Accounts for nodes in shadow mode; for others it takes the account away."""

    async def react(self, run: Run, look: ReconcileResult) -> float | None:
        """Bring the account up to date."""
        context, facts = run.context, look.facts
        memory = context.memory(look.name).part(ShadowState)
        if not (facts.strategy.shadow and facts.strategy.enabled):
            await self._end(run, look.name, memory)
            return None
        rehearsal = await self._rehearsal(run, look.name, memory)
        active = calculate(replace(facts, strategy=replace(facts.strategy, shadow=False)))
        stated = look.view.strategy.metric_aggregate_duration_seconds
        window = stated or DEFAULTS.metric_aggregate_duration_seconds or 0
        wait = rehearsal.look(facts, active, window, context.steady())
        context.telemetry.part(ShadowMetrics).show(look.name, rehearsal.account, rehearsal.offered)
        pause = await self._write(run, look.name, memory, rehearsal)
        return min((each for each in (wait, pause) if each is not None), default=None)

    def forget(self, context: Context, name: str) -> None:
        """Show nothing more about a node; another replica, or a later look, reads what was written."""
        context.telemetry.part(ShadowMetrics).forget(name)
        if name in context.cluster.nodes:
            context.part(ShadowStore).clear()
        if name in context.memories:
            context.memories[name].part(ShadowState).clear()

    @staticmethod
    async def _rehearsal(run: Run, name: str, memory: ShadowState) -> ShadowSimulation:
        """The one under way, else the one that was written, else a new one."""
        context = run.context
        kept = await context.part(ShadowStore).of(run, name)
        written = None if kept is None else kept.get(name)
        uid = context.cluster.nodes[name]["metadata"]["uid"] if name in context.cluster.nodes else memory.node_uid
        if memory.rehearsal is not None and memory.node_uid == uid:
            found_after_all = memory.unread and written is not None and written.node_uid == uid
            memory.unread = memory.unread and kept is None
            if not found_after_all:
                return memory.rehearsal
        known = context.cluster.node_metrics.get(name)
        if written is not None:
            stored = StoredAccount.of(written.account) if written.node_uid == uid else None
        else:
            stored = StoredAccount.read(known.shadow) if known and not known.kept.of_another_node(uid) else None
        now, wall = context.steady(), context.wall()
        memory.clear()
        memory.node_uid, memory.unread = uid, kept is None
        memory.rehearsal = ShadowSimulation(Account(wall), None, now)
        if stored is not None:
            memory.rehearsal = ShadowSimulation(stored.account, stored.offered, now)
            memory.written_at = None if written is None else now - max(wall - stored.written_at, 0.0)
        return memory.rehearsal

    @staticmethod
    async def _write(run: Run, name: str, memory: ShadowState, rehearsal: ShadowSimulation) -> float | None:
        """Write the account when it is time, and with it those that are in the same ConfigMap.

        Returns:
            In how many seconds to look again, where it is time and the ConfigMap may not be written yet. [s]
        """
        context = run.context
        now, age = context.steady(), context.wall() - rehearsal.account.since
        longest = WRITE_SECONDS + zlib.crc32(name.encode()) % _SPREAD_SECONDS
        pause = min(longest, max(age / 2, _FIRST_WRITE_SECONDS))
        if memory.written_at is not None and now - memory.written_at < pause:
            return None
        store = context.part(ShadowStore)
        if store.forbidden(now):
            return None  # some look after this finds out that it may be written again
        held_back = store.wait(name, now)
        if held_back:
            return held_back
        where, wall = name_of(name), context.wall()
        same = {each: found.part(ShadowState) for each, found in context.memories.items() if name_of(each) == where}
        due = {each: found for each, found in same.items() if found.rehearsal is not None and not found.unread}
        accounts = {
            each: Kept(found.node_uid, found.rehearsal.to_status(wall))
            for each, found in due.items()
            if found.rehearsal is not None
        }
        if not await store.write(run, name, accounts):
            return None
        for found in due.values():
            found.written_at = now
        await _remove_from_status(run, name)
        return None

    @staticmethod
    async def _end(run: Run, name: str, memory: ShadowState) -> None:
        memory.clear()
        run.context.telemetry.part(ShadowMetrics).forget(name)
        store = run.context.part(ShadowStore)
        if name in (await store.of(run, name) or ()):
            await store.write(run, name, {name: None})
        await _remove_from_status(run, name)


async def _remove_from_status(run: Run, name: str) -> None:
    """Take away an account that a manager of before has written to the NodeMetric."""
    known = run.context.cluster.node_metrics.get(name)
    if known is None or known.shadow is None:
        return
    try:
        answer = await run.api.patch(paths.status(node_metric.path(name)), {"status": {"shadow": None}})
    except ApiError as error:
        if not error.not_found:
            raise
        return
    if name in run.context.cluster.node_metrics and run.context.cluster.answered_node_metric(
        answer, run.context.steady()
    ):
        run.queue.add(name)
