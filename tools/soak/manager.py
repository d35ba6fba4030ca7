"""A manager beside a real API server with 5,000 nodes that report: what must be right, not how fast it is.

After that come an edit of the configuration with 100 entries, stalls of the API server and of the manager, and a node
that floods the manager: no other node may be forgotten, and the Lease not be lost to a flood.
"""

import json
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from crds.names import ANNOTATION_COLOCATION_STRATEGY, CONFIG_MAP_KEY, CONFIG_MAP_NAME
from headroom.kube import paths
from manager.inputs import Resource
from manager.mid import publish
from manager.node_metric import COLLECTION
from tools.bench import manager as bench
from tools.bench import objects as made
from tools.devcluster import Cluster
from tools.devcluster.api import ApiError
from tools.devcluster.commands import DevClusterError
from tools.devcluster.process import Process, wait_until
from tools.soak.progress import Progress, run

NODES, FEWEST = 5000, 200
NODES_A_SECOND = 11.0
"""So many nodes are tried per second of the time beyond what any number of them takes: making them and their pods, and
the first report of each, 40 a second."""
FIXED_SECONDS = 200.0
"""Time for each number of nodes: a minute of first reports, one of steady ones, the starts of cluster and managers."""
SETTLE_SHARE = 0.2
"""The part of the time in which every Node must show the last report at the end. Increases hold for half a minute;
a busy machine takes its time with the rest."""
LEAST_SETTLE_SECONDS = 60.0
MINUTE_SECONDS, SHORT_MINUTE_SECONDS = 60.0, 20.0
"""The interval of a node's reports; shorter where there is not enough time for minutes."""
RSS_MIB = 250
ENTRIES: Final = 100
EDIT_SECONDS, PROBLEM_SECONDS = 600.0, 120.0
STALLS_SECONDS: Final = (6.5, 8.0)
WATCHED: Final = 40  # nodes that fall silent, and as many with lower reports, around each fault
FLOOD_REPORTS: Final = 200
FLOOD_WRITES: Final = 40  # so many events and conditions of one node are no flood: a few at once, then one a minute
DEGRADE_SECONDS: Final = 900
LEASE: Final = "headroom-manager"


def trial(progress: Progress) -> None:
    """Run a manager with 5,000 nodes."""
    spare = progress.seconds - FIXED_SECONDS
    nodes = int(min(NODES, max(FEWEST, spare * NODES_A_SECOND)))
    minute = MINUTE_SECONDS if spare > 0 else SHORT_MINUTE_SECONDS
    progress.log(f"making {nodes:,} nodes, and reporting for each every {minute:.0f} s")
    settle = max(progress.seconds * SETTLE_SHARE, LEAST_SETTLE_SECONDS)
    plan = bench.Plan(minute_seconds=minute, settle_seconds=settle)
    figures = bench.measure(nodes, plan, lambda cluster, process: _problem(Faults(cluster, process, nodes), progress))
    result = {key: -1.0 if figure is None else figure for key, figure in figures.items()}
    fast = figures.get("decrease_p99")
    times = "no decrease was timed" if fast is None else f"99 of 100 decreases were on their Node within {fast:.1f} s"
    progress.log(f"{times}; {result['missed']:.0f} numbers came after the next report of their node")
    peak, behind, writes = result["manager_rss_peak"], result["behind"], result["restart_writes"]
    memory = f"the manager of {nodes:,} nodes stays within {RSS_MIB:,} MiB"
    progress.check(memory, f"{peak:.0f} MiB at most", passed=0 < peak <= RSS_MIB)
    shown = f"{behind:.0f} Nodes do not, after {result['reports']:.1f} reports a second"
    progress.check(f"within {settle:.0f} s every Node shows the last report", shown, passed=behind == 0)
    restart = f"{writes:.0f} writes, every node calculated after {result['restart']:.0f} s"
    progress.check("a restart with nothing changed writes nothing", restart, passed=writes == 0)


