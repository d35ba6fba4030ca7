"""nodemetric_report: statistics of windows, collected and reported series, and the classes of pods."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from agent import derived
from agent.host import cgroup_files, procfs
from agent.host.procfs import Malformed
from agent.host.rates import Gap
from agent.numerics import aggregate
from agent.numerics.aggregate import WindowStatistics
from agent.pods import PodRef, pod_ref
from agent.reporter.node_metric import aggregated, pod_metric, resource_map
from agent.reporter.usage import Usages, Window, measure
from agent.samples import CPU, MEMORY, MEMORY_WITH_PAGE_CACHE, NODE, SYS
from agent.tsdb.series import Points, Series
from crds.node_metric import ResourceMap
from tests.golden.adapters import Adapter, priority
from tests.golden.adapters.cgroup_parse import place, rate_of
from tests.golden.adapters.pods import kubernetes_pod
from tests.golden.results import Amount, Amounts, UnsupportedVectorError

_NOW: Final = 1_700_000_000.0
_WINDOW_SECONDS: Final = 1800.0
_SPAN_SECONDS: Final = 150.0
_SERIES: Final[Mapping[str, tuple[str, str]]] = {
    f"{owner}_{name}": (metric, owner)
    for owner in (NODE, SYS, "pod")
    for name, metric in (
        ("cpu_usage", CPU),
        ("memory_usage", MEMORY),
        ("memory_usage_with_page_cache", MEMORY_WITH_PAGE_CACHE),
    )
}
"""Koordinator's name of a series -> our metric and its entity."""


def _percentile(vector: dict[str, Any]) -> dict[str, Any]:
    try:
        value = float(aggregate.percentile_rows(np.array([vector["values"]], float), vector["percentile"])[0])
    except ValueError:
        return {"error": True}
    return {"error": True} if np.isnan(value) else {"error": False, "value": value}


def _aggregate(vector: dict[str, Any]) -> dict[str, Any]:
    values = np.array(vector["values"], dtype=np.float64)
    try:
        result = aggregate.statistics(np.arange(values.size, dtype=np.float64), values)
    except aggregate.NoSamplesError:
        return {"error": True, "count": values.size}
    names = ("p50", "p90", "p95", "p99", "last", "count")
    return {"avg": result.average, **{name: getattr(result, name) for name in names}}


def _aggregate_cold_start(vector: dict[str, Any]) -> dict[str, Any]:
    return {"coldStart": aggregate.is_cold(vector["sampleSpanSeconds"], vector["windowSeconds"])}


class _Store:
    """Returns the series of a vector: each has one value from the window's first sample to its last."""

    def __init__(self, vector: Mapping[str, Any], pod_uid: str = "") -> None:
        self._times = np.array([_NOW - vector.get("sampleSpanSeconds", _SPAN_SECONDS), _NOW])
        self._content: dict[tuple[str, str], float] = {}
        for name, value in vector["series"].items():
            if name not in _SERIES:
                raise UnsupportedVectorError(f"we do not collect {name}")
            metric, owner = _SERIES[name]
            self._content[metric, pod_uid if owner == "pod" else owner] = float(value)

    def minutes(
        self, metric: str, start: float, end: float, entities: Collection[str] | None = None
    ) -> Mapping[str, Points]:
        """No vector has a window that is answered from minutes."""
        del metric, start, end, entities
        return {}

    def windows(self, metric: str, start: float, end: float) -> dict[str, Series]:
        return {entity: self.window(metric, entity, start, end) for kind, entity in self._content if kind == metric}

    def window(self, metric: str, entity: str, start: float, end: float) -> Series:
        times = self._times[(self._times > start) & (self._times <= end)]
        value = self._content.get((metric, entity))
        return Series(times, np.full_like(times, value)) if value is not None else Series(np.empty(0), np.empty(0))


def _usages(vector: Mapping[str, Any], pods: tuple[PodRef, ...] = ()) -> Usages:
    return measure(
        _NOW,
        _Store(vector, *(pod.uid for pod in pods)),
        pods,
        lambda _uid: None,
        window_seconds=_WINDOW_SECONDS,
        durations_seconds=(_WINDOW_SECONDS,),
        memory_policy=vector.get("memoryCollectPolicy") or "",
    )


def _amounts(found: ResourceMap | None) -> Amounts:
    resources = (found and found.resources) or {}
    return Amounts((name, Amount.of(quantity)) for name, quantity in resources.items())


def _collected(mean: Mapping[str, float], windows: Sequence[Window], name: str) -> dict[str, Any]:
    """The average or a percentile, and the time between the first sample and the last."""
    statistics = windows[0].statistics
    if name == "avg":
        usage = mean
    elif name in aggregate.PERCENTILES:
        usage = {resource: getattr(result, name) for resource, result in statistics.items()}
    else:
        raise UnsupportedVectorError(f"usage is not reported as {name}")
    return {
        "usage": _amounts(resource_map(usage)),
        "sampleSpanSeconds": statistics[CPU].span_seconds if CPU in statistics else 0,
    }


