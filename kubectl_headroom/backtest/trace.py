"""Usage over time: sources make it, placements divide it, the engine evaluates it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from agent.api import FloatArray

Resource = Literal["cpu", "memory"]


class TraceError(ValueError):
    """A trace that cannot be read or evaluated; the message names where it fails and the remedy."""


@dataclass(frozen=True, slots=True)
class PodLifetime:
    """A series on a machine, from the step `start` on until before the step `end`."""

    series: int
    machine: int
    start: int
    end: int
    workload: str | None = None  # its workload; None for that of its series


@dataclass(frozen=True, slots=True)
class Trace:
    """A resource of V series. Raises TraceError if it is not evenly spaced in time, or a limit is not above 0."""

    resource: Resource
    times: FloatArray  # shape (T,), rising by `step_seconds` [seconds since 1970]
    step_seconds: float
    usage: FloatArray  # what each series used, shape (T, V); NaN where it is not there [cores or bytes]
    limits: FloatArray  # what each may use, shape (V,), above 0; it is also what each requests [cores or bytes]
    names: tuple[str, ...]
    workloads: tuple[str, ...] | None = None  # the workload of each series; None where it is not known
    lifetimes: tuple[PodLifetime, ...] | None = None  # where each series really was; None when it has to be placed
    machines: tuple[str, ...] | None = None  # names of the machines of `lifetimes`
    source: str = ""  # where it comes from, in one line
    notes: tuple[str, ...] = ()  # repaired, omitted or assumed data, one sentence each

    def __post_init__(self) -> None:
        if self.steps > 1 and not np.allclose(np.diff(self.times), self.step_seconds, rtol=0.0, atol=1e-3):
            raise TraceError(f"{self.source}: its times are not {self.step_seconds:g} s apart all along")
        wrong = ~((self.limits > 0.0) & (self.limits < np.inf))
        if wrong.any():
            unlimited = self.names[int(wrong.argmax())]
            raise TraceError(f"{self.source}: limits must be above 0, but that of {unlimited} is not")

    @property
    def title(self) -> str:
        return self.source or "the trace"

    @property
    def steps(self) -> int:
        return len(self.times)

    @property
    def series(self) -> int:
        return len(self.names)
