"""The parts of Kubernetes' objects that we read, as types: an object of another shape is refused by its field.

An API server sends no other shapes; a proxy, a kubelet of another version or a file may. Some objects affect others: a
pod's anti-affinity, a PodDisruptionBudget's selector, a Node's labels and taints. They are stored and evaluated again
for each pod, so they are checked on arrival: a malformed object must not affect others. Each `check_…` checks the
fields that are read, and raises a CodecError that begins with the path of the malformed field.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, make_dataclass
from functools import partial
from types import GenericAlias
from typing import Any, Final

from crds.codec import CodecError, Part, from_json
from crds.elastic_quota import ElasticQuota
from crds.node_metric import NodeMetric

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_WITH_VALUES: Final = frozenset({"In", "NotIn"})


def _shape(
    title: str, /, *, base: type = Part, required: Collection[str] = (), **fields: type[Any] | list[type[Any]]
) -> type[Any]:
    """A type of the wire, by its fields: [X] is a list of X, and all but the required ones may be absent or null."""
    kinds = {
        key: GenericAlias(tuple, (kind[0], ...)) if isinstance(kind, list) else kind for key, kind in fields.items()
    }
    made = [(key, kind) if key in required else (key, kind | None, field(default=None)) for key, kind in kinds.items()]
    return make_dataclass(title, made, bases=(base,), frozen=True, slots=True)


_LABELS: Final = Mapping[str, str]
_OBJECT: Final = Mapping[str, Any]

_METADATA = _shape(
    "Metadata",
    name=str,
    namespace=str,
    uid=str,
    creation_timestamp=str,
    deletion_timestamp=str,
    labels=_LABELS,
    annotations=_LABELS,
)

# Required terms of affinity to pods.
_EXPRESSION = _shape("Expression", required=("key", "operator"), key=str, operator=str, values=[str])
_SELECTOR = _shape("Selector", match_labels=_LABELS, match_expressions=[_EXPRESSION])
_POD_TERM = _shape(
    "PodTerm", topology_key=str, namespaces=[str], namespace_selector=_SELECTOR, label_selector=_SELECTOR
)
_POD_AFFINITY = _shape("PodAffinity", required_during_scheduling_ignored_during_execution=[_POD_TERM])
_TAINT = _shape("Taint", key=str, value=str, effect=str)

# Of other kinds.
_ADDRESS = _shape("Address", type=str, address=str)
_ENDPOINTS = _shape("Endpoints", kubelet_endpoint=_shape("Endpoint", Port=int))
_NODE_SPEC = _shape("NodeSpec", taints=[_TAINT], unschedulable=bool)
_NODE_STATUS = _shape(
    "NodeStatus", capacity=_OBJECT, allocatable=_OBJECT, addresses=[_ADDRESS], daemon_endpoints=_ENDPOINTS
)
_NODE = _shape("Node", metadata=_METADATA, spec=_NODE_SPEC, status=_NODE_STATUS)
_BUDGET = _shape(
    "Budget",
    required=("metadata",),
    metadata=_METADATA,
    spec=_shape("BudgetSpec", selector=_SELECTOR),
    status=_shape("BudgetStatus", disruptions_allowed=int, disrupted_pods=_OBJECT),
)
_DEVICES = _shape("Devices", device_class_name=str, allocation_mode=str, count=int, admin_access=bool)
_DEVICE_REQUEST = _shape(
    "DeviceRequest",
    device_class_name=str,
    allocation_mode=str,
    count=int,
    admin_access=bool,
    exactly=_DEVICES,
    first_available=[_DEVICES],
)
_CLAIM_SPEC = _shape("ClaimSpec", devices=_shape("DeviceClaim", requests=[_DEVICE_REQUEST]))
_CLAIM = _shape("ResourceClaim", required=("metadata",), metadata=_METADATA, spec=_CLAIM_SPEC)
_CLAIM_TEMPLATE = _shape(
    "ClaimTemplate", required=("metadata",), metadata=_METADATA, spec=_shape("TemplateSpec", spec=_CLAIM_SPEC)
)
_NAMESPACE = _shape("Namespace", required=("metadata",), metadata=_METADATA)


check_node: Final[Callable[[Any], object]] = partial(from_json, _NODE)
"""Check a Node; its amounts are checked where they are used."""
check_namespace: Final[Callable[[Any], object]] = partial(from_json, _NAMESPACE)  # of a Namespace
check_resource_claim: Final[Callable[[Any], object]] = partial(from_json, _CLAIM)  # of a ResourceClaim
check_resource_claim_template: Final[Callable[[Any], object]] = partial(from_json, _CLAIM_TEMPLATE)  # of its template
check_elastic_quota: Final[Callable[[Any], object]] = partial(from_json, ElasticQuota)  # of an ElasticQuota
check_node_metric: Final[Callable[[Any], object]] = partial(from_json, NodeMetric)  # of a NodeMetric


def check_pod_terms(terms: Any, path: str) -> None:  # noqa: ANN401 - JSON from outside can be anything
    """Check required terms of a pod's affinity to pods.

    Raises CodecError: a field has another shape; the message begins with its path.
    """
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    try:
        read = from_json(_POD_AFFINITY, {required: terms})
    except CodecError as error:
        raise CodecError(f"{path}.{error}") from None
    for number, term in enumerate(read.required_during_scheduling_ignored_during_execution or ()):
        where = f"{path}.{required}[{number}]"
        selectors = {
            f"{where}.labelSelector": term.label_selector,
            f"{where}.namespaceSelector": term.namespace_selector,
        }
        _check_selectors(selectors)


def check_budget(budget: Any) -> None:  # noqa: ANN401 - JSON from outside can be anything
    """Check a PodDisruptionBudget. Raises CodecError: a field has another shape; the message begins with its path."""
    read = from_json(_BUDGET, budget)
    _check_selectors({"spec.selector": read.spec.selector if read.spec else None})


def _check_selectors(selectors: Mapping[str, Any]) -> None:
    for path, selector in selectors.items():
        for number, each in enumerate((selector.match_expressions if selector else None) or ()):
            where = f"{path}.matchExpressions[{number}]"
            if each.operator not in _OPERATORS:
                raise CodecError(
                    f"{where}.operator: must be one of {', '.join(_OPERATORS)}, got {each.operator[:80]!r}"
                )
            if each.operator in _WITH_VALUES and each.values is None:
                raise CodecError(f"{where}: values is missing")
