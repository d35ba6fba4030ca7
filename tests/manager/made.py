"""Kubernetes objects for tests, as short as what a test says about them, and an API server in memory."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from crds import names
from crds.codec import from_json
from crds.colocation import ColocationStrategy
from headroom.kube import APPLY, ApiError, ApiUnavailable
from headroom.kube.connection import Connection
from headroom.kube.lease import LeaseName
from headroom.kube.server_clock import ServerClock
from manager.cluster import ClusterState
from manager.inputs import NodeInputs, ObservedAt, PodInputs, from_objects
from tests.headroom.kube.preconditions import check_options, check_patch
from tests.manager import applied

Json = dict[str, Any]

NOW = 1_800_000_000.0
LEASE = LeaseName("ns", "headroom-manager")


def at(seconds: float) -> str:
    """RFC 3339 text of a time relative to `NOW`."""
    return datetime.fromtimestamp(NOW + seconds, UTC).isoformat().replace("+00:00", "Z")


def node(
    name: str = "n1",
    *,
    cpu: str = "16",
    memory: str = "64Gi",
    capacity: Mapping[str, str] | None = None,
    mid: tuple[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    """A Node; `mid` are the Mid resources it offers."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110"}
    all_of_it = {**allocatable, **(capacity or {})}
    offered = {names.MID_CPU: mid[0], names.MID_MEMORY: mid[1]} if mid else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "status": {"capacity": {**all_of_it, **offered}, "allocatable": {**allocatable, **offered}},
    }


def pod(
    name: str,
    requests: Mapping[str, str] | None = None,
    *,
    on: str = "n1",
    phase: str = "Running",
    priority: int | None = 9000,
    labels: Mapping[str, str] | None = None,
) -> Json:
    """A Pod with one container."""
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "labels": dict(labels or {})},
        "spec": {
            "nodeName": on,
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": dict(requests or {})}}],
        },
        "status": {"phase": phase},
    }


def mid_pod(name: str, cpu: str = "3000", memory: str = "2Gi", **more: Any) -> Json:  # noqa: ANN401 - arguments of pod
    """A Pod that bought Mid resources."""
    return pod(name, {names.MID_CPU: cpu, names.MID_MEMORY: memory}, priority=7000, **more)


def resources(cpu: str | None, memory: str | None) -> Json:
    """A resource map; `None` leaves one out."""
    amounts = {"cpu": cpu, "memory": memory}
    return {"resources": {name: amount for name, amount in amounts.items() if amount is not None}}


