"""One look at one node: its NodeMetric is kept, its Mid resources are calculated, and the Node is patched."""

import logging
from typing import Final

from kubeapi import ApiError, paths
from manager import patches
from manager.calculators.base import Result
from manager.calculators.mid import calculate, deadline
from manager.config.overlay import NodeStrategyView, overlay
from manager.context import NodeMemory, Run
from manager.facts import NodeFacts, from_objects
from manager.handlers import node_metric

_LOG: Final = logging.getLogger(__name__)


async def look_at(run: Run, name: str) -> None:
    """Bring everything about one node up to date, and plan when to look again.

    Raises:
        ApiError: the API server refuses a write.
        ApiUnavailable: it is away.
    """
    context, cluster = run.context, run.context.cluster
    if not run.leader.leads:
        context.telemetry.forget(name)
        return
    if name not in cluster.nodes:
        await node_metric.remove(run, name)
        context.memories.pop(name, None)
        context.telemetry.forget(name)
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
    if memory.degraded is None and any(offer.amount for offer in offers.values()):
        memory.degraded = ""  # an earlier run, or another replica, found that something may be sold
    decision = patches.decide(offers, result.desired, facts.strategy, memory.writer, context.steady())
    memory.writer = decision.memory
    if decision.writes:
        await _write(run, name, decision, memory)
    _plan(run, name, decision, facts)
    await _tell(run, name, memory, result, view)


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


def _plan(run: Run, name: str, decision: patches.Decision, facts: NodeFacts) -> None:
    """Look again when a waiting difference falls due, or when the report expires if nothing new arrives."""
    expires = deadline(facts)
    waits = [
        *([] if expires is None else [max(expires, 0.0) + 1.0]),
        *([] if decision.look_again_at is None else [decision.look_again_at - run.context.steady()]),
    ]
    run.queue.add_at(name, run.context.steady() + max(min(waits), 0.0) if waits else None)


async def _tell(run: Run, name: str, memory: NodeMemory, result: Result, view: NodeStrategyView) -> None:
    """Events on the Node, once for each change of state."""
    reason = result.degraded.reason if result.degraded else ""
    before, memory.degraded = memory.degraded, reason
    if result.degraded and before == "":
        memory.told_degraded = True
        wanted = result.degraded.reason == "ColocationDisabled"
        kind, what = ("Normal", "MidDisabled") if wanted else ("Warning", "DegradedMid")
        await _event(run, name, kind, what, result.degraded.message)
    elif not reason and memory.told_degraded:
        memory.told_degraded = False
        await _event(run, name, "Normal", "MidRestored", "Mid resources are calculated again")
    if result.deficit and not memory.told_deficit:
        note = (
            f"running Mid pods requested {result.requested.cpu}m CPU and {result.requested.memory} bytes, "
            f"but only {result.calculated.cpu}m and {result.calculated.memory} may be sold"
        )
        await _event(run, name, "Warning", "MidDeficit", note)
    memory.told_deficit = bool(result.deficit)
    findings = tuple(str(each) for each in view.findings)
    if findings and findings != memory.told_findings:
        await _event(run, name, "Warning", "NodeStrategyInvalid", "; ".join(findings))
    memory.told_findings = findings


async def _event(run: Run, name: str, type_: str, reason: str, note: str) -> None:
    node = run.context.cluster.nodes.get(name)
    uid = node["metadata"]["uid"] if node else ""
    regarding = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    await run.events.record(regarding, type_, reason, "PublishMid", note)
