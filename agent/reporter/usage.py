"""Recent usage of the node, the system, the classes and the pods: averages and percentiles from the store."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np

from agent.numerics.aggregate import WindowStatistics, statistics, table
from agent.numerics.arrays import BoolArray, FloatArray
from agent.pods import PodRef
from agent.samples import CPU, CPU_EXCLUSIVE, MEMORY, MEMORY_WITH_PAGE_CACHE, NODE, SYS
from agent.tsdb.series import Points, Series
from crds.node_metric import CLASSES, LONGEST_AGGREGATE_SECONDS, WITH_PAGE_CACHE

Amounts = Mapping[str, float]
"""Usage by resource: cpu in cores, memory in bytes. A resource without a sample is absent."""
_MINUTE_SECONDS: Final = 60.0
_LATEST_SECONDS: Final = 30.0
_POD_CLASSES: Final = tuple(name for name in CLASSES if name not in (NODE, SYS))


class UsageStore(Protocol):
    """The part of the store that the reporter reads."""

    def windows(self, metric: str, start: float, end: float) -> Mapping[str, Series]:
        """Raw samples with start < time <= end, by entity."""

    def window(self, metric: str, entity: str, start: float, end: float) -> Series:
        """The same of one entity; empty when there are none."""

    def minutes(
        self, metric: str, start: float, end: float, entities: Collection[str] | None = None
    ) -> Mapping[str, Points]:
        """1-minute points of these entities, of minutes that begin at start <= time < end."""


@dataclass(frozen=True, slots=True)
class Window:
    """Statistics of one entity by resource over one of the windows that the spec lists; without samples, absent."""

    seconds: float
    statistics: Mapping[str, WindowStatistics]


@dataclass(frozen=True, slots=True)
class Usages:
    """The recent usage in a report: means, and statistics over the spec's windows."""

    node: Amounts
    system: Amounts  # what runs outside of pods
    classes: Mapping[str, Amounts]  # by class, all over the same ticks: node = sys + prod + mid + batch + free
    pods: Mapping[str, Amounts]  # by pod uid; only pods with CPU and memory
    node_windows: Sequence[Window]
    system_windows: Sequence[Window]
    measured_at: float | None
    """When the node was last measured, of the resources in `node` the one that is behind. [seconds since 1970]"""
    exclusive: Amounts = field(default_factory=dict)
    """Usage of the CPUs that only some containers may use."""


def measure(
    now: float,
    store: UsageStore,
    pods: Sequence[PodRef],
    class_of: Callable[[str], str | None],
    *,
    window_seconds: float,
    durations_seconds: Sequence[float],
    memory_policy: str,
) -> Usages:
    """Everything that a report needs from the store.

    `class_of` also knows a pod that departed lately. Windows that are long are answered from 1-minute points; terminal
    pods are left out, and the hot page cache is not measured.
    """
    start = now - window_seconds
    cpu, memory = store.windows(CPU, start, now), store.windows(MEMORY, start, now)
    shown = store.windows(MEMORY_WITH_PAGE_CACHE, start, now) if memory_policy == WITH_PAGE_CACHE else memory
    present = {pod.uid for pod in pods if not pod.terminal}
    return Usages(
        node=_means({CPU: cpu, MEMORY: shown}, NODE),
        system=_means({CPU: cpu, MEMORY: memory}, SYS),
        classes=_by_class({CPU: cpu, MEMORY: memory}, class_of),
        pods={uid: _means({CPU: cpu, MEMORY: shown}, uid) for uid in present & cpu.keys() & shown.keys()},
        node_windows=_windows(now, store, NODE, durations_seconds, memory_policy),
        system_windows=_windows(now, store, SYS, durations_seconds, ""),
        measured_at=_measured_at(cpu.get(NODE), shown.get(NODE)),
        exclusive=_means({CPU: store.windows(CPU_EXCLUSIVE, start, now)}, NODE),
    )


def present(
    now: float, store: UsageStore, class_of: Callable[[str], str | None], window_seconds: float
) -> dict[str, dict[str, float]]:
    """Return the mean usage of the node, the system and the classes by resource and class. [cores, bytes]

    Memory is at least its mean of the last seconds, because it stays in use: a peak below it is wrong for minutes.
    Each series counts without the others: while one pod has no samples, no tick has the system's usage, but
    the other pods count.
    """
    result = _present(now, store, class_of, window_seconds, (CPU, MEMORY))
    for name, mean in _present(now, store, class_of, _LATEST_SECONDS, (MEMORY,))[MEMORY].items():
        result[MEMORY][name] = max(result[MEMORY].get(name, 0.0), mean)
    return result


