"""The filters of kube-scheduler 1.36 for a node: node affinity, taints, host ports, unmodelled constraints. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from headroom.cluster.node_selection import tolerates
from headroom.cluster.typed_pod import VOLUMES
from scheduler_plugins.quota.objects import Namespaces
from scheduler_plugins.quota.pod import QuotaPod

Json = Mapping[str, Any]

OTHER_NODES: Final = "node(s) didn't match Pod's node affinity/selector"  # kube-scheduler's text
TAINTED: Final = "node(s) had untolerated taint(s)"  # kube-scheduler's text
CORDONED: Final = "node(s) were unschedulable"  # kube-scheduler's text
NUMERIC: Final = frozenset({"Lt", "Gt"})
"""Operators that tolerate nothing unless a feature gate is on that kube-scheduler 1.36 ships turned off."""
_INSUFFICIENT: Final = re.compile(r"\bInsufficient ([\w./-]*\w)")
_REFUSING: Final = frozenset({"NoSchedule", "NoExecute"})
_CORDON: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def keeps_away(taints: Sequence[Json], tolerations: Sequence[Json]) -> bool:
    """Return whether a node's taints refuse a pod with these tolerations."""
    return any(
        taint.get("effect") in _REFUSING and not any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
    )


def tolerates_cordon(tolerations: Sequence[Json]) -> bool:
    return any(tolerates(toleration, _CORDON) for toleration in tolerations)


HostPort: TypeAlias = tuple[str, str, int]  # address, protocol, port

PORTS_TAKEN: Final = "node(s) didn't have free ports for the requested pod ports"  # kube-scheduler's text
_EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - nothing is bound here


def ports_conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Return whether a port is wanted that is in use: on the same address, or if either is on every address."""
    taken: dict[tuple[str, int], set[str]] = {}
    for address, protocol, port in used:
        taken.setdefault((protocol, port), set()).add(address)
    for address, protocol, port in wanted:
        addresses = taken.get((protocol, port), set())
        if addresses and (address == _EVERY_ADDRESS or addresses & {address, _EVERY_ADDRESS}):
            return True
    return False


def insufficient(pod: Json) -> frozenset[str]:
    """Return the resources that kube-scheduler found too little of in its last attempt at a pod, by its message."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    messages = (condition.get("message") for condition in conditions if condition.get("type") == "PodScheduled")
    return frozenset(name for message in messages for name in _INSUFFICIENT.findall(str(message)))


def beyond_model(spec: Json) -> Iterator[str]:
    """Yield the constraints that the model does not cover."""
    for volume in spec.get("volumes") or ():
        for kind, words in VOLUMES.items():
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
    """Yield the constraints on other pods: a pod with one of them has no victims."""
    spec = (pod.json or {}).get("spec") or {}
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution"):
            yield f"required {kind}"
    if any(
        constraint.get("whenUnsatisfiable") == "DoNotSchedule"
        for constraint in spec.get("topologySpreadConstraints") or ()
    ):
        yield "topologySpreadConstraints with DoNotSchedule"
    labels = namespaces.labels(pod.namespace)
    # Pods of one workload share theirs.
    distinct = {id(pod.anti_affinity): pod.anti_affinity for pod in with_anti_affinity}
    terms = (term for affinity in distinct.values() for term in affinity)
    if any(term.reaches(pod.namespace, labels) and term.picks(pod.labels) for term in terms):
        yield "labels that required podAntiAffinity of running pods selects"


def kinds_beyond_model(spec: Json) -> frozenset[str]:
    """The same without names: pods of which it is the same are evaluated alike."""
    return frozenset(name.partition(" (")[2] or name for name in beyond_model(spec))


def _needs_declared_features(spec: Json) -> bool:
    """Return whether only nodes take it that declare a feature: all of kube-scheduler 1.36's that concern new pods."""
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        return True
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    rules = (rule for container in containers for rule in container.get("restartPolicyRules") or ())
    return any(rule.get("action") == "RestartAllContainers" for rule in rules)
