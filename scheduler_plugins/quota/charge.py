"""What a pod is charged to its quota."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from crds.quantity import parse_quantity
from scheduler_plugins.quota.amounts import amounts_of, larger, plus


def charge_of(pod: Mapping[str, Any]) -> dict[str, int]:
    """What a pod is charged: its containers' requests, no less than any init container's, and its overhead.

    As upstream's CapacityScheduling counts: limits, pod-level resources and the lasting of sidecars are not looked at.
    While a pod is being resized in place, the larger one of what a container asks for and has counts; one whose resize
    is infeasible stays as it is.

    Returns:
        Amounts by resource name. [milli-cores for cpu, else base units]

    Raises:
        QuantityError: a request is not a quantity.
    """
    spec = pod.get("spec") or {}
    total: dict[str, int] = {}
    for requests in _container_requests(pod):
        total = plus(total, amounts_of(requests))
    for container in spec.get("initContainers") or ():
        total = larger(total, amounts_of((container.get("resources") or {}).get("requests")))
    return plus(total, amounts_of(spec.get("overhead")))


def _container_requests(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """What each container asks for or, during a resize, still has."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    statuses = {each.get("name"): each for each in status.get("containerStatuses") or ()}
    infeasible = any(
        each.get("type") == "PodResizePending" and each.get("reason") == "Infeasible"
        for each in status.get("conditions") or ()
    )
    for container in spec.get("containers") or ():
        asked = (container.get("resources") or {}).get("requests") or {}
        known = statuses.get(container.get("name")) or {}
        has = (known.get("resources") or {}).get("requests") or {}
        if infeasible and has:
            yield has
        else:
            yield _largest(asked, has, known.get("allocatedResources") or {})


def _largest(asked: Mapping[str, Any], *others: Mapping[str, Any]) -> Mapping[str, Any]:
    found: dict[str, Any] = dict(asked)
    for other in others:
        for name, quantity in other.items():
            if name not in found or _value(quantity) > _value(found[name]):
                found[name] = quantity
    return found


def _value(quantity: Any) -> Fraction:  # noqa: ANN401 - text or a number
    return parse_quantity(quantity)
