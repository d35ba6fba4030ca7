"""Writes holds onto pods before their victims are evicted."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from crds import names
from headroom.kube import STRATEGIC_MERGE_PATCH, ApiError, ApiServer, optional, paths
from headroom.kube.server_clock import micro_time
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.pod import QuotaPod

_ATTEMPTS: Final = 3
_SECONDS: Final = "%Y-%m-%dT%H:%M:%SZ"

Json = Mapping[str, Any]


async def write(api: ApiServer, pod: QuotaPod, hold: Hold | None, now: float, *, nominate: bool) -> Json | None:
    """Write a hold onto a pod, or remove it, unless the pod has changed.

    kube-scheduler records at every attempt why a pod waits. That alone changes nothing: the write is repeated.

    Returns:
        The pod after the write; None when it has changed or is gone.
    """
    condition: dict[str, Any] = {"type": names.CONDITION_RESERVED, "$patch": "delete"}
    if hold is not None:
        condition = {**hold.condition, "lastTransitionTime": datetime.fromtimestamp(now, UTC).strftime(_SECONDS)}
    annotations = hold.annotations if hold is not None else {names.ANNOTATION_RECLAIM_HOLD: None}
    node = hold.node if hold is not None and nominate else None
    status = {"nominatedNodeName": node, "conditions": [condition]}
    version = _version(pod.json or {})
    for _ in range(_ATTEMPTS):
        metadata = {"uid": pod.uid, "resourceVersion": version, "annotations": annotations}
        written = await _patch(api, pod, {"metadata": metadata, "status": status})
        if written is not None:
            return written
        result = await waiting(api, pod)
        if result is None or _version(result) == version:
            return None
        if ((result.get("status") or {}).get("nominatedNodeName") or "") != pod.nominated:
            return None
        version = _version(result)
    return None


async def waiting(api: ApiServer, pod: QuotaPod) -> Json | None:
    """Return the present pod, if it still waits with the same hold."""
    result = await optional(api.get(paths.pod(pod.namespace, pod.name)))
    if result is None:
        return None
    metadata, spec = result.get("metadata") or {}, result.get("spec") or {}
    if metadata.get("uid") != pod.uid or metadata.get("deletionTimestamp") or spec.get("nodeName"):
        return None
    return result if Hold.of_pod(result) == pod.hold else None


def _version(pod: Json) -> str:
    return str((pod.get("metadata") or {}).get("resourceVersion") or "")


def take(cluster: QuotaCluster, written: Json) -> None:
    """Record the result of a write to a pod, unless the watch has a newer one, or that the pod is gone."""
    cached = cluster.pods.get(str(written["metadata"].get("uid")))
    if cached is None or cached.node or cached.json is None:
        return
    old, new = _version(cached.json), _version(written)
    if old.isdecimal() and new.isdecimal() and int(new) > int(old):  # Kubernetes has them grow
        cluster.put_pod(written)


async def requeue(api: ApiServer, pod: QuotaPod, node: str, now: float) -> Json | None:
    """Have kube-scheduler try a pod with free reserved resources again, and nominate it to its node again."""
    metadata = {"uid": pod.uid, "annotations": {names.ANNOTATION_SCHEDULING_RETRY: micro_time(now)}}
    return await _patch(api, pod, {"metadata": metadata, "status": {"nominatedNodeName": node}})


async def _patch(api: ApiServer, pod: QuotaPod, body: dict[str, Any]) -> Json | None:
    try:
        # By the subresource, which takes annotations, too: the right to patch pods themselves would be the right to
        # run any image in another user's pod.
        result: Json = await api.patch(paths.status(paths.pod(pod.namespace, pod.name)), body, STRATEGIC_MERGE_PATCH)
    except ApiError as error:
        if error.not_found or error.conflict or error.other_uid:
            return None
        raise
    return result
