"""NodeMetrics: one for each Node, with the spec of its strategy, deleted with it; followed by the manager's own watch.

kopf's watch would end when the definition goes, and would not notice that it comes. It is written by server-side apply
as headroom-manager; fields unknown to the cluster's definition are left out, and that is logged once.
"""

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from crds.colocation import ColocationStrategy
from headroom.kube import APPLY, ApiError, ApiUnavailable, Relisted, WatchTiming, list_and_watch, paths
from manager import node_metric
from manager.context import Run
from manager.inputs.reading import get_path
from manager.node_metric import APPLY_PARAMETERS, ManagedFields, UnknownFields, undeclared_field, without_field
from manager.write_rate_limiter import DriftCorrection

_LOG: Final = logging.getLogger(__name__)
_SOON_SECONDS: Final = 5.0  # after this long the watch has reported what exists [s]
_TIMING: Final = WatchTiming(longest_delay_seconds=5.0)
"""A definition that came back goes unnoticed for no longer than this."""

Json = dict[str, Any]


async def read(run: Run) -> str:
    """Read all NodeMetrics, and forget those that are gone; where their definition is missing there are none to read.

    Returns:
        The version for `follow` to begin with; empty when nothing could be read.
    """
    health, before = run.context.progress.node_metrics, _known(run)
    try:
        listed, version = await run.api.list(node_metric.COLLECTION, keep=partial(_take_listed, run))
    except ApiError as error:
        health.not_found = error.not_found
        if error.not_found:
            return ""
        raise
    health.synced, health.not_found = True, False
    _drop(run, before, listed)
    return version


async def follow(run: Run, since: str) -> None:
    """Follow the NodeMetrics forever.

    Cached NodeMetrics are kept while their definition is missing: an API server that starts may not know it yet. So
    the reports grow old, and each node is degraded in its time.
    """
    health, keep = run.context.progress.node_metrics, partial(_take_listed, run)
    changes = list_and_watch(run.api, node_metric.COLLECTION, health=health, timing=_TIMING, keep=keep, since=since)
    async for change in changes:
        if isinstance(change, Relisted):
            _drop(run, _known(run), change.items)
            run.requeue_all()  # without the definition no node got its NodeMetric
        else:
            observe(run, change.type, change.object)


def observe(run: Run, type_: str, obj: Json) -> None:
    """Cache a NodeMetric that changed, and requeue its node if a relevant field changed."""
    name = _name(obj)
    if type_ == "DELETED":
        run.context.cluster.drop_node_metric(name, str(get_path(obj, "metadata", "uid") or ""))
        run.queue.add(name)
    elif _take(run, name, obj, listed=False):
        run.queue.add(name)


def _name(obj: Json) -> str:
    return str(get_path(obj, "metadata", "name") or "")


def _take(run: Run, name: str, obj: Json, *, listed: bool) -> bool:
    """Cache a NodeMetric, if it can be read; whether a relevant field changed."""
    context = run.context
    put = partial(context.cluster.put_node_metric, now=context.steady(), listed=listed)
    return bool(context.unreadable_node_metrics.attempt(name, obj, put))


def _take_listed(run: Run, obj: Json) -> str:
    """Cache a listed NodeMetric; the list itself keeps its name alone."""
    name = _name(obj)
    if _take(run, name, obj, listed=True):
        run.queue.add(name)
    return name


def _known(run: Run) -> dict[str, str]:
    return {name: known.uid for name, known in run.context.cluster.node_metrics.items()}


def _drop(run: Run, before: Mapping[str, str], listed: Iterable[str]) -> None:
    """Drop those that were cached before a list and are not in it, but none that was added since."""
    for name in before.keys() - set(listed):
        run.context.cluster.drop_node_metric(name, before[name])
        run.queue.add(name)


