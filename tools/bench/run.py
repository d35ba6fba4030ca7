"""Runs parts one after another, each in a process of its own; one that fails is named, and the others go on."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from tools.bench import hardware
from tools.bench.machine import ROOT
from tools.bench.measurement import Item, Picture
from tools.bench.parts import PARTS, Part
from tools.bench.records import MEASURED, Record, Results, Run, item

INTERRUPTED: Final = "interrupted"
END_SECONDS: Final = 60.0
"""How long a part has to clean up, once it is told to end. [s]"""
_PATIENCE: Final = 5.0
_LEAST_MINUTES, _QUICK_MINUTES = 10.0, 15.0


@dataclass(slots=True)
class Runner:
    """A run, and where its results go.

    Args:
        folder: for `results.json` and pictures.
        quick: whether the parts only show that they run.
        parts: the parts that there are.
        command: what starts one, without its name.
    """

    folder: Path
    quick: bool = False
    parts: Mapping[str, Part] = field(default_factory=lambda: PARTS)
    command: Sequence[str] = (sys.executable, "-m", "tools.bench.single")
    machine: hardware.Description = field(default_factory=hardware.describe)

    def run(self, names: Sequence[str], results: Results, say: Callable[[str], None]) -> None:
        """Measure what `results.run` has left of these parts; every part is saved as soon as it ended.

        Args:
            names: the parts, in order.
            results: what is there; it is added to.
            say: told what became of each part.

        Raises:
            KeyboardInterrupt: somebody pressed Ctrl-C; everything measured before is saved.
        """
        if results.run is None:
            results.run = Run(_now(), list(names), self.quick)
        left = [name for name in names if name in results.run.left]
        for number, name in enumerate(left, 1):
            began, outcome, items = time.monotonic(), INTERRUPTED, list[Item]()
            header = Record(_now(), 0.0, hardware.commit(), self.machine, hardware.busy_percent(), ())
            try:
                outcome = self._measure(name, items)
            finally:
                took = time.monotonic() - began
                if outcome == MEASURED:
                    results.parts[name] = self._kept(header, took, items)
                results.run.outcomes[name] = outcome
                results.save(self.folder)
            rest = sum(self.parts[one].minutes for one in left[number:])
            after = f"; {len(left) - number} to go, about {duration(rest)}" if rest and not self.quick else ""
            say(f"{name}: {outcome}, {len(items)} results in {took:.0f} s{after}")

    def _measure(self, name: str, items: list[Item]) -> str:
        """What became of it; its results are added to `items` as they come."""
        log = self.folder / f"{name}.log"
        self.folder.mkdir(parents=True, exist_ok=True)
        words = [*self.command, name, *(["--quick"] if self.quick else [])]
        minutes = _QUICK_MINUTES if self.quick else max(self.parts[name].minutes * _PATIENCE, _LEAST_MINUTES)
        with log.open("wb") as errors, _started(words, errors) as process, _limited(process, minutes) as late:
            items.extend(_items(process))
            status = process.wait()
        if late.is_set():
            return f"failed: it was ended after {duration(minutes)}"
        if status != 0:
            last = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()][-1:]
            return f"failed with {status}: {last[0] if last else 'it said nothing'} (see {log})"
        log.unlink()
        return MEASURED if items else "failed: it measured nothing"

    def _kept(self, header: Record, took: float, items: Sequence[Item]) -> Record:
        for one in items:
            if isinstance(one, Picture):
                (self.folder / f"{one.name}.svg").write_text(one.svg, encoding="utf-8")
        return Record(
            header.at, round(took, 1), header.commit, header.machine, header.busy_percent, tuple(map(_light, items))
        )


def duration(minutes: float) -> str:
    """For people."""
    if minutes < 1:
        return f"{max(round(minutes * 60), 1)} s"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"  # noqa: PLR2004 - an hour and a half


def _light(one: Item) -> Item:
    return Picture(one.name, one.title, "") if isinstance(one, Picture) else one


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def _started(words: Sequence[str], errors: BinaryIO) -> Iterator[subprocess.Popen[str]]:
    """A process that is ended with this block, with all that it has started in its group."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        words,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        process_group=0,
    )
    try:
        yield process
    finally:
        _end(process)
        if process.stdout is not None:
            process.stdout.close()


def _end(process: subprocess.Popen[str]) -> None:
    """End a process, and then what is left of its group: a child of it would keep the pipe open."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    with suppress(ProcessLookupError, PermissionError):  # nobody is left
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _limited(process: subprocess.Popen[str], minutes: float) -> Iterator[threading.Event]:
    """Ends the process when it takes longer than that; whether it did."""
    late = threading.Event()

    def end() -> None:
        late.set()
        _end(process)

    timer = threading.Timer(minutes * 60, end)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def _items(process: subprocess.Popen[str]) -> Iterator[Item]:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    for line in process.stdout:
        yield item(json.loads(line))
