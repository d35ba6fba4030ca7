"""Traces of pods that came and went: samples onto steps, one lifetime per pod and node; unusable pods are left out."""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from agent.api import FloatArray, IntArray
from kubectl_headroom.backtest.sources import LIMITS, Options, grid
from kubectl_headroom.backtest.sources.pods import PODS_COMMAND, Pod
from kubectl_headroom.backtest.trace import PodLifetime, Resource, Trace, TraceError

LEAST_MEASURED: Final = 0.5
"""A pod counts when at least this share of its steps was measured: an agent that was away spoils nothing."""
_FARTHEST: Final = 2**31


class Key(NamedTuple):
    """Which pod (its uid, or namespace/name) on which node: a pod's name may come back on another node."""

    node: str
    pod: str


class Measured:
    """Samples of one resource, added piece by piece."""

    def __init__(self, resource: Resource, options: Options, where: str) -> None:
        """The pods of a resource, within the time of the options; `where` begins messages."""
        self.resource, self.options, self.where = resource, options, where
        self.notes: list[str] = []  # repaired data of the source
        self._steps: defaultdict[Key, array[int]] = defaultdict(lambda: array("i"))
        self._values: defaultdict[Key, array[float]] = defaultdict(lambda: array("d"))
        self._count = 0

    def add(self, key: Key, times: FloatArray, values: FloatArray) -> None:
        """Add samples, any number per step, in any order; skip invalid amounts. TraceError for too many.

        Times are in seconds since 1970 and values in cores or bytes, shape (N,).
        """
        since, until = self.options.since, self.options.until
        good = (values >= 0.0) & (values < np.inf)
        good &= (times >= (-np.inf if since is None else since)) & (times < (np.inf if until is None else until))
        count = int(good.sum())
        if not count:
            return
        self._count += count
        if self._count > grid.MOST_VALUES:
            raise TraceError(
                f"{self.where}: {self.resource} of {len(self._steps)} pods: more than {grid.MOST_VALUES:,} samples "
                "do not fit; shorten the time with --from and --until"
            )
        steps = np.floor(times[good] / grid.STEP_SECONDS)
        if not (abs(steps) < _FARTHEST).all():
            raise TraceError(f"{self.where}: {self.resource} of pod {grid.plain(key.pod)} is not from this time")
        self._steps[key].frombytes(steps.astype(np.intc).tobytes())
        self._values[key].frombytes(values[good].astype(np.float64).tobytes())

    @property
    def keys(self) -> list[Key]:
        return sorted(self._steps)

    def series(self, key: Key) -> tuple[IntArray, FloatArray]:
        """Steps counted from 1970, rising, and the average of the samples in each."""
        steps = np.frombuffer(self._steps[key], dtype=np.intc).astype(np.intp)
        values = np.frombuffer(self._values[key], dtype=np.float64)
        result, places = np.unique(steps, return_inverse=True)
        return result, np.bincount(places, weights=values) / np.bincount(places)


def traces_of(measured: Iterable[Measured], pod_of: Callable[[Key], Pod | None], source: str) -> list[Trace]:
    """The traces of the pods that can be evaluated, one for each resource that anything was measured of.

    A pod counts when it is Prod, has a request (or limit), and was measured for half of its time or more. Its lifetime
    is from its first to its last sample; gaps within are filled linearly. Usage may exceed a request: it is what the
    requests of other pods have to make up for.

    Args:
        measured: usage, by resource.
        pod_of: returns the properties of a pod; None for an unknown one.
        source: where it is from.

    Raises:
        TraceError: no pod can be evaluated.
    """
    result = []
    for query in measured:
        pods = {key: pod for key in query.keys if (pod := pod_of(key)) is not None}
        if query.keys:
            result.append(_trace(query, pods, source))
    return result


def _trace(measured: Measured, pods: Mapping[Key, Pod], source: str) -> Trace:
    notes = list(measured.notes)
    resource, basis, keys = measured.resource, measured.options.basis, measured.keys
    amounts = np.array([pods[key].amount(resource, basis) if key in pods else 0.0 for key in keys])
    steps = [measured.series(key)[0] for key in keys]
    share = np.array([len(step) / float(step[-1] - step[0] + 1) for step in steps])
    names = [pods[key].name if key in pods else key.pod for key in keys]
    unknown = np.array([key not in pods for key in keys])
    other = np.array([key in pods and not pods[key].prod for key in keys])
    none = ~unknown & ~other & ~(amounts > 0.0)
    sparse = ~unknown & ~other & ~none & (share < LEAST_MEASURED)
    lacking = "without a limit" if basis == LIMITS else "without a request or limit"
    reasons = (
        (unknown, "nothing is known of them but their use"),
        (other, "not Prod"),
        (none, f"{lacking} for {resource}"),
        (sparse, "measured for less than half of their time"),
    )
    for wrong, why in reasons:
        notes += grid.left_out(names, wrong, why, "pods")
    rows = np.flatnonzero(~(unknown | other | none | sparse)).tolist()
    if not rows:
        may_help = (unknown | none).any() and not measured.options.pods
        way_out = f" Give --pods FILE, with {PODS_COMMAND}." if may_help else ""
        raise TraceError(f"{source}: no pod of it can be evaluated. {' '.join(notes)}{way_out}")
    return _assembled(measured, {keys[place]: pods[keys[place]] for place in rows}, amounts[rows], source, notes)


def _assembled(measured: Measured, pods: Mapping[Key, Pod], limits: FloatArray, source: str, notes: list[str]) -> Trace:
    resource, series = measured.resource, [measured.series(key) for key in pods]
    first = int(min(steps[0] for steps, _ in series))
    count = int(max(steps[-1] for steps, _ in series)) - first + 1
    grid.check_size(count, len(pods), source)
    machines = sorted({key.node for key in pods})
    usage = np.full((count, len(pods)), np.nan)
    lifetimes, gaps, present = [], 0, 0
    for place, (key, (steps, values)) in enumerate(zip(pods, series, strict=True)):
        start, end = int(steps[0]) - first, int(steps[-1]) - first + 1
        usage[start:end, place] = np.interp(np.arange(start, end), steps - first, values)
        lifetimes.append(PodLifetime(place, machines.index(key.node), start, end))
        gaps, present = gaps + (end - start - len(steps)), present + (end - start)
    if gaps:
        notes.append(f"Gaps were filled linearly: {grid.percent(gaps / present)} of the {resource} values.")
    with np.errstate(invalid="ignore"):
        above = float((usage > limits).sum() / present)
    if above:
        kind = "limit" if measured.options.basis == LIMITS else "request"
        notes.append(f"Pods used more {resource} than their {kind} in {grid.percent(above)} of the time.")
    workloads = tuple(pod.workload or "" for pod in pods.values())
    return Trace(
        resource=resource,
        times=grid.STEP_SECONDS * np.arange(first, first + count, dtype=np.float64),
        step_seconds=grid.STEP_SECONDS,
        usage=usage,
        limits=limits,
        names=grid.unique(pod.name for pod in pods.values()),
        workloads=workloads if any(workloads) else None,
        lifetimes=tuple(lifetimes),
        machines=tuple(machines),
        source=source,
        notes=tuple(notes),
    )
