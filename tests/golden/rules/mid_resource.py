"""Rules for `mid_resource.json`."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.golden.rules.rule import INTERNALS, Deviation, Input, OutOfScope, Rule
from tests.golden.second_opinion import config, mid
from tests.golden.second_opinion.mid import RESOURCES

_RESET: Final = [{"name": name, "reset": True} for name in mid.MID.values()]
_NATIVE: Final = {"cpu", "memory"}


def _has_what_it_needs(vector: Input) -> bool:
    return all(vector.get(name) is not None for name in ("node", "nodeMetric", "strategy"))


def _lacks_something(vector: Input) -> bool:
    return not _has_what_it_needs(vector) or None in mid.allocatable(vector).values()


def _unlike_capacity(vector: Input) -> bool:
    """Whether capacity is another number than allocatable, or not stated: then the peer sells shares of nothing."""
    return mid.amounts((vector.get("node") or {}).get("capacity")) != mid.allocatable(vector)


def _reserves_more(vector: Input) -> bool:
    """Whether more is reserved than what the peer subtracts with the node's usage anyway."""
    kept, used = mid.reserved(vector), mid.usage(vector, "systemUsage")
    return any(kept[name] != (used[name] or 0) for name in RESOURCES)


def _is_bound(vector: Input) -> bool:
    """Whether less is unused than is reclaimable and unallocated."""
    return any(mid.offered(vector)[name] > mid.unused(vector)[name] for name in RESOURCES)


