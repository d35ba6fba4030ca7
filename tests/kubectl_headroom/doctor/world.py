"""A made cluster for the checks: an installation that is all right, and changes that break one thing of it."""

import base64
import copy
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import metadata
from types import SimpleNamespace
from typing import Any, Final, cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from crds.priority import DEFAULT_VALUE, VALUES
from headroom import kube
from kubectl_headroom.doctor import permissions as may
from kubectl_headroom.doctor.checks import crds
from kubectl_headroom.doctor.cluster import Cluster
from kubectl_headroom.doctor.command import examine
from kubectl_headroom.doctor.finding import Finding, Severity
from kubectl_headroom.doctor.permissions import Permission
from kubectl_headroom.doctor.registry import READS
from tests.support.objects import NOW, at

Json = dict[str, Any]

NAMESPACE: Final = "headroom-system"
CONFIG: Final = "slo-controller-config"
OK, INFO, WARNING, ERROR = Severity.OK, Severity.INFO, Severity.WARNING, Severity.ERROR
VERSION: Final = metadata.version("kube-headroom")
_KUBE_SCHEDULER: Final = """
leaderElection: {resourceName: headroom-scheduler}
profiles: [{schedulerName: headroom-scheduler}]
extenders: [{urlPrefix: "http://127.0.0.1:9820", ignorable: true}]
"""


