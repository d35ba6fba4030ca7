"""The parts of Kubernetes' objects that we read, as types: an object of another shape is refused by its field.

An API server sends no other shapes; a proxy, a kubelet of another version or a file may. What one object says about
others (whom a pod keeps away, whom a PodDisruptionBudget protects, labels and taints of a Node) is kept and read again
for each of them, so it is checked when it comes: else one odd object would fail them all. Each `check_…` makes sure in
one pass that what is read of an object is what it should be, and raises a CodecError that begins with the path of the
field where it is not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from crds.codec import JSON_NAME, CodecError, Part, QuantityText, from_json
from crds.elastic_quota import ElasticQuota
from crds.node_metric import NodeMetric

Amounts = Mapping[str, QuantityText]

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_WITH_VALUES: Final = frozenset({"In", "NotIn"})


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
class _Expression(Part):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Selector(Part):
    match_labels: Mapping[str, str] | None = None
    match_expressions: tuple[_Expression, ...] | None = None


@dataclass(frozen=True, slots=True)
class _PodTerm(Part):
    topology_key: str | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: _Selector | None = None
    label_selector: _Selector | None = None


@dataclass(frozen=True, slots=True)
class _PodAffinity(Part):
    required_during_scheduling_ignored_during_execution: tuple[_PodTerm, ...] | None = None


@dataclass(frozen=True, slots=True)
class _NodeTerm(Part):
    match_expressions: tuple[_Expression, ...] | None = None
    match_fields: tuple[_Expression, ...] | None = None


@dataclass(frozen=True, slots=True)
class _NodeTerms(Part):
    node_selector_terms: tuple[_NodeTerm, ...] | None = None


@dataclass(frozen=True, slots=True)
class _NodeAffinity(Part):
    required_during_scheduling_ignored_during_execution: _NodeTerms | None = None


@dataclass(frozen=True, slots=True)
class _Affinity(Part):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


@dataclass(frozen=True, slots=True)
class _Taint(Part):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


@dataclass(frozen=True, slots=True)
class _Toleration(Part):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


@dataclass(frozen=True, slots=True)
class _Spread(Part):
    max_skew: int | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: _Selector | None = None
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Port(Part):
    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = None


@dataclass(frozen=True, slots=True)
class _PlacedContainer(_Container):
    ports: tuple[_Port, ...] | None = None


@dataclass(frozen=True, slots=True)
class _PlacedPodSpec(_PodSpec):
    node_name: str | None = None
    node_selector: Mapping[str, str] | None = None
    scheduler_name: str | None = None
    preemption_policy: str | None = None
    affinity: _Affinity | None = None
    tolerations: tuple[_Toleration, ...] | None = None
    topology_spread_constraints: tuple[_Spread, ...] | None = None
    scheduling_gates: tuple[Mapping[str, Any], ...] | None = None
    resource_claims: tuple[Mapping[str, Any], ...] | None = None
    volumes: tuple[Mapping[str, Any], ...] | None = None
    containers: tuple[_PlacedContainer, ...] | None = None
    init_containers: tuple[_PlacedContainer, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Fields(Part):
    time: str | None = None
    fields_v1: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _PlacedMetadata(_Metadata):
    generation: int | None = None
    managed_fields: tuple[_Fields, ...] | None = None


@dataclass(frozen=True, slots=True)
class _PlacedCondition(_Condition):
    status: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


@dataclass(frozen=True, slots=True)
class _PlacedPodStatus(_PodStatus):
    start_time: str | None = None
    nominated_node_name: str | None = None
    conditions: tuple[_PlacedCondition, ...] | None = None


@dataclass(frozen=True, slots=True)
class _PlacedPod(_Pod):
    metadata: _PlacedMetadata | None = None
    spec: _PlacedPodSpec | None = None
    status: _PlacedPodStatus | None = None


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
class _NodeSpec(Part):
    taints: tuple[_Taint, ...] | None = None
    unschedulable: bool | None = None


@dataclass(frozen=True, slots=True)
class _NodeStatus(Part):
    capacity: Mapping[str, Any] | None = None
    allocatable: Mapping[str, Any] | None = None
    addresses: tuple[_Address, ...] | None = None
    daemon_endpoints: _Endpoints | None = None


@dataclass(frozen=True, slots=True)
class _Node(Part):
    metadata: _Metadata | None = None
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


@dataclass(frozen=True, slots=True)
class _BudgetSpec(Part):
    selector: _Selector | None = None


@dataclass(frozen=True, slots=True)
class _BudgetStatus(Part):
    disruptions_allowed: int | None = None
    disrupted_pods: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Budget(Part):
    metadata: _Metadata
    spec: _BudgetSpec | None = None
    status: _BudgetStatus | None = None


@dataclass(frozen=True, slots=True)
class _Namespace(Part):
    metadata: _Metadata


check_pod: Final[Callable[[Any], object]] = partial(from_json, _Pod)  # of a pod, what it is, asks for and got
check_placed_pod: Final[Callable[[Any], object]] = partial(from_json, _PlacedPod)
"""The same, and where it is and may be."""
check_node: Final[Callable[[Any], object]] = partial(from_json, _Node)
"""Of a Node; its amounts are judged one by one where they are used."""
check_namespace: Final[Callable[[Any], object]] = partial(from_json, _Namespace)  # of a Namespace
check_elastic_quota: Final[Callable[[Any], object]] = partial(from_json, ElasticQuota)  # of an ElasticQuota
check_node_metric: Final[Callable[[Any], object]] = partial(from_json, NodeMetric)  # of a NodeMetric


def check_pod_terms(terms: Any, path: str) -> None:  # noqa: ANN401 - JSON from outside can be anything
    """Check required terms of a pod's affinity to pods.

    Raises CodecError: a field has another shape; the message begins with its path.
    """
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    try:
        read = from_json(_PodAffinity, {required: terms})
    except CodecError as error:
        raise CodecError(f"{path}.{error}") from None
    for number, term in enumerate(read.required_during_scheduling_ignored_during_execution or ()):
        _check_selector(term.label_selector, f"{path}.{required}[{number}].labelSelector")
        _check_selector(term.namespace_selector, f"{path}.{required}[{number}].namespaceSelector")


def check_budget(budget: Any) -> None:  # noqa: ANN401 - JSON from outside can be anything
    """Check a PodDisruptionBudget. Raises CodecError: a field has another shape; the message begins with its path."""
    read = from_json(_Budget, budget)
    _check_selector(read.spec.selector if read.spec else None, "spec.selector")


def _check_selector(selector: _Selector | None, path: str) -> None:
    for number, each in enumerate((selector.match_expressions if selector else None) or ()):
        where = f"{path}.matchExpressions[{number}]"
        if each.operator not in _OPERATORS:
            raise CodecError(f"{where}.operator: must be one of {', '.join(_OPERATORS)}, got {each.operator[:80]!r}")
        if each.operator in _WITH_VALUES and each.values is None:
            raise CodecError(f"{where}: values is missing")
