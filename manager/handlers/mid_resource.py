"""One look at one node: its NodeMetric is kept, its Mid resources are calculated, and the Node is patched."""

import logging
from typing import Final

from kubeapi import ApiError, paths
from manager import patches
from manager.calculators.mid import calculate, deadline
from manager.config.overlay import NodeStrategyView, overlay
from manager.context import NodeMemory, Run
from manager.facts import NodeFacts, from_objects
from manager.handlers import node_metric
from manager.reactions import REACTIONS, Look

_LOG: Final = logging.getLogger(__name__)


async def look_at(run: Run, name: str) -> None:
    """Bring everything about one node up to date, and plan when to look again.

    Raises:
        ApiError: the API server refuses a write.
        ApiUnavailable: it is away.
    """
    context, cluster = run.context, run.context.cluster
    if not run.leader.leads:
        _forget(run, name)
        return
    if name not in cluster.nodes:
        await node_metric.remove(run, name)
        _forget(run, name)
        context.memories.pop(name, None)
        run.queue.forget(name)
        return
    metadata = cluster.nodes[name]["metadata"]
    view = overlay(context.in_force.config, metadata["labels"], metadata["annotations"])
    await node_metric.keep(run, name, view)
    if not cluster.pods_synced or name not in cluster.nodes:
        return
    facts = _facts(run, name, view)
    result = calculate(facts)
    context.telemetry.show(name, result)
    memory = context.memory(name)
    offers = patches.offers(cluster.nodes[name])
    offered = any(offer.amount for offer in offers.values())
    decision = patches.decide(offers, result.desired, facts.strategy, memory.writer, context.steady())
    memory.writer = decision.memory
    if decision.writes:
        await _write(run, name, decision, memory)
    _plan(run, name, [*_deadlines(run, decision, facts), *await _react(run, Look(name, view, facts, result, offered))])


def _forget(run: Run, name: str) -> None:
    run.context.telemetry.forget(name)
    for reaction in REACTIONS:
        reaction.forget(run.context, name)


def _facts(run: Run, name: str, view: NodeStrategyView) -> NodeFacts:
    cluster, now = run.context.cluster, run.context.wall()
    known = cluster.node_metrics.get(name)
    return from_objects(
        cluster.nodes[name],
        known.report if known else None,
        cluster.pods_on(name),
        view.strategy,
        now,
        known.received.moved(now - run.context.steady()) if known else None,
    )


async def _write(run: Run, name: str, decision: patches.Decision, memory: NodeMemory) -> None:
    patch = patches.status_patch(decision.writes)
    try:
        written = await run.api.patch(paths.status(paths.node(name)), patch)
    except ApiError as error:
        if not error.not_found:
            raise
        run.context.cluster.drop_node(name)  # its deletion was not seen
        run.queue.add(name)
        return
    run.context.telemetry.writes.labels("node", "patched").inc()
    _LOG.info("Node %s: offers %s", name, _words(decision))
    memory.writer = patches.wrote(memory.writer, run.context.steady())
    run.context.cluster.put_node(written, listed=True)


def _words(decision: patches.Decision) -> str:
    return ", ".join(
        f"no {each.mid_name}" if amount is None else f"{each.mid_name} {amount}"
        for each, amount in decision.writes.items()
    )


def _deadlines(run: Run, decision: patches.Decision, facts: NodeFacts) -> list[float]:
    """When a waiting difference falls due, and when the report expires if nothing new arrives. [s from now]"""
    expires = deadline(facts)
    waits = [] if expires is None else [max(expires, 0.0) + 1.0]
    return waits if decision.look_again_at is None else [*waits, decision.look_again_at - run.context.steady()]


async def _react(run: Run, look: Look) -> list[float]:
    waits = [await reaction.react(run, look) for reaction in REACTIONS]
    return [wait for wait in waits if wait is not None]


def _plan(run: Run, name: str, waits: list[float]) -> None:
    run.queue.add_at(name, run.context.steady() + max(min(waits), 0.0) if waits else None)
