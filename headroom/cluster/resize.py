"""Requests and limits of a pod that is being resized in place: requested, allocated and actual.

`spec` has the requested resources, `allocatedResources` of a container's status (and of the pod's) the allocated ones,
`resources` the actual ones. They differ while a resize is pending, in progress, or cannot be done on this node
(condition PodResizePending, reason Deferred or Infeasible; Kubernetes 1.33 and newer). Only CPU and memory are resized.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from crds.quantity import parse_quantity

Json = Mapping[str, Any]

_STATUSES: Final = (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses"))
_RESIZED: Final = frozenset({"cpu", "memory"})


class Resize(Enum):
    """Which side a sum errs on while a pod is being resized."""

    SET_ASIDE = "set aside"
    """The resources that kube-scheduler reserves on the node: the largest of requested, allocated and actual, without
    the requested ones where they are infeasible. For every sum that limits other pods."""
    GRANTED = "granted"
    """The resources that the pod has for certain: the smallest of the three. For the reclaimable part of requests, and
    for unknown usage: resources that a pod was never granted cannot be reused."""


def in_effect(pod: Json, view: Resize) -> Json:
    """The pod with the requests and limits that count: the very same object unless it is being resized.

    Asked for 64 cores, promised 2, in effect 2: 64 are set aside, 2 where that is infeasible, and 2 are granted.

    Raises QuantityError: an amount is not a quantity.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    pending = (condition for condition in status.get("conditions") or () if condition.get("type") == "PodResizePending")
    refused = any(condition.get("reason") == "Infeasible" for condition in pending)
    changed: dict[str, Any] = {}
    for kind, statuses in _STATUSES:
        containers = spec.get(kind) or ()
        container_statuses = status.get(statuses) or ()
        counted = _containers(containers, container_statuses, view, lasting=kind != "containers", refused=refused)
        if any(new is not old for new, old in zip(counted, containers, strict=True)):
            changed[kind] = counted
    whole = spec.get("resources") or {}
    counted_whole = _counted(whole, status, view, refused=refused) if whole else whole
    if counted_whole is not whole:  # resources that the pod level does not name come from containers
        changed["resources"] = {
            kind: {name: amount for name, amount in counted_whole[kind].items() if name in (whole.get(kind) or {})}
            for kind in ("requests", "limits")
        }
    return {**pod, "spec": {**spec, **changed}} if changed else pod


def _containers(
    containers: Sequence[Json], statuses: Sequence[Json], view: Resize, *, lasting: bool, refused: bool
) -> list[Json]:
    """Containers as they count; of init containers only those that last (sidecars) can be resized."""
    by_name = {str(status.get("name")): status for status in statuses}
    counted = []
    for container in containers:
        status = by_name.get(str(container.get("name")))
        resources = container.get("resources") or {}
        result = resources
        if status is not None and (not lasting or container.get("restartPolicy") == "Always"):
            result = _counted(resources, status, view, refused=refused)
        counted.append(container if result is resources else {**container, "resources": result})
    return counted


def _counted(resources: Json, status: Json, view: Resize, *, refused: bool) -> Json:
    """Return the effective resources of a container or a pod; the same object where they are as requested."""
    has, promised = status.get("resources"), status.get("allocatedResources") or {}
    if has is None and (view is Resize.SET_ASIDE or not promised):
        return resources  # an old kubelet; kube-scheduler reads allocated resources only beside actual ones
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    stated = [requests for requests in ((has or {}).get("requests") or {}, promised) if requests]
    limited = (has or {}).get("limits") or {}
    if all(amounts == requests for amounts in stated) and limited in ({}, limits) and (stated or not requests):
        return resources
    if view is Resize.GRANTED:
        return {
            **resources,
            "requests": _smallest(requests, stated, without=has is not None or bool(promised)),
            "limits": _smallest(limits, [limited], without=False),
        }
    return {
        **resources,
        "requests": _largest(stated if refused else [requests, *stated]),
        "limits": _largest([limited] if refused and limited else [limits, limited]),
    }


def _largest(amounts: Sequence[Json]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for amount in amounts:
        for name, quantity in amount.items():
            previous: Any = result.setdefault(name, quantity)
            if previous != quantity and parse_quantity(quantity) > parse_quantity(previous):
                result[name] = quantity
    return result


def _smallest(requested: Json, stated: Sequence[Json], *, without: bool) -> dict[str, Any]:
    """Return the smallest of requested and stated amounts; `without`: omit resizable resources that are not stated."""
    result = {}
    for name, quantity in requested.items():
        quantities = [amounts[name] for amounts in stated if name in amounts]
        if quantities or not (without and name in _RESIZED):
            result[name] = min([quantity, *quantities], key=parse_quantity)
    return result
