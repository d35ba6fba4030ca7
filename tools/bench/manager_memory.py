"""The manager's memory of a large cluster, in a process of its own: what formulas need of pods, Nodes and reports."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from manager.cluster import ClusterState
from manager.inputs import PodInputs
from tools.bench import manager_report as made
from tools.bench.machine import ROOT
from tools.bench.measurement import Measurement

NODES, PODS_PER_NODE = 5000, 30
QUICK_NODES = 50
NOW = 1_800_000_000.0


def measure(*, quick: bool = False) -> Iterator[Measurement]:
    """Resident memory with everything cached, of a process that does nothing else."""
    nodes = QUICK_NODES if quick else NODES
    command = [sys.executable, "-m", "tools.bench.manager_memory", str(nodes)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    before, after, peak, seconds = json.loads(done.stdout)
    pods = nodes * PODS_PER_NODE
    yield Measurement(
        f"manager's cache of {nodes:,} nodes that report and {pods:,} pods: RSS",
        f"{after:.0f} MiB, peak {peak:.0f} MiB, {before:.0f} MiB of it before the first object",
        "<= 1024 MiB",
        value=after,
    )
    yield Measurement("taking them in from JSON", f"{seconds:.1f} s")


def fill(cluster: ClusterState, nodes: int) -> None:
    """Take in a cluster as its lists bring it: each object freshly parsed, pods node by node."""

    def parsed(obj: dict[str, Any]) -> dict[str, Any]:
        fresh: dict[str, Any] = json.loads(json.dumps(obj))
        return fresh

    for number in range(nodes):
        cluster.put_node(_identified(parsed(made.node(number, NOW)), f"node-{number}"), listed=True)
        cluster.put_node_metric(parsed(made.node_metric(number, number % made.LEVELS, NOW)), NOW, listed=True)
        for each in range(PODS_PER_NODE):
            cluster.put_pod(PodInputs.from_object(_identified(parsed(made.pod(each, number)), f"pod-{number}-{each}")))


def _identified(obj: dict[str, Any], uid: str) -> dict[str, Any]:
    """With what an API server adds."""
    obj["metadata"] |= {"uid": f"00000000-0000-4000-8000-{uid}", "namespace": "default", "resourceVersion": "123456"}
    return obj


def memory_mib(pid: int | str = "self") -> tuple[float, float]:
    """Resident memory of a process, now and at its peak, as the kernel counts it. [MiB]"""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    stated = dict(line.split(":", 1) for line in lines)
    now, peak = (float(stated[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM"))
    return now, peak


def main() -> None:
    """Fill, and print memory before, after and at its peak, and how long it took. [MiB, s]"""
    cluster, before, began = ClusterState(), memory_mib()[0], time.perf_counter()
    fill(cluster, int(sys.argv[1]))
    print(json.dumps([before, *memory_mib(), time.perf_counter() - began]))


if __name__ == "__main__":
    main()
