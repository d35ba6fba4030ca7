"""Latency of a Prod pod's requests beside a Mid pod that burns CPU, with and without native limits, on a real node.

A Guaranteed and a Burstable Prod pod serve 100 requests a second each. An idle Burstable pod raises the weight of its
class, which Mid pods with native limits share. The Mid pod runs two processes for each CPU.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from crds.names import MID_CPU, MID_MEMORY
from tools.bench.rows import Table
from tools.devcluster import Cluster, ClusterSpec
from tools.devcluster.commands import DevClusterError

NAMESPACE: Final = "limits"
IMAGE: Final = "localhost/headroom-agent:dev"
PATIENCE_SECONDS: Final = 120.0
REQUESTS_A_SECOND: Final = 100
SERVICE: Final = f"""
import time
began = time.process_time()
sum(range(4_000_000))
work = range(round(4_000_000 * 0.002 / (time.process_time() - began)))  # two milliseconds of CPU time
due, latencies = time.monotonic(), []
while True:
    due += 1 / {REQUESTS_A_SECOND}
    time.sleep(max(due - time.monotonic(), 0))
    sum(work)
    latencies.append(f"{{1000 * (time.monotonic() - due):.3f}}")
    if len(latencies) == {REQUESTS_A_SECOND}:
        print(time.time(), *latencies, flush=True)
        latencies = []
"""
BURN: Final = """
import os
for _ in range(2 * os.cpu_count() - 1):
    if not os.fork():
        break
while True:
    sum(range(10_000))
"""
IDLE: Final = "import signal; signal.pause()"
PROD: Final[Mapping[str, tuple[str, Mapping[str, str], Mapping[str, str]]]] = {
    "guaranteed": (SERVICE, {"cpu": "500m", "memory": "64Mi"}, {"cpu": "500m", "memory": "64Mi"}),
    "burstable": (SERVICE, {"cpu": "300m", "memory": "64Mi"}, {}),
    "idle": (IDLE, {"cpu": "500m", "memory": "64Mi"}, {}),
}
"""Program, requests and limits of the Prod pods by name."""
SERVICES: Final = ("guaranteed", "burstable")
ALONE: Final = "no Mid pod"
MID: Final[Mapping[str, Mapping[str, str] | None]] = {
    ALONE: None,
    "limits.cpu 500m": {"cpu": "500m", "memory": "64Mi"},
    "limits.cpu of all CPUs": {"cpu": f"{os.cpu_count()}", "memory": "64Mi"},
    "no native limits": {},
}
"""Native limits of the Mid pod by their description; None is no pod."""

Json = dict[str, Any]
Percentiles = dict[tuple[str, str], list[tuple[float, float]]]
"""By Prod pod and kind of Mid pod: p50 and p99 of each round. [ms]"""


def part(*, quick: bool = False) -> Iterator[Table]:
    """Measure each kind of Mid pod in turn, in several rounds, so that a change of the machine meets all of them.

    Raises:
        DevClusterError: the cluster did not start, or a pod did not run.
    """
    rounds, seconds = (1, 4) if quick else (5, 11)
    measured: Percentiles = {(service, mid): [] for service in SERVICES for mid in MID}
    with Cluster(ClusterSpec(real_node=True), say=lambda _: None) as cluster:
        _prepare(cluster)
        for _ in range(rounds):
            for mid, limits in MID.items():
                if limits is not None:
                    _start(cluster, "mid", BURN, _mid_requests(limits), _mid_limits(limits))
                time.sleep(5)  # the start of the pod itself is no part of the measurement
                began = time.time()
                time.sleep(seconds)
                for service in SERVICES:
                    measured[service, mid].append(_percentiles(cluster, service, began))
                cluster.kubectl("-n", NAMESPACE, "delete", "pod", "mid", "--ignore-not-found", "--wait=true")
    yield Table(
        f"Latency of requests of two milliseconds, {REQUESTS_A_SECOND} a second, by the clock, and its ratio to that "
        f"without a Mid pod in the same round; medians of {rounds} rounds",
        [("Prod pod", "beside a Mid pod with", "p50", "p99", "ratio p50", "ratio p99"), *_rows(measured)],
    )


def _rows(measured: Percentiles) -> Iterator[tuple[str, ...]]:
    for (service, mid), rounds in measured.items():
        times = np.asarray(rounds)  # shape (rounds, 2)
        p50, p99 = np.median(times, axis=0)
        ratio50, ratio99 = np.median(times / np.asarray(measured[service, ALONE]), axis=0)
        yield service, mid, f"{p50:.2f} ms", f"{p99:.2f} ms", f"{ratio50:.2f}", f"{ratio99:.2f}"


def _prepare(cluster: Cluster) -> None:
    """Publish Mid resources and start the Prod pods."""
    cluster.create_namespace(NAMESPACE)
    amounts = {MID_CPU: "1000", MID_MEMORY: "1Gi"}
    path = f"/api/v1/nodes/{cluster.spec.node_name}/status"
    cluster.api.merge(path, {"status": {"capacity": amounts, "allocatable": amounts}})
    for name, (program, requests, limits) in PROD.items():
        _start(cluster, name, program, requests, limits)


def _mid_requests(limits: Mapping[str, str]) -> Mapping[str, str]:
    return {MID_CPU: "500", MID_MEMORY: "64Mi", **dict.fromkeys(limits, "0")}


def _mid_limits(limits: Mapping[str, str]) -> Mapping[str, str]:
    return {MID_CPU: "500", MID_MEMORY: "64Mi", **limits}


def _start(cluster: Cluster, name: str, program: str, requests: Mapping[str, str], limits: Mapping[str, str]) -> None:
    """Start a pod; return when it runs."""
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["python3", "-S", "-c", program],
        "resources": {"requests": requests, "limits": limits},
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    metadata = {"name": name, "namespace": NAMESPACE}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _phase(cluster, name) != "Running":
        if time.monotonic() > deadline:
            raise DevClusterError(f"pod {name} does not run within {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.2)


def _phase(cluster: Cluster, name: str) -> str:
    pod: Json = json.loads(cluster.kubectl("-n", NAMESPACE, "get", "pod", name, "-o", "json"))
    return str((pod.get("status") or {}).get("phase"))


def _percentiles(cluster: Cluster, service: str, since: float) -> tuple[float, float]:
    """Return p50 and p99 of the requests since a moment, whole seconds only. [ms]"""
    lines = [line.split() for line in cluster.kubectl("-n", NAMESPACE, "logs", service).splitlines()]
    latest = [float(latency) for at, *latencies in lines if float(at) > since + 1 for latency in latencies]
    p50, p99 = np.percentile(latest, (50, 99))
    return float(p50), float(p99)
