"""A NodeMetric report as vectors."""

import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from crds.duration import parse_duration
from crds.priority import PriorityBand
from headroom.kube.unreadable_objects import TooLarge
from scheduler_plugins.snapshot.units import Usage, units, unix_time, usage

DEFAULT_REPORT_INTERVAL: Final = 60.0  # the default interval of a node's reports. [s]
MOST_ITEMS: Final = 1000
"""A report of more pods, aggregated amounts or conditions is not read: 36,000 take longer than kube-scheduler waits."""
LONGEST: Final = 0.0  # in place of the longest reported duration of an aggregation type. [s]

_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})
_seconds = lru_cache(maxsize=256)(parse_duration)  # reports of all nodes name the same few windows


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted usage of a node."""

    time: float | None = None  # when it was last reported; None: never. [unix s]
    peak: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    """Predicted peak of the whole node, margin included, where there is one. [milli-cores, else base units]"""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node's NodeMetric."""

    update_time: float | None = None  # when it was measured, by the node's clock; None: never. [unix s]
    interval: float = DEFAULT_REPORT_INTERVAL  # time between two reports. [s]
    node_usage: Usage | None = None  # usage of the whole node; None while it reports nothing about itself
    system_usage: Usage | None = None  # the part of it that belongs to no pod
    aggregated: Mapping[tuple[str, float], Usage] = field(default_factory=lambda: _NOTHING)
    """Usage of the node by (aggregation type, duration in seconds); duration `LONGEST` is the longest of its type."""
    pods: Mapping[str, Usage] = field(default_factory=lambda: _NOTHING)
    """The measured usage of the pods, by `namespace/name`."""
    prod_pods: AbstractSet[str] = frozenset()  # the pods that the report calls Prod
    conditions: Mapping[str, bool] = field(default_factory=lambda: _NOTHING)
    """The conditions of the NodeMetric: whether each is True; one that is Unknown is absent."""
    prediction: Prediction | None = None  # of the node; None: its agent predicts nothing

    @classmethod
    def from_json(cls, node_metric: Mapping[str, Any], resources: Sequence[str]) -> "NodeReport":
        """Read a NodeMetric.

        Raises:
            QuantityError: an amount is not a quantity.
            ValueError: a time or duration cannot be read, or there is more than can be read in time.
        """
        status = node_metric.get("status") or {}
        _check_sizes(status)
        measured = status.get("nodeMetric") or {}
        policy = (node_metric.get("spec") or {}).get("metricCollectPolicy") or {}
        interval = policy.get("reportIntervalSeconds")
        pods, prod_pods = _pods(status, resources)
        return cls(
            update_time=unix_time(status.get("updateTime")),
            interval=DEFAULT_REPORT_INTERVAL if interval is None else float(interval),
            node_usage=_usage(measured.get("nodeUsage"), resources),
            system_usage=_usage(measured.get("systemUsage"), resources),
            aggregated=_aggregated(measured, resources),
            pods=pods,
            prod_pods=prod_pods,
            conditions={
                str(condition.get("type")): condition["status"] == "True"
                for condition in status.get("conditions") or ()
                if condition.get("status") in ("True", "False")
            },
            prediction=_prediction(status.get("prediction"), resources),
        )

    def aggregated_usage(self, kind: str, duration: float) -> Usage | None:
        """Return the usage of the node by one aggregation, or None without one.

        Without a duration (`LONGEST`) it is the longest one that was reported of that type, and the plain node usage
        when none was. A stated duration has to match.
        """
        result = self.aggregated.get((kind, duration))
        return self.node_usage if result is None and duration == LONGEST else result


def _check_sizes(status: Mapping[str, Any]) -> None:
    windows = (status.get("nodeMetric") or {}).get("aggregatedNodeUsages") or ()
    classes = (status.get("prediction") or {}).get("classes") or ()
    if len(windows) <= MOST_ITEMS:
        windows = [kind for window in windows for kind in window.get("usage") or ()]
    sizes = {
        "podsMetric": len(status.get("podsMetric") or ()),
        "conditions": len(status.get("conditions") or ()),
        "nodeMetric.aggregatedNodeUsages": len(windows),
        "prediction.classes": len(classes),
    }
    for name, size in sizes.items():
        if size > MOST_ITEMS:
            raise TooLarge(f"status.{name}: {size} items, {MOST_ITEMS} are the most")


def _usage(resource_map: Mapping[str, Any] | None, resources: Sequence[str]) -> Usage | None:
    """Amounts in order of the resources; None where there are none, as of koordlet without a collector."""
    return usage(resources, (resource_map or {}).get("resources"))


def _aggregated(measured: Mapping[str, Any], resources: Sequence[str]) -> dict[tuple[str, float], Usage]:
    usages: dict[tuple[str, float], Usage] = {}
    longest: dict[str, float] = {}
    for window in measured.get("aggregatedNodeUsages") or ():
        duration = _seconds(window.get("duration") or "0s")
        for kind, resource_map in (window.get("usage") or {}).items():
            if (result := _usage(resource_map, resources)) is None:
                continue
            usages[kind, duration] = result
            longest[kind] = max(duration, longest.get(kind, duration))
    return usages | {(kind, LONGEST): usages[kind, duration] for kind, duration in longest.items()}


def _pods(status: Mapping[str, Any], resources: Sequence[str]) -> tuple[dict[str, Usage], AbstractSet[str]]:
    """Return the measured usage of the pods, and the names of the Prod pods.

    An entry without amounts counts as unreported, one with zeros as reported.
    """
    usages: dict[str, Usage] = {}
    prod: set[str] = set()
    for pod in status.get("podsMetric") or ():
        measured = _usage((pod or {}).get("podUsage"), resources)
        if measured is not None:
            # The same text as the key of the pod itself, so that 150,000 of them are kept once.
            key = sys.intern(f"{pod.get('namespace', '')}/{pod.get('name', '')}")
            usages[key] = measured
            (prod.add if pod.get("priority") == PriorityBand.PROD else prod.discard)(key)
    return usages, prod


def _prediction(prediction: Mapping[str, Any] | None, resources: Sequence[str]) -> Prediction | None:
    if prediction is None:
        return None
    peaks = (part.get("peak") or {} for part in prediction.get("classes") or () if part.get("name") == "node")
    peak = next(peaks, {})
    return Prediction(
        time=unix_time(prediction.get("time")),
        peak={name: units(name, peak[name]) for name in resources if name in peak},
    )


@dataclass(frozen=True, slots=True)
class Statistic:
    """Moments of the usage of one resource."""

    average: float  # mean usage. [% of capacity]
    stdev: float = 0.0
    """Standard deviation of the usage; 0 where the provider knows none. [% of capacity]"""


@dataclass(frozen=True, slots=True)
class Utilisation:
    """The usage of one node, as a provider reports it."""

    cpu: Statistic | None  # of the CPU; None: the provider has none
    memory: Statistic | None  # of the memory
    measured_at: float  # end of the window that the numbers are of. [unix s]
    smoothed: bool
    """True if each sample is itself a mean over a smoothing window, so that the deviation is too small for it."""
