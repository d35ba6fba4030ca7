"""The JSON of a Pod as far as Headroom reads it: its fields, their types and bounds, and the decoder.

A tenant may write a Pod of 1.5 MiB. Only the fields below become objects, and each list is bounded where it is decoded.
A pending pod beyond a bound is refused by the path of the field. A bound pod beyond a bound still uses its node, so it
counts by its numbers: requests, phase, priority, owner, and the labels and annotations that Headroom reads.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, TypedDict

import msgspec

from crds import names
from crds.quantity import QuantityError, parse_quantity
from headroom.cluster import templates

MOST_CONTAINERS: Final = 250  # containers of a pending pod, together with its init containers [items]
MOST_SOFT: Final = 50  # of each kind of soft constraint, each of which is compared with every node [items]
MOST_BYTES: Final = 65_536  # labels and spec of a pending pod, as far as they are read [bytes of JSON]
_MOST: Final = MOST_CONTAINERS  # other lists [items]
_MOST_LABELS: Final = 100
MOST_AMOUNTS: Final = 1_000  # amounts of other resources than the usual ones, over all containers [items]
_MOST_EXPRESSIONS: Final = 100  # of the preferred node selector terms together, each compared with every node [items]
_SMALL_BYTES: Final = 4_096  # a pod of fewer bytes cannot state so many amounts [bytes of JSON]
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
USUAL: Final = frozenset(
    {"cpu", "memory", "ephemeral-storage", names.BATCH_CPU, names.BATCH_MEMORY, names.MID_CPU, names.MID_MEMORY}
)
"""Resources that count of every pod, however many others it names."""

_TYPED_DICT: Any = TypedDict
_LENGTH: Final = re.compile(r"Expected `(array|object)` of length <= (\d+)")


class PodTooLarge(ValueError):  # noqa: N818 - a state of the object
    """A pod has more in a field than is read; the message begins with the path of the field."""


class MalformedPod(ValueError):  # noqa: N818 - a state of the object
    """A field of a pod has a type that Kubernetes does not allow; the message begins with the path of the field."""


def _object(title: str, /, **fields: Any) -> Any:  # noqa: ANN401 - types are values here
    """A JSON object with these fields: each may be absent or null, [X] is a list of X, [X, n] one of at most n."""
    return _TYPED_DICT(title, {name: _kind(given) | None for name, given in fields.items()}, total=False)


def _kind(given: Any) -> Any:  # noqa: ANN401 - types are values here
    if not isinstance(given, list):
        return given
    item, *most = given
    items: Any = list.__class_getitem__(item)
    return _at_most(items, most[0]) if most else items


def _at_most(kind: Any, most: int) -> Any:  # noqa: ANN401 - types are values here
    return Annotated[kind, msgspec.Meta(max_length=most)]


def _named(*keys: str) -> Any:  # noqa: ANN401 - types are values here
    return dict.fromkeys(keys, str)


_PART = _object("Part")  # an object of which only the presence counts
_AMOUNTS: Any = dict[str, str | int | float]
_LABELS: Any = dict[str, str]

# Parts that have no list of their own.
_OWNER = _object("Owner", apiVersion=str, kind=str, name=str, controller=bool)
_CONDITION = _object("Condition", type=str, status=str, reason=str, message=str, lastTransitionTime=str)
_SCHEDULED = _object("Scheduled", **{'k:{"type":"PodScheduled"}': _PART})
_WRITTEN = _object("Written", **{"f:status": _object("WrittenStatus", **{"f:conditions": _SCHEDULED})})
_MANAGED = _object("Managed", time=str, fieldsV1=_WRITTEN)
_PORT = _object("Port", hostPort=int, protocol=str, hostIP=str)
_TOLERATION = _object("Toleration", key=str, operator=str, value=str, effect=str)
_READ_LABELS = _object(
    "ReadLabels",
    **_named(
        names.LABEL_PRIORITY_CLASS,
        names.LABEL_QOS,
        names.LABEL_EVICTION_PRIORITY,
        names.LABEL_POD_TEMPLATE_HASH,
        names.LABEL_ROLLOUT_TEMPLATE_HASH,
        names.LABEL_KNATIVE_CONFIGURATION,
        names.LABEL_KNATIVE_REVISION,
        names.LABEL_DEPLOYMENT_CONFIG,
        names.DEPLOYMENT_CONFIG,
        *templates.keys(),
    ),
)
_ANNOTATIONS = _object(
    "Annotations",
    **_named(
        names.ANNOTATION_ESTIMATED_SCALING_FACTORS,
        names.ANNOTATION_ESTIMATED_SECONDS_AFTER_INITIALIZED,
        names.ANNOTATION_ESTIMATED_SECONDS_AFTER_SCHEDULED,
        names.ANNOTATION_RECLAIM_HOLD,
        names.ANNOTATION_SCHEDULING_RETRY,
        names.ANNOTATION_SCALE_UP_DELAY,
        names.LABEL_EVICTION_PRIORITY,
        names.ANNOTATION_CONFIG_MIRROR,
        names.ANNOTATION_CONFIG_SOURCE,
        names.DEPLOYMENT_CONFIG,
        *templates.keys(),
    ),
)

# Affinity.
_EXPRESSION = _object("NodeExpression", key=str, operator=str, values=[str])
_NODE_TERM = _object("NodeTerm", matchExpressions=[_EXPRESSION, _MOST], matchFields=[_EXPRESSION, _MOST])
_NODE_AFFINITY = _object(
    "NodeAffinity",
    requiredDuringSchedulingIgnoredDuringExecution=_object("NodeTerms", nodeSelectorTerms=[_NODE_TERM, _MOST]),
    preferredDuringSchedulingIgnoredDuringExecution=[
        _object("PreferredNodes", weight=int, preference=_NODE_TERM),
        MOST_SOFT,
    ],
)
_OPERATOR: Any = Literal["In", "NotIn", "Exists", "DoesNotExist"]
_SELECTOR = _object(
    "Selector",
    matchLabels=_LABELS,
    matchExpressions=[_object("Expression", key=str, operator=_OPERATOR, values=[str])],
)
_POD_TERM = _object("PodTerm", topologyKey=str, namespaces=[str], namespaceSelector=_SELECTOR, labelSelector=_SELECTOR)
_POD_AFFINITY = _object(
    "PodAffinity",
    requiredDuringSchedulingIgnoredDuringExecution=[_POD_TERM, _MOST],
    preferredDuringSchedulingIgnoredDuringExecution=[
        _object("PreferredPods", weight=int, podAffinityTerm=_POD_TERM),
        MOST_SOFT,
    ],
)
_SPREAD = _object(
    "Spread",
    maxSkew=int,
    topologyKey=str,
    whenUnsatisfiable=str,
    labelSelector=_SELECTOR,
    minDomains=int,
    matchLabelKeys=[str],
    nodeAffinityPolicy=str,
    nodeTaintsPolicy=str,
)
VOLUMES: Final[Mapping[str, str]] = {
    "persistentVolumeClaim": "a PersistentVolumeClaim",
    "ephemeral": "an ephemeral volume",
    "gcePersistentDisk": "a GCE disk",
    "awsElasticBlockStore": "an EBS volume",
    "azureDisk": "an Azure disk",
    "azureFile": "an Azure file",
    "cinder": "a Cinder volume",
    "vsphereVolume": "a vSphere volume",
    "portworxVolume": "a Portworx volume",
    "rbd": "an RBD image",
    "iscsi": "an iSCSI volume",
}
"""Volumes that kube-scheduler has filters for: reachable zones, limits per node, other users."""
_CLAIM = _object("Claim", claimName=str)
_VOLUME = _object("Volume", name=str, **{**dict.fromkeys(VOLUMES, _PART), "persistentVolumeClaim": _CLAIM})


_CONSTRAINTS: Final[Mapping[str, Any]] = {
    "nodeSelector": _at_most(_LABELS, _MOST),
    "affinity": _object(
        "Affinity", nodeAffinity=_NODE_AFFINITY, podAffinity=_POD_AFFINITY, podAntiAffinity=_POD_AFFINITY
    ),
    "tolerations": [_TOLERATION, _MOST],
    "topologySpreadConstraints": [_SPREAD, MOST_SOFT],
    "volumes": [_VOLUME, _MOST],
    "hostNetwork": bool,
    "hostUsers": bool,
}


def _pod(bounded: bool) -> Any:  # noqa: ANN401, FBT001 - types are values here
    """The type of a pod: with bounds all that is read of a pending pod, else the numbers of a bound one."""

    def most(item: Any, count: int = _MOST) -> Any:  # noqa: ANN401 - types are values here
        return [item, count] if bounded else [item]

    amounts = _at_most(_AMOUNTS, MOST_AMOUNTS) if bounded else _AMOUNTS
    resources = _object("Resources", requests=amounts, limits=amounts)
    rules = {"restartPolicyRules": [_object("RestartRule", action=str), _MOST]} if bounded else {}
    container = _object("Container", name=str, resources=resources, restartPolicy=str, ports=most(_PORT), **rules)
    status = _object("ContainerStatus", name=str, containerID=str, resources=resources, allocatedResources=amounts)
    return _object(
        "Pod",
        metadata=_object(
            "Metadata",
            name=str,
            namespace=str,
            uid=str,
            resourceVersion=str,
            creationTimestamp=str,
            deletionTimestamp=str,
            labels=_at_most(_LABELS, _MOST_LABELS) if bounded else _READ_LABELS,
            annotations=_ANNOTATIONS,
            ownerReferences=most(_OWNER),
            managedFields=most(_MANAGED),
        ),
        spec=_object(
            "PodSpec",
            nodeName=str,
            schedulerName=str,
            priority=int,
            preemptionPolicy=str,
            schedulingGates=most(_PART),
            containers=most(container),
            initContainers=most(container),
            resources=resources,
            overhead=amounts,
            resourceClaims=most(_object("PodClaim", **_named("resourceClaimName", "resourceClaimTemplateName"))),
            schedulingGroup=_object("Group", **_named("podGroupName")),
            workloadRef=_object("Workload", **_named("name", "podGroup", "podGroupReplicaKey")),
            **(_CONSTRAINTS if bounded else {}),
        ),
        status=_object(
            "PodStatus",
            phase=str,
            qosClass=str,
            startTime=str,
            nominatedNodeName=str,
            conditions=most(_CONDITION),
            containerStatuses=most(status),
            initContainerStatuses=most(status),
            resources=resources,
            allocatedResources=amounts,
        ),
    )


_BOUNDED: Final = msgspec.json.Decoder(_pod(bounded=True))
_NUMBERS: Final = msgspec.json.Decoder(_pod(bounded=False))
_HEAD: Final = msgspec.json.Decoder(
    _object("Head", metadata=_object("HeadMetadata", name=str, namespace=str, uid=str, resourceVersion=str))
)
_BOUND: Final = msgspec.json.Decoder(_object("Bound", spec=_object("BoundSpec", nodeName=str)))
_ENCODE: Final = msgspec.json.Encoder().encode

TypedPod = dict[str, Any]
"""A pod as `decode_pod` returns it: plain JSON of known fields and types."""


def decode_pod(raw: bytes | msgspec.Raw) -> TypedPod:
    """Decode a pod from its JSON.

    Raises:
        PodTooLarge: it is pending, and a field is beyond its bound.
        MalformedPod: a field has a type that Kubernetes does not allow, or the text is no JSON.
    """
    try:
        pod = _decode(_BOUNDED, raw)
        _check_sums(pod, len(memoryview(raw)))
    except PodTooLarge:
        if not (_decode(_BOUND, raw).get("spec") or {}).get("nodeName"):
            raise
    else:
        return pod
    return _decode(_NUMBERS, raw)


def _decode(decoder: msgspec.json.Decoder[Any], raw: bytes | msgspec.Raw) -> TypedPod:
    """Decode a type of this module. No variable holds an error: it would keep the JSON until a garbage collection."""
    try:
        decoded: TypedPod = decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _problem(error) from None
    return decoded


def typed_pod(pod: Mapping[str, Any]) -> TypedPod:
    """A pod of plain JSON, such as a file or another program holds, as `decode_pod` decodes it. Raises as that does."""
    try:
        raw = _ENCODE(pod)
    except (TypeError, ValueError, RecursionError) as error:
        raise MalformedPod(f"the pod is not JSON: {error}") from None
    return decode_pod(raw)


def undecoded(raw: bytes | msgspec.Raw) -> TypedPod:
    """Return the identity of a pod in `metadata`, empty where it cannot be read, and its JSON in `raw`."""
    try:
        head: TypedPod = _HEAD.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        head = {}
    return {"metadata": head.get("metadata") or {}, "raw": raw}


def try_decode_pod(raw: bytes | msgspec.Raw) -> TypedPod:
    """Decode a pod from its JSON; return one that cannot be decoded as `undecoded` does."""
    try:
        return decode_pod(raw)
    except ValueError:
        return undecoded(raw)


def decoded(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Decode a pod of `undecoded`; another is decoded already. Raises as `decode_pod` does."""
    return decode_pod(pod["raw"]) if "raw" in pod else pod


