"""The scores that LowRiskOverCommitment must give, worked out node by node in plain floats.

The regularised incomplete beta function is a continued fraction here, so that scipy has a second opinion, too.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeAlias

from crds.quantity import parse_quantity

Json = Mapping[str, Any]
Usage: TypeAlias = tuple[float, float]
"""Average and deviation."""

TINY: Final = 1e-8
"""A deviation below this is none."""
_TINIEST: Final = 1e-300
_LARGEST_PERCENT: Final = 1000
_RESOURCES: Final = (("cpu", "CPU", 1000), ("memory", "Memory", 1))
_COLUMNS: Final = tuple(enumerate(_RESOURCES))


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The probability of at most x under a beta distribution (Lentz's method)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - incomplete_beta(b, a, 1.0 - x)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b))
    c, d = 1.0, 1.0 / _kept(1.0 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 3000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _kept(1.0 + numerator * d)
            c = _kept(1.0 + numerator / c)
            fraction *= d * c
        if abs(d * c - 1.0) < 1e-16:
            break
    return front * fraction / a


def _kept(value: float) -> float:
    return value if abs(value) > _TINIEST else _TINIEST


class Asked(NamedTuple):
    """What is known of one node and the pod in question."""

    pod: Json
    """The pod."""
    node: Json
    """The Node."""
    there: Sequence[Json]
    """The pods on it."""
    usage: Sequence[Usage | None] | None
    """Usage of cpu and memory, each None where unknown; None: nothing at all is known of the node."""
    coming: Sequence[Json] = ()
    """Pods in flight to it: their requests and limits count, their part in the load's risk does not yet."""
    window: float = 5
    """How many samples were averaged into one."""
    weights: Sequence[float] = (0.5, 0.5)
    """Of the limits' risk, for cpu and memory."""
    fills: bool = False
    """Whether best-effort pods may fill the node."""
    parity: bool = False
    """Whether a node of which nothing is known scores 0."""


def scores(vector: Json, *, parity: bool = False) -> list[dict[str, Any]]:
    """The score of each node of a vector of the operation `score`."""
    arguments = vector.get("args") or {}
    weights = [float((arguments.get("riskLimitWeights") or {}).get(name, 0.5)) for name, _, _ in _RESOURCES]
    found = []
    for each in vector["nodes"]:
        name = each["node"]["metadata"]["name"]
        metrics = [metric for metric in metrics_of(vector, name) if is_measurement(metric)]
        usage = [share(picked(metrics, kind), capacity(each["node"], column)) for column, (_, kind, _) in _COLUMNS]
        asked = Asked(
            pod=vector["pod"],
            node=each["node"],
            there=each.get("pods") or (),
            usage=usage if metrics else None,
            window=arguments.get("smoothingWindowSize", 5),
            weights=weights,
            parity=parity,
        )
        found.append({"name": name, "score": score(asked)})
    return found


def score(asked: Asked) -> int:
    """The score of one node."""
    return math.floor(unrounded(asked) + 0.5)


def unrounded(asked: Asked) -> float:
    """The score of one node before it is rounded."""
    requests, limits = _asked(asked.pod)
    best_effort = not any((*requests, *limits))
    if (best_effort and not asked.fills) or (asked.parity and asked.usage is None):
        return 0.0
    return 100 * (1 - max(_risk(asked, column) for column in range(2)))


def metrics_of(vector: Json, node: str) -> Sequence[Json]:
    """What the load-watcher service of a vector says of a node."""
    nodes = ((vector.get("watcher") or {}).get("data") or {}).get("NodeMetricsMap") or {}
    return (nodes.get(node) or {}).get("metrics") or ()


def is_measurement(metric: Json) -> bool:
    """Whether a metric has a value that we take for a measurement: 0 to 1000 percent."""
    return 0 <= (metric.get("value") or 0) <= _LARGEST_PERCENT


