"""Amounts of a Mid pod that are probably a mistake: another unit than meant, and no native limits.

`kubernetes.io/mid-cpu: 500m` is one milli-core: the API server accepts fractions of a resource below `kubernetes.io/`,
and rounds them up. The chart's policy `headroom-mid-amounts` has the same rules in CEL. kubelet enforces native limits
alone, so a Mid pod needs them beside its Mid amounts.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from crds.names import MID_CPU, MID_MEMORY
from crds.quantity import QuantityError, parse_quantity, value

_LEAST: Final = {MID_CPU: 10, MID_MEMORY: 1 << 20}
"""Smaller amounts are meant in cores, or in Mi: no pod runs with 9 milli-cores or half a megabyte."""
_NATIVE: Final = ("cpu", "memory")


def implausible_amounts(pod: Mapping[str, Any]) -> list[str]:
    """Return a sentence about each amount that is no integer, or smaller than any pod needs; 0 is allowed.

    Example: "container app: kubernetes.io/mid-cpu 500m counts as 1 milli-core: write 500"
    """
    return list(dict.fromkeys(_sentences(pod.get("spec") or {})))


def unlimited_resources(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return which of `cpu` and `memory` a container or init container of a pod may use without a native limit.

    A limit of the whole pod (`spec.resources`) counts for each container. kubelet sets no limit for an amount of 0.
    """
    spec = pod.get("spec") or {}
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return tuple(
        name
        for name in _NATIVE
        if not (_is_limited(spec, name) or all(_is_limited(container, name) for container in containers))
    )


def _is_limited(part: Mapping[str, Any], name: str) -> bool:
    try:
        return parse_quantity(((part.get("resources") or {}).get("limits") or {}).get(name, 0)) > 0
    except QuantityError:  # the API server admits no such pod
        return False


def _sentences(spec: Mapping[str, Any]) -> Iterator[str]:
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        for amounts in (resources.get("requests") or {}, resources.get("limits") or {}):
            for name in sorted(amounts.keys() & _LEAST.keys()):
                if text := _sentence(name, amounts[name]):
                    yield f"container {container.get('name')}: {name} {amounts[name]} counts as {text}"


def _sentence(name: str, quantity: Any) -> str:  # noqa: ANN401 - JSON of any type
    try:
        amount = parse_quantity(quantity)
    except QuantityError:  # the API server admits no such pod
        return ""
    if amount <= 0 or (amount.denominator == 1 and amount >= _LEAST[name]):
        return ""
    counted = value(amount)
    plural = "s" if counted > 1 else ""
    if name == MID_MEMORY:
        return f"{counted} byte{plural}: write it in Mi or Gi"
    return f"{counted} milli-core{plural}: write {value(amount * 1000) if amount < _LEAST[name] else counted}"
