"""A made cluster for the checks: objects by path, and rights that can be taken away."""

import copy
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from types import SimpleNamespace
from typing import Any, Final, cast

from headroom import kube
from headroom.cli.doctor.checks import crds
from headroom.cli.doctor.cluster import Cluster
from headroom.cli.doctor.command import examine
from headroom.cli.doctor.finding import Finding, Severity
from headroom.cli.doctor.permissions import Permission
from headroom.cli.doctor.registry import READS
from tests.headroom.cli.doctor import authority

Json = dict[str, Any]

NAMESPACE: Final = "headroom-system"
NOW: Final = 1_800_000_000.0
VERSION: Final = metadata.version("headroom")


def moment(seconds: float) -> str:
    """A time as the API writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class World:
    """An API server in memory.

    Attributes:
        objects: path of an object -> the object.
        refused: what may not be read, as rights say it ("list nodes").
        denied: reviews that are answered with no: (account, verb, resource with its subresource).
        mine: whether reviews about oneself are answered with yes.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.refused: set[str] = set()
        self.undefined: set[str] = set()
        self.denied: set[tuple[str, str, str]] = set()
        self.mine: Callable[[Mapping[str, Any]], bool] = lambda _: False
        self.version: Json = {"gitVersion": "v1.36.2"}
        self.edit_refusal: kube.ApiError | None = None
        self.pages: dict[str, str] = {}
        self.ahead_seconds = 0.0
        self.connection = SimpleNamespace(server="https://10.0.0.1:6443")

    async def get(self, path: str, params: object = None) -> Json:
        """One object."""
        del params
        if path == "/version":
            return self.version
        self._judge("get", path.rpartition("/")[0])
        if path not in self.objects:
            raise kube.ApiError(404, "NotFound", f"{path} not found")
        return copy.deepcopy(self.objects[path])

    async def list(self, path: str, params: object = None, keep: Callable[[Json], Any] | None = None) -> Any:  # noqa: ANN401
        """All objects of a kind: in a namespace, or in all."""
        del params
        self._judge("list", path)
        resource = path.rpartition("/")[2]
        root = path.removesuffix(f"/{resource}")
        found = [
            copy.deepcopy(obj)
            for where, obj in self.objects.items()
            if where.rpartition("/")[0] == path
            or (where.startswith(f"{root}/namespaces/") and where.rpartition("/")[0].endswith(f"/{resource}"))
        ]
        return [keep(each) if keep else each for each in found], "1"

    async def create(self, path: str, body: Json) -> Json:
        """A review."""
        spec = body["spec"]
        asked = spec["resourceAttributes"]
        if path.endswith("selfsubjectaccessreviews"):
            return {"status": {"allowed": self.mine(asked)}}
        self._judge("create", path)
        account = spec["user"].rpartition(":")[2]
        resource = "/".join(part for part in (asked["resource"], asked["subresource"]) if part)
        return {"status": {"allowed": (account, asked["verb"], resource) not in self.denied}}

    async def patch(self, path: str, body: Json, params: Mapping[str, Any]) -> Json:
        """An edit, which must be a dry run."""
        assert params == {"dryRun": "All"}
        if self.edit_refusal is not None:
            raise self.edit_refusal
        return {**self.objects[path], **body}

    def _judge(self, verb: str, path: str) -> None:
        for right in READS:
            if right.verb == verb and right.path(NAMESPACE) == path:
                if str(right) in self.refused:
                    raise kube.ApiError(403, "Forbidden", f"may not {right}")
                if right.resource in self.undefined:
                    raise kube.ApiError(404, "", "the server could not find the requested resource")
                return
        raise AssertionError(f"{verb} {path} is not among the rights")

    def cluster(self, *, preflight: bool) -> Cluster:
        """The cluster as checks see it."""
        return Cluster(
            cast("kube.ApiServer", self), NAMESPACE, "slo-controller-config", lambda: NOW, preflight=preflight
        )

    def add(self, right: Permission, obj: Json) -> Json:
        """Put an object where it is read, into its own namespace."""
        own = obj["metadata"].get("namespace", NAMESPACE)
        path = right.path(own)
        if "namespace" in obj["metadata"] and f"/namespaces/{own}/" not in path:
            root, _, resource = path.rpartition("/")
            path = f"{root}/namespaces/{own}/{resource}"
        self.objects[f"{path}/{obj['metadata']['name']}"] = obj
        return obj

    def at(self, right: Permission, name: str, namespace: str = NAMESPACE) -> Json:
        """An object, to be changed."""
        root, _, resource = right.path(namespace).rpartition("/")
        places = (f"{root}/{resource}/{name}", f"{root}/namespaces/{namespace}/{resource}/{name}")
        return next(self.objects[place] for place in places if place in self.objects)

    def remove(self, obj: Json) -> None:
        """Take an object away."""
        self.objects = {path: each for path, each in self.objects.items() if each is not obj}