def _present(
    now: float, store: UsageStore, class_of: Callable[[str], str | None], seconds: float, metrics: Sequence[str]
) -> dict[str, dict[str, float]]:
    series = {metric: store.windows(metric, now - seconds, now) for metric in metrics}
    result: dict[str, dict[str, float]] = {metric: {} for metric in series}
    for name, amounts in _by_class(series, class_of).items():
        for metric, mean in amounts.items():
            result[metric][name] = mean
    for metric, by_entity in series.items():
        both = {name: mean for name in (NODE, SYS) for mean in _means({metric: by_entity}, name).values()}
        for name, mean in (_of_pods(by_entity, class_of) | both).items():
            result[metric][name] = max(result[metric].get(name, 0.0), mean)
    return result


def class_means(
    ticks: BoolArray, values: FloatArray, classes: Sequence[str | None], names: Sequence[str] = _POD_CLASSES
) -> dict[str, float]:
    """Mean of the sum of each class over the chosen ticks, shape (T,); a pod that is not there adds nothing.

    Values are the usage of each pod, shape (P, T), NaN where it has no sample; a class without pods has a mean of 0.
    """
    sums = np.nansum(values[:, ticks], axis=1)
    class_names = np.array([name or "" for name in classes], dtype=np.str_)
    count = max(int(ticks.sum()), 1)
    return {name: float(sums[class_names == name].sum()) / count for name in names}


def _by_class(
    series: Mapping[str, Mapping[str, Series]], class_of: Callable[[str], str | None]
) -> dict[str, dict[str, float]]:
    result: dict[str, dict[str, float]] = {}
    for metric, by_entity in series.items():
        if NODE not in by_entity or SYS not in by_entity:
            continue
        entities = [NODE, SYS, *(entity for entity in by_entity if entity not in (NODE, SYS))]
        _, values = table([(by_entity[entity].times, by_entity[entity].values) for entity in entities])
        ticks: BoolArray = np.logical_not(np.isnan(values[:2]).any(axis=0))
        if not ticks.any():
            continue
        classes = [NODE, SYS, *(class_of(entity) for entity in entities[2:])]
        for name, mean in class_means(ticks, values, classes, CLASSES).items():
            result.setdefault(name, {})[metric] = mean
    return result


def _of_pods(by_entity: Mapping[str, Series], class_of: Callable[[str], str | None]) -> dict[str, float]:
    """Return the mean of the known pods by class, over every tick with any of them."""
    if not by_entity:
        return {}
    ticks, values = table([(series.times, series.values) for series in by_entity.values()])
    entity_classes = [None if entity in (NODE, SYS) else class_of(entity) for entity in by_entity]
    return class_means(np.ones(len(ticks), dtype=np.bool_), values, entity_classes)


def _measured_at(*series: Series | None) -> float | None:
    return min(
        (float(samples.times[-1]) for samples in series if samples is not None and samples.times.size), default=None
    )


def _means(series: Mapping[str, Mapping[str, Series]], entity: str) -> dict[str, float]:
    return {
        metric: float(np.mean(by_entity[entity].values))
        for metric, by_entity in series.items()
        if entity in by_entity and by_entity[entity].values.size
    }


def _windows(
    now: float, store: UsageStore, entity: str, durations: Sequence[float], memory_policy: str
) -> tuple[Window, ...]:
    memory = MEMORY_WITH_PAGE_CACHE if memory_policy == WITH_PAGE_CACHE else MEMORY
    short = [seconds for seconds in durations if seconds <= LONGEST_AGGREGATE_SECONDS]
    long = [seconds for seconds in durations if seconds > LONGEST_AGGREGATE_SECONDS]
    samples, minutes = dict[str, Series](), dict[str, Points]()
    for resource, metric in ((CPU, CPU), (MEMORY, memory)):
        if short:
            samples[resource] = store.window(metric, entity, now - max(short), now)
        if long and (result := store.minutes(metric, now - max(long), now, (entity,)).get(entity)) is not None:
            minutes[resource] = result
    return tuple(
        Window(
            seconds, _statistics(samples, now - seconds) if seconds in short else _of_minutes(minutes, now - seconds)
        )
        for seconds in durations
    )


def _statistics(series: Mapping[str, Series], start: float) -> dict[str, WindowStatistics]:
    result = {}
    for resource, samples in series.items():
        first = int(np.searchsorted(samples.times, start, side="right"))
        if first < samples.values.size:
            result[resource] = statistics(samples.times[first:], samples.values[first:])
    return result


def _of_minutes(series: Mapping[str, Points], start: float) -> dict[str, WindowStatistics]:
    """Statistics of 1-minute averages; the mean, the largest sample and their number are those of the samples."""
    result = {}
    for resource, points in series.items():
        first = int(np.searchsorted(points.starts_ms, start * 1000.0, side="left"))
        count = points.count[first:]
        if count.size:
            of_averages = statistics(points.starts_ms[first:] / 1000.0, points.average[first:])
            result[resource] = replace(
                of_averages,
                average=float(np.average(points.average[first:], weights=count)),
                max=float(points.highest[first:].max()),
                count=int(count.sum()),
                span_seconds=of_averages.span_seconds + _MINUTE_SECONDS,
            )
    return result
