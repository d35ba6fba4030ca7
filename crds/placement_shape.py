"""The parts of Kubernetes' objects that say which pod may be where, as types: another shape is refused by its field.

What one object says about others (whom a pod keeps away, whom a PodDisruptionBudget protects, labels and taints of a
Node) is kept and read again for each of them, so it is checked when it comes: else one odd object would fail them all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from crds.codec import CodecError, Part, from_json
from crds.elastic_quota import ElasticQuota
from crds.node_metric import NodeMetric
from crds.shape import check_node, check_pod

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_WITH_VALUES: Final = frozenset({"In", "NotIn"})


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
class _Container(Part):
    ports: tuple[_Port, ...] | None = None


@dataclass(frozen=True, slots=True)
class _PodSpec(Part):
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
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Fields(Part):
    time: str | None = None
    fields_v1: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _PodMetadata(Part):
    generation: int | None = None
    managed_fields: tuple[_Fields, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Condition(Part):
    status: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


@dataclass(frozen=True, slots=True)
class _PodStatus(Part):
    start_time: str | None = None
    nominated_node_name: str | None = None
    conditions: tuple[_Condition, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Pod(Part):
    metadata: _PodMetadata | None = None
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


@dataclass(frozen=True, slots=True)
class _NodeSpec(Part):
    taints: tuple[_Taint, ...] | None = None
    unschedulable: bool | None = None


@dataclass(frozen=True, slots=True)
class _Node(Part):
    spec: _NodeSpec | None = None


@dataclass(frozen=True, slots=True)
class _BudgetSpec(Part):
    selector: _Selector | None = None


@dataclass(frozen=True, slots=True)
class _BudgetStatus(Part):
    disruptions_allowed: int | None = None
    disrupted_pods: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Metadata(Part):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    creation_timestamp: str | None = None
    labels: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class _Budget(Part):
    metadata: _Metadata
    spec: _BudgetSpec | None = None
    status: _BudgetStatus | None = None


@dataclass(frozen=True, slots=True)
class _Namespace(Part):
    metadata: _Metadata


def check_placed_pod(pod: Any) -> None:  # noqa: ANN401 - JSON from outside can be anything
    """Make sure that all that is read of a pod is what it should be.

    Raises:
        CodecError: It is not; the message begins with the path of the field.
    """
    check_pod(pod)
    from_json(_Pod, pod)


def check_offered_node(node: Any) -> None:  # noqa: ANN401 - JSON from outside can be anything
    """The same for a Node.

    Raises:
        CodecError: as above.
    """
    check_node(node)
    from_json(_Node, node)


def check_pod_terms(terms: Any, path: str) -> None:  # noqa: ANN401 - JSON from outside can be anything
    """The same for required terms of a pod's affinity to pods.

    Args:
        terms: a list.
        path: of the list in the pod.

    Raises:
        CodecError: as above.
    """
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    try:
        read = from_json(_PodAffinity, {field: terms})
    except CodecError as error:
        raise CodecError(f"{path}.{error}") from None
    for number, term in enumerate(read.required_during_scheduling_ignored_during_execution or ()):
        _check_selector(term.label_selector, f"{path}.{field}[{number}].labelSelector")
        _check_selector(term.namespace_selector, f"{path}.{field}[{number}].namespaceSelector")


def check_budget(budget: Any) -> None:  # noqa: ANN401 - JSON from outside can be anything
    """The same for a PodDisruptionBudget.

    Raises:
        CodecError: as above.
    """
    read = from_json(_Budget, budget)
    _check_selector(read.spec.selector if read.spec else None, "spec.selector")


def check_elastic_quota(quota: Any) -> None:  # noqa: ANN401 - JSON from outside can be anything
    """The same for an ElasticQuota.

    Raises:
        CodecError: as above.
    """
    from_json(ElasticQuota, quota)


def check_node_metric(node_metric: Any) -> None:  # noqa: ANN401 - JSON from outside can be anything
    """The same for a NodeMetric.

    Raises:
        CodecError: as above.
    """
    from_json(NodeMetric, node_metric)


def check_namespace(namespace: Any) -> None:  # noqa: ANN401 - JSON from outside can be anything
    """The same for a Namespace.

    Raises:
        CodecError: as above.
    """
    from_json(_Namespace, namespace)


def _check_selector(selector: _Selector | None, path: str) -> None:
    for number, each in enumerate((selector.match_expressions if selector else None) or ()):
        where = f"{path}.matchExpressions[{number}]"
        if each.operator not in _OPERATORS:
            raise CodecError(f"{where}.operator: must be one of {', '.join(_OPERATORS)}, got {each.operator[:80]!r}")
        if each.operator in _WITH_VALUES and each.values is None:
            raise CodecError(f"{where}: values is missing")