def report(
    *,
    usage: tuple[str | None, str | None] = ("6", "24Gi"),
    system: tuple[str, str] = ("1", "2Gi"),
    reclaimable: tuple[str, str] | None = ("4", "10Gi"),
    mid: tuple[str, str] | None = ("2", "1Gi"),
    age: float = 10.0,
    prediction_age: float | None = None,
    name: str = "n1",
    **more: Any,  # noqa: ANN401 - further fields of the status
) -> Json:
    """A NodeMetric with a status; without `mid` it is one of another agent, which has no `prediction`."""
    status: Json = {
        "updateTime": at(-age),
        "nodeMetric": {"nodeUsage": resources(*usage), "systemUsage": resources(*system)},
        **more,
    }
    if reclaimable is not None:
        status["prodReclaimableMetric"] = {"resource": resources(*reclaimable)}
    if mid is not None:
        parts = {"node": usage, "sys": system, "mid": mid}
        classes = [{"name": part, "usage": resources(*amounts)["resources"]} for part, amounts in parts.items()]
        status["prediction"] = {"time": at(-(age if prediction_age is None else prediction_age)), "classes": classes}
    metadata = {"name": name, "uid": f"uid-metric-{name}", "resourceVersion": "1"}
    return {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": metadata, "status": status}


def strategy(**fields: Any) -> ColocationStrategy:  # noqa: ANN401 - fields of the strategy by their JSON names
    """A strategy that is enabled."""
    return from_json(ColocationStrategy, {"enable": True, **fields})


def node_inputs(
    the_node: Json | None = None,
    metric: Json | None = None,
    *pods: Json,
    observed_at: ObservedAt | None = None,
    now: float = NOW,
    **fields: Any,  # noqa: ANN401 - fields of the strategy by their JSON names
) -> NodeInputs:
    """Facts of a node; the strategy is enabled."""
    the_node = node() if the_node is None else the_node
    return from_objects(the_node, metric, pods, strategy(**fields), now, observed_at)


class FakeApi:
    """Objects by path, merge patches, conflicts and preconditions: what the manager's writers need of an API server."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.connection = Connection("http://nowhere", None, lambda: None)
        self.server_time = ServerClock()
        self.calls: list[tuple[str, str, Any]] = []
        self.fails: dict[str, Exception] = {}
        self.unknown_fields: set[str] = set()
        self._version = 100

    def put(self, path: str, body: Json) -> Json:
        """Store an object as it is."""
        self._version += 1
        stored = copy.deepcopy(body)
        stored.setdefault("metadata", {})["resourceVersion"] = str(self._version)
        self.objects[path] = stored
        return copy.deepcopy(stored)

    def _enter(self, method: str, path: str, body: Any = None) -> None:  # noqa: ANN401
        self.calls.append((method, path, copy.deepcopy(body)))
        for part, error in self.fails.items():
            if part in f"{method} {path}":
                raise error

    def _stored(self, path: str) -> Json:
        found = self.objects.get(path.removesuffix("/status").removesuffix("/scale"))
        if found is None:
            raise ApiError(404, "NotFound", f"{path} not found")
        return found

    async def get(self, path: str, params: Any = None) -> Json:  # noqa: ANN401, ARG002
        """Read an object."""
        self._enter("GET", path)
        return copy.deepcopy(self._stored(path))

    async def list(self, path: str, params: Any = None, keep: Any = None) -> tuple[list[Any], str]:  # noqa: ANN401, ARG002
        """Read all objects below a path, or what is kept of each."""
        self._enter("LIST", path)
        found = [copy.deepcopy(obj) for at_path, obj in self.objects.items() if at_path.startswith(f"{path}/")]
        return found if keep is None else [keep(obj) for obj in found], "1"

    async def create(self, path: str, body: Json, params: Any = None) -> Json:  # noqa: ANN401, ARG002
        """Create an object."""
        self._enter("POST", path, body)
        where = f"{path}/{body['metadata']['name']}"
        if where in self.objects:
            raise ApiError(409, "AlreadyExists", f"{where} already exists")
        return self.put(where, {**body, "metadata": {**body["metadata"], "uid": f"made-{len(self.calls)}"}})

    async def patch(self, path: str, body: Any, content_type: str = "", params: Any = None) -> Json:  # noqa: ANN401
        """Merge a patch into an object, or apply it, or carry out replacements of a JSON patch."""
        self._enter("PATCH", path, body)
        if content_type == APPLY:
            return self._apply(path, body, str(params["fieldManager"]))
        stored = self._stored(path)
        if isinstance(body, list):
            body = _replacements(body)
        check_patch(stored, body)
        merged = merge(stored, body)
        for field in self.unknown_fields:  # a definition that does not know a field drops it
            head, _, rest = field.partition(".")
            (merged.get(head) or {}).pop(rest, None)
        return self.put(path.removesuffix("/status").removesuffix("/scale"), merged)

    def _apply(self, path: str, body: Json, manager: str) -> Json:
        for field in sorted(self.unknown_fields):
            if applied.has(body, field):
                what = f"failed to create typed patch object (x): .{field}: field not declared in schema"
                raise ApiUnavailable(f"The API server answers 500: {what}", status=500)
        where, subresource = path.removesuffix("/status"), "status" if path.endswith("/status") else ""
        stored = self._stored(path) if subresource else self.objects.get(path)
        result = applied.apply(stored, body, manager, subresource)
        result["metadata"].setdefault("uid", f"made-{len(self.calls)}")
        if result == stored:
            return copy.deepcopy(result)
        return self.put(where, result)

    async def delete(self, path: str, body: Json | None = None) -> Json:
        """Delete an object."""
        self._enter("DELETE", path, body)
        stored = self._stored(path)
        check_options(stored, body)
        del self.objects[path]
        return {}

    def written(self, method: str, part: str) -> Sequence[Any]:
        """Bodies of the calls of a method whose path contains a text."""
        return [body for called, path, body in self.calls if called == method and part in path]


def _replacements(operations: list[Json]) -> Json:
    """A JSON patch that only replaces, as a merge patch."""
    body: Json = {}
    for operation in operations:
        assert operation["op"] == "replace"
        *parts, last = operation["path"].strip("/").split("/")
        inner = body
        for name in parts:
            inner = inner.setdefault(name, {})
        inner[last] = operation["value"]
    return body


def merge(target: Json, patch: Json) -> Json:
    """JSON merge patch."""
    merged = dict(target)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge(merged.get(key) or {}, value)
        else:
            merged[key] = value
    return merged


def put_pods(cluster: ClusterState, pods: Iterable[PodInputs]) -> set[str]:
    """Have a cluster know these pods and no others; the nodes on which something changed."""
    found = list(pods)
    touched = {node for pod in found for node in cluster.put_pod(pod)}
    gone = cluster.pod_uids() - {pod.uid for pod in found}
    cluster.pods_synced = True
    return touched | {node for uid in gone for node in cluster.drop_pod(uid)}
