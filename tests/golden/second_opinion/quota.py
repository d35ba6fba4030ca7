"""What the ledger of a namespace, and a quota's status, must come to: counted anew from what there is at the end."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from crds.quantity import parse_quantity

Json = Mapping[str, Any]
_CORE: Final = {"cpu": "milliCPU", "memory": "memory", "ephemeral-storage": "ephemeralStorage", "pods": "pods"}
_UNLIMITED: Final = 2**63 - 1
_GONE: Final = ("Succeeded", "Failed", "Unknown")


def state(steps: Sequence[Mapping[str, Any]], namespace: str) -> dict[str, Any] | None:
    """The namespace after the steps of a vector of the operation `events`."""
    quotas: dict[str, Json] = {}
    pods: dict[str, Json] = {}
    for step in steps:
        ((kind, given),) = step.items()
        item = given[1] if kind.startswith("update") else given
        item = item.get("pod") or item
        if kind.endswith("Quota"):
            _apply(quotas, f"{item['metadata']['namespace']}/{item['metadata']['name']}", item, kind)
        else:
            spec = item.get("spec") or {}
            reserved = {"nodeName": "reserved", **spec} if kind == "reserve" else spec
            _apply(pods, _uid(item), {**item, "spec": reserved}, kind)
    quota = in_force([each for each in quotas.values() if each["metadata"]["namespace"] == namespace])
    if quota is None:
        return None
    here = {uid: pod for uid, pod in pods.items() if pod["metadata"].get("namespace") == namespace and counts(pod)}
    spec = quota.get("spec") or {}
    missing = 0 if spec.get("max") is not None else _UNLIMITED
    return {
        "min": _record(_whole(spec.get("min"))),
        "max": _record(dict.fromkeys(["cpu", "memory", "ephemeral-storage"], missing) | _whole(spec.get("max"))),
        "used": _record(_total(here.values())),
        "pods": sorted(here),
    }


def _apply(known: dict[str, Json], key: str, item: Json, kind: str) -> None:
    known.pop(key, None)
    if not kind.startswith("delete"):
        known[key] = item


def _uid(pod: Json) -> str:
    metadata = pod["metadata"]
    return str(metadata.get("uid") or f"{metadata.get('namespace')}/{metadata.get('name')}")


def in_force(quotas: Sequence[Json]) -> Json | None:
    """Of several quotas of a namespace the oldest, then the first by name."""
    return min(
        quotas,
        key=lambda each: (each["metadata"].get("creationTimestamp") or "", each["metadata"]["name"]),
        default=None,
    )


def counts(pod: Json) -> bool:
    """Whether a pod is charged: it is on a node, or runs, and its phase is neither final nor unknown."""
    phase = (pod.get("status") or {}).get("phase")
    return bool((pod.get("spec") or {}).get("nodeName") or phase == "Running") and phase not in _GONE


def requests(pod: Json) -> dict[str, int]:
    """What a pod is charged: all containers together, no less than any init container, and overhead."""
    spec = pod.get("spec") or {}
    lists = [(each.get("resources") or {}).get("requests") for each in spec.get("containers") or ()]
    largest = [(each.get("resources") or {}).get("requests") for each in spec.get("initContainers") or ()]
    summed = _sum(map(_whole, lists))
    for each in map(_whole, largest):
        summed = {
            name: max(summed.get(name, amount), each.get(name, amount)) for name, amount in (each | summed).items()
        }
    return _sum([summed, _whole(spec.get("overhead"))])


def _total(pods: Iterable[Json]) -> dict[str, int]:
    return _sum(map(requests, pods))


def _sum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in amounts:
        for name, amount in each.items():
            total[name] = total.get(name, 0) + amount
    return total


def _whole(resources: Json | None) -> dict[str, int]:
    """A resource list as integers, rounded up: milli-cores for cpu; without names that are no resources of pods."""
    return {
        name: math.ceil(parse_quantity(amount) * (1000 if name == "cpu" else 1))
        for name, amount in (resources or {}).items()
        if name in _CORE
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or ("/" in name and not name.startswith("requests."))
    }


def _record(amounts: Mapping[str, int]) -> dict[str, Any]:
    core = {word: amounts.get(name, 0) for name, word in _CORE.items()}
    return {**core, "scalar": {name: amount for name, amount in amounts.items() if name not in _CORE}}


def status_used(vector: Json) -> dict[str, dict[str, str]]:
    """The `status.used` of the quotas in force of a vector of the operation `status_used`."""
    found = {}
    for namespace in {quota["metadata"]["namespace"] for quota in vector["elasticQuotas"]}:
        quota = in_force([each for each in vector["elasticQuotas"] if each["metadata"]["namespace"] == namespace])
        pods = [each for each in vector.get("pods") or () if each["metadata"].get("namespace") == namespace]
        if quota is not None:
            spec = quota.get("spec") or {}
            named = dict.fromkeys((*(spec.get("min") or ()), *(spec.get("max") or ())), 0)
            used = named | _total(filter(counts, pods))
            texts = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in used.items()}
            found[f"{namespace}/{quota['metadata']['name']}"] = texts
    return found
