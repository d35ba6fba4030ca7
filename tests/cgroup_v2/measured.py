"""A run of the agent in the guest: its stored and printed values, beside the kernel's counters."""

import json
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from agent.capture.replay import as_json, replay
from agent.tsdb.tsdb import Tsdb
from tests.architecture.sources import ROOT
from tools.devcluster.guest import OUT, SCRATCH, GuestKernel, Program, booted
from tools.devcluster.guest_pods import DRIVERS, MIB, PODS

SECONDS = 45
CAPTURE_SECONDS = 20  # how long a recording is
TIMEOUT_SECONDS = 600.0
_MICRO = 1e6

Rows = Sequence[Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True)
class Measured:
    """A driver's layout."""

    status: Mapping[str, Any]
    log: str
    store: Tsdb
    truth: Rows  # the kernel's counters and the time they were read, by pod; one row each half second
    recording: Path  # what `headroom-agent capture` recorded afterwards

    def mean(self, pod: str, metric: str) -> float:
        """Mean of the agent's stored values of a pod; NaN without any."""
        series = self.store.window(metric, PODS[pod].uid, 0.0, 1e11)
        return float(np.mean(series.values)) if series.values.size else float("nan")

    def rate(self, pod: str, metric: str, counter: str, per: str = "") -> tuple[float, float]:
        """The agent's total over all its ticks but the first, and the growth of a kernel counter."""
        series = self.store.window(metric, PODS[pod].uid, 0.0, 1e11)
        spans = np.diff(series.times)
        between = (float(series.times[0]), float(series.times[-1]))
        base = self._growth(pod, per, between) if per else (between[1] - between[0]) * _MICRO
        return float(np.sum(series.values[1:] * spans) / np.sum(spans)), self._growth(pod, counter, between) / base

    def recorded(self, pod: str, interval: str) -> tuple[float, float]:
        """CPU of a pod by `headroom-agent replay` of the recording, and by the kernel's counter. [milli-cores]"""
        measured = as_json(replay(self.recording))["intervals"][interval]["pods"][PODS[pod].uid]["cpuMilli"]
        start, end = (self._read_at(pod, self.recording / name) for name in interval.split("-"))
        return measured, self._growth(pod, "usage_usec", (start, end)) / (end - start) / 1000

    def level(self, pod: str, metric: str, counter: str) -> tuple[float, float]:
        """Mean of the agent's stored values of a pod, and of the kernel's over the same time."""
        series = self.store.window(metric, PODS[pod].uid, 0.0, 1e11)
        truth = np.interp(
            series.times, [row[pod]["time"] for row in self.truth], [row[pod][counter] for row in self.truth]
        )
        return float(np.mean(series.values)), float(np.mean(truth))

    @staticmethod
    def _read_at(pod: str, instant: Path) -> float:
        """When a recording read the CPU counter of a pod. [seconds since 1970]"""
        facts = json.loads((instant / "capture.json").read_text())
        ending = f"{PODS[pod].uid}/cpu.stat", f"{PODS[pod].uid.replace('-', '_')}.slice/cpu.stat"
        rows = (line.split("\t") for line in (instant / "times.tsv").read_text().splitlines())
        read = next((int(start) + int(end)) / 2 for start, end, path in rows if path.endswith(ending))
        return float((facts["wall_ns"] + read - facts["monotonic_ns"]) / 1e9)

    def _growth(self, pod: str, counter: str, between: tuple[float, float]) -> float:
        times, counts = ([row[pod][name] for row in self.truth] for name in ("time", counter))
        start, end = np.interp(between, times, counts)
        return float(end - start)


@contextmanager
def measured(kernel: GuestKernel, python: Path) -> Iterator[dict[str, Measured]]:
    """Boot the guest, run the agent in it beside pods of each driver, and read its results."""
    commands = {
        driver: [_agent(python, SCRATCH / driver), _capture(python, SCRATCH / f"{driver}-recording.tar")]
        for driver in DRIVERS
    }
    keep = [str(SCRATCH / f"{driver}{kind}") for driver in DRIVERS for kind in ("", "-recording.tar")]
    script = ROOT / "tools/devcluster" / "guest_pods.py"
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        job = {"commands": commands, "keep": keep, "read": {driver: _file(Path(folder, driver)) for driver in DRIVERS}}
        program = Program([python, "-I", script, OUT / "job.json"], environment, ROOT, {"job.json": json.dumps(job)})
        with booted(kernel, program, TIMEOUT_SECONDS) as out:
            yield from _found(out)


def _file(path: Path) -> str:
    """A file that a pod can read; nothing of it is in the guest's page cache yet."""
    with path.open("wb") as file:
        file.truncate(max(pod.file_mib for pod in PODS.values()) * MIB)
    return str(path)


def _found(out: Path) -> Iterator[dict[str, Measured]]:
    with tarfile.open(out / "kept.tar") as stored:
        stored.extractall(out / "kept", filter="data")
    result = {driver: _read(out, driver) for driver in DRIVERS}
    try:
        yield result
    finally:
        for entry in result.values():
            entry.store.close()


def _agent(python: Path, data: Path) -> list[str]:
    flags = ["--once", "--output=json", f"--report-after={SECONDS}s", f"--data-dir={data}", "--listen=127.0.0.1:0"]
    return [str(python), "-m", "agent", "--standalone", "--node-name=guest", *flags]


def _capture(python: Path, target: Path) -> list[str]:
    return [str(python), "-m", "agent", "capture", str(target), f"--seconds={CAPTURE_SECONDS}"]


def _read(out: Path, driver: str) -> Measured:
    log = (out / f"{driver}-0.err").read_text()
    status = yaml.safe_load((out / f"{driver}-0.out").read_text())["status"]
    truth = json.loads((out / f"{driver}-truth.json").read_text())
    store = Tsdb.open(out / "kept" / driver / "agent.db")
    recording = out / "kept" / f"{driver}-recording"
    with tarfile.open(f"{recording}.tar") as archive:
        archive.extractall(recording, filter="data")
    return Measured(status, log, store, truth, recording)
