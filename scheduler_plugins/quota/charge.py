"""What a pod is charged to its quota."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Any

from crds.quantity import parse_quantity
from scheduler_plugins.quota.amounts import amounts_of, larger, plus


class Charging(StrEnum):
    """What of a pod is charged."""

    CONTAINERS = "containers"
    """What its containers request, as upstream's code adds it up."""
    SCHEDULER = "scheduler"
    """All that kube-scheduler sets aside for it: also what sidecars, and the pod as a whole, request."""


def charge_of(pod: Mapping[str, Any]) -> dict[str, int]:
    """What a pod is charged: its containers' requests, no less than any init container's, and its overhead.

    As upstream's CapacityScheduling counts: limits, pod-level resources and the lasting of sidecars are not looked at.
    While a pod is being resized in place, the largest of what a container asks for, has and has been promised counts,
    as kube-scheduler counts on nodes; where the resize is infeasible, what it asks for does not.

    Returns:
        Amounts by resource name. [milli-cores for cpu, else base units]

    Raises:
        QuantityError: a request is not a quantity.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    infeasible = any(
        each.get("type") == "PodResizePending" and each.get("reason") == "Infeasible"
        for each in status.get("conditions") or ()
    )
    total: dict[str, int] = {}
    known = _by_name(status.get("containerStatuses"))
    for container in spec.get("containers") or ():
        total = plus(total, amounts_of(_asked_and_had(container, known, infeasible=infeasible)))
    known = _by_name(status.get("initContainerStatuses"))
    for container in spec.get("initContainers") or ():
        lasts = container.get("restartPolicy") == "Always"
        total = larger(total, amounts_of(_asked_and_had(container, known if lasts else {}, infeasible=infeasible)))
    return plus(total, amounts_of(spec.get("overhead")))


def _by_name(statuses: Iterable[Mapping[str, Any]] | None) -> Mapping[str, Mapping[str, Any]]:
    return {str(each.get("name")): each for each in statuses or ()}


def _asked_and_had(
    container: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]], *, infeasible: bool
) -> Mapping[str, Any]:
    """What a container asks for or, during a resize, still has or has been promised, if that is more."""
    asked = (container.get("resources") or {}).get("requests") or {}
    status = known.get(str(container.get("name"))) or {}
    has = (status.get("resources") or {}).get("requests") or {}
    promised = status.get("allocatedResources") or {}
    return _largest({} if infeasible and (has or promised) else asked, has, promised)


def _largest(asked: Mapping[str, Any], *others: Mapping[str, Any]) -> Mapping[str, Any]:
    found: dict[str, Any] = dict(asked)
    for other in others:
        for name, quantity in other.items():
            if name not in found or _value(quantity) > _value(found[name]):
                found[name] = quantity
    return found


def _value(quantity: Any) -> Fraction:  # noqa: ANN401 - text or a number
    return parse_quantity(quantity)