class World:
    """An API server in memory; its attributes are what tests change."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}  # path -> object
        self.refused: set[str] = set()  # what may not be read, such as "list nodes"
        self.undefined: set[str] = set()  # plural names of kinds that are not defined
        self.failing: dict[str, int | None] = {}  # plural name of a kind -> status with which its lists fail
        self.mine: Callable[[Mapping[str, Any]], bool] = lambda _: False  # reviews of oneself
        self.version: Json = {"gitVersion": "v1.36.2"}
        self.edit_refusal: kube.ApiError | None = None
        self.ahead_seconds = 0.0
        self.connection = SimpleNamespace(server="https://10.0.0.1:6443")

    async def get(self, path: str) -> Json:
        """An object."""
        if path == "/version":
            return self.version
        self._evaluate("get", path.rpartition("/")[0])
        if path not in self.objects:
            raise kube.ApiError(404, "NotFound", f"{path} not found")
        return copy.deepcopy(self.objects[path])

    async def list(self, path: str, keep: Callable[[Json], Any] | None) -> Any:  # noqa: ANN401 - what keep returns
        """All objects of a kind: in a namespace, or in all."""
        self._evaluate("list", path)
        root, _, resource = path.rpartition("/")
        result = [
            copy.deepcopy(obj)
            for where, obj in self.objects.items()
            if where.rpartition("/")[0] == path
            or (where.startswith(f"{root}/namespaces/") and where.rpartition("/")[0].endswith(f"/{resource}"))
        ]
        return [keep(entry) if keep else entry for entry in result], "1"

    async def create(self, path: str, body: Json) -> Json:
        """A review of oneself."""
        assert path.endswith("/selfsubjectaccessreviews")
        return {"status": {"allowed": self.mine(body["spec"]["resourceAttributes"])}}

    async def patch(self, path: str, body: Json, params: Mapping[str, Any]) -> Json:
        """An edit, which must be a dry run."""
        assert params == {"dryRun": "All"}
        if self.edit_refusal is not None:
            raise self.edit_refusal
        return {**self.objects[path], **body}

    def _evaluate(self, verb: str, path: str) -> None:
        (read,) = (read for read in READS if read.verb == verb and read.path(NAMESPACE) == path)
        if read.resource in self.failing:
            status = self.failing[read.resource]
            raise kube.ApiUnavailable(f"The API server answers {status}: oh", status)
        if str(read) in self.refused:
            raise kube.ApiError(403, "Forbidden", f"may not {read}")
        if read.resource in self.undefined:
            raise kube.ApiError(404, "", "the server could not find the requested resource")

    def _path(self, permission: Permission, name: str, namespace: str | None) -> str:
        root, _, resource = permission.path(NAMESPACE).rpartition("/")
        where = root if namespace is None else f"{root.partition('/namespaces/')[0]}/namespaces/{namespace}"
        return f"{where}/{resource}/{name}"

    def add(self, permission: Permission, obj: Json) -> None:
        """Put an object where it is read, into its own namespace."""
        self.objects[self._path(permission, obj["metadata"]["name"], obj["metadata"].get("namespace"))] = obj

    def at(self, permission: Permission, name: str) -> Json:
        """An object, to be changed."""
        paths = (self._path(permission, name, namespace) for namespace in (None, NAMESPACE))
        return next(self.objects[path] for path in paths if path in self.objects)


Change = Callable[[World], object]


def add(permission: Permission, obj: Json) -> Change:
    """Add or replace an object."""
    return lambda world: world.add(permission, copy.deepcopy(obj))


def gone(permission: Permission, *names: str) -> Change:
    """Remove objects."""

    def change(world: World) -> None:
        objects = [world.at(permission, name) for name in names]
        world.objects = {path: each for path, each in world.objects.items() if not any(each is obj for obj in objects)}

    return change


_REMOVE: Final = object()


def put(permission: Permission, name: str, path: str, value: object = _REMOVE) -> Change:
    """Set a field of an object, "spec template 0 name", or remove it."""

    def change(world: World) -> None:
        target: Any = world.at(permission, name)
        *parents, last = path.split()
        for parent in parents:
            target = target[int(parent)] if isinstance(target, list) else target.setdefault(parent, {})
        key: Any = int(last) if isinstance(target, list) else last
        if value is _REMOVE:
            del target[key]
        else:
            target[key] = value

    return change


def attributes(**values: object) -> Change:
    """Set attributes of the world."""
    return lambda world: vars(world).update(values)


async def results(*changes: Change, world: World | None = None, preflight: bool = False) -> list[tuple[str, Finding]]:
    """All that doctor finds in an installation after some changes, or in another world."""
    world = healthy() if world is None else world
    for change in changes:
        change(world)
    api = cast("kube.ApiServer", world)
    return [entry async for entry in examine(Cluster(api, NAMESPACE, CONFIG, lambda: NOW, preflight=preflight))]


async def findings(check: str, *changes: Change, world: World | None = None, preflight: bool = False) -> list[Finding]:
    """The findings of one check."""
    return [each for name, each in await results(*changes, world=world, preflight=preflight) if name == check]


@cache
def authority(days: float) -> str:
    """A bundle with one certificate authority that ends so many days from now."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "headroom")])
    end = datetime.fromtimestamp(NOW, UTC) + timedelta(days=days)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(end - timedelta(days=3650)).not_valid_after(end)
    made = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return base64.b64encode(made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)).decode()


def labels(component: str) -> dict[str, str]:
    """Labels of the pods of a component."""
    labels = {"name": component, "version": VERSION, "part-of": "headroom"}
    return {f"app.kubernetes.io/{key}": value for key, value in labels.items()}


