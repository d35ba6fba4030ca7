"""A process whose children write to a database until they are killed: `python -m tests.agent.tsdb.writer`.

It imports everything once and forks a child per order, so that two hundred deaths take seconds. An order is a line of
JSON on its standard input; it and its children print lines on standard output:

    pid N       a child began
    ok N        the child opened the database, found nothing wrong, and goes on after tick N (-1: there was none)
    bad TEXT    it found that samples are lost, doubled, reordered or changed
    dead        it was killed

A child opens the database that the one before it left, checks every series, and then appends ticks as fast as it can,
with the agent's other work: maintenance between ticks, checkpoints, and the
write-ahead log moved into the file by a thread.
"""

import contextlib
import faulthandler
import json
import mmap
import os
import random
import signal
import struct
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.samples import CPU, MEMORY, Sample
from agent.tsdb.schema import StoreError, StoreUnavailable
from agent.tsdb.series import NO_TIMES as NOTHING
from agent.tsdb.series import Floats
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb

START = 1_700_000_100
_LONG_LIFE_SECONDS = 60.0
STEP = 60
"""Ticks are a minute apart, so that days of retention pass in seconds."""
SETTINGS = StoreSettings(block_ticks=6, memory_ticks=18, raw_seconds=3600, minute_days=1)
RAW_TICKS, MINUTE_TICKS = 60, 1440
"""Ticks of which samples, and minutes, must still be there."""
ENTITIES = ("node", "sys", "steady", "holes", "late")
METRICS = (CPU, MEMORY)
MOMENTS = {
    "compaction": "INSERT INTO chunks",
    "roll-up": "UPDATE blocks SET state = 1, samples",
    "publication": "INSERT OR REPLACE INTO marks",
    "merging": "SELECT data FROM chunks",
    "retention": "SELECT id, start_ms, end_ms FROM blocks",
    "deletion": "DELETE FROM chunks",
    "head": "DELETE FROM head",
    "append": "INSERT INTO head",
    "learned": "INSERT INTO checkpoints",
    "checkpoint": "",
}
"""The steps of a database, by a statement that belongs to each. The log is moved by a connection of its own."""


@dataclass(frozen=True, slots=True)
class Order:
    folder: str  # where the database is
    moment: str = ""  # at which of the moments it kills itself; empty when another process does
    nth: int = 1  # at which occurrence of that moment
    delay: float = 0.0  # how long after its beginning. [s]


class Progress:
    """A child's progress, in memory that outlives it: ticks begun, ticks acknowledged, checkpoints, killed itself."""

    def __init__(self, folder: Path) -> None:
        path = folder / "progress"
        if not path.exists():  # whole at once: a child may be killed between making a file and writing it
            begun = folder / f"progress.{os.getpid()}"
            begun.write_bytes(struct.pack("<4q", -1, -1, -1, 0))
            begun.rename(path)
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 32)

    def __getitem__(self, place: int) -> int:
        return int(struct.unpack_from("<q", self._memory, place * 8)[0])

    def __setitem__(self, place: int, value: int) -> None:
        struct.pack_into("<q", self._memory, place * 8, value)


BEGUN, ACKNOWLEDGED, LEARNED, SUICIDES = range(4)


def has(entity: str, number: int) -> bool:
    if entity == "holes":
        return number % 3 != 0
    return entity != "late" or number % 100 >= 40


def value(metric: str, entity: str, number: int) -> float:
    """The value of a series in a tick: a whole number of steps, different everywhere."""
    mixed = (number * 2_654_435_761 + ENTITIES.index(entity) * 97) % 100_003
    return mixed / 10_000 if metric == CPU else mixed * 4096.0


