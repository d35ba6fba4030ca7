"""The agent's store: appends, windows and size, with an hour and a half of 500 series."""

import contextlib
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from agent.samples import Sample
from agent.store.tsdb import Tsdb
from bench.measurement import Measurement, spread

PODS = 165
METRICS = ("cpu", "memory", "memory_with_page_cache")
TICKS = 5400
SHARE_THAT_MOVES = 0.2
"""Of the pods, whose memory changes in a second."""
WINDOWS = 40
MIB = 1 << 20


def _ticks(random: np.random.Generator) -> Iterator[list[Sample]]:
    """What pods use: CPU that jumps around its level, memory that wanders by pages."""
    level = random.lognormal(-2.0, 1.0, PODS)
    memory = random.integers(20, 2000, PODS) * MIB
    for tick in range(TICKS):
        now = 1_700_000_000.0 + tick + random.normal(0, 0.002)
        cpu = level * random.gamma(8.0, 1 / 8.0, PODS)
        memory += random.integers(-30, 31, PODS) * 4096 * (random.random(PODS) < SHARE_THAT_MOVES)
        columns = (cpu, memory, memory + 50 * MIB)
        yield [
            Sample(metric, f"pod-{pod}", now, float(values[pod]))
            for metric, values in zip(METRICS, columns, strict=True)
            for pod in range(PODS)
        ]


def measure() -> Iterator[Measurement]:
    """Fill a store tick by tick, with its maintenance between ticks as in the agent, and read windows from it."""
    series, appends, last = PODS * len(METRICS), [], 0.0
    with tempfile.TemporaryDirectory() as folder, Tsdb.open(Path(folder) / "agent.db") as store:
        for samples in _ticks(np.random.default_rng(1)):
            last = samples[0].time
            began = time.perf_counter()
            store.append(last, samples)
            appends.append(time.perf_counter() - began)
            store.maintain(last)
        windows = []
        for _ in range(WINDOWS):
            began = time.perf_counter()
            for metric in METRICS:
                store.windows(metric, last - 300, last)
            windows.append(time.perf_counter() - began)
        store.checkpoint()
        size = store.size()
        chunk_bytes = _raw_chunk_bytes(Path(folder) / "agent.db")
    yield Measurement(f"append of one tick of {series} series", spread(appends), "p99 <= 3 ms", "none")
    yield Measurement(f"5-minute window of {series} series", spread(windows), "<= 30 ms", "none")
    compacted = (TICKS - size.head_ticks) * series
    yield Measurement(
        f"compressed chunks of {TICKS - size.head_ticks} ticks",
        f"{chunk_bytes / compacted:.2f} B/sample",
        "<= 2.0 B/sample after compaction",
        "Prometheus TSDB 1-2 B/sample",
    )
    yield Measurement(
        f"whole file after {TICKS} ticks, {size.head_ticks} of them not yet compacted",
        f"{size.used_bytes / (TICKS * series):.2f} B/sample ({size.used_bytes / MIB:.1f} MiB)",
        "none",
        "none",
    )


def _raw_chunk_bytes(database: Path) -> int:
    """What the chunks of raw samples take, with their times. [bytes]"""
    times = "SELECT sum(length(times)) FROM blocks WHERE tier = 0"
    data = "SELECT sum(length(data)) FROM chunks WHERE block IN (SELECT id FROM blocks WHERE tier = 0)"
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return sum(int(connection.execute(query).fetchone()[0]) for query in (times, data))
