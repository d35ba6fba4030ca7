"""A NodeMetric's status, reduced to the inputs of formulas and displays, and its age."""

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from crds import names
from crds.priority import PriorityBand
from headroom.cluster.cpu_list import count_cpus
from manager.inputs.amounts import LARGEST, NOTHING, UNKNOWN, Amounts, Measured, Resource, total
from manager.inputs.reading import MOST_ITEMS, Json, Reader, get_objects, get_path, known

_LISTS: Final = (("podsMetric",), ("hostApplicationMetric",), ("conditions",), ("prediction", "classes"))
_MILLI: Final = 1000
_REPORT_SECONDS: Final = 60
_SILENT_REPORTS: Final = 3
_SILENT_SECONDS: Final = 180.0


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A NodeMetric's status, reduced."""

    update_time: float | None = None  # when the agent sent the last full report, by its own clock [unix s]
    prediction_time: float | None = None
    """When it last sent the prediction; `None` from an agent that has no `status.prediction`. [unix s]"""
    own_agent: bool = False  # whether `status.prediction` is there: usage per class in the same ticks
    node_usage: Measured = UNKNOWN
    """Usage of the node; of our agent the larger of the full report's and of class node's, which must both be there."""
    system_usage: Measured = UNKNOWN
    """Usage outside of pods: class sys of our agent, system usage of another agent's full report."""
    prod_host_usage: Amounts = NOTHING  # Prod applications outside of Kubernetes, of another agent
    prod_usage: Measured = UNKNOWN  # usage of class prod, with the pods that have no band (own agent)
    mid_usage: Measured = UNKNOWN  # usage of class mid (own agent)
    pod_usage: Mapping[str, Amounts] = field(default_factory=dict)
    """Usage per pod, namespace/name; of our agent those of the Mid pods, by which victims are ordered."""
    exclusive_cpu: int = 0  # CPUs that Mid pods cannot use (own agent) [milli-cores]
    exclusive_cpu_usage: int = 0  # their usage [milli-cores]
    reclaimable: Measured = UNKNOWN  # `prodReclaimableMetric`: what Prod requested and will not use
    collecting: bool = True  # false when the agent reports that it does not measure this node (condition `Collecting`)
    prediction_ready: bool = True
    """False when it reports that its prediction is not ready (condition `PredictionReady`)."""
    prod_peak: Measured = UNKNOWN
    """Predicted peak of Prod pods and system, margin included: `prodPeakMetric`; no Mid formula reads it."""
    problems: tuple[str, ...] = ()  # what could not be read, one sentence each

    @classmethod
    def from_object(cls, node_metric: Json, mid_pods: Collection[str] | None = None) -> Self | None:
        """Reduce a NodeMetric; `None` while no agent has written to its status.

        Args:
            node_metric: the object.
            mid_pods: the Mid pods on the node, namespace/name: of our agent's pods only their usage is kept, because
                150,000 pods are too many for the cache. `None` keeps that of all pods.
        """
        status = get_path(node_metric, "status")
        lengths = {path: get_path(status, *path) for path in _LISTS}
        too_long = [path for path, result in lengths.items() if isinstance(result, list) and len(result) > MOST_ITEMS]
        if too_long:  # a sum over a part of it would be a wrong number
            what = f"at most {MOST_ITEMS} items are read; the report counts as never sent"
            return cls(problems=tuple(f"status.{'.'.join(path)}: {what}" for path in too_long))
        if not isinstance(status, Mapping) or not _of_agent(status):
            return None
        read, prediction = Reader(), status.get("prediction")
        own_agent = isinstance(prediction, Mapping)
        usage = {str(part.get("name")): part.get("usage") for part in get_objects(prediction, "classes")}

        def of_class(name: str) -> Measured:
            return read.measured(usage.get(name), f"status.prediction.classes[{name}].usage")

        def reported(name: str) -> Measured:
            return read.measured(get_path(status, "nodeMetric", name, "resources"), name)

        node_usage = reported("nodeUsage")
        exclusive = _exclusive_cpu(get_path(prediction, "exclusiveCPUs", "cpus"), read)
        exclusive_usage = read.measured(get_path(prediction, "exclusiveCPUs", "usage"), "exclusiveCPUs.usage")
        reclaimable = get_path(status, "prodReclaimableMetric", "resource", "resources")
        return cls(
            update_time=read.time(status.get("updateTime"), "status.updateTime"),
            prediction_time=read.time(get_path(prediction, "time"), "status.prediction.time"),
            own_agent=own_agent,
            node_usage=_larger(node_usage, of_class("node")) if own_agent else node_usage,
            system_usage=of_class("sys") if own_agent else reported("systemUsage"),
            prod_host_usage=_prod_host_usage(status, read),
            prod_usage=of_class("prod"),
            mid_usage=of_class("mid"),
            pod_usage=_pod_usage(status, read, mid_pods if own_agent else None),
            exclusive_cpu=exclusive,
            exclusive_cpu_usage=min(exclusive_usage.cpu or 0, exclusive),
            reclaimable=read.measured(reclaimable, "prodReclaimableMetric"),
            collecting=not _denied(status, names.CONDITION_COLLECTING),
            prediction_ready=not _denied(status, names.CONDITION_PREDICTION_READY),
            prod_peak=Reader().measured(get_path(status, "prodPeakMetric", "resource", "resources"), "prodPeakMetric"),
            problems=tuple(read.problems),
        )

    def shared_idle(self, unused: int, usable: int) -> int:
        """Return the part of an unused amount of CPU that is not on exclusive CPUs. [milli-cores]"""
        return max(min(unused + self.exclusive_cpu_usage, usable) - self.exclusive_cpu, 0)


