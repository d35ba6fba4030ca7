"""The manager's memory of a large cluster: what formulas need of pods, Nodes and reports."""

import time
from collections.abc import Iterator
from typing import Any

from manager.cluster import ClusterState
from manager.inputs import PodInputs
from tools.bench import objects as made
from tools.bench.costs import fresh, memory_mib
from tools.bench.rows import Row

NODES, PODS_PER_NODE = 5000, 30
QUICK_NODES = 50
NOW = 1_800_000_000.0


def measure(*, quick: bool = False) -> Iterator[Row]:
    """Take in a cluster as its lists bring it: each object freshly parsed, pods node by node."""
    nodes = QUICK_NODES if quick else NODES
    cluster, before, began = ClusterState(), memory_mib()[0], time.perf_counter()
    for number in range(nodes):
        cluster.put_node(_identified(fresh(made.node(number, NOW)), f"node-{number}"), listed=True)
        cluster.put_node_metric(fresh(made.node_metric(number, number % made.LEVELS, NOW)), NOW, listed=True)
        for index in range(PODS_PER_NODE):
            cluster.put_pod(PodInputs.from_object(_identified(fresh(made.pod(index, number)), f"pod-{number}-{index}")))
    took, (after, peak) = time.perf_counter() - began, memory_mib()
    yield Row(
        f"manager's cache of {nodes:,} nodes that report and {nodes * PODS_PER_NODE:,} pods: RSS",
        f"{after:.0f} MiB, peak {peak:.0f} MiB, {before:.0f} MiB of it before the first object",
        "<= 250 MiB",
        value=after,
    )
    yield Row("taking them in from JSON", f"{took:.1f} s")
    for number in range(nodes):
        metric = made.node_metric(number, number % made.LEVELS, NOW)
        metric["status"]["workloads"] = made.workloads(number, NOW)
        cluster.put_node_metric(fresh(metric), NOW, listed=True)
    with_workloads = memory_mib()[0]
    yield Row(
        f"the same with {nodes * PODS_PER_NODE:,} workloads in the reports: RSS",
        f"{with_workloads:.0f} MiB, {with_workloads - after:.0f} MiB of it for the workloads",
        "<= 250 MiB",
        value=with_workloads,
    )


def _identified(obj: dict[str, Any], uid: str) -> dict[str, Any]:
    """With what an API server adds."""
    obj["metadata"] |= {"uid": f"00000000-0000-4000-8000-{uid}", "namespace": "default", "resourceVersion": "123456"}
    return obj
