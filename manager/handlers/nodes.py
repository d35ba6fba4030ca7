"""Nodes: watched, never annotated, never finalized."""

from typing import Any

import kopf

from manager.context import Run
from manager.inputs.reading import get_path


def register(registry: kopf.OperatorRegistry, run: Run) -> None:
    """Register the handler of Node events. Only `on.event`: everything else in kopf would write to Nodes."""

    @kopf.on.event("v1", "nodes", registry=registry)
    async def node_event(event: kopf.RawEvent, **_: Any) -> None:  # noqa: ANN401
        observe(run, str(event["type"]), dict(event["object"]))


def observe(run: Run, type_: str, obj: dict[str, Any]) -> None:
    """Cache a Node that changed, and requeue it if a relevant field changed."""
    name = str(get_path(obj, "metadata", "name") or "")
    cluster = run.context.cluster
    if type_ == "DELETED":
        cluster.drop_node(name, str(get_path(obj, "metadata", "uid") or ""))
        run.queue.add(name)
    elif run.context.unreadable_nodes.attempt(name, obj, cluster.put_node):
        run.queue.add(name)