def _check_sums(pod: TypedPod, size: int) -> None:
    """Check what no single list bounds. Raises PodTooLarge."""
    spec = pod.get("spec") or {}
    containers = len(spec.get("containers") or ()) + len(spec.get("initContainers") or ())
    if containers > MOST_CONTAINERS:
        what = f"{containers} with the init containers"
        raise PodTooLarge(f"spec.containers: {what}, at most {MOST_CONTAINERS} are allowed")
    terms = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_PREFERRED) or ()
    expressions = sum([len((term.get("preference") or {}).get("matchExpressions") or ()) for term in terms])
    if expressions > _MOST_EXPRESSIONS:
        what = f"{expressions} expressions, at most {_MOST_EXPRESSIONS} are allowed"
        raise PodTooLarge(f"spec.affinity.nodeAffinity.{_PREFERRED}: {what}")
    if size < _SMALL_BYTES:
        return
    if (amounts := extended_amounts(spec)) > MOST_AMOUNTS:
        raise PodTooLarge(
            f"spec.containers: {amounts} amounts of extended resources, at most {MOST_AMOUNTS} are allowed"
        )
    if size <= MOST_BYTES:
        return
    labels = (pod.get("metadata") or {}).get("labels")
    sizes = {"metadata.labels": len(_ENCODE(labels)), **{f"spec.{name}": len(_ENCODE(spec[name])) for name in spec}}
    if (total := sum(sizes.values())) > MOST_BYTES:
        largest = max(sizes, key=sizes.__getitem__)
        raise PodTooLarge(f"{largest}: {sizes[largest]} of {total} bytes of JSON, at most {MOST_BYTES} are allowed")


