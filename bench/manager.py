"""The manager as a process beside a real API server: `python -m bench manager`."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench import manager_report as made
from bench.machine import ROOT
from bench.manager_memory import memory_mib
from bench.manager_table import percentiles
from crds.names import CONFIG_MAP_KEY, CONFIG_MAP_NAME
from devcluster import Cluster
from devcluster.component import free_port
from devcluster.process import wait_until
from manager.node_metric import COLLECTION

NODES = (500, 1000, 2000, 5000)
PODS = 4
"""Bound pods per node, unless asked for others: making 150,000 takes an API server on two cores minutes."""
NAMESPACE = "headroom-system"
CONFIG = {"enable": True, "midIncreaseHoldSeconds": 30}
"""Increases hold for less than the default of two minutes, so that they happen within the minutes measured."""
GARBAGE_PERCENT = "400"
"""How far etcd and the API server let their memory grow before they collect garbage: by default that takes 40 % of the
API server's CPU time here, and two cores have none to spare with 5,000 nodes."""
SCRAPE_SECONDS = 30.0
"""How often Prometheus would ask for /metrics."""
PATIENCE_SECONDS = 300.0

Figures = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure."""

    nodes: Sequence[int] = NODES
    """Numbers of nodes, one cluster each."""
    minutes: float = 1.0
    """How long every node reports after the first minute."""
    pods: int = PODS
    """Bound pods per node."""
    minute_seconds: float = 60.0
    """How long a minute is. [s]"""


QUICK: Mapping[str, Any] = {"nodes": (10, 20), "pods": 1, "minute_seconds": 4.0}
"""A plan that only shows that everything runs."""


def measure(plan: Plan, folder: Path) -> Iterator[tuple[int, Figures]]:
    """The figures with each number of nodes, each on a cluster of its own, as soon as they are there."""
    os.environ.setdefault("GOGC", GARBAGE_PERCENT)
    for count in plan.nodes:
        with Cluster(say=_quiet) as cluster:
            _prepare(cluster, count, plan.pods)
            yield count, _Round(cluster, count, plan, folder).run()


def _quiet(_: str) -> None:
    """Progress of the cluster is not what people wait for here."""


def _prepare(cluster: Cluster, count: int, pods: int) -> None:
    """Etcd and API server, with nodes, pods and a configuration; no controller takes part."""
    cluster.control_plane.scheduler.stop()
    cluster.control_plane.controller_manager.stop()  # it would find that no kubelet renews its Lease
    cluster.define(ROOT / "crds" / "node_metric.yaml")
    now = time.time()
    metadata = {"name": CONFIG_MAP_NAME, "namespace": NAMESPACE}
    config = {"metadata": metadata, "data": {CONFIG_MAP_KEY: json.dumps(CONFIG)}}
    cluster.api.create_all([("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})])
    cluster.api.create_all([(f"/api/v1/namespaces/{NAMESPACE}/configmaps", config)])
    cluster.api.create_all(("/api/v1/nodes", made.node(number, now)) for number in range(count))
    cluster.api.create_all(
        ("/api/v1/namespaces/default/pods", made.pod(each, number)) for number in range(count) for each in range(pods)
    )


@dataclass(slots=True)
class _Manager:
    """A running manager."""

    process: subprocess.Popen[bytes]
    log: Path
    port: int
    started: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        if self.process.poll() is not None:
            raise RuntimeError(f"the manager ended early: {self.log.read_text().strip()[-2000:]}")

    def metric(self, name: str) -> float:
        """Sum over all labels of a metric; 0 while it cannot be had."""
        query = f"?name[]={name}" if name else ""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics{query}", timeout=30) as answer:
                text = answer.read().decode()
        except OSError:
            return 0.0
        found = (each.rpartition(" ") for each in text.splitlines() if not each.startswith("#"))
        return sum(float(value) for key, _, value in found if key.partition("{")[0] == name)

    def stop(self) -> float:
        """End it; how long that took. [s]"""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        return time.monotonic() - began


@dataclass(slots=True)
class _Round:
    """Everything that is measured on one cluster."""

    cluster: Cluster
    count: int
    plan: Plan
    folder: Path
    figures: Figures = field(default_factory=dict)

    def run(self) -> Figures:
        """Start, first publication, steady state, stop, start again."""
        with self._manager("first") as manager:
            self._start(manager)
            with _scraped(manager) as scrapes:
                self._load(manager)
            self.figures["manager_rss"], self.figures["manager_rss_peak"] = memory_mib(manager.process.pid)
            self.figures["scrape"] = max(scrapes, default=None)
            self.figures["stop"] = manager.stop()
        with self._manager("second") as manager:
            self._restart(manager)
        return self.figures

    @contextmanager
    def _manager(self, name: str) -> Iterator[_Manager]:
        """As in the chart: one replica that takes part in the election."""
        port, log = free_port(), self.folder / f"manager-{self.count}-{name}.log"
        flags = [f"--kubeconfig={self.cluster.kubeconfig}", f"--namespace={NAMESPACE}", f"--listen=127.0.0.1:{port}"]
        command = [*PROGRAM, *flags, "--leader-elect"]
        with log.open("wb") as output, subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output) as process:
            manager = _Manager(process, log, port)
            try:
                yield manager
            finally:
                if process.poll() is None:
                    manager.stop()

    def _start(self, manager: _Manager) -> None:
        for key, wanted in (("start_first", 1), ("start_all", self.count)):
            self._wait(manager, lambda wanted=wanted: self._node_metrics() >= wanted)
            self.figures[key] = time.monotonic() - manager.started

    def _restart(self, manager: _Manager) -> None:
        """The Lease was given back, so that the second one leads at once."""
        looks = "headroom_manager_reconcile_seconds_count"
        self._wait(manager, lambda: manager.metric(looks) >= self.count, pause=0.2)
        self.figures["restart"] = time.monotonic() - manager.started
        self.figures["restart_writes"] = manager.metric("headroom_manager_writes_total")

    def _node_metrics(self) -> int:
        """How many there are; the server counts them."""
        found = self.cluster.api.get(f"{COLLECTION}?limit=1")
        return len(found["items"]) + int(found["metadata"].get("remainingItemCount") or 0)

    def _wait(self, manager: _Manager, holds: Any, pause: float = 0.05) -> None:  # noqa: ANN401 - mypy knows no better
        def checked() -> bool:
            manager.check()
            return bool(holds())

        wait_until(checked, f"the start of the manager ({manager.log})", PATIENCE_SECONDS, pause_seconds=pause)

    def _load(self, manager: _Manager) -> None:
        """The nodes report: the first minute, then as long as planned."""
        settings = {"nodes": self.count, "minutes": self.plan.minutes, "minute-seconds": self.plan.minute_seconds}
        flags = [f"--kubeconfig={self.cluster.kubeconfig}", *(f"--{key}={value}" for key, value in settings.items())]
        command = [sys.executable, "-m", "bench.manager_load", *flags]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as load:
            try:
                self._read(load, manager)
            finally:
                load.terminate()

    def _read(self, load: subprocess.Popen[str], manager: _Manager) -> None:
        plane = self.cluster.control_plane
        known = {"manager": manager.process.pid, "load": load.pid}
        known |= {"apiserver": plane.apiserver.process.pid, "etcd": plane.etcd.process.pid}  # type: ignore[union-attr]
        before = _Usage.of(known)
        for line in load.stdout or ():
            said, now = json.loads(line), _Usage.of(known)
            manager.check()
            shares, before = now.shares(before), now
            if said["phase"] == "steady":
                self.figures["manager_cpu_first"] = shares["manager"]
            if said["phase"] != "end":
                continue
            self.figures |= {f"{name}_cpu": share for name, share in shares.items()}
            self.figures |= {key: said["rates"][key] for key in ("reports", "heartbeats")}
            self.figures["writes"], self.figures["missed"] = (
                said["writes"],
                float(said["missed"] + said["rates"]["failed"]),
            )
            for kind in ("first", "decrease", "answer"):
                half, most = percentiles(said["times"].get(kind, ()))
                self.figures |= {f"{kind}_p50": half, f"{kind}_p99": most}


PROGRAM = (sys.executable, "-m", "manager")
"""What is measured."""


@dataclass(frozen=True, slots=True)
class _Usage:
    """CPU time at a moment."""

    at: float
    seconds: Mapping[str, float]
    """Of each process, and of the whole machine as "other". [s]"""

    @classmethod
    def of(cls, processes: Mapping[str, int]) -> "_Usage":
        seconds = {name: float(sum(psutil.Process(pid).cpu_times()[:2])) for name, pid in processes.items()}
        whole = psutil.cpu_times()
        return cls(time.monotonic(), {**seconds, "other": sum(whole) - whole.idle - whole.iowait})

    def shares(self, before: "_Usage") -> dict[str, float]:
        """Since then, in percent of a core; "other" without the processes that are known."""
        took = self.at - before.at
        shares = {name: (spent - before.seconds[name]) / took * 100 for name, spent in self.seconds.items()}
        whole = shares.pop("other")
        return {**shares, "other": max(whole - sum(shares.values()), 0.0)}


@contextmanager
def _scraped(manager: _Manager) -> Iterator[list[float]]:
    """Ask for /metrics as Prometheus does; how long each answer took. [s]"""
    times: list[float] = []
    stop = threading.Event()

    def scrape() -> None:
        while not stop.wait(SCRAPE_SECONDS):
            began = time.monotonic()
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"http://127.0.0.1:{manager.port}/metrics", timeout=30) as answer,
            ):
                answer.read()
                times.append(time.monotonic() - began)

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield times
    finally:
        stop.set()
        thread.join()