def node(name: str, **more: str) -> Json:
    """A Node in good health, with more labels."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux", **more}},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.36.1", "architecture": "amd64", "operatingSystem": "linux"},
        },
    }


def pod(component: str, name: str, where: str, *containers: str, init: str = "") -> Json:
    """A pod of ours that is ready for an hour."""
    running = [
        {"name": container, "ready": True, "restartCount": 0, "state": {"running": {}}} for container in containers
    ]
    done = {"name": init, "ready": True, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    images = [{"name": container, "image": f"{container}:{VERSION}"} for container in containers]
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels(component)},
        "spec": {"nodeName": where, "containers": images},
        "status": {
            "phase": "Running",
            "startTime": at(-3600),
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
            "containerStatuses": running,
            "initContainerStatuses": [done] if init else [],
        },
    }


def workload(name: str, *arguments: str, namespace: str = NAMESPACE, **spec: object) -> Json:
    """A Deployment (or DaemonSet) with both replicas ready."""
    containers: object = [{"args": [*arguments]}]
    template = {"metadata": {"labels": labels(name)}, "spec": {"containers": containers, **spec}}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 2, "template": template},
        "status": {"readyReplicas": 2},
    }


def lease(name: str, holder: str, ago: float = 2.0) -> Json:
    """A Lease that was renewed so long ago. [s]"""
    spec = {"holderIdentity": holder, "renewTime": at(-ago), "leaseDurationSeconds": 15}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def node_metric(name: str, ago: float = 20.0, ahead: float = 0.0) -> Json:
    """A NodeMetric that was reported so long ago, by a clock that is ahead so much. [s]"""
    conditions = [("Collecting", "True"), ("PredictionReady", "True"), ("MidPublished", "False")]
    entry = {
        "manager": "headroom-agent",
        "operation": "Update",
        "subresource": "status",
        "time": at(-ago),
        "fieldsV1": {"f:status": {"f:updateTime": {}}},
    }
    return {
        "metadata": {"name": name, "managedFields": [entry]},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}},
        "status": {
            "updateTime": at(ahead - ago),
            "prediction": {"time": at(ahead - ago)},
            "conditions": [{"type": kind, "status": status, "reason": "Any"} for kind, status in conditions],
        },
    }


def ours(name: str, **more: object) -> Json:
    """An object in our namespace."""
    return {"metadata": {"name": name, "namespace": NAMESPACE}, **more}


def healthy() -> World:
    """Two nodes, two managers, two schedulers, and all that the chart puts around them."""
    world = World()
    world.add(may.NAMESPACES, {"metadata": {"name": NAMESPACE, "labels": {}}})
    for name in may.CRDS:
        established = {"conditions": [{"type": "Established", "status": "True"}]}
        world.add(may.DEFINITIONS, {**copy.deepcopy(dict(crds.shipped(name))), "status": established})
    for band in VALUES:
        body = {"metadata": {"name": str(band)}, "value": DEFAULT_VALUE[band], "preemptionPolicy": "Never"}
        world.add(may.PRIORITY_CLASSES, body)
    linux = {"kubernetes.io/os": "linux"}
    world.add(may.DAEMON_SETS, workload("headroom-agent", nodeSelector=linux, tolerations=[{"operator": "Exists"}]))
    flags = ("--webhook-listen=:9443", "--webhook-certificates=self")
    world.add(may.DEPLOYMENTS, workload("headroom-manager", *flags))
    world.add(may.DEPLOYMENTS, workload("headroom-scheduler"))
    for number, name in enumerate(("node-1", "node-2")):
        world.add(may.NODES, node(name))
        world.add(may.NODE_METRICS, node_metric(name))
        world.add(may.PODS, pod("headroom-agent", f"agent-{number}", name, "agent"))
        world.add(may.PODS, pod("headroom-manager", f"manager-{number}", name, "manager"))
        both = ("kube-scheduler", "extender")
        world.add(may.PODS, pod("headroom-scheduler", f"scheduler-{number}", name, *both, init="check"))
    world.add(may.LEASES, lease("headroom-manager", "manager-0"))
    world.add(may.LEASES, lease("headroom-scheduler", "scheduler-1_3c1b"))
    condition = {"expression": f'object.metadata.name == "{CONFIG}"'}
    webhook = {"clientConfig": {"caBundle": authority(365.0)}, "matchConditions": [condition]}
    world.add(may.VALIDATING, {"metadata": {"name": may.WEBHOOK}, "webhooks": [webhook]})
    endpoints = ours("webhook-1", endpoints=[{"conditions": {"ready": True}}])
    endpoints["metadata"]["labels"] = {"kubernetes.io/service-name": "headroom-manager-webhook"}
    world.add(may.ENDPOINT_SLICES, endpoints)
    world.add(may.CONFIG_MAPS, ours(CONFIG, data={"colocation-config": '{"enable": true}'}))
    world.add(may.CONFIG_MAPS, ours("headroom-scheduler", data={"kube-scheduler.yaml": _KUBE_SCHEDULER}))
    return world
