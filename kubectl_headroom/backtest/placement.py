"""Which series is on which machine, and when."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from agent.api import IntArray
from kubectl_headroom.backtest.trace import PodLifetime, Trace, TraceError

MOST_PODS: Final = 2_000_000  # most pods that may come and go: 500 MB of them


@dataclass(frozen=True, slots=True)
class Churn:
    """Pods that come and go: each machine has slots, and a slot always holds one pod, which lives for a random time."""

    mean_life_seconds: float  # mean of the pods' exponential lives [s]
    slots_per_machine: int = 12  # how many pods a machine has at a time
    comes_back_percent: float = 0.0
    """The share of ended pods with a successor of the same workload, which continues the same series. [%]"""
    comes_back_on_any: bool = False
    """True if the successor gets the slot that becomes free next, on any machine; else the slot of the ended pod."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the series of a trace are, and when."""

    lifetimes: tuple[PodLifetime, ...]  # in order of their beginning
    machines: tuple[str, ...]
    seed: int | None  # of the random numbers; None for the real placement


def random_packing(series: int, machines: int, seed: int) -> IntArray:
    """The machine of each series, shape (V,): ``default_rng(seed).permutation(V) % M``."""
    return (np.random.default_rng(seed).permutation(series) % machines).astype(np.intp)


def packed(trace: Trace, machines: int, seed: int) -> Placement:
    """Every series on one machine from its first value to its last; TraceError for more machines than series."""
    if machines > trace.series:
        raise TraceError(
            f"{trace.title}: {machines} machines for {trace.series} series; "
            f"choose at most {trace.series} machines (--machines)"
        )
    there = ~np.isnan(trace.usage)
    first, after = there.argmax(axis=0), trace.steps - there[::-1].argmax(axis=0)
    where = random_packing(trace.series, machines, seed)
    lifetimes = [
        PodLifetime(series, int(where[series]), int(first[series]), int(after[series]), _workload(trace, series))
        for series in np.flatnonzero(there.any(axis=0)).tolist()
    ]
    return Placement(_in_order(lifetimes), _names(machines), seed)


def real(trace: Trace) -> Placement:
    """The placement in the trace; raises TraceError where it has none."""
    if trace.lifetimes is None:
        raise TraceError(
            f"{trace.title} does not record which machine a series was on; give the number to pack them on: --machines"
        )
    lifetimes = [
        lifetime if lifetime.workload is not None else replace(lifetime, workload=_workload(trace, lifetime.series))
        for lifetime in trace.lifetimes
    ]
    count = max((lifetime.machine for lifetime in lifetimes), default=-1) + 1
    return Placement(_in_order(lifetimes), trace.machines or _names(count), None)


def check_churn(trace: Trace, machines: int, churn: Churn, seeds: int) -> None:
    """Refuse more pods than fit in memory, before any is made (TraceError)."""
    after_another = 1 + trace.steps * trace.step_seconds / max(churn.mean_life_seconds, trace.step_seconds)
    pods = seeds * machines * churn.slots_per_machine * after_another
    if pods > MOST_PODS:
        raise TraceError(
            f"{trace.title}: about {pods:,.0f} pods would come and go, which is more than the "
            f"{MOST_PODS:,} that fit; give a longer --churn-mean-life, or fewer --machines, --slots or seeds (--seed)"
        )


def churned(trace: Trace, machines: int, churn: Churn, seed: int) -> Placement:
    """Random series in the slots of machines, one after another, for exponential lives of at least a step.

    A pod without a successor is replaced by a random series under another name: nothing of the machine's
    earlier pods is known of it. Raises TraceError where a series is not there all the time.
    """
    gaps = np.isnan(trace.usage).any(axis=0)
    if gaps.any():
        gone = trace.names[int(gaps.argmax())]
        raise TraceError(
            f"{trace.title}: pods that start and end are built from series without gaps, "
            f"which {gone} is not; evaluate this trace without --churn-mean-life"
        )
    numbers = np.random.default_rng(seed)
    if churn.comes_back_on_any:
        return Placement(_in_order(list(_moving_lives(trace, machines, churn, numbers))), _names(machines), seed)
    lifetimes = [
        lifetime
        for machine in range(machines)
        for slot in range(churn.slots_per_machine)
        for lifetime in _lives(trace, machine, slot, churn, numbers)
    ]
    return Placement(_in_order(lifetimes), _names(machines), seed)


def _lives(trace: Trace, machine: int, slot: int, churn: Churn, numbers: np.random.Generator) -> Iterator[PodLifetime]:
    mean = churn.mean_life_seconds / trace.step_seconds
    start, series, workload = 0, -1, ""
    while start < trace.steps:
        end = start + max(1, round(numbers.exponential(mean)))
        if series < 0 or 100.0 * numbers.random() >= churn.comes_back_percent:
            series, workload = int(numbers.integers(trace.series)), f"{slot}/{start}"
        yield PodLifetime(series, machine, start, min(end, trace.steps), workload)
        start = end


def _moving_lives(trace: Trace, machines: int, churn: Churn, numbers: np.random.Generator) -> Iterator[PodLifetime]:
    mean = churn.mean_life_seconds / trace.step_seconds
    free: list[tuple[int, int, int, tuple[int, str] | None]] = [
        (0, machine, slot, None) for machine in range(machines) for slot in range(churn.slots_per_machine)
    ]
    waiting: tuple[int, str] | None = None
    while free:
        start, machine, slot, ended = heapq.heappop(free)
        pod = waiting or (int(numbers.integers(trace.series)), f"{machine}/{slot}/{start}")
        waiting = ended if 100.0 * numbers.random() < churn.comes_back_percent else None
        end = min(start + max(1, round(numbers.exponential(mean))), trace.steps)
        yield PodLifetime(pod[0], machine, start, end, pod[1])
        if end < trace.steps:
            heapq.heappush(free, (end, machine, slot, pod))


def _workload(trace: Trace, series: int) -> str | None:
    return (trace.workloads[series] or None) if trace.workloads is not None else None


def _names(machines: int) -> tuple[str, ...]:
    return tuple(f"machine-{number}" for number in range(machines))


def _in_order(lifetimes: Sequence[PodLifetime]) -> tuple[PodLifetime, ...]:
    return tuple(sorted(lifetimes, key=lambda lifetime: (lifetime.start, lifetime.machine, lifetime.series)))
