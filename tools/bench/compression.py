"""Bytes per sample on real traces: the store's own chunks of the series that the repository holds."""

from collections.abc import Iterator

import numpy as np

from agent.numerics.arrays import FloatArray
from agent.samples import CPU, MEMORY
from agent.tsdb import blocks, codec
from agent.tsdb.schema import RAW
from agent.tsdb.settings import StoreSettings
from tools.bench.measurement import Measurement
from tools.devcluster import traces

CORES, GIB = 4.0, 1 << 30
MEMORY_GIB = 8.0
PAGE = 4096
QUICK_SERIES = 4


def measure(*, quick: bool = False) -> Iterator[Measurement]:
    """Every 5-minute value as a tick of its own: more changes from one to the next than second by second.

    The traces are rounded to thousandths of a limit; what was rounded away is filled with noise, so that the rounding
    does not help.
    """
    every = [one for name, one in sorted(traces.load().items()) if name.startswith("bitbrains-")]
    chosen = every[:QUICK_SERIES] if quick else every
    random = np.random.default_rng(1)
    cpu = np.array([one.cpu for one in chosen]) + random.random((len(chosen), len(chosen[0].cpu))) / traces.UNIT
    memory = np.array([one.memory for one in chosen]) + random.random(cpu.shape) / traces.UNIT
    pages = np.floor(memory * MEMORY_GIB * GIB / PAGE) * PAGE
    found = {CPU: _bytes_per_sample(CPU, cpu * CORES), MEMORY: _bytes_per_sample(MEMORY, pages)}
    parts = ", ".join(f"{metric} {size:.2f}" for metric, size in found.items())
    yield Measurement(
        f"chunks of {len(chosen)} Bitbrains machines, {cpu.shape[1]} five-minute values each as ticks",
        f"{np.mean(list(found.values())):.2f} B/sample ({parts})",
        "<= 2.0 B/sample after compaction",
        "Prometheus TSDB 1-2 B/sample",
        float(np.mean(list(found.values()))),
    )


def _bytes_per_sample(metric: str, values: FloatArray) -> float:
    length, scale = StoreSettings().block_ticks, codec.steps_per_unit(metric)
    parts = [row[at : at + length] for row in values for at in range(0, len(row) - length + 1, length)]
    times = np.arange(length) * 1000
    chunks = [blocks.encode(RAW, times, times, np.array([codec.to_steps(part, scale)], float)) for part in parts]
    return sum(map(len, chunks)) / (len(parts) * length)
