"""What the design says about colocation configs: which fields are faulty, which layer wins, what comes into force."""

import difflib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, Final

from crds.duration import DurationError, format_duration, parse_duration

Vector = Mapping[str, Any]
Json = dict[str, Any]

DEFAULTS: Final[Mapping[str, Any]] = {
    "enable": False,
    "metricAggregateDurationSeconds": 300,
    "metricReportIntervalSeconds": 60,
    "metricAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
    "metricMemoryCollectPolicy": "usageWithoutPageCache",
    "cpuReclaimThresholdPercent": 60,
    "memoryReclaimThresholdPercent": 65,
    "cpuCalculatePolicy": "usage",
    "memoryCalculatePolicy": "usage",
    "degradeTimeMinutes": 15,
    "updateTimeThresholdSeconds": 300,
    "resourceDiffThreshold": 0.1,
    "midCPUThresholdPercent": 100,
    "midMemoryThresholdPercent": 100,
    "midUnallocatedPercent": 0,
    "midStaticCPUReservedPercent": 0,
    "midStaticMemoryReservedPercent": 0,
}
_WEEK: Final = 7 * 86400
_MONTH: Final = 31 * 86400
_MOST_WINDOWS: Final = 10
_PERCENT: Final = (0, 100)
_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "metricAggregateDurationSeconds": (1, _WEEK),
    "metricReportIntervalSeconds": (1, _WEEK),
    "cpuReclaimThresholdPercent": _PERCENT,
    "memoryReclaimThresholdPercent": _PERCENT,
    "batchCPUThresholdPercent": _PERCENT,
    "batchMemoryThresholdPercent": _PERCENT,
    "degradeTimeMinutes": (1, _WEEK // 60),
    "updateTimeThresholdSeconds": (1, _WEEK),
    "resourceDiffThreshold": (0.001, 1),
    "midCPUThresholdPercent": _PERCENT,
    "midMemoryThresholdPercent": _PERCENT,
    "midUnallocatedPercent": _PERCENT,
    "midStaticCPUReservedPercent": _PERCENT,
    "midStaticMemoryReservedPercent": _PERCENT,
    "midIncreaseHoldSeconds": (0, 3600),
}
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "metricMemoryCollectPolicy": ("usageWithoutPageCache", "usageWithPageCache", "usageWithHotPageCache"),
    "mode": ("active", "shadow"),
    "midPolicy": ("reclaimable", "design", "designMixed"),
    "midShrinkPolicy": ("floor", "exact"),
}
_ANY_TEXT: Final = ("cpuCalculatePolicy", "memoryCalculatePolicy", "midReclaimMode", "name")
_OBJECTS: Final = ("metricAggregatePolicy", "extensions", "midEviction", "nodePredictPolicy")
OURS_ALONE: Final = frozenset(
    {"mode", "midPolicy", "midShrinkPolicy", "midIncreaseHoldSeconds", "midEviction", "nodePredictPolicy"}
)
"""Fields that the peer does not know."""
FIELDS: Final = frozenset({"enable", *_RANGES, *_CHOICES, *_ANY_TEXT[:3], *_OBJECTS})
"""Fields of a strategy."""
OF_ENTRIES: Final = FIELDS | {"name", "nodeSelector"}
"""Fields of an entry of `nodeConfigs`."""
OF_CLUSTER: Final = FIELDS | {"nodeConfigs"}
"""Fields of the whole."""
_ANNOTATION: Final = "node.koordinator.sh/colocation-strategy"
_LABELS: Final[Mapping[str, str]] = {
    "cpuReclaimThresholdPercent": "node.koordinator.sh/cpu-reclaim-ratio",
    "memoryReclaimThresholdPercent": "node.koordinator.sh/memory-reclaim-ratio",
    "midStaticCPUReservedPercent": "node.koordinator.sh/mid-static-cpu-reserved-ratio",
    "midStaticMemoryReservedPercent": "node.koordinator.sh/mid-static-memory-reserved-ratio",
}
_CLOSE: Final = 0.8


