"""Costs of calls and processes: time by the clock and of the processor, and memory."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
from prometheus_client import Counter

WARM_UP: Final = 10  # calls that do not count, before those that do


@dataclass(slots=True)
class Timings:
    """Times of the same call, by the clock and on the processor.

    The second is what the call costs; the first includes other work of the machine.
    """

    clock: list[float] = field(default_factory=list)  # by the clock [s]
    processor: list[float] = field(default_factory=list)  # CPU time of this thread [s]

    @contextmanager
    def one(self) -> Iterator[None]:
        """Time the body."""
        began, began_processor = time.perf_counter(), time.thread_time()
        yield
        self.processor.append(time.thread_time() - began_processor)
        self.clock.append(time.perf_counter() - began)

    def milliseconds(self, percent: float) -> float:
        """Return a percentile of the times on the processor. [ms]"""
        return float(np.percentile(np.asarray(self.processor) * 1000, percent))

    def __str__(self) -> str:
        median, p99 = self.milliseconds(50), self.milliseconds(99)
        return f"{spread(self.clock)}; of processor {median:.3g} ms, p99 {p99:.3g} ms"


def timed(call: Callable[[], object], calls: int, prepare: Callable[[], object] | None = None) -> Timings:
    """Time a call again and again, after `WARM_UP` calls; `prepare` runs before each and is not timed."""
    warm_up, timings = Timings(), Timings()
    for number in range(WARM_UP + calls):
        if prepare is not None:
            prepare()
        with (timings if number >= WARM_UP else warm_up).one():
            call()
    return timings


def spread(seconds: Sequence[float]) -> str:
    """Return median, 99th percentile and number of some times. [ms]"""
    median, p99 = np.percentile(np.asarray(seconds) * 1000, (50, 99))
    return f"median {median:.3g} ms, p99 {p99:.3g} ms (n = {len(seconds)})"


def total(counter: Counter) -> float:
    """Return the sum of a counter over all its labels."""
    return float(sum(sample.value for family in counter.collect() for sample in family.samples))


def memory_mib(pid: int | str = "self") -> tuple[float, float]:
    """Return the resident memory of a process, now and at its peak, as the kernel counts it. [MiB]"""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    stated = dict(line.split(":", 1) for line in lines)
    now, peak = (float(stated[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM"))
    return now, peak


def fresh(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object as it comes from the API server: nothing in it is shared."""
    parsed: dict[str, Any] = json.loads(json.dumps(obj))
    return parsed


@dataclass(frozen=True, slots=True)
class CpuUsage:
    """CPU time of processes, and of the machine beside them, at a moment."""

    at: float  # when, by a clock that only runs forward [s]
    seconds: Mapping[str, float]  # of each process, and of the whole machine as "machine" [s]

    @classmethod
    def of(cls, processes: Mapping[str, int]) -> "CpuUsage":
        """Read it now, given the pid of each process by name."""
        seconds = {name: float(sum(psutil.Process(pid).cpu_times()[:2])) for name, pid in processes.items()}
        whole = psutil.cpu_times()
        return cls(time.monotonic(), {**seconds, "machine": sum(whole) - whole.idle - whole.iowait})

    def since(self, before: "CpuUsage") -> dict[str, float]:
        """Return the time spent since then; "other" is the machine without the processes that are known. [s]"""
        spent = {name: total - before.seconds[name] for name, total in self.seconds.items()}
        return {**spent, "other": max(spent.pop("machine") - sum(spent.values()), 0.0)}
