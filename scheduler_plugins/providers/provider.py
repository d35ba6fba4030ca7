"""The interface of a provider: it fetches load-watcher's list of metrics per node, or fails with a sentence."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from headroom.kube import ApiServer
from scheduler_plugins.snapshot.report import Statistic, Utilisation

CPU: Final = "CPU"  # `type` of a metric of the CPU; case matters
MEMORY: Final = "Memory"  # `type` of a metric of the memory
AVERAGE: Final = "AVG"  # `operator` of an average
STDEV: Final = "STD"  # `operator` of a standard deviation
LATEST: Final = "Latest"  # `operator` of a plain sample; an empty one means the same

_SAMPLES: Final = ("", LATEST)


def utilisation(metrics: Sequence[Mapping[str, Any]], measured_at: float, *, smoothed: bool) -> Utilisation | None:
    """A reading from a node's metrics; None when there are none. Metrics of other types describe neither resource.

    Args:
        metrics: load-watcher's list: objects with `type`, `operator` and `value` (percent).
        measured_at: end of the window that they are of. [unix s]
        smoothed: whether each sample behind them is itself a mean over a smoothing window.
    """
    if not metrics:
        return None
    return Utilisation(statistic(metrics, CPU), statistic(metrics, MEMORY), measured_at, smoothed)


def statistic(metrics: Sequence[Mapping[str, Any]], kind: str) -> Statistic | None:
    """Average and deviation of one type of metric, picked as Trimaran's plugins do; None when there is none.

    The last average counts; a plain sample replaces it only while there is none. A metric of the type
    makes the rest known: an absent value is 0.
    """
    average, stdev, known, averaged = 0.0, 0.0, False, False
    for metric in metrics:
        if metric.get("type") != kind:
            continue
        known, operator, value = True, metric.get("operator") or "", float(metric.get("value") or 0.0)
        if operator == AVERAGE:
            average, averaged = value, True
        elif operator == STDEV:
            stdev = value
        elif operator in _SAMPLES and not averaged:
            average = value
    return Statistic(average, stdev) if known else None


Metric: TypeAlias = Mapping[str, Any]
"""A value, as load-watcher writes it: `name`, `type`, `operator`, `rollup`, `value` [%]."""

LARGEST_PERCENT: Final = 1000.0  # more than this of what a node has is no measurement. [%]


class ProviderError(Exception):
    """A fetch brought nothing that can be used; the message has the reason, for people."""


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """A provider's metrics of one node."""

    metrics: Sequence[Metric]  # its metrics
    measured_at: float  # end of the window that they are of. [unix s]


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one fetch."""

    nodes: Mapping[str, NodeAnswer]  # by the name that the provider has for the node
    unusable: int = 0  # how many values or nodes could not be understood, and were left out


class Provider(Protocol):
    """Knows the utilisation of nodes."""

    name: str  # its name in the profile
    address: str  # where it is, for messages
    smoothed: bool  # whether each of its samples is itself a mean over some minutes

    async def fetch(self, now: float) -> Answer:
        """Ask it. Raises ProviderError: there is nothing that can be used."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The parts of the cluster that a provider may read."""

    api: ApiServer  # the session with the API server
    allocatable: Callable[[str], Mapping[str, int] | None]
    """Return a node's capacity by its status; None: there is no such node. [milli-cores for cpu, else base units]"""


def at(data: object, *keys: str) -> Any:  # noqa: ANN401 - JSON from outside can be anything
    """Return the value in nested objects under these keys; None where one of them is no object, or has no such key."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def percent(value: object) -> float | None:
    """Return a percentage as a number; None for text, NaN, infinities, negatives, and more than 1000."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= LARGEST_PERCENT:  # false for NaN, and exact for integers of any length
        return None
    return float(value)


def moment(value: object, now: float) -> float | None:
    """Return a time of measurement in unix seconds, at most now; None for an invalid one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 < value <= 2**53 or not math.isfinite(value):
        return None
    return min(float(value), now)


def metric(kind: str, operator: str, value: float, *, name: str = "", rollup: str = "") -> Metric:
    return {"name": name, "type": kind, "operator": operator, "rollup": rollup, "value": value}
