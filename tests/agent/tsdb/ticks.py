import sqlite3

from agent.samples import CPU, MEMORY, Sample
from agent.tsdb.tsdb import Tsdb

START = 1_700_000_100.0  # a multiple of 300: the beginning of five minutes
MIB = 1 << 20


def samples(now: float, cpu: float = 0.5, entities: tuple[str, ...] = ("node", "a")) -> list[Sample]:
    return [
        Sample(metric, entity, now, value)
        for entity in entities
        for metric, value in ((CPU, cpu), (MEMORY, 64.0 * MIB))
    ]


def fill(store: Tsdb, ticks: int, start: float = START, *, step: float = 1.0, maintain: bool = True) -> float:
    """Append ticks whose CPU counts up by a milli-core a tick; return the time of the last."""
    now = start
    for number in range(ticks):
        now = start + number * step
        store.append(now, samples(now, cpu=number / 1000))
        if maintain:
            store.maintain(now)
    return now


def finish(store: Tsdb, now: float) -> None:
    for _ in range(500):
        store.maintain(now, seconds=1.0)


def connection(store: Tsdb) -> sqlite3.Connection:
    file = store.connection
    assert file is not None
    return file
