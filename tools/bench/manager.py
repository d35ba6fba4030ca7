"""The manager as a process beside a real API server, with nodes that report each minute."""

import json
import os
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np

from crds.names import CONFIG_MAP_KEY, CONFIG_MAP_NAME
from manager.node_metric import COLLECTION
from tools.bench import objects as made
from tools.bench.costs import CpuUsage, memory_mib
from tools.bench.rows import NONE, ROOT, Row, short
from tools.devcluster import Cluster
from tools.devcluster.component import free_port
from tools.devcluster.process import Process, wait_until

NAMESPACE: Final = "headroom-system"
CONFIG: Final = {"enable": True, "midIncreaseHoldSeconds": 30}
"""Increases hold for less than the default of two minutes, so that they happen within the minutes measured."""
GARBAGE: Final = {"GOGC": "400", "GOMEMLIMIT": "8GiB"}
"""How far etcd and the API server let their memory grow before they collect garbage: by default that takes 40 % of the
API server's CPU time here, and two cores have none to spare with 5,000 nodes."""
PATIENCE_SECONDS, STOP_SECONDS = 300.0, 60.0
SAMPLE: Final = 100  # NodeMetrics that are read at the end
WITH_WORKLOADS: Final = " with workloads"  # the end of names of phases and figures

Figures = dict[str, float | None]

CORE, S = "% of a core", "s"
FIGURES: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "manager_cpu": ("manager, CPU, every node reporting each minute", CORE, "<= 30", NONE),
    "report_cpu": ("manager, CPU of a report", "ms", NONE, "koord-manager with Mid alone 2.8 ms"),
    "manager_cpu_first": ("manager, CPU, while every node is published for the first time", CORE, NONE, NONE),
    "manager_rss": ("manager, RSS at the end", "MiB", "<= 250", NONE),
    "manager_rss_peak": ("manager, RSS at its peak", "MiB", "<= 250", NONE),
    "first_p50": ("NodeMetric to Node, first publication, p50", S, NONE, NONE),
    "first_p99": ("NodeMetric to Node, first publication, p99", S, "<= 2", NONE),
    "decrease_p50": ("NodeMetric to Node, decrease, p50", S, NONE, NONE),
    "decrease_p99": ("NodeMetric to Node, decrease, p99", S, "<= 2", NONE),
    "answer_p50": ("the API server's answer to a report, p50", S, NONE, NONE),
    "answer_p99": ("the API server's answer to a report, p99", S, NONE, NONE),
    "missed": ("numbers that no Node showed before its next report", "", "<= 0", NONE),
    "reports": ("NodeMetrics reported", "/s", NONE, NONE),
    "heartbeats": ("status heartbeats of kubelets", "/s", NONE, NONE),
    "writes": ("Node writes of the manager", "/s", NONE, NONE),
    "start_first": ("start: process to the first write", S, NONE, NONE),
    "start_all": ("start: process to a NodeMetric for every node", S, NONE, NONE),
    "restart": ("start with nothing changed: process to every node calculated", S, NONE, NONE),
    "restart_writes": ("start with nothing changed: writes", "", "<= 0", NONE),
    "stop": ("stop: SIGTERM to the end", S, NONE, NONE),
    "scrape": ("GET /metrics", S, NONE, NONE),
    "apiserver_cpu": ("kube-apiserver, CPU beside it", CORE, NONE, NONE),
    "etcd_cpu": ("etcd, CPU beside it", CORE, NONE, NONE),
    "load_cpu": ("load generator, CPU beside it", CORE, NONE, NONE),
    "other_cpu": ("everything else on the machine, CPU", CORE, NONE, NONE),
}
"""Each figure, its unit, its budget at 5,000 nodes, and a reference."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The amount of work to measure."""

    nodes: Sequence[int] = (500, 1000, 2000, 5000)  # numbers of nodes, one cluster each
    minutes: float = 1.0  # how long every node reports after the first minute
    pods: int = 4  # bound pods per node: making 150,000 takes an API server on two cores minutes
    settle_seconds: float = 0.0
    """The time limit, after that, for every Node to show the last report, increases included. [s]"""
    minute_seconds: float = 60.0  # how long a minute is [s]
    workloads: bool = False  # whether the nodes then report as long again with workloads


QUICK: Final = Plan(nodes=(10,), pods=1, minute_seconds=4.0)  # shows that everything runs