def extended_amounts(spec: Mapping[str, Any]) -> int:
    """Return how many amounts of other resources than the usual ones a pod states."""
    parts = [spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    stated = [part["resources"] for part in parts if part.get("resources")]
    lists = [amounts for resources in stated for amounts in resources.values() if amounts]
    if spec.get("overhead"):
        lists.append(spec["overhead"])
    return sum([len(amounts.keys() - USUAL) for amounts in lists])


def check_amounts(pod: Mapping[str, Any]) -> None:
    """Raise MalformedPod with the path of the first amount of a typed pod that is not a quantity."""
    for path, amounts in _resource_lists(pod.get("spec") or {}):
        for name, amount in amounts.items():
            try:
                parse_quantity(amount)
            except QuantityError as error:
                raise MalformedPod(f"{path}.{name}: {error}") from None


def _resource_lists(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The amounts that a pod states, part by part, with the path of each list."""
    parts = [("spec", spec)]
    for kind in ("containers", "initContainers"):
        parts += [(f"spec.{kind}[{row}]", part) for row, part in enumerate(spec.get(kind) or ())]
    for path, part in parts:
        stated = part.get("resources") or {}
        yield from ((f"{path}.resources.{kind}", stated.get(kind) or {}) for kind in ("requests", "limits"))
    yield "spec.overhead", spec.get("overhead") or {}


def _problem(error: Exception) -> ValueError:
    """The error in words that begin with the path of the field."""
    if isinstance(error, RecursionError):
        return MalformedPod("it is nested deeper than can be read")
    text, _, path = str(error).partition(" - at `$")
    where = path.rstrip("`").removeprefix(".") or "the pod"
    if result := _LENGTH.match(text):
        return PodTooLarge(f"{where}: at most {result[2]} items are allowed")
    expected = text.replace(" | null`", "`").replace("`", "").replace("Expected", "must be")
    return MalformedPod(f"{where}: {expected}")
