"""`python -m tools.bench.manager`: the manager as a process beside a real API server. Prints a Markdown table."""

import argparse
import contextlib
import json
import math
import os
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from crds.names import CONFIG_MAP_KEY, CONFIG_MAP_NAME
from manager.node_metric import COLLECTION
from tools.bench import manager_report as made
from tools.bench.costs import CpuUsage, memory_mib
from tools.bench.manager_probed import longest
from tools.bench.manager_table import header, lines, measurements, percentiles
from tools.bench.manager_trouble import Trouble
from tools.bench.rows import ROOT, Item, Table, markdown
from tools.devcluster import Cluster
from tools.devcluster.commands import DevClusterError
from tools.devcluster.component import free_port
from tools.devcluster.process import Process, wait_until

NODES = (500, 1000, 2000, 5000)
PODS = 4  # bound pods per node, unless asked for others: making 150,000 takes an API server on two cores minutes
NAMESPACE = "headroom-system"
CONFIG = {"enable": True, "midIncreaseHoldSeconds": 30}
"""Increases hold for less than the default of two minutes, so that they happen within the minutes measured."""
GARBAGE = {"GOGC": "400", "GOMEMLIMIT": "8GiB"}
"""How far etcd and the API server let their memory grow before they collect garbage: by default that takes 40 % of the
API server's CPU time here, and two cores have none to spare with 5,000 nodes."""
SCRAPE_SECONDS = 30.0  # how often Prometheus would ask for /metrics
PATIENCE_SECONDS, STOP_SECONDS, POLL_SECONDS = 300.0, 60.0, 0.1

