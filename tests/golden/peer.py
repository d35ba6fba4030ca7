"""What Koordinator answers, as far as its behaviour is written down: a model of the peer, for inputs nobody recorded.

It answers the recorded vectors as they were recorded (a test), so that the rules can be tried with inputs of our own.
Amounts are exact and percentages go through floating point, as there.
"""

import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

from crds.priority import PriorityBand, priority_class
from crds.quantity import QuantityError, parse_quantity
from headroom.cluster.pod import pod_requests
from tests.golden.adapters.pods import kubernetes_pod
from tests.golden.second_opinion import config as ours

Json = dict[str, Any]
_RESOURCES: Final = ("cpu", "memory")
_MID: Final = {"cpu": "kubernetes.io/mid-cpu", "memory": "kubernetes.io/mid-memory"}
_LOW: Final = (PriorityBand.MID, PriorityBand.BATCH, PriorityBand.FREE)
_ABOVE_ZERO: Final = (
    "metricAggregateDurationSeconds",
    "metricReportIntervalSeconds",
    "degradeTimeMinutes",
    "updateTimeThresholdSeconds",
    "resourceDiffThreshold",
)
_NOT_NEGATIVE: Final = (
    "cpuReclaimThresholdPercent",
    "memoryReclaimThresholdPercent",
    "midStaticCPUReservedPercent",
    "midStaticMemoryReservedPercent",
    "batchCPUThresholdPercent",
    "batchMemoryThresholdPercent",
)
_KNOWN: Final = ours.FIELDS - ours.OURS_ALONE
_PERCENT: Final = ("midCPUThresholdPercent", "midMemoryThresholdPercent", "midUnallocatedPercent")


def _list(amounts: Mapping[str, Any] | None) -> dict[str, Fraction]:
    return {name: parse_quantity(amounts[name]) for name in _RESOURCES if amounts and name in amounts}


def _at(amounts: Mapping[str, Fraction], name: str) -> Fraction:
    return amounts.get(name, Fraction(0))


def _whole(name: str, amount: Fraction) -> int:
    return math.ceil(amount * (1000 if name == "cpu" else 1))


def _ratio(strategy: Mapping[str, Any], cpu: str, memory: str, name: str, default: int) -> float:
    percent = strategy.get(cpu if name == "cpu" else memory)
    return (default if percent is None else percent) / 100


def calculate(given: Mapping[str, Any]) -> Json:
    """What a node sells."""
    node, metric, strategy = given.get("node"), given.get("nodeMetric"), given.get("strategy")
    if None in (node, metric, strategy, given.get("pods")) or not (node or {}).get("allocatable"):
        return {"error": True, "items": None}
    if is_degrade_needed({**given, "clockOffsetSeconds": 0})["degrade"]:
        return {"error": False, "items": [{"name": key, "reset": True} for key in _MID.values()]}
    capacity = _list((node or {}).get("capacity"))
    if (strategy or {}).get("midReclaimMode") == "static":
        numbers = _static(strategy or {}, capacity)
    elif not {"nodeUsage", "systemUsage"} & (metric or {}).keys():
        return {"panics": True}
    else:
        numbers = _predicted(given, capacity)
    items = [{"name": key, "reset": False, "quantity": numbers[name]} for name, key in _MID.items()]
    return {"error": False, "items": items}


def _static(strategy: Mapping[str, Any], capacity: Mapping[str, Fraction]) -> dict[str, int]:
    found = {}
    for name in _RESOURCES:
        there = _whole(name, _at(capacity, name))
        kept = _ratio(strategy, "midStaticCPUReservedPercent", "midStaticMemoryReservedPercent", name, 0)
        most = _ratio(strategy, "midCPUThresholdPercent", "midMemoryThresholdPercent", name, 100)
        found[name] = min(int(there * kept), int(there * most))
    return found


def _predicted(given: Mapping[str, Any], capacity: Mapping[str, Fraction]) -> dict[str, int]:
    metric, strategy = given["nodeMetric"], given["strategy"]
    system, used, sold = (_list(metric.get(name)) for name in ("systemUsage", "nodeUsage", "prodReclaimable"))
    hosts = [each for each in metric.get("hostApplications") or () if each.get("priority") == "koord-prod"]
    allocatable, kept = _list(given["node"]["allocatable"]), _annotated(given["node"].get("annotations"))
    share, found = (strategy.get("midUnallocatedPercent") or 0) / 100, {}
    for name in _RESOURCES:
        there = _at(capacity, name)
        runs = _at(system, name) + sum((_at(_list(each.get("usage")), name) for each in hosts), Fraction(0))
        reserved = max(runs, there - _at(allocatable, name), _at(kept, name), Fraction(0))
        free = max(there - reserved - _allocated(given, name), Fraction(0))
        unused = there - _at(used, name) if set(used) == set(_RESOURCES) else Fraction(0)
        base = max(min(_whole(name, _at(sold, name)), _whole(name, unused)), 0)
        most = _ratio(strategy, "midCPUThresholdPercent", "midMemoryThresholdPercent", name, 100)
        found[name] = min(base + int(_whole(name, free) * share), int(_whole(name, there) * most))
    return found


