"""The manager's memory of a large cluster: what formulas need of pods, Nodes and reports."""

import json
import time
from collections.abc import Iterator
from typing import Any

from crds.colocation import DEFAULTS
from manager.cluster import ClusterState
from manager.inputs import PodInputs
from manager.node_metric import manifest
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
    without = _report_milliseconds(cluster, nodes, with_workloads=False)
    _report_milliseconds(cluster, nodes, with_workloads=True)  # they are new
    took = _report_milliseconds(cluster, nodes, with_workloads=True)
    rss = memory_mib()[0]
    size = f"{nodes * PODS_PER_NODE:,} workloads in the reports"
    yield Row(f"the same with {size}: RSS", f"{rss:.0f} MiB", "<= 250 MiB", value=rss)
    yield Row(f"reading a report and rendering a spec, {size}", f"{took:.2f} ms of processor, {without:.2f} without")


def _report_milliseconds(cluster: ClusterState, nodes: int, *, with_workloads: bool) -> float:
    """Take in a report of each node, and render its spec; the mean time of the processor. [ms]"""
    spent = 0.0
    for number in range(nodes):
        metric = _identified(made.node_metric(number, number % made.LEVELS, NOW), f"metric-{number}")
        if with_workloads:
            metric["status"]["workloads"] = made.workloads(number, NOW, nodes)
        text, began = json.dumps(metric), time.thread_time()
        cluster.put_node_metric(json.loads(text), NOW)
        manifest(made.name(number), f"node-{number}", DEFAULTS, workloads=cluster.workloads)
        spent += time.thread_time() - began
    return spent / nodes * 1000


def _identified(obj: dict[str, Any], uid: str) -> dict[str, Any]:
    """With what an API server adds."""
    obj["metadata"] |= {"uid": f"00000000-0000-4000-8000-{uid}", "namespace": "default", "resourceVersion": "123456"}
    return obj
