"""The Mid formula of the design and its write decision, over the input of a vector of `mid_resource`."""

import json
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from crds.priority import PriorityBand, tier
from crds.quantity import QuantityError, parse_quantity
from headroom.cluster.pod import pod_requests
from tests.golden.adapters.pods import kubernetes_pod

Vector = Mapping[str, Any]
RESOURCES: Final = ("cpu", "memory")
MID: Final = {"cpu": "kubernetes.io/mid-cpu", "memory": "kubernetes.io/mid-memory"}
_RAW: Final = "node.koordinator.sh/raw-allocatable"
RESERVATION: Final = "node.koordinator.sh/reservation"
_ENDED: Final = ("Succeeded", "Failed")
_PERCENTS: Final = {
    "threshold": ("midCPUThresholdPercent", "midMemoryThresholdPercent", 100),
    "static": ("midStaticCPUReservedPercent", "midStaticMemoryReservedPercent", 0),
}


def whole(resource: str, quantity: Any) -> int | None:  # noqa: ANN401 - whatever stands in a vector
    """Milli-cores or bytes, rounded up; `None` for what is absent or cannot be an amount."""
    try:
        exact = None if quantity is None else parse_quantity(quantity) * (1000 if resource == "cpu" else 1)
    except (QuantityError, AttributeError, TypeError):
        return None
    return None if exact is None or not 0 <= exact < 2**63 else math.ceil(exact)


def is_finer(resource: str, quantity: Any) -> bool:  # noqa: ANN401
    """Whether an amount is no whole number of milli-cores, bytes or pieces."""
    try:
        exact = None if quantity is None else parse_quantity(quantity) * (1000 if resource == "cpu" else 1)
    except (QuantityError, AttributeError, TypeError):
        return False
    return exact is not None and exact.denominator != 1


def pieces(quantity: Any) -> int | None:  # noqa: ANN401
    """The number of an extended resource, rounded up; `None` when it is absent."""
    return None if quantity is None else math.ceil(parse_quantity(quantity))


def amounts(listed: Any) -> dict[str, int | None]:  # noqa: ANN401
    """CPU and memory of a resource list."""
    given = listed if isinstance(listed, Mapping) else {}
    return {name: whole(name, given.get(name)) for name in RESOURCES}


def annotation(vector: Vector, name: str) -> Mapping[str, Any]:
    """The JSON object of an annotation of the node; empty where there is none."""
    holder = vector.get("node") or vector
    try:
        found = json.loads((holder.get("annotations") or {}).get(name) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, Mapping) else {}


def strategy(vector: Vector) -> Mapping[str, Any]:
    """The strategy; empty where there is none."""
    return vector.get("strategy") or {}


def percent(vector: Vector, what: str, resource: str) -> int:
    """A percentage of the strategy, or its default."""
    cpu, memory, default = _PERCENTS[what]
    stated = strategy(vector).get(cpu if resource == "cpu" else memory)
    return int(default if stated is None else stated)


def unallocated_percent(vector: Vector) -> int:
    """Share of what nobody requested."""
    return int(strategy(vector).get("midUnallocatedPercent") or 0)


def is_static(vector: Vector) -> bool:
    """Whether a fixed share is sold."""
    return strategy(vector).get("midReclaimMode") == "static"


def allocatable(vector: Vector) -> dict[str, int | None]:
    """What the annotation says there really is, else what the Node states; nothing before it states anything."""
    stated = amounts((vector.get("node") or {}).get("allocatable"))
    raw = amounts(annotation(vector, _RAW))
    return {name: stated[name] if None in (stated[name], raw[name]) else raw[name] for name in RESOURCES}


def capacity(vector: Vector) -> dict[str, int]:
    """What the Node states, else what is allocatable."""
    stated, otherwise = amounts((vector.get("node") or {}).get("capacity")), allocatable(vector)
    return {name: (otherwise[name] if stated[name] is None else stated[name]) or 0 for name in RESOURCES}


def reservation(vector: Vector) -> dict[str, int | None]:
    """The reservation annotation; named CPUs override its number, and an unusable list spoils all of it."""
    data = annotation(vector, RESERVATION)
    found = amounts(data.get("resources"))
    if data.get("reservedCPUs"):
        count = _cpus(str(data["reservedCPUs"]))
        return dict.fromkeys(RESOURCES) if count is None else {**found, "cpu": count * 1000}
    return found


def _cpus(text: str) -> int | None:
    named: set[int] = set()
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or int(first) > int(last or first):
            return None
        named |= set(range(int(first), int(last or first) + 1))
    return len(named)


def usage(vector: Vector, what: str) -> dict[str, int | None]:
    """An amount of the report: nodeUsage, systemUsage or prodReclaimable."""
    return amounts((vector.get("nodeMetric") or {}).get(what))


