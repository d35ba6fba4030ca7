"""The parts of Kubernetes' own objects that we read, as types: an object of another shape is refused by its field.

An API server sends no other shapes; a proxy, a kubelet of another version or a file may.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crds.codec import JSON_NAME, Part, QuantityText, from_json

Amounts = Mapping[str, QuantityText]


@dataclass(frozen=True, slots=True)
class _Owner(Part):
    kind: str | None = None
    name: str | None = None
    controller: bool | None = None


@dataclass(frozen=True, slots=True)
class _Metadata(Part):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    owner_references: tuple[_Owner, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Resources(Part):
    requests: Amounts | None = None
    limits: Amounts | None = None


@dataclass(frozen=True, slots=True)
class _Container(Part):
    name: str | None = None
    resources: _Resources | None = None
    restart_policy: str | None = None


@dataclass(frozen=True, slots=True)
class _PodSpec(Part):
    priority: int | None = None
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    resources: _Resources | None = None
    overhead: Amounts | None = None


@dataclass(frozen=True, slots=True)
class _ContainerStatus(Part):
    name: str | None = None
    resources: _Resources | None = None
    allocated_resources: Amounts | None = None


@dataclass(frozen=True, slots=True)
class _Condition(Part):
    type: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _PodStatus(Part):
    phase: str | None = None
    qos_class: str | None = None
    conditions: tuple[_Condition, ...] | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None
    resources: _Resources | None = None
    allocated_resources: Amounts | None = None


@dataclass(frozen=True, slots=True)
class _Pod(Part):
    metadata: _Metadata | None = None
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


@dataclass(frozen=True, slots=True)
class _Address(Part):
    type: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class _Endpoint(Part):
    port: int | None = field(default=None, metadata={JSON_NAME: "Port"})


@dataclass(frozen=True, slots=True)
class _Endpoints(Part):
    kubelet_endpoint: _Endpoint | None = None


@dataclass(frozen=True, slots=True)
class _NodeStatus(Part):
    capacity: Mapping[str, Any] | None = None
    allocatable: Mapping[str, Any] | None = None
    addresses: tuple[_Address, ...] | None = None
    daemon_endpoints: _Endpoints | None = None


@dataclass(frozen=True, slots=True)
class _Node(Part):
    metadata: _Metadata | None = None
    status: _NodeStatus | None = None


def check_pod(pod: Any) -> None:  # noqa: ANN401 - JSON from outside can be anything
    """Make sure that what we read of a pod is what it should be.

    Raises:
        CodecError: It is not; the message begins with the path of the field.
    """
    from_json(_Pod, pod)


def check_node(node: Any) -> None:  # noqa: ANN401 - JSON from outside can be anything
    """The same for a Node; its amounts are judged one by one where they are used.

    Raises:
        CodecError: It is not a Node; the message begins with the path of the field.
    """
    from_json(_Node, node)