def _risk(asked: Asked, column: int) -> float:
    own, total = _asked(asked.pod), capacity(asked.node, column)
    there, coming = ([_asked(pod) for pod in pods] for pods in (asked.there, asked.coming))
    request, limit = (sum(pod[kind][column] for pod in there) for kind in range(2))
    more, further = (sum(pod[kind][column] for pod in (own, *coming)) for kind in range(2))
    limits_risk = limit_risk(min(request + more, total), limit + further, total)
    usage = asked.usage[column] if asked.usage else None
    if asked.fills and any(not any((*pod[0], *pod[1])) for pod in there):
        limit = max(limit, total)
    load = 0.0 if usage is None else load_risk(usage, asked.window, min(request, total), limit, total)
    return min(max(asked.weights[column] * limits_risk + (1 - asked.weights[column]) * load, 0.0), 1.0)


def capacity(node: Json, column: int) -> int:
    """What a node has to give. [milli-cores, bytes]"""
    resource, _, per_unit = _RESOURCES[column]
    return _whole(((node.get("status") or {}).get("allocatable") or {}).get(resource, 0), per_unit)


def share(percents: Usage | None, total: int) -> Usage | None:
    """Average and deviation as shares, from percents of the capacity; multiplied and divided in Trimaran's order."""
    if percents is None or total <= 0:
        return None if percents is None else (0.0, 0.0)
    mean, deviation = (percent * float(total) / 100 / float(total) for percent in percents)
    return mean, deviation


def limit_risk(request: int, limit: int, capacity: int) -> float:
    """The part of the excess that the node does not have."""
    return (limit - capacity) / (limit - request) if limit > capacity else 0.0


def picked(metrics: Sequence[Json], kind: str) -> Usage | None:
    """Average and deviation in percent; None when no metric is of this type."""
    own = [
        (metric.get("operator") or "", float(metric.get("value") or 0))
        for metric in metrics
        if metric.get("type") == kind
    ]
    if not own:
        return None
    averages = [value for operator, value in own if operator == "AVG"]
    samples = [value for operator, value in own if operator in ("", "Latest")]
    deviations = [value for operator, value in own if operator == "STD"]
    average = averages[-1] if averages else samples[-1] if samples else 0.0
    return average, deviations[-1] if deviations else 0.0


def load_risk(usage: Usage, window: float, request: int, limit: int, capacity: int) -> float:
    """The probability that the load exceeds what is requested."""
    if capacity <= 0:
        return 0.0
    mu = min(max(usage[0], 0.0), 1.0)
    sigma = min(max(usage[1], 0.0), 1.0) * math.sqrt(window)
    sigma = min(sigma, math.sqrt(mu * (1 - mu) * 0.99))
    threshold = min(max(request / capacity, 0.0), 1.0)
    probability, shape = 1.0, None
    variance = (sigma * sigma + mu * mu) - mu * mu
    if mu > 0 and (sigma < TINY or not 0 < variance < mu * (1 - mu)):
        probability = 1.0 if mu <= threshold else 0.0
    elif mu > 0:
        k = mu * (1 - mu) / variance - 1
        shape = (mu * k, (1 - mu) * k)
        probability = incomplete_beta(*shape, threshold)
    if limit < capacity and request <= limit:
        reachable = incomplete_beta(*shape, limit / capacity) if shape and limit else 0.0
        if not limit:
            probability = 1.0
        elif reachable > 0:
            probability = min(max(probability / reachable, 0.0), 1.0)
    return 1 - probability


def _asked(pod: Json) -> tuple[Sequence[int], Sequence[int]]:
    """Requests and limits of a pod: cpu in milli-cores, memory in bytes; a limit is at least the request."""
    spec = pod.get("spec") or {}
    totals = {}
    for kind in ("requests", "limits"):
        running = [_container(container, kind) for container in spec.get("containers") or ()]
        starting = [_container(container, kind) for container in spec.get("initContainers") or ()]
        overhead = _container({"resources": {kind: spec.get("overhead")}}, kind)
        totals[kind] = [
            max([sum(each[column] for each in running), *(each[column] for each in starting)]) + overhead[column]
            for column in range(2)
        ]
    return totals["requests"], [max(pair) for pair in zip(totals["requests"], totals["limits"], strict=True)]


def _container(container: Json, kind: str) -> list[int]:
    amounts = (container.get("resources") or {}).get(kind) or {}
    return [_whole(amounts.get(resource, 0), per_unit) for resource, _, per_unit in _RESOURCES]


def _whole(quantity: Any, per_unit: int) -> int:  # noqa: ANN401
    return math.ceil(Fraction(parse_quantity(quantity)) * per_unit)