def _of_agent(status: Json) -> bool:
    types = (item.get("type") for item in get_objects(status, "conditions"))
    return bool(status.keys() - {"conditions", "shadow"}) or any(
        type_ not in names.MANAGER_CONDITIONS for type_ in types
    )


def _denied(status: Json, condition: str) -> bool:
    """Return whether a condition is there and False; another agent has none."""
    stated = [(item.get("type"), item.get("status")) for item in get_objects(status, "conditions")]
    return (condition, "False") in stated


def _exclusive_cpu(cpus: object, read: Reader) -> int:
    if not cpus:
        return 0
    try:
        return count_cpus(str(cpus)) * _MILLI
    except ValueError as error:
        read.problem(f"status.prediction.exclusiveCPUs.cpus: {error}; all CPUs count as exclusive")
        return LARGEST


def _larger(full: Measured, fast: Measured) -> Measured:
    """A fast report renews the classes alone: what Mid pods use since then must not be missing from the node's usage.

    The full report's may be the larger one because it counts the page cache where the strategy requires that. Where one
    of the two is missing the node was not measured: the other is not how much it uses at most.
    """
    pairs = ((full[resource], fast[resource]) for resource in Resource)
    return Measured(*(None if one is None or other is None else max(one, other) for one, other in pairs))


def _prod_host_usage(status: Json, read: Reader) -> Amounts:
    return total(
        known(read.measured(get_path(app, "usage", "resources"), f"hostApplicationMetric[{app.get('name')}]"))
        for app in get_objects(status, "hostApplicationMetric")
        if app.get("priority") == PriorityBand.PROD
    )


def _pod_usage(status: Json, read: Reader, only: Collection[str] | None) -> dict[str, Amounts]:
    usage = {}
    for pod in get_objects(status, "podsMetric"):
        key = f"{pod.get('namespace')}/{pod.get('name')}"
        if only is None or key in only:
            usage[key] = known(read.measured(get_path(pod, "podUsage", "resources"), f"podsMetric[{key}]"))
    return usage


@dataclass(frozen=True, slots=True)
class ObservedAt:
    """When `updateTime` and `prediction.time` of a report were observed to change; `None` where they were not. [s]"""

    report: float | None = None
    prediction: float | None = None

    def shifted(self, seconds: float) -> "ObservedAt":
        return ObservedAt(*(None if time is None else time + seconds for time in (self.report, self.prediction)))


def age_seconds(reported: float | None, observed_at: float | None, now: float) -> float | None:
    """Age of a report: time since it was observed, or since its own time if that is longer; a future time is now.

    If the agent's clock is ahead, only the manager's clock counts; if it is behind, the report's own time counts.
    """
    if reported is None:
        return None
    return max(now - reported, now - observed_at if observed_at is not None else 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class PredictionSummary:
    """The prediction of a NodeMetric for display: no formula reads it."""

    warm: int | None = None  # Pods predicted from history; `None` from an agent that does not report it
    cold: int | None = None  # Pods counted at their request
    reason: str = ""  # reason of condition PredictionReady, one word; empty if unset
    silent_after: float = _SILENT_SECONDS  # a report older than this means that reports are missing [s]

    @classmethod
    def from_object(cls, node_metric: Json) -> Self:
        """Reduce a NodeMetric. What cannot be read counts as not reported."""
        status = get_path(node_metric, "status")
        conditions = [(item.get("type"), item.get("reason")) for item in get_objects(status, "conditions")]
        reasons = (reason for name, reason in conditions if name == names.CONDITION_PREDICTION_READY)
        interval = get_path(node_metric, "spec", "metricCollectPolicy", "reportIntervalSeconds")
        every = interval if isinstance(interval, int) and interval > 0 else _REPORT_SECONDS
        return cls(
            warm=_count(get_path(status, "prediction", "pods", "warm")),
            cold=_count(get_path(status, "prediction", "pods", "cold")),
            reason=sys.intern(str(next(reasons, "") or "")),
            silent_after=max(_SILENT_SECONDS, float(_SILENT_REPORTS * every)),
        )


def _count(found: object) -> int | None:
    return found if isinstance(found, int) and found >= 0 else None
