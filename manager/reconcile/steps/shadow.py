"""Shadow mode: the account of what a node would have published, in a ConfigMap of the manager and in metrics."""

import zlib
from dataclasses import dataclass, replace
from typing import Final

from crds.colocation import DEFAULTS
from crds.shadow_accounts import StoredAccounts, name_of
from manager.calculators.mid import calculate
from manager.context import Context, Run
from manager.mid.shadow import Account, ShadowSimulation, StoredAccount
from manager.reconcile.steps.shadow_metrics import ShadowMetrics
from manager.reconcile.steps.step import ReconcileResult
from manager.shadow_store import ShadowStore

WRITE_SECONDS: Final = 600  # the account is written at most this often, once it is twice as old [s]
_FIRST_WRITE_SECONDS: Final = 60  # a young account is written each time it has doubled, but at most this often [s]
_SPREAD_SECONDS: Final = 300  # Nodes that entered shadow mode together write within this time of one another [s]


@dataclass(slots=True)
class ShadowState:
    """State of a node in shadow mode."""

    simulation: ShadowSimulation | None = None  # the simulation; `None` while the node is not in shadow mode
    node_uid: str = ""
    written_at: float | None = None  # when the account was last written [s]
    unread: bool = False  # whether the simulation began while its stored account could not be read

    def clear(self) -> None:
        """Drop it; the stored account can be read again."""
        self.simulation, self.node_uid, self.written_at, self.unread = None, "", None, False


@dataclass(frozen=True, slots=True)
class ShadowAccounts:
    """Keeps accounts of nodes in shadow mode; removes those of other nodes."""

    async def execute(self, run: Run, reconciled: ReconcileResult) -> float | None:
        """Update the account."""
        context, inputs, name = run.context, reconciled.inputs, reconciled.name
        state = context.node_state(name).state_of(ShadowState)
        if not (inputs.strategy.shadow and inputs.strategy.enabled):
            await _end(run, name, state)
            return None
        simulation = await _simulation(run, name, state)
        active = calculate(replace(inputs, strategy=replace(inputs.strategy, shadow=False)))
        stated = reconciled.effective.strategy.metric_aggregate_duration_seconds
        window = stated or DEFAULTS.metric_aggregate_duration_seconds or 0
        waits = [simulation.observe(inputs, active, window, context.steady())]
        context.metrics.of(ShadowMetrics).show(name, simulation.account, simulation.published)
        waits.append(await _write(run, name, state, simulation))
        return min((wait for wait in waits if wait is not None), default=None)

    def forget(self, context: Context, name: str) -> None:
        """Drop the metrics of a node; another replica, or a later reconciliation, reads the stored account."""
        context.metrics.of(ShadowMetrics).forget(name)
        if name in context.cluster.nodes:
            context.state_of(ShadowStore).clear()
        if name in context.node_states:
            context.node_states[name].state_of(ShadowState).clear()


async def _simulation(run: Run, name: str, state: ShadowState) -> ShadowSimulation:
    """The running simulation, else one from the stored account, else a new one."""
    context, cluster = run.context, run.context.cluster
    account = await context.state_of(ShadowStore).of(run, name)
    written = None if account is None else account.get(name)
    uid = cluster.nodes[name]["metadata"]["uid"] if name in cluster.nodes else state.node_uid
    if state.simulation is not None and state.node_uid == uid:
        found_after_all = state.unread and written is not None and written.node_uid == uid
        state.unread = state.unread and account is None
        if not found_after_all:
            return state.simulation
    stored = None
    if written is not None:
        stored = StoredAccount.of(written.account) if written.node_uid == uid else None
    now, wall = context.steady(), context.wall()
    state.clear()
    state.node_uid, state.unread = uid, account is None
    if stored is None:
        state.simulation = ShadowSimulation(Account(wall), None, now)
    else:
        state.simulation = ShadowSimulation(stored.account, stored.published, now)
        state.written_at = None if written is None else now - max(wall - stored.written_at, 0.0)
    return state.simulation


async def _write(run: Run, name: str, state: ShadowState, simulation: ShadowSimulation) -> float | None:
    """Write the account when it is due, and with it those in the same ConfigMap.

    Returns:
        In how many seconds to reconcile again, where it is due and the ConfigMap may not be written yet. [s]
    """
    context, store = run.context, run.context.state_of(ShadowStore)
    now, wall = context.steady(), context.wall()
    longest = WRITE_SECONDS + zlib.crc32(name.encode()) % _SPREAD_SECONDS
    pause = min(longest, max((wall - simulation.account.since) / 2, _FIRST_WRITE_SECONDS))
    if state.written_at is not None and now - state.written_at < pause:
        return None
    if store.forbidden(now):
        return None  # a later reconciliation finds that it may be written again
    if held_back := store.wait(name, now):
        return held_back
    same = {
        each: result.state_of(ShadowState)
        for each, result in context.node_states.items()
        if name_of(each) == name_of(name)
    }
    accounts = {
        each: StoredAccounts(result.node_uid, result.simulation.to_status(wall))
        for each, result in same.items()
        if result.simulation is not None and not result.unread
    }
    if await store.write(run, name, accounts):
        for account_node in accounts:
            same[account_node].written_at = now
    return None


async def _end(run: Run, name: str, state: ShadowState) -> None:
    state.clear()
    run.context.metrics.of(ShadowMetrics).forget(name)
    store = run.context.state_of(ShadowStore)
    if name in (await store.of(run, name) or ()):
        await store.write(run, name, {name: None})