def verdict(store: Tsdb, progress: Progress) -> tuple[str, int]:
    nodes = store.window(CPU, "node", 0, 1e11)
    last = round((float(nodes.times[-1]) - START) / STEP) if len(nodes) else -1
    if not progress[ACKNOWLEDGED] - 1 <= last <= progress[BEGUN]:  # the last one may wait for the next
        return f"the last tick is {last}, acknowledged {progress[ACKNOWLEDGED]}, begun {progress[BEGUN]}", last
    learned = int(store.load_checkpoints().get("learned", b"-1"))
    if learned < progress[LEARNED]:
        return f"learned until {progress[LEARNED]}, remembered until {learned}", last
    for metric in METRICS:
        windows, minutes = store.windows(metric, 0, 1e11), store.minutes(metric, 0, 1e11)
        for entity in ENTITIES:
            series, points = windows.get(entity), minutes.get(entity)
            result = [("samples", series.times if series else NOTHING, series.values if series else NOTHING, RAW_TICKS)]
            if points is not None:
                result.append(("minutes", points.starts_ms / 1000, points.highest, MINUTE_TICKS))
            for what, times, values, keep in result:
                if problem := _differs(metric, entity, times, values, last, keep):
                    return f"{what} of {metric} of {entity}: {problem}", last
            if points is not None and not (np.all(points.count == 1) and np.allclose(points.average, points.highest)):
                return f"minutes of {metric} of {entity} count a sample twice", last
    return "", last


def _differs(metric: str, entity: str, times: Floats, values: Floats, last: int, keep: int) -> str:
    result = (times - START) / STEP
    first = int(result[0]) if len(result) else last + 1
    selector = [number for number in range(first, last + 1) if has(entity, number)]
    needed = [number for number in range(max(last - keep + 1, 0), last + 1) if has(entity, number)]
    if needed and first > needed[0]:
        return f"begins at {first}, must have {needed[0]}"
    if result.tolist() != selector:
        return f"has {len(result)} ticks from {first} to {last}, must have {len(selector)}"
    if values.tolist() != [value(metric, entity, number) for number in selector]:
        return "has other values"
    return ""


def write(order: Order) -> None:
    """The child: check the database, go on writing, never return."""
    parent = os.getppid()
    faulthandler.dump_traceback_later(_LONG_LIFE_SECONDS)  # says where it hangs
    folder = Path(order.folder)
    progress = Progress(folder)
    store = Tsdb.open(folder / "t.db", SETTINGS)
    problem, last = verdict(store, progress)
    aside = [path.name for path in folder.glob("t.db.*-*")]
    if problem or aside:
        say(f"bad {problem or aside}")
        os._exit(1)
    say(f"ok {last}")
    doom = Doom(order, progress)
    file = store.connection
    assert file is not None
    file.set_trace_callback(doom.see)
    threading.Thread(target=_move_log, args=(store, doom), daemon=True).start()
    for number in range(last + 1, last + 1_000_000):
        if os.getppid() != parent:  # the test is over
            os._exit(1)
        now = START + number * STEP
        progress[BEGUN] = number
        tick = [
            Sample(metric, entity, now, value(metric, entity, number))
            for metric in METRICS
            for entity in ENTITIES
            if has(entity, number)
        ]
        with contextlib.suppress(StoreUnavailable):  # the disk is too slow just now: not acknowledged
            store.append(now, tick)
            progress[ACKNOWLEDGED] = number
            store.maintain(now)
            if number % 5 == 0:
                store.save_checkpoints({"learned": b"%d" % number, "ballast": bytes(number % 7 * 1000)})
                progress[LEARNED] = number


class Doom:
    def __init__(self, order: Order, progress: Progress) -> None:
        self._order = order
        self._progress = progress
        self._left = order.nth
        self._now = threading.Event()
        self._statement = MOMENTS.get(order.moment, "")
        if order.moment:
            threading.Thread(target=self._execute, daemon=True).start()

    def see(self, statement: str) -> None:
        if self._statement and statement.startswith(self._statement):
            self.come()

    def come(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._now.set()

    def log_begins(self) -> None:
        if self._order.moment == "checkpoint":
            self.come()

    def _execute(self) -> None:
        self._now.wait()
        time.sleep(self._order.delay)
        self._progress[SUICIDES] += 1
        os.kill(os.getpid(), signal.SIGKILL)


def _move_log(store: Tsdb, doom: Doom) -> None:
    while True:
        time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - no secret
        doom.log_begins()
        try:
            store.checkpoint()
        except StoreError as error:
            sys.stderr.write(f"checkpoint: {error}\n")


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def main() -> None:
    for line in sys.stdin:
        order = Order(**json.loads(line))
        child = os.fork()
        if child == 0:
            say(f"pid {os.getpid()}")
            try:
                write(order)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the test must hear of it
                say(f"bad {type(error).__name__}: {error}")
            os._exit(1)
        os.waitpid(child, 0)
        say("dead")


if __name__ == "__main__":
    main()