@dataclass(slots=True)
class Faults:
    """A manager of many nodes that has published all of them."""

    cluster: Cluster
    manager: Process
    count: int  # how many nodes
    first: int = 1  # the first of the nodes that saw no problem yet

    def around(self, happens: Callable[[], None]) -> int:
        """Cause a fault; return how many nodes show wrong amounts soon afterwards."""
        api, each, first = self.cluster.api, min(WATCHED, (self.count - 1) // (4 * len(STALLS_SECONDS) + 2)), self.first
        silent, falling = range(first, first + each), range(first + each, first + 2 * each)
        self.first = falling.stop
        now = time.time()
        for number in silent:  # they expire before, in and after it
            body = made.report(0, now - DEGRADE_SECONDS + 2 + 12.0 * (number - first) / each, pods=0)
            api.merge(paths.status(made.metric_path(number)), body)
        for number in falling:
            api.merge(paths.status(made.metric_path(number)), made.report(0, time.time(), pods=0))
        happens()
        left = {**dict.fromkeys(silent), **dict.fromkeys(falling, made.reclaimable(0)[0])}

        def none_left() -> bool:
            for number in list(left):
                with suppress(ApiError):
                    node = api.get(paths.node(made.name(number)))
                    if publish.published_amounts(node)[Resource.CPU].amount == left[number]:
                        del left[number]
            return not left

        with suppress(DevClusterError):
            wait_until(none_left, "nodes to show the right amounts", PROBLEM_SECONDS, [self.manager], 0.2)
        return len(left)

    def lease_transitions(self) -> int:
        """Return how often the Lease changed hands."""
        lease = self.cluster.api.get(paths.lease(bench.NAMESPACE, LEASE))
        return int(lease["spec"].get("leaseTransitions") or 0)


def _problem(problem: Faults, progress: Progress) -> bench.Figures:
    """Check an edit, stalls and a hostile node."""
    took = _edit(problem)
    progress.check("an edit with 100 entries reaches every NodeMetric", f"it took {took:.0f} s", passed=True)
    lost = 0
    for process in (problem.cluster.apiserver.process, problem.manager):
        assert process is not None  # noqa: S101 - the cluster runs
        for seconds in STALLS_SECONDS:
            lost += problem.around(partial(_hold, process, seconds))
    progress.check("stalls lose no node's turn", f"{lost:.0f} Nodes do not follow", passed=lost == 0)
    before = problem.lease_transitions()
    lost = problem.around(lambda: _flood(problem.cluster))
    moved = problem.lease_transitions() - before
    effects = f"{lost:.0f} others do not follow; the Lease changed hands {moved:.0f} times"
    progress.check("a node that floods the manager harms no other", effects, passed=not lost and not moved)
    about = f"fieldSelector=regarding.name%3D{made.name(0)}"
    events = problem.cluster.api.get(f"/apis/events.k8s.io/v1/namespaces/default/events?{about}")["items"]
    result = f"{len(events)} events about it"
    progress.check("and is reported now and then", result, passed=len(events) <= FLOOD_WRITES)
    return {}


def _edit(problem: Faults) -> float:
    """Put a configuration with many entries in force: each node gets another spec. How long that takes. [s]"""
    api, clock = problem.cluster.api, time.monotonic()
    entries = []
    for entry in range(ENTRIES):
        names = [made.name(number) for number in range(entry, problem.count, ENTRIES)]
        term = {"key": "kubernetes.io/hostname", "operator": "In", "values": names}
        selector = {"matchExpressions": [term]}
        interval = {"metricReportIntervalSeconds": _interval(entry)}
        entries += [{"name": f"entry-{entry}", "nodeSelector": selector, **interval}] if names else []
    text = json.dumps({**bench.CONFIG, "nodeConfigs": entries})
    api.merge(paths.config_map(bench.NAMESPACE, CONFIG_MAP_NAME), {"data": {CONFIG_MAP_KEY: text}})
    last = made.metric_path(problem.count - 1)
    wait_until(lambda: _right(api.get(last)), "the spec of the last node", EDIT_SECONDS, [problem.manager], 0.2)
    every = f"{COLLECTION}?resourceVersion=0"  # of the API server's memory, which costs less
    wait_until(
        lambda: all(_right(metric) for metric in api.get(every)["items"]),
        "every NodeMetric to have its spec",
        EDIT_SECONDS,
        [problem.manager],
        3.0,
    )
    return time.monotonic() - clock


def _right(metric: dict[str, Any]) -> bool:
    entry = int(metric["metadata"]["name"].rpartition("-")[2]) % ENTRIES
    interval = metric.get("spec", {}).get("metricCollectPolicy", {}).get("reportIntervalSeconds")
    return bool(interval == _interval(entry))


def _interval(entry: int) -> int:
    """Return the interval that the entry states. [s]"""
    return 100 + entry


def _hold(process: Process, seconds: float) -> None:
    process.signal(signal.SIGSTOP)
    time.sleep(seconds)  # the stall itself
    process.signal(signal.SIGCONT)


def _flood(cluster: Cluster) -> None:
    """Let node 0 have an annotation of a quarter of a megabyte, reports of a megabyte, and reports that flap."""
    unknown = {"model": "max", "of": [{"model": f"nsigma-w{number}"} for number in range(9000)]}
    text = json.dumps({"nodePredictPolicy": unknown})
    cluster.api.merge(paths.node(made.name(0)), {"metadata": {"annotations": {ANNOTATION_COLOCATION_STRATEGY: text}}})
    pods = {"namespace": "n", "name": "p", "podUsage": {"resources": {"cpu": "1m", "memory": "1Mi"}}}
    for turn in range(FLOOD_REPORTS):
        body = made.report(0, time.time() - (turn % 2) * 2 * DEGRADE_SECONDS, pods=0)
        if turn % 40 == 0:
            body["status"]["podsMetric"] = [pods] * 8_000
        with suppress(ApiError, OSError):  # the server may take no object of that size
            cluster.api.merge(paths.status(made.metric_path(0)), body)


if __name__ == "__main__":
    run(trial)