async def told(world: World, *, preflight: bool = False) -> list[tuple[str, Finding]]:
    """What doctor says of a world."""
    return [each async for each in examine(world.cluster(preflight=preflight))]


async def found(world: World, check: str, *severities: Severity) -> list[Finding]:
    """What one check says; of these severities, or what is not ok."""
    wanted = severities or (Severity.INFO, Severity.WARNING, Severity.ERROR)
    return [each for name, each in await told(world) if name == check and each.severity in wanted]


async def one(world: World, check: str, severity: Severity) -> Finding:
    """The one finding of a check that has this severity."""
    (finding,) = await found(world, check, severity)
    return finding


def labels(part: str) -> dict[str, str]:
    """Labels of the pods of a part."""
    return {
        "app.kubernetes.io/name": part,
        "app.kubernetes.io/version": VERSION,
        "app.kubernetes.io/part-of": "headroom",
    }


def node(name: str) -> Json:
    """A Node in good health."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux"}},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.36.1", "architecture": "amd64", "operatingSystem": "linux"},
        },
    }


def pod(part: str, name: str, where: str, *containers: str, prepared_by: str = "") -> Json:
    """A pod of ours that is ready for an hour."""
    running: Sequence[Json] = [
        {"name": each, "ready": True, "restartCount": 0, "state": {"running": {}}} for each in containers
    ]
    done = {"name": prepared_by, "ready": True, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    ports = [{"name": "metrics", "containerPort": 9316}] if part == "headroom-agent" else []
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels(part)},
        "spec": {
            "nodeName": where,
            "containers": [{"name": each, "image": f"{each}:{VERSION}", "ports": ports} for each in containers],
        },
        "status": {
            "phase": "Running",
            "startTime": moment(NOW - 3600),
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
            "containerStatuses": running,
            "initContainerStatuses": [done] if prepared_by else [],
        },
    }


def workload(part: str, replicas: int, *arguments: str) -> Json:
    """A Deployment (or DaemonSet) of ours with all replicas ready."""
    spec: Json = {"containers": [{"name": part, "args": [*arguments]}]}
    if part == "headroom-agent":
        spec |= {"nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"operator": "Exists"}]}
    template = {"metadata": {"labels": labels(part)}, "spec": spec}
    return {
        "metadata": {"name": part, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "template": template},
        "status": {"readyReplicas": replicas},
    }


def lease(name: str, holder: str, ago: float = 2.0) -> Json:
    """A Lease that somebody holds."""
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"holderIdentity": holder, "renewTime": moment(NOW - ago), "leaseDurationSeconds": 15},
    }


def node_metric(name: str, ago: float = 20.0, ahead: float = 0.0) -> Json:
    """A NodeMetric that was reported so long ago, by a clock that is ahead so much."""
    conditions = [
        {"type": "Collecting", "status": "True", "reason": "Measuring", "message": "All is measured."},
        {"type": "PredictionReady", "status": "True", "reason": "Ready", "message": "Ready."},
        {"type": "MidPublished", "status": "False", "reason": "Disabled", "message": "enable is false."},
    ]
    entry = {
        "manager": "headroom-agent",
        "operation": "Update",
        "subresource": "status",
        "time": moment(NOW - ago),
        "fieldsV1": {"f:status": {"f:updateTime": {}}},
    }
    return {
        "metadata": {"name": name, "managedFields": [entry]},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}},
        "status": {
            "updateTime": moment(NOW - ago + ahead),
            "prediction": {"time": moment(NOW - ago + ahead)},
            "conditions": conditions,
        },
    }


def definition(name: str) -> Json:
    """A CRD of this version, in force."""
    return {
        **copy.deepcopy(dict(crds.shipped(name))),
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }


def webhook(bundle: str | None = None) -> Json:
    """Our ValidatingWebhookConfiguration."""
    client: Json = {"service": {"name": "headroom-manager-webhook", "namespace": NAMESPACE}}
    return {
        "metadata": {"name": "headroom-colocation-config"},
        "webhooks": [
            {
                "name": "colocation-config.headroom.sh",
                "clientConfig": {**client, "caBundle": bundle if bundle is not None else authority.bundle(NOW)},
                "matchConditions": [{"expression": 'object.metadata.name == "slo-controller-config"'}],
            }
        ],
    }