def system(vector: Vector) -> dict[str, int]:
    """System usage with the host applications of band Prod."""
    found = usage(vector, "systemUsage")
    hosts = (vector.get("nodeMetric") or {}).get("hostApplications") or ()
    prod = [amounts(each.get("usage")) for each in hosts if each.get("priority") == "koord-prod"]
    return {name: (found[name] or 0) + sum(each[name] or 0 for each in prod) for name in RESOURCES}


def reserved(vector: Vector) -> dict[str, int]:
    """The largest of what the system uses, what the kubelet keeps and what the annotation keeps."""
    used, have, give, kept = system(vector), capacity(vector), allocatable(vector), reservation(vector)
    return {name: max(used[name], have[name] - (give[name] or 0), kept[name] or 0) for name in RESOURCES}


def pods(vector: Vector) -> Iterator[tuple[Vector, PriorityBand, Mapping[str, Fraction]]]:
    """Each pod that has not ended, with its band and requests."""
    for short in vector.get("pods") or ():
        pod = kubernetes_pod(short)
        if pod is not None and short.get("phase") not in _ENDED:
            yield short, tier(pod), pod_requests(pod)


def requests_mid(requests: Mapping[str, Fraction]) -> bool:
    """Whether a pod bought Mid resources."""
    return any(name in requests for name in MID.values())


def requests_above_mid(vector: Vector) -> dict[str, int]:
    """Requests of pods above Mid, each rounded up."""
    above = [requests for _, band, requests in pods(vector) if band is PriorityBand.PROD]
    return {name: sum(whole(name, each.get(name)) or 0 for each in above) for name in RESOURCES}


def mid_own(vector: Vector) -> dict[str, int]:
    """For each pod that bought Mid resources the smaller of its usage and its request."""
    reports = (vector.get("nodeMetric") or {}).get("podsMetric") or ()
    used = {(each.get("namespace"), each.get("name")): amounts(each.get("usage")) for each in reports}
    own = dict.fromkeys(RESOURCES, 0)
    for short, _, requests in pods(vector):
        mine = used.get((short.get("namespace"), short.get("name")), {})
        for name in RESOURCES:
            bought = math.ceil(requests.get(MID[name], Fraction(0)))  # mid-cpu is counted in milli-cores already
            own[name] += min(mine.get(name) or 0, bought)
    return own


def share(amount: int, percentage: int) -> int:
    """Part of an amount, cut off."""
    return amount * percentage // 100


def products(vector: Vector) -> Iterator[tuple[int, int]]:
    """Each amount that a percentage is taken of, with the percentage."""
    give = allocatable(vector)
    for name in RESOURCES:
        yield give[name] or 0, percent(vector, "threshold", name)
        yield give[name] or 0, percent(vector, "static", name)
        yield unallocated(vector)[name], unallocated_percent(vector)


def unallocated(vector: Vector) -> dict[str, int]:
    """What nobody above Mid requested of what is usable."""
    have, kept, asked = capacity(vector), reserved(vector), requests_above_mid(vector)
    return {name: max(have[name] - kept[name] - asked[name], 0) for name in RESOURCES}


def unused(vector: Vector) -> dict[str, int]:
    """What of the usable part nobody uses, Mid's own use of what it bought aside; nothing while a usage is unknown."""
    have, kept, own = capacity(vector), reserved(vector), mid_own(vector)
    using, runs = usage(vector, "nodeUsage"), usage(vector, "systemUsage")
    by_pods = {name: (using[name] or 0) - (runs[name] or 0) - own[name] for name in RESOURCES}
    known = None not in using.values()
    return {name: max(have[name] - kept[name] - by_pods[name], 0) if known else 0 for name in RESOURCES}


def offered(vector: Vector) -> dict[str, int]:
    """What is reclaimable, and the share of what nobody requested."""
    reclaimable, free = usage(vector, "prodReclaimable"), unallocated(vector)
    return {name: (reclaimable[name] or 0) + share(free[name], unallocated_percent(vector)) for name in RESOURCES}


def sold(vector: Vector) -> dict[str, int] | None:
    """What the node may sell; `None` when there is a reason to sell nothing that is not arithmetic."""
    give, age = allocatable(vector), (vector.get("nodeMetric") or {}).get("updateAgeSeconds")
    minutes = strategy(vector).get("degradeTimeMinutes")
    if None in give.values() or age is None or max(age, 0) > (15 if minutes is None else minutes) * 60:
        return None
    answer = {}
    for name in RESOURCES:
        there = give[name] or 0
        most = share(there, percent(vector, "threshold", name))
        if is_static(vector):
            number = min(share(there, percent(vector, "static", name)), most)
        else:
            number = min(offered(vector)[name], unused(vector)[name], most)
        answer[name] = min(max(number, 0), there)
    return answer


def is_written(old: int, new: int, resource: str, threshold: float) -> bool:
    """Whether a change of a number is worth a write at once, an increase having held."""
    if new >= old:
        return new - old > old * Fraction(str(threshold))
    smallest = 10 if resource == "cpu" else 16 * 2**20
    return (old - new) * 100 > old and old - new >= smallest
