"""Costs of the extender's own work as a cluster grows, from 100 to 10,000 nodes with ten pods each."""

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from scheduler_plugins.framework.cycle import Cycle
from tools.bench import objects as made
from tools.bench import scheduler_parts as parts
from tools.bench.costs import WARM_UP, fresh, memory_mib, timed
from tools.bench.extender import NOW, Work, all_plugins
from tools.bench.rows import Table

SIZES, QUICK_SIZES = (100, 1000, 5000, 10_000), (10, 20)  # numbers of nodes
PODS_PER_NODE: Final = 10
CALLS, QUICK_CALLS = 300, 3
LEAST_NODES: Final = 100  # kube-scheduler sends at least so many
HOT: Final = 10  # one node in so many is above its threshold in the last column
HEADER: Final = (
    *("nodes", "pods", "RSS", "RSS before the first object", "filling the cache", "a request", "an event"),
    "a request with a hot node in ten",
)


def measure(*, quick: bool = False) -> Iterator[Table]:
    """Measure each size in a process of its own."""
    sizes, calls = (QUICK_SIZES, QUICK_CALLS) if quick else (SIZES, CALLS)
    rows: list[tuple[str, ...]] = [HEADER]
    for nodes in sizes:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as one:
            rows.append(one.submit(_row, nodes, calls).result())
    yield Table(
        "CPU time of the extender with all plugins: filter and score of a pod, and the event of its binding", rows
    )


def _row(nodes: int, calls: int) -> tuple[str, ...]:
    profile = all_plugins()
    before, began = memory_mib()[0], time.process_time()
    work = Work(profile.enabled, profile.load_rules, nodes, PODS_PER_NODE)
    filled = time.process_time() - began
    cycle, cache = Cycle(work.enabled), work.cache
    share = parts.configuration(parts.Mode(parts.NONE), "", "")["percentageOfNodesToScore"] / 100
    sent = work.names[: max(LEAST_NODES, round(nodes * share))]
    pod = work.pod(0, 0, nodeName="")
    bound = iter([work.pod(PODS_PER_NODE + number, number % nodes) for number in range(3 * (calls + WARM_UP))])

    def request() -> None:
        wanted = cache.read(pod)
        found, _ = cache.select(sent, NOW)
        cycle.filter(wanted, found)
        cycle.score(wanted, found)

    def event() -> None:
        cache.put_pod(next(bound), NOW)

    requests, events = timed(request, calls, event), timed(event, calls)
    for number in range(0, nodes, HOT):
        metric = {**made.node_metric(number), **made.usage_report(number, NOW)}
        metric["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] = f"{made.CORES - 1}"
        cache.put_node_metric(fresh(metric))
    hot = timed(request, calls, event)
    times = (f"{timings.milliseconds(50):.2f} ms" for timings in (requests, events, hot))
    rss = (f"{size:.0f} MiB" for size in (memory_mib()[0], before))
    return f"{nodes:,}", f"{nodes * PODS_PER_NODE:,}", *rss, f"{filled:.1f} s", *times