def fields_of(data: Mapping[str, Any], known: frozenset[str] = FIELDS) -> tuple[Json, bool]:
    """The known fields by their right names, and whether any name or value is faulty; null counts as absent."""
    right = {name.lower(): name for name in known}
    found: Json = {}
    faulty = False
    for written, value in data.items():
        name = right.get(written.lower())
        if name is None:
            faulty = faulty or bool(difflib.get_close_matches(written.lower(), right, n=1, cutoff=_CLOSE))
            continue
        if written != name and name in data:
            faulty = True
            continue
        if value is not None:
            faulty = faulty or not _is_allowed(name, value)
            found[name] = value
    return found, faulty


def is_faulty(data: Any, known: frozenset[str] = FIELDS) -> bool:  # noqa: ANN401 - whatever stands in a vector
    """Whether a strategy on its own cannot be used."""
    return not isinstance(data, Mapping) or fields_of(data, known)[1]


def _is_allowed(name: str, value: Any) -> bool:  # noqa: ANN401, PLR0911 - one line per kind of field
    if name in _RANGES:
        low, high = _RANGES[name]
        kinds = (int, float) if name == "resourceDiffThreshold" else (int,)
        return type(value) in kinds and low <= value <= high
    if name in _CHOICES:
        return value in _CHOICES[name]
    if name in _ANY_TEXT:
        return isinstance(value, str)
    if name == "enable":
        return isinstance(value, bool)
    if name == "metricAggregatePolicy":
        return isinstance(value, Mapping) and _durations(value.get("durations")) is not None
    if name == "nodeSelector":
        return is_selector(value)
    return isinstance(value, list if name == "nodeConfigs" else Mapping)


def _durations(listed: Any) -> list[str] | None:  # noqa: ANN401
    """Durations as Go writes them; `None` when there are too many, or no agent can measure one of them."""
    if listed is None:
        return []
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        return None
    if len(listed) > _MOST_WINDOWS:
        return None
    try:
        seconds = [parse_duration(each) for each in listed]
    except DurationError:
        return None
    return [format_duration(each) for each in seconds] if all(1 <= each <= _MONTH for each in seconds) else None


def is_selector(selector: Any) -> bool:  # noqa: ANN401
    """Whether a selector is well-formed."""
    if not isinstance(selector, Mapping) or selector.keys() - {"matchLabels", "matchExpressions"}:
        return False
    labels, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if not isinstance(labels, Mapping) or not all(isinstance(each, str) for each in labels.values()):
        return False
    return isinstance(expressions, list) and all(map(_is_expression, expressions))


def _is_expression(expression: Any) -> bool:  # noqa: ANN401
    if not isinstance(expression, Mapping) or not expression.get("key"):
        return False
    if expression.get("operator") in ("In", "NotIn"):
        return bool(expression.get("values"))
    return expression.get("operator") in ("Exists", "DoesNotExist") and not expression.get("values")


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches; one that is absent or malformed matches nothing."""
    if selector is None or not is_selector(selector):
        return False
    wanted = (selector.get("matchLabels") or {}).items()
    if not all(labels.get(name) == value for name, value in wanted):
        return False
    for each in selector.get("matchExpressions") or ():
        present, value = each["key"] in labels, labels.get(each["key"])
        listed = each.get("values") or ()
        holds = {
            "In": present and value in listed,
            "NotIn": value not in listed,
            "Exists": present,
            "DoesNotExist": not present,
        }
        if not holds[each["operator"]]:
            return False
    return True


def compete(selectors: Sequence[Mapping[str, Any] | None]) -> bool:
    """Whether some labels match two of them, found by trying every value that any of them names, and another one."""
    values: dict[str, set[str | None]] = {}
    for selector in selectors:
        for name, value in ((selector or {}).get("matchLabels") or {}).items():
            values.setdefault(name, {None, "something else"}).add(value)
        for each in (selector or {}).get("matchExpressions") or ():
            values.setdefault(each["key"], {None, "something else"}).update(each.get("values") or ())
    for chosen in itertools.product(*values.values()):
        labels = {name: value for name, value in zip(values, chosen, strict=True) if value is not None}
        if sum(matches(selector, labels) for selector in selectors) > 1:
            return True
    return False


def percent_of_label(text: str) -> int | None:
    """A ratio from 0 to 1 as a percentage, rounded; `None` for anything else."""
    try:
        ratio = Decimal(text)
    except InvalidOperation:
        return None
    if not ratio.is_finite() or not 0 <= ratio <= 1:
        return None
    return int((ratio * 100).quantize(Decimal(1), ROUND_HALF_UP))


def node_of(vector: Vector) -> Mapping[str, Any]:
    """The node; empty where there is none."""
    return vector.get("node") or {}


def labelled(vector: Vector) -> Iterator[tuple[str, str]]:
    """Each field that a ratio label is about, with its text."""
    labels = node_of(vector).get("labels") or {}
    yield from ((name, labels[label]) for name, label in _LABELS.items() if label in labels)


def annotated(vector: Vector) -> str | None:
    """The text of the node's annotation."""
    text: str | None = (node_of(vector).get("annotations") or {}).get(_ANNOTATION)
    return text


