"""NodeMetrics: one for each Node, with the spec that its strategy asks for, gone with it."""

import json
import logging
from typing import Any, Final

import kopf

from crds.node_metric import GROUP, PLURAL, VERSION
from kubeapi import ApiError
from manager import node_metric
from manager.config.overlay import NodeStrategyView
from manager.context import Run

_LOG: Final = logging.getLogger(__name__)


def register(registry: kopf.OperatorRegistry, run: Run) -> None:
    """Tell kopf what to do when a NodeMetric changes."""

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def node_metric_event(event: kopf.RawEvent, **_: Any) -> None:  # noqa: ANN401
        observe(run, str(event["type"]), dict(event["object"]))


def observe(run: Run, type_: str, obj: dict[str, Any]) -> None:
    """Remember a NodeMetric that changed, and have its node looked at if that matters."""
    name = str(obj["metadata"]["name"])
    cluster = run.context.cluster
    if type_ == "DELETED":
        cluster.drop_node_metric(name)
        run.queue.add(name)
    elif cluster.put_node_metric(obj, run.context.steady()):
        run.queue.add(name)


async def keep(run: Run, name: str, view: NodeStrategyView) -> None:
    """Create a node's NodeMetric, or correct its spec and owner.

    Raises:
        ApiError: the API server refuses.
        ApiUnavailable: it is away.
    """
    context = run.context
    uid = context.cluster.nodes[name]["metadata"]["uid"]
    known = context.cluster.node_metrics.get(name)
    if known is None:
        created = await _create(run, node_metric.manifest(name, uid, view.strategy))
        context.cluster.put_node_metric(created, context.steady(), listed=True)
        return
    patch = node_metric.correction({"metadata": known.metadata, "spec": known.spec}, name, uid, view.strategy)
    memory = context.memory(name)
    fingerprint = json.dumps(patch, sort_keys=True) if patch else ""
    if patch is None or fingerprint == memory.refused_correction:
        return
    patched = await run.api.patch(node_metric.path(name), patch)
    context.telemetry.writes.labels("nodemetric", "patched").inc()
    context.cluster.put_node_metric(patched, context.steady(), listed=True)
    if node_metric.correction(patched, name, uid, view.strategy) is not None:
        memory.refused_correction = fingerprint
        _LOG.warning(
            "NodeMetric %s: the API server drops part of its spec: install Headroom's CRD in place of another one", name
        )


async def _create(run: Run, manifest: dict[str, Any]) -> dict[str, Any]:
    try:
        created = await run.api.create(node_metric.COLLECTION, manifest)
    except ApiError as error:
        if not error.conflict:
            raise
        return await run.api.get(node_metric.path(manifest["metadata"]["name"]))
    run.context.telemetry.writes.labels("nodemetric", "created").inc()
    return created


async def remove(run: Run, name: str) -> None:
    """Delete the NodeMetric of a node that is gone; the garbage collector may have been faster.

    Raises:
        ApiError: the API server refuses.
        ApiUnavailable: it is away.
    """
    known = run.context.cluster.node_metrics.get(name)
    if known is None:
        return
    try:
        await run.api.delete(node_metric.path(name), {"preconditions": {"uid": known.uid}})
        run.context.telemetry.writes.labels("nodemetric", "deleted").inc()
    except ApiError as error:
        if not (error.not_found or error.conflict):
            raise
    run.context.cluster.drop_node_metric(name)
