"""The resources of the node: from its Node object by a watch, or from the machine itself."""

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from agent.host import procfs
from agent.host.procfs import HostPaths
from agent.prediction.node import NodeResources
from crds import names
from crds.codec import CodecError
from crds.quantity import QuantityError, milli_value, value
from headroom import kube
from headroom.cluster.cpu_list import count_cpus
from headroom.cluster.shape import check_node

log = logging.getLogger(__name__)

_LARGEST: Final = 2**63 - 1  # Kubernetes counts no further


class ApiNode:
    """This agent's own Node object, by a watch with a field selector. The last one stays while the server is away."""

    def __init__(self, api: kube.ApiServer, node_name: str) -> None:
        self._api = api
        self._name = node_name
        self.health = kube.WatchHealth()  # the time of the server's last response
        self.on_rejected: Callable[[str], object] = lambda _what: None
        """Called for each object that could not be used, with its kind."""
        self.resources = NodeResources()  # of the node; empty before its first event
        self._problems: tuple[str, ...] = ()
        self._missing = False

    async def run(self) -> None:
        """Follow the watch until cancelled; it handles outages itself."""
        selector = f"metadata.name={self._name}"
        changes = kube.list_and_watch(self._api, kube.paths.NODES, field_selector=selector, health=self.health)
        async for change in changes:
            self.apply(change)

    def apply(self, change: kube.Relisted | kube.Changed) -> None:
        """Take over one message of the watch."""
        if isinstance(change, kube.Relisted):
            nodes = change.items
        else:
            nodes = [] if change.type == "DELETED" else [change.object]
        if not nodes:
            if not self._missing:
                log.warning("there is no Node named %s; give the right one with --node-name", self._name)
            self.resources, self._missing = NodeResources(), True
            return
        self._missing = False
        self.resources, problems = read_node(nodes[0])
        if problems != self._problems:
            for problem in problems:
                log.warning("node %s: %s", self._name, problem)
                self.on_rejected("node")
        self._problems = problems


class MachineNode:
    """The machine as a node of which nothing is reserved: for an agent without a cluster."""

    def __init__(self, paths: HostPaths) -> None:
        self._paths = paths

    @property
    def resources(self) -> NodeResources:
        """All CPUs and all memory, as they are now; empty when they cannot be read."""
        try:
            cpus = procfs.cpu_count((self._paths.proc / "stat").read_text(encoding="ascii"))
            memory = procfs.meminfo((self._paths.proc / "meminfo").read_text(encoding="ascii")).total_bytes
        except (OSError, ValueError):
            return NodeResources()
        amounts = {"cpu": cpus * 1000, "memory": memory}
        return NodeResources(allocatable=amounts, capacity=amounts)

    async def run(self) -> None:
        """Nothing to follow."""


def read_node(node: Mapping[str, Any]) -> tuple[NodeResources, tuple[str, ...]]:
    """Return the resources that a Node object states, and a sentence for each field that cannot be used."""
    try:
        check_node(node)
    except CodecError as error:
        return NodeResources(), (f"{error}; the whole Node is ignored",)
    status, problems = node.get("status") or {}, _Problems()
    annotations = (node.get("metadata") or {}).get("annotations") or {}
    stated = problems.amounts(status.get("allocatable"), "status.allocatable")
    problems_before = len(problems.found)
    raw = problems.amounts(
        problems.annotation(annotations, names.ANNOTATION_RAW_ALLOCATABLE), names.ANNOTATION_RAW_ALLOCATABLE
    )
    if len(problems.found) > problems_before:  # an annotation counts as a whole, or not at all
        raw = {}
    resources = NodeResources(
        allocatable={**stated, **raw},
        capacity=problems.amounts(status.get("capacity"), "status.capacity"),
        reservation=_reservation(problems, annotations),
    )
    return resources, tuple(problems.found)


def _reservation(problems: "_Problems", annotations: Mapping[str, str]) -> dict[str, int]:
    """Return the reservation of the annotation; named CPUs count whole, and override its number of CPUs."""
    name = names.ANNOTATION_NODE_RESERVATION
    content = problems.annotation(annotations, name)
    amounts = problems.amounts(content.get("resources"), name)
    named = content.get("reservedCPUs")
    if not named:
        return amounts
    try:
        return {**amounts, "cpu": count_cpus(str(named)) * 1000}
    except ValueError as error:
        problems.found.append(f"annotation {name}: reservedCPUs: {error}; it is ignored")
        return {}


class _Problems:
    """Reads amounts, and remembers what could not be read."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def annotation(self, annotations: Mapping[str, str], name: str) -> Mapping[str, Any]:
        text = annotations.get(name)
        if not text:
            return {}
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            content = None
        if isinstance(content, dict):
            return content
        self.found.append(f"annotation {name}: not a JSON object; it is ignored")
        return {}

    def amounts(self, resources: object, where: str) -> dict[str, int]:
        result: dict[str, int] = {}
        if not isinstance(resources, Mapping):
            return result
        for name, convert in (("cpu", milli_value), ("memory", value)):
            quantity = resources.get(name)
            if quantity is None:
                continue
            try:
                result[name] = min(max(convert(quantity), 0), _LARGEST)
            except (QuantityError, TypeError) as error:
                self.found.append(f"{where}.{name}: {error}; it is ignored")
        return result
