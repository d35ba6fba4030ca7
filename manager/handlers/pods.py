"""Pods: only what formulas need is kept, and many changes of one node's pods lead to one look at it.

They come from our own watch instead of kopf's. It leaves ended and unbound pods to the server, and it says when it has
listed everything again: a pod whose deletion nobody saw would otherwise be charged to its node for ever.
"""

from typing import Final

from crds.placement_shape import check_placed_pod
from kubeapi import Relisted, list_and_watch, paths
from kubeapi.unreadable import Unreadable
from manager.context import Run
from manager.facts import PodFacts
from manager.facts.reading import Json, part

SELECTOR: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Bound pods that have not ended; one that ends counts as deleted."""


async def follow(run: Run) -> None:
    """Keep the pods up to date, for ever."""
    cluster, unreadable = run.context.cluster, Unreadable("Pod", check_placed_pod)

    def read(pod: Json) -> PodFacts | None:
        uid = str(part(pod, "metadata", "uid") or "")
        return unreadable.attempt(uid, pod, PodFacts.from_object) or cluster.pod(uid)

    async for change in list_and_watch(
        run.api, paths.PODS, field_selector=SELECTOR, health=run.context.progress.pods, keep=read
    ):
        if isinstance(change, Relisted):
            first = not cluster.pods_synced
            listed = [pod for pod in change.items if pod is not None]
            touched = cluster.put_pods(listed)
            unreadable.retain({pod.uid for pod in listed})
            if first:
                run.everything_changed()
        elif change.type == "DELETED":
            touched = cluster.drop_pod(str(part(change.object, "metadata", "uid") or ""))
        else:
            pod = read(change.object)
            touched = cluster.put_pod(pod) if pod is not None else set()
        run.queue.add_all(touched)
