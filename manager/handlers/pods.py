"""Pods: only what formulas need is kept, and many changes of one node's pods lead to one look at it.

They come from our own watch instead of kopf's. It leaves ended and unbound pods to the server, and it says when it has
listed everything again: a pod whose deletion nobody saw would otherwise be charged to its node for ever.
"""

from typing import Final

from kubeapi import Relisted, list_and_watch, paths
from manager.context import Run
from manager.facts import PodFacts

SELECTOR: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Bound pods that have not ended; one that ends counts as deleted."""


async def follow(run: Run) -> None:
    """Keep the pods up to date, for ever."""
    cluster = run.context.cluster
    async for change in list_and_watch(
        run.api, paths.PODS, field_selector=SELECTOR, health=run.context.progress.pods, keep=PodFacts.from_object
    ):
        if isinstance(change, Relisted):
            first = not cluster.pods_synced
            touched = cluster.put_pods(change.items)
            if first:
                run.everything_changed()
        elif change.type == "DELETED":
            touched = cluster.drop_pod(str(change.object["metadata"]["uid"]))
        else:
            touched = cluster.put_pod(PodFacts.from_object(change.object))
        run.queue.add_all(touched)
