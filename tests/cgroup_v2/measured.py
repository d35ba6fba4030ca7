"""One run of the agent in the guest: what it stored and printed, beside what the kernel counted meanwhile."""

import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from agent.store.tsdb import Tsdb
from devcluster.guest import OUT, SCRATCH, Program, booted
from devcluster.guest_kernel import GuestKernel
from devcluster.guest_pods import DRIVERS, PODS
from tests.architecture.sources import ROOT

SECONDS = 30
"""How long the agent measures."""
TIMEOUT_SECONDS = 600.0
_MICRO = 1e6

Rows = Sequence[tuple[float, Mapping[str, Mapping[str, float]]]]


@dataclass(frozen=True)
class Measured:
    """One driver's layout."""

    status: Mapping[str, Any]
    """Of the NodeMetric that the agent printed."""
    log: str
    """What it logged."""
    store: Tsdb
    """Its database."""
    truth: Rows
    """The kernel's counters by time and pod."""

    def mean(self, pod: str, metric: str) -> float:
        """Mean of what the agent stored of a pod; NaN when it stored nothing."""
        series = self.store.window(metric, PODS[pod].uid, 0.0, 1e11)
        return float(np.mean(series.values)) if series.values.size else float("nan")

    def rate(self, pod: str, metric: str, counter: str, per: str = "") -> tuple[float, float]:
        """What the agent measured over all its ticks but the first, and by how much a counter of the kernel grew.

        Args:
            pod: Its name.
            metric: The agent's series.
            counter: The kernel's.
            per: Another counter to divide its growth by; the time without one. [us]
        """
        series = self.store.window(metric, PODS[pod].uid, 0.0, 1e11)
        spans = np.diff(series.times)
        between = (float(series.times[0]), float(series.times[-1]))
        base = self._growth(pod, per, between) if per else (between[1] - between[0]) * _MICRO
        return float(np.sum(series.values[1:] * spans) / np.sum(spans)), self._growth(pod, counter, between) / base

    def _growth(self, pod: str, counter: str, between: tuple[float, float]) -> float:
        times = [time for time, _ in self.truth]
        start, end = np.interp(between, times, [found[pod][counter] for _, found in self.truth])
        return float(end - start)


@contextmanager
def measured(kernel: GuestKernel, python: Path) -> Iterator[dict[str, Measured]]:
    """Boot the guest, run the agent in it beside pods of each driver, and read what it brought back."""
    commands = {driver: [_agent(python, SCRATCH / driver)] for driver in DRIVERS}
    keep = [str(SCRATCH / driver) for driver in DRIVERS]
    job = {"commands": commands, "keep": keep, "file": str(kernel.initramfs)}
    script = ROOT / "devcluster" / "guest_pods.py"
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT)}
    program = Program([python, "-I", script, OUT / "job.json"], environment, ROOT, {"job.json": json.dumps(job)})
    with booted(kernel, program, TIMEOUT_SECONDS) as out:
        with tarfile.open(out / "kept.tar") as kept:
            kept.extractall(out / "kept", filter="data")
        found = {driver: _read(out, driver) for driver in DRIVERS}
        try:
            yield found
        finally:
            for one in found.values():
                one.store.close()


def _agent(python: Path, data: Path) -> list[str]:
    flags = ["--once", "--output=json", f"--report-after={SECONDS}s", f"--data-dir={data}", "--listen=127.0.0.1:0"]
    return [str(python), "-m", "agent", "--standalone", "--node-name=guest", *flags]


def _read(out: Path, driver: str) -> Measured:
    log = (out / f"{driver}-0.err").read_text()
    status = yaml.safe_load((out / f"{driver}-0.out").read_text())["status"]
    truth = json.loads((out / f"{driver}-truth.json").read_text())
    return Measured(status, log, Tsdb.open(out / "kept" / driver / "agent.db"), truth)