Figures = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure."""

    nodes: Sequence[int] = NODES  # numbers of nodes, one cluster each
    minutes: float = 1.0  # how long every node reports after the first minute
    pods: int = PODS  # bound pods per node
    settle_seconds: float = 0.0
    """How long every Node may take, after that, to show what was reported last, increases included. [s]"""
    minute_seconds: float = 60.0  # how long a minute is [s]
    trouble: bool = False  # whether to try stalls and a hostile node as well, of which nothing is measured


QUICK: Mapping[str, Any] = {"nodes": (10,), "pods": 1, "minute_seconds": 4.0}
"""A plan that only shows that everything runs."""


def measure(plan: Plan) -> Iterator[tuple[int, Figures]]:
    """The figures with each number of nodes, each on a cluster of its own, as soon as they are there.

    Everything that is started ends with the cluster, and that ends with this process, however it ends.

    Raises:
        DevClusterError: something ended early, or did not get ready; with the end of its log.
    """
    for name, setting in GARBAGE.items():
        os.environ.setdefault(name, setting)
    for count in plan.nodes:
        with Cluster(say=_quiet) as cluster:
            _prepare(cluster, count, plan.pods)
            yield count, _Round(cluster, count, plan).run()


def part(*, quick: bool = False) -> Iterator[Item]:
    """What `make bench` shows of it, once every number of nodes was measured.

    Raises:
        DevClusterError: as `measure`.
    """
    figures = dict(measure(Plan(**QUICK) if quick else Plan()))
    yield from measurements(figures)
    yield Table("With each number of nodes:", [header(sorted(figures)), *lines(figures)])


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

    process: Process
    port: int
    started: float
    pauses: Path  # where the pauses of its event loop are noted

    def metric(self, name: str) -> list[float]:
        """The values of a metric, one for each set of labels; nothing while it cannot be had."""
        query = urllib.parse.urlencode({"name[]": name})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics?{query}", timeout=30) as answer:
                text = answer.read().decode()
        except OSError:
            return []
        found = (each.rpartition(" ") for each in text.splitlines() if not each.startswith("#"))
        return [float(value) for key, _, value in found if key.partition("{")[0] == name]

    def stop(self) -> float:
        """End it; how long that took. [s]"""
        began = time.monotonic()
        self.process.stop(STOP_SECONDS)
        return time.monotonic() - began


@dataclass(slots=True)
class _Round:
    """Everything that is measured on one cluster."""

    cluster: Cluster
    count: int
    plan: Plan
    figures: Figures = field(default_factory=dict)
    steady_at: float = 0.0  # when every node had reported once [s since 1970]

    def run(self) -> Figures:
        """Start, first publication, steady state, stop, start again."""
        manager = self._manager()
        self._start(manager)
        with _scraped(manager) as scrapes:
            self._load(manager)
        self.figures["manager_rss"], self.figures["manager_rss_peak"] = memory_mib(manager.process.pid)
        self.figures["scrape"] = max(scrapes, default=None)
        trouble = Trouble(self.cluster, NAMESPACE, CONFIG, self.count, manager.process, manager.pauses)
        self.figures["pause"] = longest(manager.pauses, self.steady_at) * 1000
        self.figures |= trouble.edit()
        self.figures["stop"] = manager.stop()
        second = self._manager()
        self._restart(second)
        if self.plan.trouble:  # after it conditions of the hostile node are still held back
            trouble.manager, trouble.pauses = second.process, second.pauses
            self.figures |= {**trouble.stalls(), **trouble.hostile()}
        second.stop()
        return self.figures

    def _manager(self) -> _Manager:
        """As in the chart: one replica that takes part in the election."""
        port, began = free_port(), time.monotonic()
        flags = [f"--kubeconfig={self.cluster.kubeconfig}", f"--namespace={NAMESPACE}", f"--listen=127.0.0.1:{port}"]
        pauses = self.cluster.dir / f"pauses-{port}"
        command = [*PROGRAM, str(pauses), *flags, "--leader-elect"]
        process = self.cluster.supervisor.start("manager", command, cwd=ROOT)
        return _Manager(process, port, began, pauses)

    def _start(self, manager: _Manager) -> None:
        for key, wanted in (("start_first", 1), ("start_all", self.count)):
            self._wait(manager, partial(self._has_node_metrics, wanted))
            self.figures[key] = time.monotonic() - manager.started

    def _restart(self, manager: _Manager) -> None:
        """The Lease was given back, so that the second one leads soon; only who leads calculates."""
        per_node = 2  # CPU and memory
        shown = "headroom_manager_mid_calculated"
        self._wait(manager, lambda: len(manager.metric(shown)) >= per_node * self.count, pause=0.2)
        self.figures["restart"] = time.monotonic() - manager.started
        self.figures["restart_writes"] = sum(manager.metric("headroom_manager_writes_total"))

    def _has_node_metrics(self, wanted: int) -> bool:
        """Whether there are that many; the server counts them."""
        found = self.cluster.api.get(f"{COLLECTION}?limit=1")
        return len(found["items"]) + int(found["metadata"].get("remainingItemCount") or 0) >= wanted

    def _wait(self, manager: _Manager, holds: Callable[[], bool], pause: float = 0.05) -> None:
        wait_until(holds, "the start of the manager", PATIENCE_SECONDS, [manager.process], pause)

    def _load(self, manager: _Manager) -> None:
        """The nodes report: the first minute, then as long as planned."""
        settings = {"nodes": self.count, "minutes": self.plan.minutes, "minute-seconds": self.plan.minute_seconds}
        settings["settle-seconds"] = self.plan.settle_seconds
        flags = [f"--kubeconfig={self.cluster.kubeconfig}", *(f"--{key}={value}" for key, value in settings.items())]
        command = [sys.executable, "-m", "tools.bench.manager_load", *flags]
        load = self.cluster.supervisor.start("load", command, cwd=ROOT)
        plane = self.cluster.control_plane
        known = {"manager": manager.process.pid, "load": load.pid}
        known |= {"apiserver": plane.apiserver.process.pid, "etcd": plane.etcd.process.pid}  # type: ignore[union-attr]
        before = CpuUsage.of(known)
        for said in _said(load, manager.process):
            if said["phase"] == "settled":
                self.figures["behind"] = said["behind"]
                return
            now = CpuUsage.of(known)
            spent, took, before = now.since(before), now.at - before.at, now
            shares = {name: seconds / took * 100 for name, seconds in spent.items()}  # in percent of a core
            if said["phase"] == "steady":
                self.figures["manager_cpu_first"] = shares["manager"]
                self.steady_at = time.time()
            if said["phase"] != "end":
                continue
            self.figures |= {f"{name}_cpu": share for name, share in shares.items()}
            self.figures |= {key: said["rates"][key] for key in ("reports", "heartbeats")}
            self.figures |= {"writes": said["writes"], "missed": said["missed"]}
            for kind in ("first", "decrease", "answer"):
                half, most = percentiles(said["times"].get(kind, ()))
                self.figures |= {f"{kind}_p50": half, f"{kind}_p99": most}


def _said(load: Process, manager: Process) -> Iterator[dict[str, Any]]:
    """What the load generator says, as soon as it does, to the last line; both must go on running until then."""
    known = 0
    while True:
        lines = load.log.read_text(encoding="utf-8").split("\n")[:-1]  # whole ones
        for line in lines[known:]:
            if line.startswith("{"):  # others are warnings
                said: dict[str, Any] = json.loads(line)
                yield said
                if said["phase"] == "settled":
                    return
        known = len(lines)
        load.require_running()
        manager.require_running()
        time.sleep(POLL_SECONDS)


PROGRAM = (sys.executable, "-m", "tools.bench.manager_probed")  # what is measured


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


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(each.isascii() and each.isdigit() and int(each) for each in parts):
        raise argparse.ArgumentTypeError(f"{text!r}: write numbers like 500,1000")
    return sorted({int(each) for each in parts})


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}: write a number above 0")
    return minutes


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print.

    Returns:
        The exit status: 1 when a number of nodes could not be measured.
    """
    parser = argparse.ArgumentParser(prog="python -m tools.bench.manager", description=__doc__)
    parser.add_argument("--nodes", type=_numbers, help="numbers of nodes, such as 500,1000")
    parser.add_argument("--minutes", type=_minutes, help="how long the nodes report after the first minute")
    parser.add_argument("--pods", type=int, help="bound pods per node")
    parser.add_argument("--quick", action="store_true", help="a few nodes, to see that everything runs")
    options = parser.parse_args(arguments)
    given = {key: getattr(options, key) for key in ("nodes", "minutes", "pods") if getattr(options, key) is not None}
    plan = Plan(**{**(QUICK if options.quick else {}), **given})
    figures = {}
    try:
        for count, found in measure(plan):
            figures[count] = found
            print(f"measured {count:,} nodes", file=sys.stderr, flush=True)
    except (DevClusterError, OSError) as error:  # what was measured before is shown all the same
        print(f"no more nodes could be measured: {error}", file=sys.stderr)
    print(markdown([header(sorted(figures)), *lines(figures)]))
    return 0 if len(figures) == len(plan.nodes) else 1


if __name__ == "__main__":
    sys.exit(main())
