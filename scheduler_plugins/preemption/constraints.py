"""What kube-scheduler 1.36's filters ask of a node: node affinity, taints, host ports, what is not modelled. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from scheduler_plugins.quota.objects import Namespaces, QuotaNode
from scheduler_plugins.quota.pod import QuotaPod

Json = Mapping[str, Any]
NodeTest: TypeAlias = Callable[[QuotaNode], bool]  # whether a node is one of those asked for

OTHER_NODES: Final = "node(s) didn't match Pod's node affinity/selector"  # as kube-scheduler says it
_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_TWO_63: Final = 2**63


def required_nodes(spec: Json) -> NodeTest | None:
    """A test of whether a node is one that a pod asks for; None: every node is."""
    selector = spec.get("nodeSelector") or {}
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not selector and affinity is None:
        return None
    if affinity is None:
        return lambda node: _has_labels(node, selector)
    terms = [test for term in affinity.get("nodeSelectorTerms") or () if (test := _term(term)) is not None]
    return lambda node: _has_labels(node, selector) and any(test(node) for test in terms)


def _has_labels(node: QuotaNode, selector: Mapping[str, str]) -> bool:
    labels = node.labels
    return all(labels.get(name) == wanted for name, wanted in selector.items())


def _term(term: Json) -> NodeTest | None:
    """One of the terms of which one must hold; None: it holds for no node, as a term that is empty or malformed."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    tests = [*(_of_labels(each) for each in expressions), *(_of_fields(each) for each in fields)]
    if not tests or None in tests:
        return None
    return lambda node: all(test(node) for test in tests if test is not None)


def _of_labels(expression: Json) -> NodeTest | None:
    key, operator = expression.get("key", ""), expression.get("operator")
    values: Sequence[str] = expression.get("values") or ()
    if not all(_LABEL_VALUE.fullmatch(value) for value in values):
        return None
    tests: Mapping[str, NodeTest]
    if values:
        listed = frozenset(values)
        tests = {
            "In": lambda node: node.labels.get(key) in listed,
            "NotIn": lambda node: node.labels.get(key) not in listed,
        }
    else:
        tests = {"Exists": lambda node: key in node.labels, "DoesNotExist": lambda node: key not in node.labels}
    bound = _integer(values[0]) if len(values) == 1 else None
    if operator not in {"Gt", "Lt"} or bound is None:
        return tests.get(str(operator))
    sign = 1 if operator == "Gt" else -1
    return lambda node: (has := _integer(node.labels.get(key, ""))) is not None and sign * has > sign * bound


def _of_fields(expression: Json) -> NodeTest | None:
    """Of a node's fields only the name can be asked for, and one name per expression."""
    operator = expression.get("operator")
    values: Sequence[str] = expression.get("values") or ()
    if len(values) != 1:
        return None
    wanted = values[0] if expression.get("key") == "metadata.name" else None
    if operator == "In":
        return lambda node: node.name == wanted
    return (lambda node: node.name != wanted) if operator == "NotIn" else None


def _integer(text: str) -> int | None:
    """A number as Go's ParseInt reads it."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_TWO_63 <= number < _TWO_63 else None


TAINTED: Final = "node(s) had untolerated taint(s)"  # as kube-scheduler says it
CORDONED: Final = "node(s) were unschedulable"  # as kube-scheduler says it
NUMERIC: Final = frozenset({"Lt", "Gt"})
"""Operators that tolerate nothing unless a feature gate is on that kube-scheduler 1.36 ships turned off."""
_REFUSING: Final = frozenset({"NoSchedule", "NoExecute"})
_CORDON: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def keeps_away(taints: Sequence[Json], tolerations: Sequence[Json]) -> bool:
    """Whether a node's taints refuse a pod with these tolerations."""
    return any(
        taint.get("effect") in _REFUSING and not any(_tolerates(each, taint) for each in tolerations)
        for taint in taints
    )


def tolerates_cordon(tolerations: Sequence[Json]) -> bool:
    """Whether a pod with these tolerations may go to a node that is cordoned."""
    return any(_tolerates(each, _CORDON) for each in tolerations)


def _tolerates(toleration: Json, taint: Json) -> bool:
    """Whether one toleration covers one taint; an empty effect or key covers all."""
    effect, key, operator = toleration.get("effect"), toleration.get("key"), toleration.get("operator") or "Equal"
    if (effect and effect != taint.get("effect")) or (key and key != taint.get("key")):
        return False
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(operator == "Exists")


HostPort: TypeAlias = tuple[str, str, int]  # address, protocol, port

PORTS_TAKEN: Final = "node(s) didn't have free ports for the requested pod ports"  # as kube-scheduler says it
_EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - nothing is bound here


def ports_conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Whether a port is wanted that is in use: on the same address, or if either is on every address."""
    taken: dict[tuple[str, int], set[str]] = {}
    for address, protocol, port in used:
        taken.setdefault((protocol, port), set()).add(address)
    for address, protocol, port in wanted:
        addresses = taken.get((protocol, port), set())
        if addresses and (address == _EVERY_ADDRESS or addresses & {address, _EVERY_ADDRESS}):
            return True
    return False


_VOLUMES: Final[Mapping[str, str]] = {
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
"""Volumes that kube-scheduler has filters for: where they can be reached, how many a node takes, who else uses them."""


def beyond_model(spec: Json) -> Iterator[str]:
    """Names what the model cannot judge."""
    for volume in spec.get("volumes") or ():
        for kind, words in _VOLUMES.items():
            if volume.get(kind) is not None:
                yield f"volume {volume.get('name')} ({words})"
    if spec.get("resourceClaims"):
        yield "resourceClaims"
    if spec.get("schedulingGroup"):
        yield "schedulingGroup"
    if any(toleration.get("operator") in NUMERIC for toleration in spec.get("tolerations") or ()):
        yield "tolerations with Lt or Gt"
    if _needs_declared_features(spec):
        yield "features that nodes declare"


def pod_constraints(pod: QuotaPod, with_anti_affinity: Iterable[QuotaPod], namespaces: Namespaces) -> Iterator[str]:
    """Names what makes a node depend on which pods run where: no pod is evicted for a pod that has any of it."""
    spec = (pod.json or {}).get("spec") or {}
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution"):
            yield f"required {kind}"
    if any(each.get("whenUnsatisfiable") == "DoNotSchedule" for each in spec.get("topologySpreadConstraints") or ()):
        yield "topologySpreadConstraints with DoNotSchedule"
    labels = namespaces.labels(pod.namespace)
    # Pods of one workload share theirs.
    distinct = {id(other.anti_affinity): other.anti_affinity for other in with_anti_affinity}
    terms = (term for each in distinct.values() for term in each)
    if any(term.reaches(pod.namespace, labels) and term.picks(pod.labels) for term in terms):
        yield "labels that required podAntiAffinity of running pods selects"


def kinds_beyond_model(spec: Json) -> frozenset[str]:
    """The same without names: pods of which it is the same are judged alike."""
    return frozenset(name.partition(" (")[2] or name for name in beyond_model(spec))


def _needs_declared_features(spec: Json) -> bool:
    """Whether only nodes take it that declare a feature: all of kube-scheduler 1.36's that concern new pods."""
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        return True
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    rules = (rule for container in containers for rule in container.get("restartPolicyRules") or ())
    return any(rule.get("action") == "RestartAllContainers" for rule in rules)