def annotated_fields(vector: Vector) -> Json | None:
    """The fields of the node's annotation; `None` when it is ignored."""
    data = document(annotated(vector) or "")
    if not isinstance(data, Mapping):
        return None
    found, faulty = fields_of(data)
    return None if faulty else _clean(found)


def has_own_settings(vector: Vector) -> bool:
    """Whether anything but the cluster part says something about this node."""
    entries = (vector.get("config") or {}).get("nodeConfigs") or ()
    return bool(annotated(vector)) or any(True for _ in labelled(vector)) or bool(entries)


def value_for(vector: Vector, name: str, default: Any) -> Any:  # noqa: ANN401
    """The value of a field on the vector's node: cluster < first matching entry < annotation < label."""
    config, labels = vector.get("config") or vector.get("strategy") or {}, node_of(vector).get("labels") or {}
    entries = [each for each in config.get("nodeConfigs") or () if matches((each or {}).get("nodeSelector"), labels)]
    found = default
    for layer in (config, *entries[:1], annotated_fields(vector) or {}):
        found = found if layer.get(name) is None else layer[name]
    percents = [percent_of_label(text) for field, text in labelled(vector) if field == name]
    return found if not percents or percents[0] is None else percents[0]


def document(text: str) -> Any:  # noqa: ANN401
    """Parsed JSON; `None` when it is none, or when an object names a field twice."""
    twice = []

    def pairs(found: list[tuple[str, Any]]) -> Json:
        twice.append(len(found) != len(dict(found)))
        return dict(found)

    def refuse(_constant: str) -> None:
        raise ValueError

    try:
        data = json.loads(text, object_pairs_hook=pairs, parse_constant=refuse)
    except ValueError:
        return None
    return None if any(twice) else data


def in_force(text: str | None) -> Json | None:
    """The complete configuration that a text puts in force, as the vectors write it; `None` when it is refused."""
    data = document(text) if text else {}
    if not isinstance(data, Mapping):
        return None
    cluster, faulty = fields_of(data, OF_CLUSTER)
    if faulty:
        return None
    entries = cluster.pop("nodeConfigs", None)
    complete = {**DEFAULTS, **_clean(cluster)}
    return complete if not entries else {**complete, "nodeConfigs": [_entry(each, complete) for each in entries]}


def _entry(entry: Any, cluster: Json) -> Json:  # noqa: ANN401
    """An entry over the cluster's part; a faulty one keeps its place and matches nothing."""
    found, faulty = fields_of(entry, OF_ENTRIES) if isinstance(entry, Mapping) else ({}, True)
    if faulty:
        return {**cluster, "name": found.get("name"), "nodeSelector": None}
    return {**cluster, **_clean(found), "nodeSelector": found.get("nodeSelector")}


def _clean(found: Json) -> Json:
    """Fields as they are told back: durations as Go writes them, an empty list not at all."""
    policy = found.get("metricAggregatePolicy")
    if policy is None:
        return found
    durations = _durations(policy.get("durations"))
    kept = {name: value for name, value in found.items() if name != "metricAggregatePolicy"}
    return {**kept, "metricAggregatePolicy": {"durations": durations}} if durations else kept


def has_faulty_entries(text: str | None) -> bool:
    """Whether an entry of `nodeConfigs` is disabled."""
    data = document(text or "")
    listed = data.get("nodeConfigs") if isinstance(data, Mapping) else None
    return isinstance(listed, list) and any(is_faulty(each, OF_ENTRIES) for each in listed)


def names_ours(text: str | None) -> bool:
    """Whether a text sets a field that the peer does not know."""
    data = document(text or "")
    if not isinstance(data, Mapping):
        return False
    entries = [each for each in data.get("nodeConfigs") or () if isinstance(each, Mapping)]
    return any(OURS_ALONE & each.keys() for each in (data, *entries))
