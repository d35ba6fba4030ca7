"""Reconciles one node: its NodeMetric is applied, its Mid resources are calculated, and the Node is patched."""

import logging
import math
from dataclasses import dataclass, replace
from typing import Final

from crds.names import CONDITION_MID_PUBLISHED
from headroom.kube import ApiError, ApiUnavailable, paths
from headroom.kube.lease import NotLeading
from manager.calculators.mid import calculate, deadline
from manager.config.merge import EffectiveStrategy, effective_strategy
from manager.context import NodeState, Run
from manager.handlers import node_metric
from manager.inputs import NodeInputs, StrategyInputs, from_objects
from manager.mid import publish
from manager.mid.pod_limits import PodLimits
from manager.reconcile.steps import POST_RECONCILE_STEPS, ReconcileResult
from manager.write_rate_limiter import WriteKind, WriteRateLimiter

_LOG: Final = logging.getLogger(__name__)


async def reconcile(run: Run, name: str) -> None:
    """Reconcile one node, and requeue it for its next deadline.

    Mid resources are published first. When another part fails, such as a write to the NodeMetric that a webhook
    refuses, the rest happens all the same, and then the first failure is raised.
    """
    context, cluster = run.context, run.context.cluster
    if run.leader.is_standby:
        _become_standby(run, name)
        return
    if not run.leader.is_leader:
        raise NotLeading("this replica does not know whether it leads")
    _begin_term(run, name)
    if name not in cluster.nodes:
        await node_metric.remove(run, name)
        _drop(run, name)
        return
    metadata = cluster.nodes[name]["metadata"]
    _check_identity(run, name, metadata["uid"])
    effective = effective_strategy(context.in_force.config, metadata["labels"], metadata["annotations"])
    excluded = context.settings.exclude_nodes.excludes(metadata["labels"])
    undefined = context.progress.node_metrics.not_found  # without its definition no NodeMetric can be written
    _resync_within(run, name, StrategyInputs.of(effective.strategy).degrade_seconds)
    failures = _Failures(but_not_found=undefined)
    reconciled, waits = None, list[float]()
    if cluster.pods_synced:
        with failures:
            reconciled, waits = await _publish(run, name, effective, excluded=excluded)
    with failures:
        if excluded:
            await node_metric.remove(run, name, if_ours=True)
        elif name in cluster.nodes and not undefined:
            wait = await node_metric.ensure(run, name, metadata["uid"], effective.strategy)
            waits += [] if wait is None else [wait]
    if reconciled is not None:
        for step in POST_RECONCILE_STEPS:
            with failures:
                wait = await step.execute(run, reconciled)
                waits += [] if wait is None else [wait]
        _requeue_after(run, name, waits)
    failures.raise_first()


@dataclass(slots=True)
class _Identity:
    """Which Node of a name a state belongs to."""

    uid: str = ""


def _check_identity(run: Run, name: str, uid: str) -> None:
    """Drop the state of a Node of the same name that was deleted and recreated."""
    identity = run.context.node_state(name).state_of(_Identity)
    if identity.uid not in ("", uid):
        _forget(run, name)
        del run.context.node_states[name]
    run.context.node_state(name).state_of(_Identity).uid = uid


