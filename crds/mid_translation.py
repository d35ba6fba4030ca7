"""The translation of a pod to Mid: amounts of cpu and memory become Mid amounts with native limits. No I/O.

The chart's policy `headroom-mid-namespaces` has the same rules in CEL; tests/crds/mid_translation.yaml has the cases of
both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from crds.mid_amounts import unlimited_resources
from crds.names import ANNOTATION_CONFIG_MIRROR, LABEL_PRIORITY_CLASS, MID_CPU, MID_MEMORY
from crds.priority import PriorityBand, band_of_value
from crds.quantity import format_milli_cores, milli_value, parse_quantity, value

_KINDS: Final = ("containers", "initContainers")
_MID: Final = {"cpu": MID_CPU, "memory": MID_MEMORY}
_SYSTEM_PRIORITY: Final = 1_000_000_001
"""The lowest priority that Kubernetes reserves for system classes; users define priorities up to 1,000,000,000."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Translation:
    """The result for one pod."""

    pod: Json
    """The pod as translated; the very same object if it is left unchanged."""
    warnings: tuple[str, ...] = ()
    """Sentences that kubectl prints."""
    obstacle: str = ""
    """The reason why the pod is left unchanged, though it should be translated; empty: there is none."""


def to_mid(pod: Json) -> Translation:
    """Translate a pod, or leave it unchanged with a warning that names the reason.

    For cpu and memory of each container and init container:
    Mid amount = its Mid amount, else its native request, else its native limit; request and limit are equal.
    native request = 0; native limit = its native limit, else the Mid amount.
    Requests of 500m and 1Gi, and a memory limit of 2Gi: mid-cpu 500, mid-memory 1Gi, limits of 500m and 2Gi.

    The translation of a translated pod is the pod itself. Raises QuantityError: an amount is not a quantity.
    """
    metadata = pod.get("metadata") or {}
    if ANNOTATION_CONFIG_MIRROR in (metadata.get("annotations") or {}):
        return Translation(pod)  # the static pod runs already, and kubelet compares the two
    if reason := _obstacle(pod):
        return Translation(pod, (f"the pod is left unchanged: {reason}",), reason)
    spec = dict(pod["spec"])
    for kind in _KINDS:
        if spec.get(kind):
            spec[kind] = [_container(container) for container in spec[kind]]
    if band_of_value(spec.get("priority")) != PriorityBand.MID:
        # The API server sets the number and the policy from the PriorityClass, and rejects those of another one.
        spec = {name: content for name, content in spec.items() if name not in {"priority", "preemptionPolicy"}}
        spec["priorityClassName"] = PriorityBand.MID.value
    result = pod if spec == pod["spec"] else {**pod, "spec": spec}
    unlimited = unlimited_resources(result)
    warning = f"the Mid pod has containers without limits of {' and '.join(unlimited)}"
    return Translation(result, (warning,) if unlimited else ())


def _obstacle(pod: Json) -> str:
    """Return the reason to leave a pod unchanged; empty: there is none."""
    spec = pod.get("spec") or {}
    band = ((pod.get("metadata") or {}).get("labels") or {}).get(LABEL_PRIORITY_CLASS, PriorityBand.MID)
    if band != PriorityBand.MID:
        return f"its label {LABEL_PRIORITY_CLASS} is {band}"
    if _is_of_another_band(spec):
        return f"its PriorityClass {spec.get('priorityClassName', '')} is of another band"
    if any(name in amounts for amounts in (spec.get("resources") or {}).values() for name in _MID):
        return "spec.resources cannot have Mid amounts; set requests and limits of its containers"
    containers = [container for kind in _KINDS for container in spec.get(kind) or ()]
    for mid in _MID.values():
        for container in containers:
            request, limit = (_amount(container, kind, mid) for kind in ("requests", "limits"))
            if request > 0 and limit > 0 and request != limit:
                return f"container {container.get('name')}: request and limit of {mid} differ"
    if any(_mid_amount(container, name) for container in containers for name in _MID):
        return ""
    return "none of its containers has a request or limit of cpu or memory"


def _is_of_another_band(spec: Json) -> bool:
    priority = spec.get("priority")
    if priority is None:  # a file; the API server sets the number before it calls admission webhooks
        name = str(spec.get("priorityClassName", ""))
        return name.startswith("system-") or name in set(PriorityBand) - {PriorityBand.MID, PriorityBand.NONE}
    return priority >= _SYSTEM_PRIORITY or band_of_value(priority) not in {PriorityBand.MID, PriorityBand.NONE}


def _container(container: Json) -> Json:
    mid_amounts = {name: amount for name in _MID if (amount := _mid_amount(container, name))}
    if not mid_amounts:
        return container
    resources = container["resources"]
    requests, limits = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
    for name, amount in mid_amounts.items():
        requests |= {_MID[name]: amount, name: "0"}
        limits |= {_MID[name]: amount, name: _native_limit(container, name)}
    return {**container, "resources": {**resources, "requests": requests, "limits": limits}}


def _mid_amount(container: Json, name: str) -> Any:  # noqa: ANN401 - a quantity of JSON
    """Return the Mid amount of a container: the stated one, else the native one; empty: there is none."""
    if stated := _first(container, _MID[name]):
        return stated
    native = _first(container, name)
    if not native:
        return ""
    if name == "cpu":
        return str(milli_value(native))
    return native if parse_quantity(native).denominator == 1 else str(value(native))


def _native_limit(container: Json, name: str) -> Any:  # noqa: ANN401 - a quantity of JSON
    """Return the native limit of a container with an amount: the stated one, else the amount."""
    if _amount(container, "limits", name) > 0:
        return container["resources"]["limits"][name]
    if not (mid := _first(container, _MID[name])):
        return _first(container, name)
    if name == "cpu":
        return format_milli_cores(value(mid))
    return mid if parse_quantity(mid).denominator == 1 else str(value(mid))


def _first(container: Json, name: str) -> Any:  # noqa: ANN401 - a quantity of JSON
    """Return the request, else the limit, that is above 0; empty: there is none."""
    return next(
        (container["resources"][kind][name] for kind in ("requests", "limits") if _amount(container, kind, name) > 0),
        "",
    )


def _amount(container: Json, kind: str, name: str) -> Fraction:
    return parse_quantity(((container.get("resources") or {}).get(kind) or {}).get(name, 0))
