"""Amounts of Mid resources that are probably meant in another unit: `kubernetes.io/mid-cpu: 500m` is one milli-core.

The API server accepts fractions of a resource below `kubernetes.io/`, and rounds them up. The chart's policy
`headroom-mid-amounts` has the same rules in CEL.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from crds.names import MID_CPU, MID_MEMORY
from crds.quantity import QuantityError, parse_quantity, value

_LEAST: Final = {MID_CPU: 10, MID_MEMORY: 1 << 20}
"""Smaller amounts are meant in cores, or in Mi: no pod runs with 9 milli-cores or half a megabyte."""


def implausible_amounts(pod: Mapping[str, Any]) -> list[str]:
    """Return a sentence about each amount that is no integer, or smaller than any pod needs; 0 is allowed.

    Example: "container app: kubernetes.io/mid-cpu 500m counts as 1 milli-core: write 500"
    """
    return list(dict.fromkeys(_sentences(pod.get("spec") or {})))


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