def _allocated(given: Mapping[str, Any], name: str) -> Fraction:
    pods = [kubernetes_pod(pod) or {} for pod in given["pods"]]
    counted = [pod for pod in pods if pod["status"].get("phase") in ("Running", "Pending")]
    return sum((_at(pod_requests(pod), name) for pod in counted if priority_class(pod) not in _LOW), Fraction(0))


def _annotated(annotations: Mapping[str, str] | None) -> dict[str, Fraction]:
    try:
        data = json.loads((annotations or {}).get("node.koordinator.sh/reservation") or "{}")
        found = _list(data.get("resources"))
        if data.get("reservedCPUs"):
            found["cpu"] = Fraction(_cpus(data["reservedCPUs"]))
    except (ValueError, QuantityError, AttributeError):
        return {}
    return found


def _cpus(text: str) -> int:
    named: set[int] = set()
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        named |= set(range(int(first), int(last or first) + 1))
    return len(named)


def is_degrade_needed(given: Mapping[str, Any]) -> Json:
    """Whether a report is too old; wall clocks are compared."""
    age = (given.get("nodeMetric") or {}).get("updateAgeSeconds")
    if age is None:
        return {"degrade": True}
    return {"degrade": age + given["clockOffsetSeconds"] > given["strategy"]["degradeTimeMinutes"] * 60}


def is_quantity_diff(given: Mapping[str, Any]) -> Json:
    """Whether a number changed by more than the threshold, either way."""
    old, new = (math.ceil(parse_quantity(given[name]) * 1000) for name in ("old", "new"))
    return {"diff": abs(float(new - old)) > float(old) * given["diffThreshold"]}


def need_sync(given: Mapping[str, Any]) -> Json:
    """Whether either number of the Node's allocatable changed by more than the threshold, or came or went."""
    old, new = ((given[name] or {}).get("allocatable") or {} for name in ("oldNode", "newNode"))
    for key in _MID.values():
        if (key in old) != (key in new):
            return {"needSync": True}
        change = {"old": old.get(key), "new": new.get(key), "diffThreshold": given["resourceDiffThreshold"]}
        if key in old and is_quantity_diff(change)["diff"]:
            return {"needSync": True}
    return {"needSync": False}


def is_strategy_valid(given: Mapping[str, Any]) -> Json:
    """Whether numbers are in their ranges; most have no upper one."""
    strategy = given["strategy"]
    if strategy is None:
        return {"valid": False}
    stated = {name: value for name, value in strategy.items() if value is not None}
    ranges: tuple[tuple[tuple[str, ...], Callable[[Any], bool]], ...] = (
        (_ABOVE_ZERO, lambda number: number > 0),
        (_NOT_NEGATIVE, lambda number: number >= 0),
        (_PERCENT, lambda number: 0 <= number <= 100),
        (("metricMemoryCollectPolicy",), bool),
    )
    return {"valid": all(holds(stated[name]) for names, holds in ranges for name in names if name in stated)}


def get_node_strategy(given: Mapping[str, Any]) -> Json:
    """Cluster < first matching entry < annotation, whatever it says < labels, cut off to percent."""
    config, node = given["config"], given["node"]
    if config is None or node is None:
        return {"strategy": None}
    found = {name: value for name, value in config.items() if name != "nodeConfigs" and value is not None}
    entries = [
        each
        for each in config.get("nodeConfigs") or ()
        if ours.matches(each.get("nodeSelector"), node.get("labels") or {})
    ]
    for entry in entries[:1]:
        found |= {name: value for name, value in entry.items() if name not in ("name", "nodeSelector")}
    try:
        annotation = json.loads(ours.annotated(given) or "{}")
        found |= {name: value for name, value in annotation.items() if name in _KNOWN and value is not None}
    except (ValueError, AttributeError):
        pass
    for name, text in ours.labelled(given):
        try:
            ratio = float(text)
        except ValueError:
            continue
        if ratio >= 0:
            found[name] = int(ratio * 100)
    return {"strategy": found}


def is_colocation_disabled(given: Mapping[str, Any]) -> Json:
    """Whether the cluster's part disables colocation, or else the node's own."""
    config = given["config"] or {}
    if not config.get("enable") or given["node"] is None:
        return {"disabled": not config.get("enable")}
    return {"disabled": not get_node_strategy(given)["strategy"].get("enable")}


MODEL: Final[Mapping[tuple[str, str], Callable[[Mapping[str, Any]], Json]]] = {
    ("colocation_config", "get_node_strategy"): get_node_strategy,
    ("colocation_config", "is_strategy_valid"): is_strategy_valid,
    ("mid_resource", "calculate"): calculate,
    ("mid_resource", "is_colocation_disabled"): is_colocation_disabled,
    ("mid_resource", "is_degrade_needed"): is_degrade_needed,
    ("mid_resource", "is_quantity_diff"): is_quantity_diff,
    ("mid_resource", "need_sync"): need_sync,
}
"""Family and operation -> what the peer answers."""
