"""What a pod requests and may use of CPU and memory, added up as Trimaran's plugins do."""

from collections.abc import Mapping
from typing import Any

from headroom.cluster.resize import Resize, in_effect
from scheduler_plugins.snapshot.units import units


def pod_totals(pod: Mapping[str, Any], kind: str) -> tuple[int, int]:
    """What a pod requests or may use of cpu and memory, as Trimaran adds it up. [milli-cores, bytes]

    The containers' sum, at least each init container (a sidecar is one of them), plus overhead; rounded up per
    container. What is stated for the pod as a whole does not count; while the pod is being resized in place, what is
    set aside for it does.

    Raises:
        QuantityError: an amount is not a quantity.
    """
    spec = in_effect(pod, Resize.SET_ASIDE).get("spec") or {}
    cpu, memory = 0, 0
    for container in spec.get("containers") or ():
        more = _amounts((container.get("resources") or {}).get(kind))
        cpu, memory = cpu + more[0], memory + more[1]
    for container in spec.get("initContainers") or ():
        least = _amounts((container.get("resources") or {}).get(kind))
        cpu, memory = max(cpu, least[0]), max(memory, least[1])
    more = _amounts(spec.get("overhead"))
    return cpu + more[0], memory + more[1]


def is_best_effort(pod: Mapping[str, Any]) -> bool:
    """Whether nothing of a pod requests or limits cpu or memory: its QoS class is BestEffort."""
    spec = pod.get("spec") or {}
    for part in (spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        stated = part.get("resources") or {}
        if any(_amounts(stated.get("requests"))) or any(_amounts(stated.get("limits"))):
            return False
    return True


def _amounts(amounts: Mapping[str, Any] | None) -> tuple[int, int]:
    if not amounts:
        return 0, 0
    return units("cpu", amounts.get("cpu", "0")), units("memory", amounts.get("memory", "0"))
