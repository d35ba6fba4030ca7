"""The scores that LowRiskOverCommitment must give, worked out node by node in plain floats.

The regularised incomplete beta function is a continued fraction here, so that scipy has a second opinion, too.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from crds.quantity import parse_quantity

Json = Mapping[str, Any]

TINY: Final = 1e-8
"""A deviation below this is none."""
_TINIEST: Final = 1e-300
_RESOURCES: Final = (("cpu", "CPU", 1000), ("memory", "Memory", 1))


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


def scores(vector: Json, *, parity: bool = False) -> list[dict[str, Any]]:
    """The score of each node of a vector of the operation `score`."""
    return [
        {"name": each["node"]["metadata"]["name"], "score": _score(vector, each, parity=parity)}
        for each in vector["nodes"]
    ]


def _score(vector: Json, each: Json, *, parity: bool) -> int:
    metrics = metrics_of(vector, each["node"]["metadata"]["name"])
    asked = _asked(vector["pod"])
    if not any(map(any, asked)) or (parity and not metrics):
        return 0
    risk = max(_risk(vector, each, metrics, column, asked) for column in range(2))
    return math.floor(100 * (1 - risk) + 0.5)


def metrics_of(vector: Json, node: str) -> Sequence[Json]:
    """What the load-watcher service of a vector says of a node."""
    nodes = ((vector.get("watcher") or {}).get("data") or {}).get("NodeMetricsMap") or {}
    return (nodes.get(node) or {}).get("metrics") or ()


def _risk(
    vector: Json, each: Json, metrics: Sequence[Json], column: int, asked: tuple[Sequence[int], Sequence[int]]
) -> float:
    resource, kind, per_unit = _RESOURCES[column]
    capacity = _whole(((each["node"].get("status") or {}).get("allocatable") or {}).get(resource, 0), per_unit)
    there = [_asked(pod) for pod in each.get("pods") or ()]
    request = sum(pod[0][column] for pod in there)
    limit = sum(pod[1][column] for pod in there)
    limits_risk = limit_risk(min(request + asked[0][column], capacity), limit + asked[1][column], capacity)
    statistic = picked(metrics, kind)
    arguments = vector.get("args") or {}
    load = 0.0
    if statistic is not None:
        load = load_risk(statistic, arguments.get("smoothingWindowSize", 5), min(request, capacity), limit, capacity)
    weight = float((arguments.get("riskLimitWeights") or {}).get(resource, 0.5))
    return min(max(weight * limits_risk + (1 - weight) * load, 0.0), 1.0)


def limit_risk(request: int, limit: int, capacity: int) -> float:
    """The part of the excess that the node does not have."""
    return (limit - capacity) / (limit - request) if limit > capacity else 0.0


def picked(metrics: Sequence[Json], kind: str) -> tuple[float, float] | None:
    """Average and deviation in percent; None when no metric is of this type."""
    own = [
        (metric.get("operator") or "", float(metric.get("value") or 0)) for metric in metrics if metric["type"] == kind
    ]
    if not own:
        return None
    averages = [value for operator, value in own if operator == "AVG"]
    samples = [value for operator, value in own if operator in ("", "Latest")]
    deviations = [value for operator, value in own if operator == "STD"]
    average = averages[-1] if averages else samples[-1] if samples else 0.0
    return average, deviations[-1] if deviations else 0.0


def load_risk(statistic: tuple[float, float], window: float, request: int, limit: int, capacity: int) -> float:
    """The probability that the load exceeds what is requested."""
    if capacity <= 0:
        return 0.0
    mu = min(max(statistic[0] * capacity / 100 / capacity, 0.0), 1.0)
    sigma = min(max(statistic[1] * capacity / 100 / capacity, 0.0), 1.0) * math.sqrt(window)
    sigma = min(sigma, math.sqrt(mu * (1 - mu) * 0.99))
    threshold = min(max(request / capacity, 0.0), 1.0)
    probability, shape = 1.0, None
    if mu > 0 and sigma < TINY:
        probability = 1.0 if mu <= threshold else 0.0
    elif mu > 0:
        k = mu * (1 - mu) / ((sigma * sigma + mu * mu) - mu * mu) - 1
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