def _blurred(vector: Input) -> bool:
    """Whether the peer's floating point loses one of a percentage."""
    return any(int(amount * (percent / 100)) != amount * percent // 100 for amount, percent in mid.products(vector))


def _odd_percentages(vector: Input) -> bool:
    stated = [number for name, number in mid.strategy(vector).items() if name.startswith("mid") and "Percent" in name]
    return any(number is not None and not 0 <= number <= 100 for number in stated)


def _listed(vector: Input) -> Iterable[tuple[str, Any]]:
    """Each amount of the Node, the report and the pods, with its resource."""
    node, metric = vector.get("node") or {}, vector.get("nodeMetric") or {}
    lists = [node.get("capacity"), node.get("allocatable"), mid.annotation(vector, mid.RESERVATION).get("resources")]
    lists += [metric.get(name) for name in ("nodeUsage", "systemUsage", "prodReclaimable")]
    lists += [each.get("usage") for part in ("podsMetric", "hostApplications") for each in metric.get(part) or ()]
    lists += [each.get("requests") for pod in vector.get("pods") or () for each in (pod or {}).get("containers") or ()]
    for each in lists:
        yield from (each or {}).items() if isinstance(each, Mapping) else ()


def _odd_amounts(vector: Input) -> bool:
    return any(mid.whole(name, quantity) is None for name, quantity in _listed(vector) if name in _NATIVE)


def _fine_amounts(vector: Input) -> bool:
    return any(mid.is_finer(name, quantity) for name, quantity in _listed(vector) if name in _NATIVE)


def _unknown_phase(vector: Input) -> bool:
    return any(short.get("phase") not in ("Running", "Pending") for short, _, _ in mid.pods(vector))


def _sold(vector: Input, _theirs: Any) -> Any:  # noqa: ANN401
    """The design's formula."""
    sold = mid.sold(vector)
    if sold is None:
        return {"error": False, "items": _RESET}
    items = [{"name": mid.MID[name], "reset": False, "quantity": sold[name]} for name in RESOURCES]
    return {"error": False, "items": items}


def _formula(reason: str, when: Any) -> Deviation:  # noqa: ANN401
    """A reason why the design's formula answers something else."""
    return Deviation(
        "mid_resource", ("calculate",), reason, ours=_sold, when=lambda v: v.get("pods") is not None and when(v)
    )


def _tier(vector: Input) -> str:
    """The tier that the write decision is about: Batch stands for Mid where neither Node has any of Mid's resources."""
    nodes = [vector.get(name) or {} for name in ("oldNode", "newNode")]
    lists = [node.get(part) or {} for node in nodes for part in ("capacity", "allocatable")]
    return "mid" if any(key in each for each in lists for key in mid.MID.values()) else "batch"


def _numbers(vector: Input, part: str = "allocatable") -> list[tuple[str, int | None, int | None]]:
    """Name, old and new number of each extended resource that the write decision is about."""
    if "old" in vector:
        return [("cpu", mid.pieces(vector["old"]), mid.pieces(vector["new"]))]
    old, new = ((vector.get(name) or {}).get(part) or {} for name in ("oldNode", "newNode"))
    keys = {name: f"kubernetes.io/{_tier(vector)}-{name}" for name in RESOURCES}
    return [(name, mid.pieces(old.get(key)), mid.pieces(new.get(key))) for name, key in keys.items()]


def _stated(vector: Input) -> list[Any]:
    """Each number of an extended resource, as it stands there."""
    nodes = [vector.get(name) or {} for name in ("oldNode", "newNode")]
    lists = [node.get(part) or {} for node in nodes for part in ("capacity", "allocatable")]
    return [vector.get("old"), vector.get("new"), *(each[name] for each in lists for name in each if "/" in name)]


def _else_differs(vector: Input) -> bool:
    """Whether the Nodes differ in something else than the resources that the decision is about."""
    about = {f"kubernetes.io/{tier}-{name}" for tier in (_tier(vector),) for name in RESOURCES}

    def rest(name: str) -> list[Any]:
        node = vector.get(name) or {}
        lists = [node.get(part) or {} for part in ("capacity", "allocatable")]
        kept = [{key: amount for key, amount in each.items() if key not in about} for each in lists]
        return [*kept, node.get("labels") or {}, node.get("annotations") or {}]

    return rest("oldNode") != rest("newNode")


def _threshold(vector: Input) -> float:
    stated = [vector.get("resourceDiffThreshold"), vector.get("diffThreshold")]
    stated.append((vector.get("strategy") or {}).get("resourceDiffThreshold"))
    return next((float(each) for each in stated if each is not None), 0.1)


def _changes(vector: Input) -> list[tuple[str, int, int]]:
    return [(name, old, new) for name, old, new in _numbers(vector) if old is not None and new is not None]


def _disagree(vector: Input) -> bool:
    """Whether capacity and allocatable of the old Node differ."""
    stated = [[old for _, old, _ in _numbers(vector, part)] for part in ("capacity", "allocatable")]
    return "oldNode" in vector and stated[0] != stated[1]


def _waited(vector: Input) -> bool:
    """Whether nothing was written for long enough that any difference is."""
    if "strategy" not in vector:
        return False
    age, limit = vector.get("lastSyncAgeSeconds"), vector["strategy"].get("updateTimeThresholdSeconds")
    return age is None or age >= (300 if limit is None else limit)


def _written(vector: Input) -> bool:
    if any((old is None) != (new is None) for _, old, new in _numbers(vector)):
        return True
    due, threshold = _waited(vector), _threshold(vector)
    if _disagree(vector) or (due and any(old != new for _, old, new in _changes(vector))):
        return True
    return any(mid.is_written(old, new, name, threshold) for name, old, new in _changes(vector))


def _decided(vector: Input, theirs: Any) -> Any:  # noqa: ANN401
    """The design's write decision, whatever the operation calls it."""
    key = next(each for each in ("diff", "needSync", "syncStatus") if each in theirs)
    return {**theirs, key: _written(vector), **({"syncMeta": False} if "syncMeta" in theirs else {})}


def _write(reason: str, when: Any) -> Deviation:  # noqa: ANN401
    """A reason why the design's write decision is another one."""
    operations = ("need_sync", "is_quantity_diff", "is_node_resource_sync_needed")
    return Deviation("mid_resource", operations, reason, ours=_decided, when=when)


def _float_differs(vector: Input) -> bool:
    threshold = _threshold(vector)
    return any(
        (abs(new - old) > old * threshold) != mid.is_written(old, new, name, threshold)
        for name, old, new in _changes(vector)
        if new > old
    )


def _received_late(vector: Input) -> bool:
    """Whether the report's time lies in the future and the clock has moved on since it came."""
    age = (vector.get("nodeMetric") or {}).get("updateAgeSeconds")
    return age is not None and age < 0 < (vector.get("clockOffsetSeconds") or 0)


def _degraded(vector: Input, _theirs: Any) -> Any:  # noqa: ANN401
    minutes = mid.strategy(vector).get("degradeTimeMinutes")
    return {"degrade": vector["clockOffsetSeconds"] > (15 if minutes is None else minutes) * 60}


def _reservation(vector: Input, _theirs: Any) -> Any:  # noqa: ANN401
    kept = mid.reservation(vector)
    milli, memory = kept["cpu"], kept["memory"]
    found = {**({} if milli is None else {"cpu": f"{milli}m"}), **({} if memory is None else {"memory": memory})}
    return {"resources": found or None}


def _odd_reservation(vector: Input) -> bool:
    """Whether the annotation holds more than CPU and memory, nothing, amounts that cannot be, or no list of CPUs."""
    data = mid.annotation(vector, mid.RESERVATION)
    listed = data.get("resources")
    if not isinstance(listed, Mapping):
        return listed is not None or bool(data.get("reservedCPUs"))
    odd = any(mid.whole(name, quantity) is None or mid.is_finer(name, quantity) for name, quantity in listed.items())
    return not listed or listed.keys() - _NATIVE != set() or odd or bool(data.get("reservedCPUs"))


RULES: Final[tuple[Rule, ...]] = (
    OutOfScope(
        "mid_resource",
        (
            "calculate_node_resource",
            "update_node_resource",
            "min_resource_list",
            "resource_list_equal_ignore_zero",
            "is_resource_diff",
            "mask_cpu_memory",
            "reconcile_noderesource",
            "nodemetric_event",
        ),
        INTERNALS,
    ),
    OutOfScope("mid_resource", ("node_safety_margin",), "the Batch tier is left out"),
    OutOfScope(
        "mid_resource",
        ("pod_numa_request_and_usage", "add_zone_resource_list", "pod_unknown_numa_usage", "divide_resource_list"),
        "NUMA is left out",
    ),
    _formula("what is missing is a reason to sell nothing, not an error", _lacks_something),
    _formula(
        "a report without any usage sells nothing, where the peer crashes",
        lambda vector: not {"nodeUsage", "systemUsage"} & (vector.get("nodeMetric") or {}).keys(),
    ),
    _formula("percentages outside of 0 to 100 never sell more than there is, or less than nothing", _odd_percentages),
    _formula("an amount that cannot be counts as not reported, not as it stands", _odd_amounts),
    _formula(
        "static mode sells a share of allocatable, not of capacity",
        lambda vector: mid.is_static(vector) and _unlike_capacity(vector),
    ),
    _formula(
        "what is unused bounds the sum of the reclaimable and the unallocated share",
        lambda vector: not mid.is_static(vector) and mid.unallocated_percent(vector) > 0 and _is_bound(vector),
    ),
    _formula(
        "what Mid pods use of what they bought does not count against Mid, whatever their label says",
        lambda vector: any(mid.requests_mid(requests) for _, _, requests in mid.pods(vector)),
    ),
    _formula(
        "unused is what remains of the usable part: the system is counted once, what is reserved is not unused",
        lambda vector: not mid.is_static(vector) and _reserves_more(vector),
    ),
    _formula("the threshold is a share of allocatable, not of capacity", _unlike_capacity),
    _formula("percentages are taken in integers: no floating point loses one", _blurred),
    _formula("a pod that has not ended holds what it requested, whatever its phase says", _unknown_phase),
    _formula("each amount counts whole milli-cores and bytes, rounded up", _fine_amounts),
    Deviation(
        "mid_resource",
        ("is_degrade_needed",),
        "a report from the future is as old as the time since it was received",
        ours=_degraded,
        when=_received_late,
    ),
    Deviation(
        "mid_resource",
        ("is_colocation_disabled",),
        "a node's own settings may enable what the cluster part disables, and invalid ones are ignored",
        ours=lambda vector, _theirs: {"disabled": not config.value_for(vector, "enable", default=False)},
        when=lambda vector: vector.get("node") is not None and config.has_own_settings(vector),
    ),
    Deviation(
        "mid_resource",
        ("node_reservation_from_annotation",),
        "CPU and memory alone count, rounded up; an unusable reservation is none",
        ours=_reservation,
        when=_odd_reservation,
    ),
    Deviation(
        "mid_resource",
        ("node_reservation_from_kubelet",),
        "nothing is reserved on a node that does not say yet what is allocatable: nothing is sold there",
        ours=lambda _vector, _theirs: {"resources": {"cpu": "0", "memory": "0"}},
        when=lambda vector: None in mid.amounts((vector.get("node") or {}).get("allocatable")).values(),
    ),
    Deviation(
        "mid_resource",
        ("is_node_resource_sync_needed",),
        "nothing is written without a difference, however long ago the last write was, and never labels or annotations",
        ours=_decided,
        when=lambda vector: _waited(vector) and all(old == new for _, old, new in _numbers(vector)),
    ),
    _write(
        "a decrease above 1 % and from 10m / 16Mi is written at once, a smaller one is not urgent",
        lambda vector: any(new < old for _, old, new in _changes(vector)),
    ),
    Deviation(
        "mid_resource",
        ("is_node_resource_sync_needed",),
        "Mid is all that we write to a Node: no other resource, no label, no annotation is a reason to",
        ours=_decided,
        when=_else_differs,
    ),
    _write("capacity and allocatable that disagree are repaired", _disagree),
    _write("the threshold is exact: no floating point blurs it", _float_differs),
    _write("any difference is written after updateTimeThresholdSeconds, the limit included", _waited),
    _write(
        "an extended resource is a whole number, rounded up",
        lambda vector: any(mid.is_finer("", each) for each in _stated(vector)),
    ),
)
"""Its rules, those about scope first."""
