"""The amounts that a pod is charged."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from headroom.cluster.pod import pod_requests
from headroom.cluster.resize import Resize, in_effect
from scheduler_plugins.quota.amounts import amounts_of, is_counted, larger, plus
from scheduler_plugins.snapshot.units import INT64_MAX, units


class Charging(StrEnum):
    """The charged requests of a pod."""

    CONTAINERS = "containers"  # what its containers request, as upstream's code adds it up
    SCHEDULER = "scheduler"
    """All that kube-scheduler sets aside for it: also what sidecars, and the pod as a whole, request."""


def charge_of(pod: Mapping[str, Any]) -> dict[str, int]:
    """Return the charge of a pod: its containers' requests, no less than any init container's, and its overhead.

    As upstream's CapacityScheduling counts: limits, pod-level resources and sidecars are ignored.
    While a pod is being resized in place, the largest of a container's requested, actual and allocated amounts counts,
    as in kube-scheduler; where the resize is infeasible, the requested amount does not.

    Returns:
        Amounts by resource name. [milli-cores for cpu, else base units]

    Raises:
        QuantityError: a request is not a quantity.
    """
    spec = in_effect(pod, Resize.SET_ASIDE).get("spec") or {}
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        total = plus(total, amounts_of((container.get("resources") or {}).get("requests")))
    for container in spec.get("initContainers") or ():
        total = larger(total, amounts_of((container.get("resources") or {}).get("requests")))
    return plus(total, amounts_of(spec.get("overhead")))


def reserved_requests(pod: Mapping[str, Any]) -> dict[str, int]:
    """Return the part of the allocatable that a pod takes, one in `pods` included; see `headroom.cluster.resize`

    Returns:
        Amounts by resource name. [milli-cores for cpu, else base units]

    Raises:
        QuantityError: a request is not a quantity.
    """
    amounts = {name: units(name, amount, INT64_MAX) for name, amount in pod_requests(pod).items() if is_counted(name)}
    return {**amounts, "pods": 1}