def part(*, quick: bool = False) -> Iterator[Row]:
    """Measure with each number of nodes; a row for each figure.

    Raises:
        DevClusterError: A program ended early, or did not get ready; with the end of its log.
    """
    plan = QUICK if quick else Plan()
    result = {count: measure(count, plan) for count in plan.nodes}
    sizes = ", ".join(f"{count:,}" for count in result)
    for key, (what, unit, budget, reference) in FIGURES.items():
        values = [figures.get(key) for figures in result.values()]
        measured = f"{', '.join(map(short, values))}{' ' if unit else ''}{unit} with {sizes} nodes"
        yield Row(what, measured, budget if budget == NONE else f"{budget} {unit}".strip(), reference, values[-1])


def workloads(*, quick: bool = False) -> Iterator[Row]:
    """Measure the same manager with and without workloads in the reports, and histories for the cold pods in specs.

    Two CPUs do not suffice for an API server that stores 5,000 reports in a minute, and the specs that follow from
    them. So each node reports every five minutes.

    Raises:
        DevClusterError: As `part`.
    """
    plan = replace(QUICK, workloads=True) if quick else Plan((5000,), minute_seconds=300.0, workloads=True)
    (count,) = plan.nodes
    figures = measure(count, plan)
    without, beside = (figures[f"report_cpu{kind}"] or 0.0 for kind in ("", WITH_WORKLOADS))
    ratio, nodes = beside / max(without, 1e-9), f"{count:,} nodes of {made.REPORTED_PODS} pods"
    times = f"{ratio:.2f} ({short(beside)} ms, {short(without)} ms without)"
    yield Row(f"manager, CPU of a report with workloads, {nodes}", times, "<= 1.10 x without", NONE, ratio)
    before, rss = figures["rss"], figures[f"rss{WITH_WORKLOADS}"]
    yield Row(f"manager, RSS with workloads, {nodes}", f"{short(rss)} MiB, {short(before)} without")
    yield Row("NodeMetrics with a workload history", f"{figures['histories']:.0%}")


def measure(count: int, plan: Plan, afterwards: Callable[[Cluster, Process], Figures] | None = None) -> Figures:
    """Start a manager, let every node report, stop the manager, and start it again, on a cluster of its own.

    With workloads the manager does not start again.

    Args:
        count: How many nodes.
        plan: The rest.
        afterwards: What else to do with the second manager; its figures are added.

    Raises:
        DevClusterError: As `part`.
    """
    for name, setting in GARBAGE.items():
        os.environ.setdefault(name, setting)
    with Cluster(say=lambda _: None) as cluster:
        _prepare(cluster, count, plan.pods)
        figures: Figures = {}
        manager = RunningManager(cluster)
        for key, wanted in (("start_first", 1), ("start_all", count)):
            manager.wait(partial(_has_node_metrics, cluster, wanted))
            figures[key] = time.monotonic() - manager.started
        figures |= _loaded(cluster, manager, count, plan)
        if plan.workloads:
            return figures
        figures["manager_rss"], figures["manager_rss_peak"] = memory_mib(manager.process.pid)
        began = time.monotonic()
        manager.page()
        figures["scrape"] = time.monotonic() - began
        began = time.monotonic()
        manager.process.stop(STOP_SECONDS)
        figures["stop"] = time.monotonic() - began
        second = RunningManager(cluster)  # the Lease was given back, so it leads soon; only who leads calculates
        second.wait(lambda: len(second.metric("headroom_manager_mid_calculated")) >= 2 * count)  # CPU and memory
        figures["restart"] = time.monotonic() - second.started
        figures["restart_writes"] = sum(second.metric("headroom_manager_writes_total"))
        if afterwards is not None:
            figures |= afterwards(cluster, second.process)
        second.process.stop(STOP_SECONDS)
        return figures


def _prepare(cluster: Cluster, count: int, pods: int) -> None:
    """Make nodes, pods and a configuration; no controller takes part."""
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
        ("/api/v1/namespaces/default/pods", made.pod(index, number)) for number in range(count) for index in range(pods)
    )


