"""kwok nodes: Node objects without a machine, any number, whose pods run at once and use nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.devcluster.api import ApiClient, Json
from tools.devcluster.controlplane import ControlPlane
from tools.devcluster.process import wait_until

STAGES = Path(__file__).with_name("kwok-stages.yaml")
ANNOTATION = "kwok.x-k8s.io/node"
LEASE_SECONDS = 40  # as long as the kubelet's; kwok renews a lease when a quarter of it is left
READY_SECONDS = 120.0
READY_SECONDS_PER_NODE = 0.2
"""Added for each node: on a busy machine of 2 cores kwok makes some 50 nodes a second Ready."""
NOT_READY = "node.kubernetes.io/not-ready"
"""Taint of a new node. The controller manager takes it away some time after the node is Ready."""
POLL_SECONDS = 0.1
POLL_SECONDS_PER_NODE = 0.001  # added for each node: listing them takes the API server's time


@dataclass(frozen=True)
class NodeTemplate:
    """The shape of kwok nodes."""

    cpu: str = "8"  # capacity and allocatable CPU, a Kubernetes quantity
    memory: str = "32Gi"  # capacity and allocatable memory, a Kubernetes quantity
    pods: int = 110  # how many pods fit
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels beside the usual ones (`type: kwok`, hostname, architecture, system)."""
    annotations: Mapping[str, str] = field(default_factory=dict)  # annotations beside kwok's own
    taints: Sequence[Mapping[str, str]] = ()  # taints, as in a Node's spec

    def node(self, name: str) -> Json:
        """The Node object with this name."""
        resources = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), "ephemeral-storage": "100Gi"}
        usual = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "type": "kwok",
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {**usual, **self.labels},
                "annotations": {ANNOTATION: "fake", **self.annotations},
            },
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": {"capacity": resources, "allocatable": resources},
        }


class KwokNodes:
    """The kwok nodes of one cluster. The controller starts with the first node."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._controller = plane.component("kwok", self._command)
        self.names: list[str] = []  # names of the nodes made here, in order

    def _command(self, _: int) -> list[str | Path]:
        return [
            self._plane.binaries.path("kwok"),
            f"--kubeconfig={self._plane.kubeconfig('kwok', self._plane.url)}",
            f"--config={STAGES}",
            f"--manage-nodes-with-annotation-selector={ANNOTATION}=fake",
            f"--node-lease-duration-seconds={LEASE_SECONDS}",
        ]

    def add(self, count: int, template: NodeTemplate | None = None, prefix: str = "kwok") -> list[str]:
        """Make nodes and wait until they are Ready and take pods.

        Returns their names, `<prefix>-<number>`, numbered from 0 over all prefixes.
        """
        first = len(self.names)
        names = [f"{prefix}-{number}" for number in range(first, first + count)]
        self.create(names, template)
        return names

    def create(self, names: Sequence[str], template: NodeTemplate | None = None) -> None:
        """Make nodes with these names and wait until they are Ready and take pods."""
        if not names:
            return
        if self._controller.process is None:
            self._controller.launch()
        shape = template or NodeTemplate()
        self._plane.api.create_all([("/api/v1/nodes", shape.node(name)) for name in names])
        self.names += names
        wait_until(
            lambda: set(self.names) <= ready_nodes(self._plane.api),
            f"{len(self.names)} kwok nodes being Ready",
            READY_SECONDS + READY_SECONDS_PER_NODE * len(self.names),
            [self._controller.process] if self._controller.process else (),
            POLL_SECONDS + POLL_SECONDS_PER_NODE * len(self.names),
        )


def ready_nodes(api: ApiClient) -> set[str]:
    """Names of all nodes whose condition Ready is True, and which take pods."""
    # From the API server's cache (resourceVersion 0): this is polled.
    return {
        node["metadata"]["name"]
        for node in api.get("/api/v1/nodes?resourceVersion=0")["items"]
        for condition in node["status"].get("conditions", [])
        if condition["type"] == "Ready" and condition["status"] == "True"
        if not any(taint["key"] == NOT_READY for taint in node["spec"].get("taints", ()))
    }
