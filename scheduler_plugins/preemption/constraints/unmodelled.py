"""What of a pod the model of kube-scheduler's filters cannot judge."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from scheduler_plugins.preemption.constraints.taints import NUMERIC
from scheduler_plugins.quota.namespaces import Namespaces
from scheduler_plugins.quota.pod import QuotaPod

Json = Mapping[str, Any]

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
    """Names what the model cannot judge.

    Args:
        spec: of the pod.
    """
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


def between_pods(pod: QuotaPod, repelling: Iterable[QuotaPod], namespaces: Namespaces) -> Iterator[str]:
    """Names what makes a node depend on which pods run where: no pod is evicted for a pod that has any of it.

    Args:
        pod: the pod that is to be placed.
        repelling: the bound pods with required anti-affinity.
        namespaces: labels of namespaces.
    """
    spec = (pod.json or {}).get("spec") or {}
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution"):
            yield f"required {kind}"
    if any(each.get("whenUnsatisfiable") == "DoNotSchedule" for each in spec.get("topologySpreadConstraints") or ()):
        yield "topologySpreadConstraints with DoNotSchedule"
    labels = namespaces.labels(pod.namespace)
    kept_once = {id(other.anti_affinity): other.anti_affinity for other in repelling}  # pods of a workload share theirs
    terms = (term for each in kept_once.values() for term in each)
    if any(term.reaches(pod.namespace, labels) and term.picks(pod.labels) for term in terms):
        yield "labels that required podAntiAffinity of running pods selects"


def kinds_beyond_model(spec: Json) -> frozenset[str]:
    """The same without names: pods of which it is the same are judged alike.

    Args:
        spec: of the pod.
    """
    return frozenset(name.partition(" (")[2] or name for name in beyond_model(spec))


def _needs_declared_features(spec: Json) -> bool:
    """Whether only nodes take it that declare a feature: all of kube-scheduler 1.36's that concern new pods."""
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        return True
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    rules = (rule for container in containers for rule in container.get("restartPolicyRules") or ())
    return any(rule.get("action") == "RestartAllContainers" for rule in rules)
