"""Traces of pods that came and went: samples onto steps, one lifetime per pod and node; unusable pods are left out."""

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from agent.numerics.arrays import BoolArray, FloatArray, IntArray
from headroom.backtest.sources import LIMITS, Options, grid
from headroom.backtest.sources.pods import PODS_COMMAND, Pod
from headroom.backtest.trace import PodLifetime, Resource, Trace, TraceError

LEAST_MEASURED: Final = 0.5
"""A pod counts when at least this share of its steps was measured: an agent that was away spoils nothing."""
_FARTHEST: Final = 2**31


class Key(NamedTuple):
    """Which pod on which node: a pod's name may come back on another node."""

    node: str
    """The node."""
    pod: str
    """Its uid, or namespace/name."""


@dataclass(slots=True)
class Measured:
    """Samples of one resource, added piece by piece."""

    resource: Resource
    """Which resource."""
    options: Options
    """Which part of them is wanted."""
    where: str = ""
    """Where they are from, for messages."""
    _steps: defaultdict[Key, "array[int]"] = field(default_factory=lambda: defaultdict(lambda: array("i")))
    _values: defaultdict[Key, "array[float]"] = field(default_factory=lambda: defaultdict(lambda: array("d")))
    _count: int = 0

    def add(self, key: Key, times: FloatArray, values: FloatArray) -> None:
        """Take samples, any number per step, in any order.

        Args:
            key: whose.
            times: shape (N,). [seconds since 1970]
            values: shape (N,); what is no amount is left out. [cores or bytes]

        Raises:
            TraceError: there are too many.
        """
        good = (values >= 0.0) & (values < np.inf)
        if self.options.since is not None:
            good &= times >= self.options.since
        if self.options.until is not None:
            good &= times < self.options.until
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
        """Whose samples there are, sorted."""
        return sorted(self._steps)

    def series(self, key: Key) -> tuple[IntArray, FloatArray]:
        """Steps counted from 1970, rising, and the average of the samples in each."""
        steps = np.frombuffer(self._steps[key], dtype=np.intc).astype(np.intp)
        values = np.frombuffer(self._values[key], dtype=np.float64)
        found, places = np.unique(steps, return_inverse=True)
        return found, np.bincount(places, weights=values) / np.bincount(places)


def trace_of(measured: Measured, pods: Mapping[Key, Pod], source: str, notes: Sequence[str] = ()) -> Trace:
    """The trace of the pods that can be evaluated.

    A pod counts when it is Prod, has a request (or limit), and was measured for half of its time or more. Its lifetime
    is from its first to its last sample; gaps within are filled linearly. Use may be above a request: it is what the
    requests of other pods have to make up for.

    Args:
        measured: what was used.
        pods: what is known of the pods.
        source: where it is from.
        notes: what the source itself repaired.

    Raises:
        TraceError: no pod can be evaluated.
    """
    resource, options = measured.resource, measured.options
    keys = measured.keys
    if not keys:
        raise TraceError(f"{source}: has no {resource} of any pod{options.within}")
    amounts = np.array([pods[key].amount(resource, options.basis) if key in pods else 0.0 for key in keys])
    share = np.array([_share(measured.series(key)[0]) for key in keys])
    names = [pods[key].name if key in pods else key.pod for key in keys]
    unknown = np.array([key not in pods for key in keys])
    other = np.array([key in pods and not pods[key].prod for key in keys])
    none = ~unknown & ~other & ~(amounts > 0.0)
    sparse = ~unknown & ~other & ~none & (share < LEAST_MEASURED)
    found = [*notes, *_reasons(names, unknown, other, none, sparse, resource=resource, basis=options.basis)]
    kept = np.flatnonzero(~(unknown | other | none | sparse))
    if not kept.size:
        way_out = f" Give --pods FILE, with {PODS_COMMAND}." if (unknown | none).any() and not options.pods else ""
        raise TraceError(f"{source}: no pod of it can be evaluated. {' '.join(found)}{way_out}")
    chosen = [keys[place] for place in kept.tolist()]
    return _assembled(measured, chosen, [pods[key] for key in chosen], source, found)


def _assembled(measured: Measured, keys: Sequence[Key], pods: Sequence[Pod], source: str, notes: list[str]) -> Trace:
    series = [measured.series(key) for key in keys]
    first = int(min(steps[0] for steps, _ in series))
    count = int(max(steps[-1] for steps, _ in series)) - first + 1
    grid.check_size(count, len(keys), source)
    machines = sorted({key.node for key in keys})
    limits = np.array([pod.amount(measured.resource, measured.options.basis) for pod in pods])
    usage = np.full((count, len(keys)), np.nan)
    lifetimes, gaps, present = [], 0, 0
    for place, (key, (steps, values)) in enumerate(zip(keys, series, strict=True)):
        start, end = int(steps[0]) - first, int(steps[-1]) - first + 1
        usage[start:end, place] = np.interp(np.arange(start, end), steps - first, values)
        lifetimes.append(PodLifetime(place, machines.index(key.node), start, end))
        gaps, present = gaps + (end - start - len(steps)), present + (end - start)
    if gaps:
        notes.append(f"Gaps were filled linearly: {grid.percent(gaps / present)} of the {measured.resource} values.")
    with np.errstate(invalid="ignore"):
        above = float((usage > limits).sum() / present)
    if above:
        kind = "limit" if measured.options.basis == LIMITS else "request"
        notes.append(f"Pods used more {measured.resource} than their {kind} in {grid.percent(above)} of the time.")
    workloads = tuple(pod.workload or "" for pod in pods)
    return Trace(
        resource=measured.resource,
        times=grid.STEP_SECONDS * np.arange(first, first + count, dtype=np.float64),
        step_seconds=grid.STEP_SECONDS,
        usage=usage,
        limits=limits,
        names=grid.unique(pod.name for pod in pods),
        workloads=workloads if any(workloads) else None,
        lifetimes=tuple(lifetimes),
        machines=tuple(machines),
        source=source,
        notes=tuple(notes),
    )


def _share(steps: IntArray) -> float:
    return len(steps) / float(steps[-1] - steps[0] + 1)


def _reasons(
    names: Sequence[str],
    unknown: BoolArray,
    other: BoolArray,
    none: BoolArray,
    sparse: BoolArray,
    *,
    resource: str,
    basis: str,
) -> list[str]:
    lacking = "without a limit" if basis == LIMITS else "without a request or limit"
    return [
        *grid.left_out(names, unknown, "nothing is known of them but their use", "pods"),
        *grid.left_out(names, other, "not Prod", "pods"),
        *grid.left_out(names, none, f"{lacking} for {resource}", "pods"),
        *grid.left_out(names, sparse, "measured for less than half of their time", "pods"),
    ]