class _Failures:
    """Collects failures, so that the parts after a failed one run."""

    def __init__(self, *, but_not_found: bool) -> None:
        self._but_not_found = but_not_found
        self._found: list[ApiError | ApiUnavailable] = []

    def __enter__(self) -> None:
        """Begin a part that may fail."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        """End it; whether an error was collected."""
        if isinstance(error, ApiError | ApiUnavailable):
            if not (self._but_not_found and isinstance(error, ApiError) and error.not_found):
                self._found.append(error)
            return True
        return False

    def raise_first(self) -> None:
        """Raise the first failure, if any; the others follow from it, or occur again."""
        if self._found:
            raise self._found[0]


async def _publish(
    run: Run, name: str, effective: EffectiveStrategy, *, excluded: bool
) -> tuple[ReconcileResult, list[float]]:
    """Calculate Mid resources and patch the Node; the result, and in how many seconds to reconcile again."""
    context, cluster = run.context, run.context.cluster
    if excluded:
        effective = replace(effective, strategy=replace(effective.strategy, enable=False))
    inputs = _facts(run, name, effective)
    result = calculate(inputs)
    if excluded:
        result = context.settings.exclude_nodes.excluded_result(result, cluster.nodes[name]["metadata"]["labels"])
    limits = PodLimits.of(cluster.pods_on(name), inputs.report.pod_usage if inputs.report else {})
    context.metrics.show(name, result, limits)
    state = context.node_state(name)
    published = publish.published_amounts(cluster.nodes[name])
    published_before = any(amount.amount for amount in published.values())
    if state.publish_state == publish.PublishState():
        state.publish_state = publish.PublishState(withdrawn=_withdrawn(run, name))
    decision = publish.decide(
        published,
        result.desired,
        inputs.strategy,
        state.publish_state,
        context.steady(),
        result.requested,
        expired=result.expired,
    )
    state.publish_state = decision.state
    waits = _deadlines(run, decision, inputs)
    if decision.writes:
        held_back = await _held_back(run, name, decision, state.state_of(WriteRateLimiter))
        if held_back:
            waits.append(held_back)
        else:
            await _write(run, name, decision, state)
    return ReconcileResult(name, effective, inputs, result, published_before, limits), waits


def _withdrawn(run: Run, name: str) -> bool:
    """Return whether an earlier run, or another replica, removed the resources because reports expired."""
    cached = run.context.cluster.node_metrics.get(name)
    published = cached.conditions.get(CONDITION_MID_PUBLISHED) if cached else None
    return published is not None and publish.was_withdrawn(published.reason)


def _become_standby(run: Run, name: str) -> None:
    """Another replica leads: increases have not been observed to hold, and a node that is gone leaves nothing."""
    _forget(run, name)
    if name in run.context.cluster.nodes:
        run.context.node_state(name).publish_state = publish.PublishState()
    else:
        _drop(run, name)


def _begin_term(run: Run, name: str) -> None:
    """Drop observations from before another replica led, even if that went unnoticed."""
    state = run.context.node_state(name)
    if state.term != run.leader.term:
        if state.term:
            _become_standby(run, name)
        run.context.node_state(name).term = run.leader.term
    _resync_within(run, name, math.inf)


def _resync_within(run: Run, name: str, degrade_seconds: float) -> None:
    wait = min(degrade_seconds / 2, run.context.settings.timing.resync_seconds)
    run.context.node_state(name).resync_at = run.context.steady() + wait


def _drop(run: Run, name: str) -> None:
    """Drop the state of a node that is gone; a new Node of its name is in the queue, and stays."""
    _forget(run, name)
    run.context.node_states.pop(name, None)
    run.queue.add_at(name, None)


def _forget(run: Run, name: str) -> None:
    run.context.metrics.forget(name)
    for step in POST_RECONCILE_STEPS:
        step.forget(run.context, name)


def _facts(run: Run, name: str, effective: EffectiveStrategy) -> NodeInputs:
    cluster, now = run.context.cluster, run.context.wall()
    cached = cluster.node_metrics.get(name)
    if cached is not None and cached.managed_fields.belongs_to_other_node(cluster.nodes[name]["metadata"]["uid"]):
        cached = None  # it reports about a deleted machine
    return from_objects(
        cluster.nodes[name],
        cached.report if cached else None,
        cluster.pods_on(name),
        effective.strategy,
        now,
        cached.observed_at.shifted(now - run.context.steady()) if cached else None,
    )


async def _held_back(run: Run, name: str, decision: publish.Decision, limiter: WriteRateLimiter) -> float:
    """Return how long a write must wait because there were many; another writer of the amounts is reported. [s]"""
    timing = run.context.settings.timing
    wait = limiter.wait(decision.writes, timing.write_burst, timing.write_refill_seconds, run.context.steady())
    contested = wait > 0 and limiter.write_kind(decision.writes) is WriteKind.REPEAT
    if wait:
        run.context.metrics.writes.labels("node", "delayed").inc()
    if contested and not limiter.reported:
        note = (
            f"another writer changes the Mid resources of this Node; they are corrected ({_described(decision)}) only "
            f"every {timing.write_refill_seconds:.0f} s. Is another manager running?"
        )
        _LOG.warning("Node %s: %s", name, note)
        await run.record(name, "Warning", "MidContested", "PublishMid", note)
    limiter.reported = contested or (
        limiter.reported and not limiter.tokens.rested(timing.write_refill_seconds, run.context.steady())
    )
    return wait


async def _write(run: Run, name: str, decision: publish.Decision, state: NodeState) -> None:
    patch = publish.status_patch(decision.writes)
    try:
        written = await run.api.patch(paths.status(paths.node(name)), patch)
    except ApiError as error:
        if not error.not_found:
            raise
        run.context.cluster.drop_node(name, state.state_of(_Identity).uid)  # its deletion was not observed
        run.queue.add(name)
        return
    run.context.metrics.writes.labels("node", "patched").inc()
    _LOG.info("Node %s: published %s", name, _described(decision))
    state.publish_state = publish.state_after_writes(decision, run.context.steady())
    timing = run.context.settings.timing
    state.state_of(WriteRateLimiter).record(decision.writes, timing.write_refill_seconds, run.context.steady())
    # A Node whose deletion was observed before the response is not restored.
    if name in run.context.cluster.nodes and run.context.cluster.put_written_node(written):
        run.queue.add(name)


def _described(decision: publish.Decision) -> str:
    return ", ".join(
        f"no {each.mid_name}" if amount is None else f"{each.mid_name} {amount}"
        for each, amount in decision.writes.items()
    )


def _deadlines(run: Run, decision: publish.Decision, inputs: NodeInputs) -> list[float]:
    """Return when a pending difference falls due, and when the report expires if no new one arrives. [s from now]"""
    expires = deadline(inputs)
    waits = [] if expires is None else [max(expires, 0.0) + 1.0]
    return waits if decision.requeue_at is None else [*waits, decision.requeue_at - run.context.steady()]


def _requeue_after(run: Run, name: str, waits: list[float]) -> None:
    run.queue.add_at(name, run.context.steady() + max(min(waits), 0.0) if waits else None)
