"""Functions on a pod given as Kubernetes JSON: its requests, phase and owner."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from crds import names
from crds.quantity import parse_quantity
from headroom.cluster.resize import Resize, in_effect
from headroom.cluster.templates import TEMPLATES, Template, step, template

_TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})
_STATIC_SOURCES: Final = frozenset({"file", "http"})
_POD_LEVEL: Final = frozenset({"cpu", "memory"})
_TIMED_RUNS: Final = {
    "Job": ("CronJob", re.compile(r"-[0-9]{8}$")),
    "Workflow": ("CronWorkflow", re.compile(r"-[0-9]{10}$")),
}
"""Kind of a run -> kind of its schedule, and the time that ends the run's name: minutes, seconds since 1970."""
_NUMBERED: Final = re.compile(r"-[0-9]+$")
_TEMPLATE_HASHES: Final = {names.LABEL_POD_TEMPLATE_HASH: "Deployment", names.LABEL_ROLLOUT_TEMPLATE_HASH: "Rollout"}
"""Label whose value ends a ReplicaSet's name -> kind of the ReplicaSet's owner."""


def pod_requests(
    pod: Mapping[str, Any], resize: Resize = Resize.SET_ASIDE, only: Collection[str] | None = None
) -> dict[str, Fraction]:
    """Return the pod's requests per resource name: by default those that kube-scheduler reserves for it.

    In base units (cores, bytes, pieces). Sum of the containers and sidecars, or the largest init phase if that is more;
    pod-level resources override it per resource; the overhead of the runtime class is added.

    Raises QuantityError: an amount is not a quantity.
    """
    pod = in_effect(pod, resize)
    totals = _pod_totals(pod, "requests", only)
    _add(totals, _of((pod.get("spec") or {}).get("overhead"), only))
    return totals


def pod_limits(
    pod: Mapping[str, Any], resize: Resize = Resize.SET_ASIDE, only: Collection[str] | None = None
) -> dict[str, Fraction]:
    """Return the pod's limits per resource name; a resource without any limit is absent.

    In base units. As `pod_requests`, but overhead is added only where there is a limit. A container without a limit
    adds nothing.

    Raises QuantityError: an amount is not a quantity.
    """
    pod = in_effect(pod, resize)
    totals = _pod_totals(pod, "limits", only)
    overhead = _of((pod.get("spec") or {}).get("overhead"), only)
    _add(totals, {name: amount for name, amount in overhead.items() if totals.get(name)})
    return totals


def _pod_totals(pod: Mapping[str, Any], kind: str, only: Collection[str] | None) -> dict[str, Fraction]:
    spec = pod.get("spec") or {}
    totals: dict[str, Fraction] = {}
    for container in spec.get("containers") or ():
        _add(totals, _of((container.get("resources") or {}).get(kind), only))
    _add_init_containers(totals, spec.get("initContainers") or (), kind, only)
    pod_level = _of((spec.get("resources") or {}).get(kind), only)
    totals.update(
        (name, parse_quantity(amount))
        for name, amount in pod_level.items()
        if name in _POD_LEVEL or name.startswith("hugepages-")
    )
    return totals


def _of(amounts: Mapping[str, Any] | None, only: Collection[str] | None) -> Mapping[str, Any]:
    amounts = amounts or {}
    return amounts if only is None else {name: amounts[name] for name in only if name in amounts}


def _add_init_containers(
    totals: dict[str, Fraction],
    containers: Iterable[Mapping[str, Any]],
    kind: str,
    only: Collection[str] | None,
) -> None:
    """Add sidecars (which stay) to the totals, then raise the totals to the largest init phase.

    A phase counts only the resources that its own container names: the totals have the sidecars' others. So the time
    grows with the number of amounts, not with its square.
    """
    sidecars: dict[str, Fraction] = {}
    largest: dict[str, Fraction] = {}
    for container in containers:
        amounts = _of((container.get("resources") or {}).get(kind), only)
        if container.get("restartPolicy") == "Always":
            _add(totals, amounts)
            _add(sidecars, amounts)
            continue
        for name, amount in amounts.items():
            phase = parse_quantity(amount) + sidecars[name] if name in sidecars else parse_quantity(amount)
            largest[name] = max(largest.get(name, phase), phase)
    for name, amount in largest.items():
        totals[name] = max(totals.get(name, amount), amount)


def _add(totals: dict[str, Fraction], amounts: Mapping[str, Any]) -> None:
    for name, amount in amounts.items():
        parsed = parse_quantity(amount)
        totals[name] = totals[name] + parsed if name in totals else parsed


