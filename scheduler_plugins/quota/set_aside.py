"""What kube-scheduler sets aside for a pod on its node, also while the pod is being resized in place."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from crds.pod import pod_requests
from crds.quantity import parse_quantity
from scheduler_plugins.quota.amounts import is_counted
from scheduler_plugins.snapshot.units import INT64_MAX, units

Json = Mapping[str, Any]

_STATUSES: Final = (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses"))


def set_aside(pod: Json) -> dict[str, int]:
    """What a pod takes of its node's allocatable, one pod in `pods` included.

    Of each container and sidecar, and of the pod as a whole where it states requests of its own, the largest of what is
    asked for, in effect and promised; where a resize is infeasible, what is asked for does not count.

    Returns:
        Amounts by resource name. [milli-cores for cpu, else base units]

    Raises:
        QuantityError: a request is not a quantity.
    """
    requests = pod_requests(_in_effect(pod))
    amounts = {name: units(name, amount, INT64_MAX) for name, amount in requests.items() if is_counted(name)}
    return {**amounts, "pods": 1}


def _in_effect(pod: Json) -> Json:
    """The pod with requests as they count now: the same pod unless it is being resized."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    infeasible = any(
        each.get("type") == "PodResizePending" and each.get("reason") == "Infeasible"
        for each in status.get("conditions") or ()
    )
    changed: dict[str, Any] = {}
    for kind, statuses in _STATUSES:
        containers = spec.get(kind) or ()
        counted = _containers(containers, status.get(statuses) or (), lasting=kind != "containers", refused=infeasible)
        if any(new is not old for new, old in zip(counted, containers, strict=True)):
            changed[kind] = counted
    whole = spec.get("resources") or {}
    if whole.get("requests") and status.get("resources"):
        counted_whole = _counted(whole, status, refused=infeasible)
        if counted_whole is not whole:
            named = {name: amount for name, amount in counted_whole["requests"].items() if name in whole["requests"]}
            changed["resources"] = {**whole, "requests": named}
    return {**pod, "spec": {**spec, **changed}} if changed else pod


def _containers(containers: Sequence[Json], statuses: Sequence[Json], *, lasting: bool, refused: bool) -> list[Json]:
    known = {str(each.get("name")): each for each in statuses if each.get("resources") is not None}
    counted = []
    for container in containers:
        status = known.get(str(container.get("name")))
        if status is not None and (not lasting or container.get("restartPolicy") == "Always"):
            resources = container.get("resources") or {}
            found = _counted(resources, status, refused=refused)
            counted.append(container if found is resources else {**container, "resources": found})
        else:
            counted.append(container)
    return counted


def _counted(resources: Json, status: Json, *, refused: bool) -> Json:
    """Resources with the requests that count; the same object where that is what is asked for."""
    asked = resources.get("requests") or {}
    has, promised = (status.get("resources") or {}).get("requests") or {}, status.get("allocatedResources") or {}
    if asked == has and promised in ({}, asked):
        return resources
    largest: dict[str, Any] = {}
    for amounts in (has, promised) if refused else (asked, has, promised):
        for name, quantity in amounts.items():
            if name not in largest or parse_quantity(quantity) > parse_quantity(largest[name]):
                largest[name] = quantity
    return {**resources, "requests": largest}
