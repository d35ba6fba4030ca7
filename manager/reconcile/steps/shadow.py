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

    simulation: ShadowSimulation | None = None
    """What it would do; `None` while it is not in shadow mode."""
    node_uid: str = ""
    """Which Node of that name."""
    written_at: float | None = None
    """When the account was last written. [s]"""
    unread: bool = False
    """Whether it began while nobody could tell what was written of it before."""

    def clear(self) -> None:
        """Forget it; what was written can be read again."""
        self.simulation, self.node_uid, self.written_at, self.unread = None, "", None, False


@dataclass(frozen=True, slots=True)
class ShadowAccounts:
    """Accounts for nodes in shadow mode; for others it takes the account away."""

    async def execute(self, run: Run, reconciled: ReconcileResult) -> float | None:
        """Bring the account up to date."""
        context, inputs = run.context, reconciled.inputs
        memory = context.node_state(reconciled.name).state_of(ShadowState)
        if not (inputs.strategy.shadow and inputs.strategy.enabled):
            await self._end(run, reconciled.name, memory)
            return None
        simulation = await self._rehearsal(run, reconciled.name, memory)
        active = calculate(replace(inputs, strategy=replace(inputs.strategy, shadow=False)))
        stated = reconciled.effective.strategy.metric_aggregate_duration_seconds
        window = stated or DEFAULTS.metric_aggregate_duration_seconds or 0
        wait = simulation.observe(inputs, active, window, context.steady())
        context.metrics.of(ShadowMetrics).show(reconciled.name, simulation.account, simulation.offered)
        pause = await self._write(run, reconciled.name, memory, simulation)
        return min((each for each in (wait, pause) if each is not None), default=None)

    def forget(self, context: Context, name: str) -> None:
        """Show nothing more about a node; another replica, or a later look, reads what was written."""
        context.metrics.of(ShadowMetrics).forget(name)
        if name in context.cluster.nodes:
            context.state_of(ShadowStore).clear()
        if name in context.node_states:
            context.node_states[name].state_of(ShadowState).clear()

    @staticmethod
    async def _rehearsal(run: Run, name: str, memory: ShadowState) -> ShadowSimulation:
        """The one under way, else the one that was written, else a new one."""
        context = run.context
        kept = await context.state_of(ShadowStore).of(run, name)
        written = None if kept is None else kept.get(name)
        uid = context.cluster.nodes[name]["metadata"]["uid"] if name in context.cluster.nodes else memory.node_uid
        if memory.simulation is not None and memory.node_uid == uid:
            found_after_all = memory.unread and written is not None and written.node_uid == uid
            memory.unread = memory.unread and kept is None
            if not found_after_all:
                return memory.simulation
        known = context.cluster.node_metrics.get(name)
        if written is not None:
            stored = StoredAccount.of(written.account) if written.node_uid == uid else None
        else:
            stored = (
                StoredAccount.read(known.shadow)
                if known and not known.managed_fields.belongs_to_other_node(uid)
                else None
            )
        now, wall = context.steady(), context.wall()
        memory.clear()
        memory.node_uid, memory.unread = uid, kept is None
        memory.simulation = ShadowSimulation(Account(wall), None, now)
        if stored is not None:
            memory.simulation = ShadowSimulation(stored.account, stored.offered, now)
            memory.written_at = None if written is None else now - max(wall - stored.written_at, 0.0)
        return memory.simulation

    @staticmethod
    async def _write(run: Run, name: str, memory: ShadowState, simulation: ShadowSimulation) -> float | None:
        """Write the account when it is time, and with it those that are in the same ConfigMap.

        Returns:
            In how many seconds to look again, where it is time and the ConfigMap may not be written yet. [s]
        """
        context = run.context
        now, age = context.steady(), context.wall() - simulation.account.since
        longest = WRITE_SECONDS + zlib.crc32(name.encode()) % _SPREAD_SECONDS
        pause = min(longest, max(age / 2, _FIRST_WRITE_SECONDS))
        if memory.written_at is not None and now - memory.written_at < pause:
            return None
        store = context.state_of(ShadowStore)
        if store.forbidden(now):
            return None  # some look after this finds out that it may be written again
        held_back = store.wait(name, now)
        if held_back:
            return held_back
        where, wall = name_of(name), context.wall()
        same = {
            each: found.state_of(ShadowState) for each, found in context.node_states.items() if name_of(each) == where
        }
        due = {each: found for each, found in same.items() if found.simulation is not None and not found.unread}
        accounts = {
            each: Kept(found.node_uid, found.simulation.to_status(wall))
            for each, found in due.items()
            if found.simulation is not None
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
        run.context.metrics.of(ShadowMetrics).forget(name)
        store = run.context.state_of(ShadowStore)
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
    if name in run.context.cluster.node_metrics and run.context.cluster.put_written_node_metric(
        answer, run.context.steady()
    ):
        run.queue.add(name)
