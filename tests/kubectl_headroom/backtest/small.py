"""Small traces for tests, with irregularities that real ones lack."""

from collections.abc import Sequence

import numpy as np

from agent.numerics.arrays import FloatArray
from kubectl_headroom.backtest.trace import PodLifetime, Resource, Trace

START = 1_699_920_000.0
STEP = 300.0


def trace(
    usage: Sequence[Sequence[float]] | FloatArray,
    limits: Sequence[float] | None = None,
    *,
    resource: Resource = "cpu",
    lifetimes: tuple[PodLifetime, ...] | None = None,
    step: float = STEP,
) -> Trace:
    """A trace of those values, shape (T, V); limits are 100 where they are not given."""
    values = np.array(usage, dtype=np.float64)
    count = values.shape[1]
    return Trace(
        resource=resource,
        times=START + step * np.arange(len(values), dtype=np.float64),
        step_seconds=step,
        usage=values,
        limits=np.full(count, 100.0) if limits is None else np.array(limits, dtype=np.float64),
        names=tuple(f"pod-{number}" for number in range(count)),
        lifetimes=lifetimes,
        source="made",
    )


def bursts(steps: int, series: int, seed: int = 0) -> FloatArray:
    """Usage with a daily course, bursts and idle times, shape (T, V)."""
    numbers = np.random.default_rng(seed)
    day = 1.0 + np.sin(np.arange(steps)[:, None] * 2 * np.pi / 288 + numbers.uniform(0, 6, series))
    burst = np.where(numbers.random((steps, series)) < 0.02, numbers.uniform(0, 20, (steps, series)), 0.0)
    return np.round(day * numbers.uniform(0.2, 3.0, series) + burst, 6)