def _collect_node(vector: dict[str, Any]) -> dict[str, Any]:
    result = _usages(vector)
    return _collected(result.node, result.node_windows, vector["aggregate"])


def _collect_system(vector: dict[str, Any]) -> dict[str, Any]:
    result = _usages(vector)
    return _collected(result.system, result.system_windows, vector["aggregate"])


def _collect_pod(vector: dict[str, Any]) -> dict[str, Any]:
    if vector["aggregate"] != "avg":
        raise UnsupportedVectorError(f"a pod's usage is reported as an average, not as {vector['aggregate']}")
    pod = pod_ref(kubernetes_pod(vector["pod"]) or {})
    result = _usages(vector, (pod,))
    if pod.uid not in result.pods:
        return {"error": True, "podMetric": None}
    metric = pod_metric(pod, result.pods[pod.uid])
    return {
        "error": False,
        "podMetric": {
            "namespace": metric.namespace,
            "name": metric.name,
            "priority": metric.priority or "",
            "qos": metric.qos or "",
            "podUsage": _amounts(metric.pod_usage),
        },
    }


def _collect_aggregates(vector: dict[str, Any]) -> dict[str, Any]:
    values = {CPU: vector["cpuByAggregate"], MEMORY: vector["memoryBytesByAggregate"]}
    statistics = {resource: _statistics(amounts, vector["sampleSpanSeconds"]) for resource, amounts in values.items()}
    reported = [aggregated(Window(float(seconds), statistics)) for seconds in vector["durationsSeconds"] or ()]
    return {
        "aggregated": [
            {
                "duration": entry.duration,
                "usage": {name: _amounts(amounts) for name, amounts in (entry.usage or {}).items()},
            }
            for entry in reported
        ]
    }


def _statistics(amounts: Mapping[str, float], span_seconds: float) -> WindowStatistics:
    return WindowStatistics(
        average=amounts["avg"],
        stdev=0.0,
        p50=amounts["p50"],
        p90=amounts["p90"],
        p95=amounts["p95"],
        p99=amounts["p99"],
        max=amounts["p99"],
        last=amounts["p99"],
        count=2,
        span_seconds=span_seconds,
    )


def _system_usage(vector: dict[str, Any]) -> dict[str, Any]:
    def of_this_tick(part: Mapping[str, Any] | None, resource: str) -> float | None:
        fresh = part is not None and part["ageSeconds"] <= vector["outdatedIntervalSeconds"]
        return float(part[resource]) if part is not None and fresh else None

    return {
        resource: derived.system_usage(
            of_this_tick(vector["node"], resource),
            [of_this_tick(pods, resource) for pods in (vector["pods"] or {}).values()],
        )
        for resource in ("cpu", "memory")
    }


def _node_collect(vector: dict[str, Any]) -> dict[str, Any]:
    try:
        ticks, memory = procfs.busy_ticks(vector["procStat"] or ""), procfs.meminfo(vector["procMeminfo"] or "")
    except Malformed:
        return {"cpu": None, "memory": None, "collected": False}
    rate = rate_of(vector["previousTicks"], ticks, vector["elapsedSeconds"])
    cores = None if isinstance(rate, Gap) else procfs.node_cpu_cores(rate, 1.0, 1000 / vector["jiffyMilliseconds"])
    return {"cpu": cores, "memory": memory.used_bytes, "collected": cores is not None}


def _pod_collect(vector: dict[str, Any]) -> dict[str, Any]:
    version = vector["cgroupVersion"]

    def content(what: str) -> str:
        hierarchy, file = place(what, version)
        path = "/".join(part.strip("/") for part in (hierarchy, vector["podCgroupDir"], file) if part)
        return str(vector["files"].get(path, ""))

    return {**_pod_cpu(vector, content("cpu-usage")), **_pod_memory(content("memory-stat"), version)}


def _pod_cpu(vector: Mapping[str, Any], text: str) -> dict[str, Any]:
    try:
        nanoseconds = cgroup_files.cpu_usage_nanoseconds(text, vector["cgroupVersion"])
    except Malformed:
        return {"cpu": None}
    rate = rate_of(vector["previousUsageNanoseconds"], nanoseconds, vector["elapsedSeconds"])
    return {"cpu": None if isinstance(rate, Gap) else cgroup_files.cpu_cores(rate, 1.0)}


def _pod_memory(text: str, version: int) -> dict[str, Any]:
    try:
        result = cgroup_files.memory_stat(text, version)
    except Malformed:
        return {"memory": None, "memoryWithPageCache": None}
    return {"memory": result.used_bytes, "memoryWithPageCache": result.used_with_page_cache_bytes}


OPERATIONS: Final[Mapping[str, Adapter]] = {
    **priority.OPERATIONS,
    "collect_node_aggregates": _collect_aggregates,
    "collect_system_aggregates": _collect_aggregates,
}
