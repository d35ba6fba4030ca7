"""A cluster with two teams on one node of ten GPUs, as in the first story of capacity scheduling."""

from collections.abc import Mapping
from typing import Any, Final, cast

from headroom.kube import ApiServer
from kubectl_headroom import arguments
from kubectl_headroom.pod.command import pod as explain
from kubectl_headroom.quota import command
from kubectl_headroom.quota.reading import Place
from kubectl_headroom.simulate import profile
from tests.scheduler_plugins.objects import NOW, Json, at, node, pod
from tests.support.api import FakeApi

GPU: Final = "nvidia.com/gpu"
QUOTAS: Final = "/apis/scheduling.x-k8s.io/v1alpha1/elasticquotas"
CONFIG_MAP: Final = "/api/v1/namespaces/headroom-system/configmaps/headroom-scheduler"
REFUSED: Final[Json] = {
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": at(-1)}]
}
"""Status of a pod that kube-scheduler found no node for."""


def quota(namespace: str, least: Json, most: Json | None = None, name: str = "", **more: Any) -> Json:  # noqa: ANN401
    """An ElasticQuota; `created` is in seconds after NOW, `used` what its status says."""
    made: Json = {
        "metadata": {
            "namespace": namespace,
            "name": name or f"q{namespace}",
            "uid": f"uid-{namespace}-{name}",
            "creationTimestamp": at(more.get("created", -100)),
        },
        "spec": {"min": least, **({"max": most} if most is not None else {})},
    }
    return {**made, "status": {"used": more["used"]}} if "used" in more else made


def gpus(namespace: str, name: str, count: int, where: str = "", started: float = -50, **spec: Any) -> Json:  # noqa: ANN401
    """A pod that requests GPUs, bound or refused."""
    made = pod(name, {GPU: str(count)}, node=where, schedulerName="headroom-scheduler", **spec)
    made["metadata"] |= {"namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    made["status"] = {"phase": "Running", "startTime": at(started)} if where else {"phase": "Pending", **REFUSED}
    return made


def machine(name: str, count: int) -> Json:
    """A node with GPUs."""
    made = node(name)
    made["status"]["allocatable"] |= {GPU: str(count), "pods": "110"}
    return made


def cluster(*objects: Json, text: str | None = None) -> FakeApi:
    """An API server with these quotas, pods and nodes, and a profile."""
    api = FakeApi()
    if text is not None:
        api.put(CONFIG_MAP, {"metadata": {"name": "headroom-scheduler"}, "data": {"profile.yaml": text}})
    for item in objects:
        put(api, item)
    return api


def put(api: FakeApi, item: Json) -> None:
    """Store an object for lists and for reads by name."""
    metadata = item["metadata"]
    key = f"{metadata.get('namespace', '')}-{metadata['name']}"
    if "containers" in item.get("spec", {}):
        api.put(f"/api/v1/pods/{key}", item)
        api.put(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", item)
    elif "allocatable" in item.get("status", {}):
        api.put(f"/api/v1/nodes/{key}", item)
    else:
        api.put(f"{QUOTAS}/{key}", item)
        root, kind = QUOTAS.rsplit("/", 1)
        api.put(f"{root}/namespaces/{metadata['namespace']}/{kind}/{metadata['name']}", item)


def story() -> list[Json]:
    """Team a, guaranteed 4 GPUs, uses 6; team b, guaranteed 6, uses 3 and requests 3 more."""
    return [
        machine("n1", 10),
        quota("a", {GPU: 4}, {GPU: 6}, used={GPU: "6"}),
        quota("b", {GPU: 6}, {GPU: 8}, used={GPU: "3"}),
        gpus("a", "a1", 2, "n1", -50),
        gpus("a", "a2", 2, "n1", -40),
        gpus("a", "a3", 2, "n1", -30),
        gpus("b", "b1", 3, "n1"),
        gpus("b", "b2", 3),
    ]


async def run(api: FakeApi, *words: str, **more: Any) -> int:  # noqa: ANN401 - as the commands take it
    """Run `kubectl headroom quota` with these words; its exit code."""
    options = arguments.parser().parse_args(["quota", *words])
    chosen = profile.of_file(options.profile, options.scheduler_name) if options.profile else None
    place = Place(chosen, options.headroom_namespace, options.scheduler_name)
    inputs: Mapping[str, Any] = {"place": place, "output": options.output, "clock": lambda: NOW, **more}
    server = cast("ApiServer", api)
    if options.what == "verify":
        return await command.verify(server, **inputs)
    await command.quotas(server, namespace=options.namespace, **inputs)
    return 0


async def explain_pod(api: FakeApi, namespace: str, name: str, output: str = "table", now: float = NOW) -> None:
    """Run `kubectl headroom explain pod`."""
    place = Place(None, "headroom-system", None)
    await explain(cast("ApiServer", api), place, "slo-controller-config", namespace, name, output, lambda: now)