@dataclass(slots=True)
class RunningManager:
    """A running manager, as in the chart: one replica that takes part in the election."""

    cluster: Cluster
    flags: Sequence[str] = ()
    port: int = field(default_factory=free_port)
    started: float = field(default_factory=time.monotonic)
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        flags = [f"--kubeconfig={self.cluster.kubeconfig}", f"--namespace={NAMESPACE}"]
        flags += [f"--listen=127.0.0.1:{self.port}", "--leader-elect", *self.flags]
        self.process = self.cluster.supervisor.start("manager", [sys.executable, "-m", "manager", *flags], cwd=ROOT)

    def page(self, query: str = "") -> str:
        """Return the page of metrics.

        Raises:
            OSError: There is none.
        """
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics{query}", timeout=30) as answer:
            return str(answer.read().decode())

    def metric(self, name: str) -> list[float]:
        """Return the values of a metric, one for each set of labels; nothing while it cannot be had."""
        try:
            text = self.page(f"?{urllib.parse.urlencode({'name[]': name})}")
        except OSError:
            return []
        lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return [float(value) for key, _, value in lines if key.partition("{")[0] == name]

    def wait(self, holds: Callable[[], bool]) -> None:
        """Wait while the manager starts."""
        wait_until(holds, "the start of the manager", PATIENCE_SECONDS, [self.process], 0.1)


def _has_node_metrics(cluster: Cluster, wanted: int) -> bool:
    """Return whether there are that many; the server counts them."""
    result = cluster.api.get(f"{COLLECTION}?limit=1")
    return len(result["items"]) + int(result["metadata"].get("remainingItemCount") or 0) >= wanted


def _loaded(cluster: Cluster, manager: RunningManager, count: int, plan: Plan) -> Figures:
    """Let the nodes report: the first minute, then as long as planned."""
    settings = {"nodes": count, "minutes": plan.minutes, "minute-seconds": plan.minute_seconds}
    settings["settle-seconds"] = plan.settle_seconds
    flags = [f"--kubeconfig={cluster.kubeconfig}", *(f"--{key}={value}" for key, value in settings.items())]
    flags += ["--workloads"] if plan.workloads else []
    load = cluster.supervisor.start("load", [sys.executable, "-m", "tools.bench.manager_load", *flags], cwd=ROOT)
    plane, figures = cluster.control_plane, Figures()
    processes = {"manager": manager.process, "load": load}
    processes |= {"apiserver": plane.apiserver.process, "etcd": plane.etcd.process}  # type: ignore[dict-item]
    pids = {name: process.pid for name, process in processes.items()}
    before = CpuUsage.of(pids)
    for line in _lines(load, manager.process):
        now = CpuUsage.of(pids)
        spent, took, before = now.since(before), now.at - before.at, now
        if line["phase"] == "steady":
            figures["manager_cpu_first"] = spent["manager"] / took * 100
        if line["phase"].startswith("end"):
            kind = line["phase"].removeprefix("end")
            figures[f"report_cpu{kind}"] = spent["manager"] / took / max(line["rates"]["reports"], 1e-9) * 1000
            figures[f"rss{kind}"], _ = memory_mib(manager.process.pid)
        if line["phase"] == "end":
            figures |= {f"{name}_cpu": seconds / took * 100 for name, seconds in spent.items()}
            figures |= {key: float(line["rates"][key]) for key in ("reports", "heartbeats", "writes")}
            figures["missed"] = line["missed"]
            for kind, times in line["times"].items():
                half, most = np.percentile(np.asarray(times), (50, 99))
                figures |= {f"{kind}_p50": float(half), f"{kind}_p99": float(most)}
        elif line["phase"] == "settled":
            figures["behind"] = line["behind"]
    if plan.workloads:
        sample = [cluster.api.get(made.metric_path(number)) for number in range(0, count, -(-count // SAMPLE))]
        figures["histories"] = sum("workloadHistory" in node_metric["spec"] for node_metric in sample) / len(sample)
    return figures


def _lines(load: Process, manager: Process) -> Iterator[dict[str, Any]]:
    """The load generator's lines as they come, to the last one; both programs must go on running until then."""
    count = 0
    while True:
        lines = load.log.read_text(encoding="utf-8").split("\n")[:-1]  # whole ones
        for text in lines[count:]:
            if text.startswith("{"):  # others are warnings
                line: dict[str, Any] = json.loads(text)
                yield line
                if line["phase"] == "settled":
                    return
        count = len(lines)
        load.require_running()
        manager.require_running()
        time.sleep(0.1)