async def ensure(run: Run, name: str, uid: str, strategy: ColocationStrategy) -> float | None:
    """Create a node's NodeMetric, or correct the fields that the manager owns: the spec and the owner.

    Returns:
        In how many seconds to reconcile again, when a correction is rate-limited. [s]
    """
    context = run.context
    cached, fields = context.cluster.node_metrics.get(name), context.state_of(UnknownFields)
    if cached is not None and cached.managed_fields.belongs_to_other_node(uid):
        if not await _is_current(run, name, uid):
            return _SOON_SECONDS  # the watch reports the newer Node in a moment
        await _delete(run, name, cached.uid)
        cached = None
    omitted = fields.below("spec", context.steady())
    wanted = node_metric.manifest(name, uid, strategy, omitted, context.cluster.workloads)
    if cached is not None and cached.managed_fields.matches(wanted):
        return None
    state = context.node_state(name)
    fingerprint = f"{cached.managed_fields if cached else None} {wanted}"
    if fingerprint == state.refused_correction:
        return None
    if wait := await _held_back(run, name, wanted):
        return wait
    applied = await apply(run, node_metric.path(name), wanted)
    if applied is None:  # there is always the owner
        return None
    state.state_of(DriftCorrection).applied(wanted, context.steady())
    context.metrics.writes.labels("nodemetric", "created" if cached is None else "patched").inc()
    if context.cluster.put_written_node_metric(applied, context.steady()):
        run.queue.add(name)
    managed = ManagedFields.from_object(applied)
    if not managed.matches(
        node_metric.manifest(name, uid, strategy, omitted | fields.paths, context.cluster.workloads)
    ):
        state.refused_correction = f"{managed} {wanted}"
        _LOG.warning("NodeMetric %s: something in the cluster changes its spec on the way: look for a webhook", name)
    return None


async def apply(run: Run, path: str, body: Json) -> Json | None:
    """Apply a part of a NodeMetric or, at its `/status`, of its status, as far as the definition knows it.

    Returns:
        The object afterwards; `None` when the definition knows none of the fields, so that nothing was applied.
    """
    fields = run.context.state_of(UnknownFields)
    while body.keys() > {"apiVersion", "kind", "metadata"} or body["metadata"].keys() > {"name"}:
        try:
            return await run.api.patch(path, body, APPLY, APPLY_PARAMETERS)
        except ApiUnavailable as error:
            unknown = undeclared_field(str(error))
            less = body if unknown is None else without_field(body, unknown)
            if unknown is None or less == body:
                raise
            body = less
            fields.add(unknown, run.context.steady())
            if unknown not in fields.logged:
                fields.logged.add(unknown)
                _LOG.warning(
                    "The cluster's NodeMetric definition has no field %s; the field is omitted: "
                    "install Headroom's (crds/node_metric.yaml) in place of another one",
                    unknown,
                )
    return None


async def _held_back(run: Run, name: str, wanted: Json) -> float:
    """Return how long a correction must wait; another writer is reported. [s]"""
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
    """Return whether the Node of this name has this uid: the cached Node may be older than its NodeMetric."""
    result, _ = await run.api.list(paths.NODES, {"fieldSelector": f"metadata.name={name}"})
    return any(node["metadata"]["name"] == name and node["metadata"].get("uid") == uid for node in result)


async def remove(run: Run, name: str, *, if_ours: bool = False) -> None:
    """Delete the NodeMetric of a node that is gone (the garbage collector may have been faster), or should have none.

    With `if_ours` only if the manager wrote it.
    """
    cached = run.context.cluster.node_metrics.get(name)
    if cached is not None and (cached.managed_fields.written_by_manager or not if_ours):
        await _delete(run, name, cached.uid)


async def _delete(run: Run, name: str, uid: str) -> None:
    try:
        await run.api.delete(node_metric.path(name), {"preconditions": {"uid": uid}})
        run.context.metrics.writes.labels("nodemetric", "deleted").inc()
    except ApiError as error:
        if not (error.not_found or error.conflict):
            raise
    run.context.cluster.drop_node_metric(name, uid)
