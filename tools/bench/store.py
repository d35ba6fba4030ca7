"""The agent's store: appends, windows and size, with an hour and a half of a node's series."""

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from tools.bench.costs import Timings
from tools.bench.rows import Row
from tools.bench.workload import Workload

TICKS, QUICK_TICKS = 5400, 180
QUICK_BLOCK_TICKS = 60
PATIENCE_SECONDS = 60.0
WINDOWS, QUICK_WINDOWS = 40, 3
WINDOW_SECONDS = 300
START = 1_735_689_600.0
MIB = 1 << 20


def measure(*, quick: bool = False) -> Iterator[Row]:
    """Fill a store tick by tick, with its maintenance between ticks as in the agent, and read windows from it."""
    ticks, windows = (QUICK_TICKS, QUICK_WINDOWS) if quick else (TICKS, WINDOWS)
    settings = StoreSettings(block_ticks=QUICK_BLOCK_TICKS) if quick else StoreSettings()
    workload, appends, last = Workload(), Timings(), START + ticks
    with tempfile.TemporaryDirectory() as folder, Tsdb.open(Path(folder) / "agent.db", settings) as store:
        for tick in range(ticks):
            now = START + 1 + tick + workload.random.normal(0, 0.002)
            samples = workload.samples(now, tick)
            with appends.one():
                store.append(now, samples)
            store.maintain(now)
        store.maintain(now, PATIENCE_SECONDS)  # the present step
        each, metrics = len(samples), {sample.metric for sample in samples}
        series = sum(len(store.windows(metric, last - WINDOW_SECONDS, last)) for metric in metrics)
        latest, old = Timings(), Timings()
        for timings, end in [(latest, last), (old, START + WINDOW_SECONDS)] * windows:
            with timings.one():
                for metric in metrics:
                    store.windows(metric, end - WINDOW_SECONDS, end)
        store.checkpoint()
        size = store.size()
        chunk_bytes = _raw_chunk_bytes(Path(folder) / "agent.db")
    yield Row(
        f"append of one tick of {each} of {series} series", str(appends), "p99 <= 3 ms", value=appends.milliseconds(99)
    )
    yield Row(f"5-minute window of {series} series, the latest", str(latest), "<= 30 ms", value=latest.milliseconds(50))
    what = f"5-minute window of {series} series, from compressed chunks"
    yield Row(what, str(old), "<= 30 ms", value=old.milliseconds(50))
    compacted = (ticks - size.head_ticks) * each
    yield Row(
        f"compressed chunks of {ticks - size.head_ticks} ticks, levels of real traces with noise of a second",
        f"{chunk_bytes / compacted:.2f} B/sample",
        "<= 2.0 B/sample after compaction",
        "Prometheus TSDB 1-2 B/sample",
        chunk_bytes / compacted,
    )
    yield Row(
        f"whole file after {ticks} ticks, {size.head_ticks} of them not yet compacted",
        f"{size.used_bytes / (ticks * each):.2f} B/sample ({size.used_bytes / MIB:.1f} MiB)",
    )


def _raw_chunk_bytes(database: Path) -> int:
    """Size of the chunks of raw samples, with their times. [bytes]"""
    times = "SELECT sum(length(times)) FROM blocks WHERE tier = 0"
    data = "SELECT sum(length(data)) FROM chunks WHERE block IN (SELECT id FROM blocks WHERE tier = 0)"
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return sum(int(connection.execute(query).fetchone()[0] or 0) for query in (times, data))
