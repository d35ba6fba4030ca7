"""NodeMetrics: one for each Node, with the spec of its strategy, deleted with it."""

import logging
from functools import partial
from typing import Any, Final

from crds.colocation import ColocationStrategy
from headroom.kube import JSON_PATCH, ApiError, paths
from manager import node_metric
from manager.context import Run
from manager.definition import DefinitionFields
from manager.inputs.reading import get_path
from manager.node_metric import ManagedFields
from manager.server_side_apply import apply
from manager.write_rate_limiter import DriftCorrection

_LOG: Final = logging.getLogger(__name__)
_SOON_SECONDS: Final = 5.0
"""After this long the watch has reported what exists. [s]"""


def observe(run: Run, type_: str, obj: dict[str, Any]) -> None:
    """Cache a NodeMetric that changed, and requeue its node if a relevant field changed."""
    name = str(get_path(obj, "metadata", "name") or "")
    cluster = run.context.cluster
    if type_ == "DELETED":
        cluster.drop_node_metric(name, str(get_path(obj, "metadata", "uid") or ""))
        run.queue.add(name)
    elif take(run, name, obj, listed=False):
        run.queue.add(name)


def take(run: Run, name: str, obj: dict[str, Any], *, listed: bool) -> bool:
    """Cache a NodeMetric, if it can be read; whether a relevant field changed."""
    context = run.context
    put = partial(context.cluster.put_node_metric, now=context.steady(), listed=listed)
    return bool(context.unreadable_node_metrics.attempt(name, obj, put))


async def ensure(run: Run, name: str, uid: str, strategy: ColocationStrategy) -> float | None:
    """Create a node's NodeMetric, or correct the fields that the manager owns: the spec and the owner.

    Args:
        run: the run.
        name: name of the Node.
        uid: which Node of that name.
        strategy: the node's strategy.

    Returns:
        In how many seconds to reconcile again, when a correction is rate-limited. [s]

    Raises:
        ApiError: the API server refuses.
        ApiUnavailable: the API server is unavailable.
    """
    context = run.context
    known = context.cluster.node_metrics.get(name)
    if known is not None and known.managed_fields.belongs_to_other_node(uid):
        if not await _is_current(run, name, uid):
            return _SOON_SECONDS  # the watch reports the newer Node in a moment
        await _delete(run, name, known.uid)
        known = None
    omitted = context.state_of(DefinitionFields).omitted("spec", context.steady())
    wanted = node_metric.manifest(name, uid, strategy, omitted)
    if known is not None and known.managed_fields.matches(wanted):
        return None
    memory = context.node_state(name)
    fingerprint = f"{known.managed_fields if known else None} {wanted}"
    if fingerprint == memory.refused_correction:
        return None
    wait = await _held_back(run, name, wanted)
    if wait:
        return wait
    if known is not None and known.managed_fields.has_update_entry:
        await _take_over(run, name)
    applied = await apply(run, node_metric.path(name), wanted)
    if applied is None:  # there is always the owner
        return None
    memory.state_of(DriftCorrection).applied(wanted, context.steady())
    context.metrics.writes.labels("nodemetric", "created" if known is None else "patched").inc()
    if context.cluster.put_written_node_metric(applied, context.steady()):
        run.queue.add(name)
    kept = ManagedFields.from_object(applied)
    omitted = omitted | context.state_of(DefinitionFields).unknown
    if not kept.matches(node_metric.manifest(name, uid, strategy, omitted)):
        memory.refused_correction = f"{kept} {wanted}"
        _LOG.warning("NodeMetric %s: something in the cluster changes its spec on the way: look for a webhook", name)
    return None


async def _held_back(run: Run, name: str, wanted: dict[str, Any]) -> float:
    """How long a correction must wait; another writer is reported. [s]"""
    drift = run.context.node_state(name).state_of(DriftCorrection)
    wait = drift.wait(wanted, run.context.steady())
    if wait and not drift.reported:
        drift.reported = True
        note = (
            "another writer changes the spec of this node's NodeMetric: it is corrected only once a minute now. "
            "Is another manager, such as Koordinator's, running?"
        )
        _LOG.warning("Node %s: %s", name, note)
        await run.record(name, "Warning", "NodeMetricContested", "Measure", note)
    return wait


async def _is_current(run: Run, name: str, uid: str) -> bool:
    """Whether the Node of this uid is the one of that name: what is known of it may be older than its NodeMetric."""
    found, _ = await run.api.list(paths.NODES, {"fieldSelector": f"metadata.name={name}"})
    return any(node["metadata"]["name"] == name and node["metadata"].get("uid") == uid for node in found)


async def _take_over(run: Run, name: str) -> None:
    """Migrate `managedFields` of an earlier version to apply."""
    path = node_metric.path(name)
    metadata = (await run.api.get(path))["metadata"]
    fields = node_metric.migrate_managed_fields(metadata.get("managedFields") or ())
    values = {"/metadata/managedFields": fields, "/metadata/resourceVersion": metadata["resourceVersion"]}
    operations = [{"op": "replace", "path": where, "value": value} for where, value in values.items()]
    await run.api.patch(path, operations, JSON_PATCH)


async def remove(run: Run, name: str) -> None:
    """Delete the NodeMetric of a node that is gone; the garbage collector may have been faster.

    Raises:
        ApiError: the API server refuses.
        ApiUnavailable: the API server is unavailable.
    """
    known = run.context.cluster.node_metrics.get(name)
    if known is not None:
        await _delete(run, name, known.uid)


async def remove_ours(run: Run, name: str) -> None:
    """Delete the NodeMetric of a node that should have none, if the manager wrote it.

    Raises:
        ApiError: the API server refuses.
        ApiUnavailable: the API server is unavailable.
    """
    known = run.context.cluster.node_metrics.get(name)
    if known is not None and known.managed_fields.written_by_manager:
        await _delete(run, name, known.uid)


async def _delete(run: Run, name: str, uid: str) -> None:
    try:
        await run.api.delete(node_metric.path(name), {"preconditions": {"uid": uid}})
        run.context.metrics.writes.labels("nodemetric", "deleted").inc()
    except ApiError as error:
        if not (error.not_found or error.conflict):
            raise
    run.context.cluster.drop_node_metric(name, uid)
