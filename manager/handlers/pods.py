"""Pods: only what formulas need is cached, and many changes of one node's pods lead to one reconciliation.

They come from a watch of the manager instead of kopf's. It filters ended and unbound pods on the server, and reports
each relist: a pod whose deletion was missed would otherwise be charged to its node forever.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from headroom.cluster.typed_pod import decode_pod, undecoded
from headroom.kube import Relisted, list_and_watch, paths
from headroom.kube.time_slices import in_slices
from headroom.kube.unreadable_objects import Unreadable
from headroom.runtime.garbage_collection import reset_baseline
from manager.context import Run
from manager.inputs import PodInputs
from manager.inputs.reading import Json, get_path

SELECTOR: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Bound pods that have not ended; one that ends counts as deleted."""


async def follow(run: Run) -> None:
    """Follow the pods forever."""
    unreadable = Unreadable("Pod")
    take = partial(_take, run, unreadable)
    async for change in list_and_watch(
        run.api, paths.PODS, field_selector=SELECTOR, health=run.context.progress.pods, keep=take, decode=undecoded
    ):
        if isinstance(change, Relisted):
            unreadable.retain(set(change.items))
            await _drop_others(run, change.items)
        elif change.type == "DELETED":
            _drop(run, str(get_path(change.object, "metadata", "uid") or ""))
        else:
            take(change.object)


def _take(run: Run, unreadable: Unreadable, obj: Json) -> str:
    """Cache a pod, if it can be read; the list itself keeps its uid alone."""
    uid = str(get_path(obj, "metadata", "uid") or "")
    pod = unreadable.attempt(uid, obj, lambda item: PodInputs.from_object(decode_pod(item["raw"])))
    touched = set() if pod is None else run.context.cluster.put_pod(pod)
    if run.context.cluster.pods_synced:  # before that nothing can be calculated
        run.queue.add_all(touched)
    return uid


def _drop(run: Run, uid: str) -> None:
    run.queue.add_all(run.context.cluster.drop_pod(uid))


async def _drop_others(run: Run, listed: Sequence[str]) -> None:
    """Drop the pods that are not in a list; after the first list all are known."""
    cluster = run.context.cluster
    await in_slices(cluster.pod_uids() - set(listed), partial(_drop, run), [])
    if not cluster.pods_synced:
        cluster.pods_synced = True
        reset_baseline()
        run.requeue_all()