def is_terminal(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in _TERMINAL_PHASES


def is_admitted(pod: Mapping[str, Any]) -> bool:
    """Return whether a kubelet has admitted the pod: its status shows it; that of a pod that is only bound does not."""
    status = pod.get("status") or {}
    if not (pod.get("spec") or {}).get("nodeName"):
        return False
    return bool(status.get("startTime") or status.get("containerStatuses")) or status.get("phase") == "Running"


def is_mirror_pod(pod: Mapping[str, Any]) -> bool:
    """Return whether this is the mirror of a static pod, which kubelet runs from a file.

    The annotation counts only on a pod whose owner is the node that it is bound to: any user may annotate a pod.
    Kubelet creates mirrors in this way, and NodeRestriction restricts it to its own node. Kubernetes rejects a request
    that adds the annotation to a pod, or changes it.
    """
    node = (pod.get("spec") or {}).get("nodeName")
    if not node or not _annotations(pod).get(names.ANNOTATION_CONFIG_MIRROR):
        return False
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return any(
        (owner.get("apiVersion", "v1"), owner.get("kind"), owner.get("name")) == ("v1", "Node", node)
        for owner in owners
    )


def cgroup_uid(pod: Mapping[str, Any]) -> str:
    """Return the uid in the name of the pod's cgroup: its own; for a mirror pod that of the running static pod.

    Kubelet lists a static pod itself under the uid that it runs with.
    """
    if is_mirror_pod(pod):
        return str(_annotations(pod)[names.ANNOTATION_CONFIG_MIRROR])
    return str((pod.get("metadata") or {}).get("uid", ""))


def pod_key(pod: Mapping[str, Any]) -> str:
    metadata = pod.get("metadata") or {}
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def workload_key(pod: Mapping[str, Any], templates: Sequence[Template] = TEMPLATES) -> str | None:
    """Return the key of the pod's workload, "namespace/Kind/name"; None for a pod without one.

    The name omits the part that changes with each rollout or run (a ReplicaSet's template hash, the number of
    a Knative revision or of an OpenShift deployment, the scheduled time of a CronJob's Job). A pod that runs once has
    its template as its workload, as far as labels name it. A static pod comes back under its own name; kubelet lists it
    without owner.
    """
    metadata = pod.get("metadata") or {}
    result = workload(pod, templates)
    if result is None and _annotations(pod).get(names.ANNOTATION_CONFIG_SOURCE) in _STATIC_SOURCES:
        result = "Node", ""
    if result is None:
        return None
    kind, name = result
    if kind == "Node":
        kind, name = "Pod", str(metadata.get("name", ""))
    elif kind in _TEMPLATE_HASHES.values():
        kind = str((_controller(pod) or {}).get("kind", ""))
    return f"{metadata.get('namespace', '')}/{kind}/{name}"


def workload(pod: Mapping[str, Any], templates: Sequence[Template] = TEMPLATES) -> tuple[str, str] | None:
    """Return kind and name of the pod's template or top controller, as names and labels show it; None without one."""
    owner = _controller(pod)
    if (result := template(pod, owner or {}, templates)) is not None or owner is None:
        return result
    kind, name = str(owner.get("kind", "")), str(owner.get("name", ""))
    if kind in _TIMED_RUNS:
        schedule, time = _TIMED_RUNS[kind]
        scheduled = time.sub("", name)
        return kind if scheduled == name else schedule, scheduled + step(pod.get("metadata") or {}, owner)
    labels = (pod.get("metadata") or {}).get("labels") or {}
    if kind == "ReplicationController":
        configs = (
            labels.get(names.LABEL_DEPLOYMENT_CONFIG),
            *(metadata.get(names.DEPLOYMENT_CONFIG) for metadata in (labels, _annotations(pod))),
        )
        config = next((config for config in configs if config and _NUMBERED.sub("", name) == config), None)
        return ("DeploymentConfig", config) if config else (kind, name)
    for label, rolled_out_by in _TEMPLATE_HASHES.items():
        end = f"-{labels.get(label)}"
        if labels.get(label) and name.endswith(end):
            return _of_revision(rolled_out_by if kind == "ReplicaSet" else kind, name.removesuffix(end), labels)
    return kind, name


def _of_revision(kind: str, name: str, labels: Mapping[str, str]) -> tuple[str, str]:
    configuration, revision = labels.get(names.LABEL_KNATIVE_CONFIGURATION), labels.get(names.LABEL_KNATIVE_REVISION)
    if configuration and revision and name == f"{revision}-deployment":
        return "Configuration", configuration
    return kind, name


def _controller(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def _annotations(pod: Mapping[str, Any]) -> Mapping[str, str]:
    return (pod.get("metadata") or {}).get("annotations") or {}
