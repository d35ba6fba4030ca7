"""Reads what there is to take away; of large objects only what matters is kept."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any, Final

from crds.names import LAST_GOOD_NAME
from crds.shadow_accounts import NAMES
from headroom import kube
from headroom.cli import live
from headroom.cli.uninstall import plan as uninstall_plan
from headroom.cli.uninstall import services
from headroom.cli.uninstall.plan import Asked, Change, Found, Maker, OfferingNode
from manager.inputs import PodInputs

_WORKLOADS: Final = {
    "/apis/apps/v1/deployments": "Deployment",
    "/apis/apps/v1/statefulsets": "StatefulSet",
    "/apis/apps/v1/daemonsets": "DaemonSet",
    "/apis/apps/v1/replicasets": "ReplicaSet",
    "/apis/batch/v1/jobs": "Job",
    "/apis/batch/v1/cronjobs": "CronJob",
}
"""What makes pods, also later: one that is scaled to nothing, or waits for its time."""
_WAITING: Final = "spec.nodeName=,status.phase=Pending"
_BOUND: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


async def find(api: kube.ApiServer, namespace: str, config_name: str, asked: Asked) -> Found:
    """Read what there is.

    Args:
        api: the cluster.
        namespace: Headroom's.
        config_name: the user's colocation ConfigMap.
        asked: what the user asks for.
    """
    scheduler = await live.optional(api, services.scheduler(None).deployment_path(namespace))
    (
        nodes,
        metrics,
        pods,
        config_map,
        last_good,
        secret,
        lease,
        test_pod,
        scheduler_lease,
        classes,
        makers,
        shadow,
    ) = await live.together(
        _kept(api, kube.paths.NODES, uninstall_plan.offering),
        _metrics(api),
        mid_pods(api),
        live.optional(api, kube.paths.config_map(namespace, config_name)),
        live.optional(api, kube.paths.config_map(namespace, LAST_GOOD_NAME)),
        live.optional(api, uninstall_plan.secret_path(namespace)),
        live.optional(api, services.MANAGER.lease_path(namespace)),
        live.optional(api, kube.paths.pod(namespace, uninstall_plan.TEST_POD)),
        live.optional(api, services.scheduler(scheduler).lease_path(namespace)),
        _classes(api, asked),
        _makers(api),
        live.together(*(live.optional(api, kube.paths.config_map(namespace, name)) for name in NAMES)),
    )
    ours = [each for each in metrics if each is not None]
    return Found(
        namespace,
        nodes,
        ours,
        len(metrics) - len(ours),
        pods,
        config_map,
        last_good,
        {name: each for name, each in zip(NAMES, shadow, strict=True) if each is not None},
        secret,
        lease,
        test_pod,
        scheduler,
        scheduler_lease,
        classes,
        await _class_names(api, makers) if classes else {},
        makers,
    )


async def offering_nodes(api: kube.ApiServer) -> list[OfferingNode]:
    """The Nodes that have Mid resources."""
    return await _kept(api, kube.paths.NODES, uninstall_plan.offering)


async def mid_pods(api: kube.ApiServer) -> list[PodInputs]:
    """Bound Mid pods that have not ended."""
    return await _kept(api, kube.paths.PODS, uninstall_plan.mid_pod, fieldSelector=_BOUND)


async def _kept(api: kube.ApiServer, path: str, keep: Callable[[Any], Any], **params: str) -> list[Any]:
    found, _ = await api.list(path, params, keep)
    return [each for each in found if each is not None]


async def _metrics(api: kube.ApiServer) -> list[Change | None]:
    try:
        found, _ = await api.list(live.NODE_METRICS, None, uninstall_plan.deletion_of_metric)
    except kube.ApiError as error:
        if error.not_found:  # the definition is gone, and every NodeMetric with it
            return []
        raise
    return found


async def _classes(api: kube.ApiServer, asked: Asked) -> list[Mapping[str, Any]]:
    if not asked.delete_priority_classes:
        return []
    paths = map(uninstall_plan.priority_class_path, uninstall_plan.PRIORITY_CLASSES)
    found = await live.together(*(live.optional(api, path) for path in paths))
    return [each for each in found if each is not None]


async def _class_names(api: kube.ApiServer, makers: Iterable[Maker]) -> Mapping[str, int]:
    """How many pods, also such that wait or have ended, and workloads name each PriorityClass."""
    pods = await _kept(api, kube.paths.PODS, lambda pod: (pod.get("spec") or {}).get("priorityClassName") or None)
    return Counter([*pods, *(each.priority_class for each in makers if each.priority_class)])


async def _makers(api: kube.ApiServer) -> list[Maker]:
    """Workloads, and waiting pods that no workload made."""
    found = await live.together(
        _kept(api, kube.paths.PODS, partial(_maker, "Pod"), fieldSelector=_WAITING),
        *(_kept(api, path, partial(_maker, kind)) for path, kind in _WORKLOADS.items()),
    )
    return [each for each in chain.from_iterable(found) if each.priority_class or each.scheduler]


def _maker(kind: str, obj: Mapping[str, Any]) -> Maker | None:
    """What an object makes by itself: not as an old revision, or a run, of another."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    if any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
        return None
    template = (spec.get("jobTemplate") or {}).get("spec") or spec
    pod = spec if kind == "Pod" else (template.get("template") or {}).get("spec") or {}
    name = f"{kind} {metadata.get('namespace', '')}/{metadata['name']}"
    return Maker(name, pod.get("priorityClassName") or "", pod.get("schedulerName") or "")
