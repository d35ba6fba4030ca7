"""Workloads of the cluster: Deployments and the other types with a template of pods."""

from collections.abc import Iterator
from typing import Any

from headroom import kube
from kubectl_headroom import live
from kubectl_headroom.errors import CommandError
from kubectl_headroom.targets import WORKLOADS

Json = dict[str, Any]


async def read(api: kube.ApiServer, type_: str, namespace: str, name: str) -> Json:
    """Return a workload with its kind.

    Args:
        api: the cluster.
        type_: one of `WORKLOADS`.
        namespace: of the workload.
        name: of the workload.

    Raises:
        CommandError: there is none; the message suggests names that are close.
    """
    version, kind = WORKLOADS[type_]
    path = f"/apis/{version}/namespaces/{namespace}/{type_}s"
    result = await kube.optional(api.get(f"{path}/{name}"))
    if result is not None:
        return {"apiVersion": version, "kind": kind, **result}
    names = [str(item["metadata"]["name"]) for item in await live.objects(api, path)]
    hint = live.suggestion(name, names, f"{type_}s")
    raise CommandError(f"There is no {type_} {name!r} in namespace {namespace}. {hint} {live.ELSEWHERE}")


async def pods(api: kube.ApiServer, workload: Json) -> list[Json]:
    """Return the pods that a workload selects, by name."""
    selector = ",".join(_requirements((workload.get("spec") or {}).get("selector") or {}))
    path = kube.paths.pods(str(workload["metadata"]["namespace"]))
    result = await live.objects(api, path, labelSelector=selector) if selector else []
    return sorted(result, key=lambda pod: str(pod["metadata"]["name"]))


def _requirements(selector: Json) -> Iterator[str]:
    """Yield the requirements of a LabelSelector as of kubectl's `-l`."""
    for key, value in (selector.get("matchLabels") or {}).items():
        yield f"{key}={value}"
    for part in selector.get("matchExpressions") or ():
        key, values = part["key"], ",".join(part.get("values") or ())
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        yield forms.get(part["operator"], f"!{key}")
