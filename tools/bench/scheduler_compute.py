"""What the extender's own work takes and holds, in a process of its own: 5,000 nodes that report, 150,000 pods.

All plugins, as in the benchmark on the real kube-scheduler. The processor's time, so that what else the machine does
counts little.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.framework.plugin import FilterPlugin, ScorePlugin
from scheduler_plugins.profile.load import load_profile
from scheduler_plugins.snapshot.cache import ClusterCache
from tools.bench import manager_report as reported
from tools.bench.calls import WARM_UP, fresh, times
from tools.bench.machine import ROOT
from tools.bench.manager_memory import memory_mib
from tools.bench.measurement import Item, Measurement
from tools.bench.results import item, plain
from tools.bench.scheduler_parts import SHORTLIST, Mode, profile

NODES, PODS_PER_NODE = 5000, 30
QUICK_NODES = 20
CALLS, QUICK_CALLS = 200, 3
NOW = 1_800_000_000.0
SAMPLED = 10  # of the nodes kube-scheduler asks about one in so many
GO = {"filter": "Go's LoadAware 3.1 ms", "score": "Go's LoadAware 3.9 ms"}
REPORTS = {30: "Go's LoadAware 31 us", 110: "Go's LoadAware 84 us"}

Json = dict[str, Any]


def measure(*, quick: bool = False) -> Iterator[Item]:
    """Memory, then times, of a process that does nothing else."""
    sizes = [str(QUICK_NODES if quick else NODES), str(QUICK_CALLS if quick else CALLS)]
    done = subprocess.run(
        [sys.executable, "-m", "tools.bench.scheduler_compute", *sizes],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for line in done.stdout.splitlines():
        yield item(json.loads(line))


class _Work:
    """The extender's parts without HTTP, filled as by its watches."""

    def __init__(self, nodes: int) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(profile(Mode(SHORTLIST)), file)
            file.flush()
            found = load_profile(Path(file.name))
        self.enabled = found.enabled
        self.cache = ClusterCache(found.load_rules, {part.name: part.plugin for part in found.enabled})
        self.cycle = Cycle(found.enabled)
        for number in range(nodes):
            self.cache.put_node(fresh(reported.node(number, NOW)))
            self.cache.put_node_metric(fresh(reported.node_metric(number, number % reported.LEVELS, NOW)))
        for number in range(nodes):
            for each in range(PODS_PER_NODE):
                self.cache.put_pod(self.pod(each, number), NOW)
        self.names = list(self.cache.nodes)
        self.cache.freeze(NOW)

    def pod(self, each: int, number: int, **spec: str) -> Json:
        """A bound pod, as the API server has it; `spec` replaces fields of it."""
        pod = fresh(reported.pod(each, number))
        uid = f"00000000-0000-4000-8000-{number:06d}{each:06d}"
        pod["metadata"] |= {"uid": uid, "namespace": "shop", "resourceVersion": "123456"}
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": reported.moment(NOW)}
        pod["status"] = {"phase": "Running", "qosClass": "Burstable", "conditions": [scheduled]}
        pod["spec"] |= spec
        return pod


def _plugins(work: _Work, calls: int) -> Iterator[Measurement]:
    """Filters and scores over all nodes: each plugin, then all of them."""
    request = work.cache.read(work.pod(0, 0, nodeName=""))
    nodes, _ = work.cache.select(work.names, NOW)
    size = f"{len(nodes):,} nodes, compute"
    for part in work.enabled:
        name, plugin = part.name, part.plugin
        go = GO if name == "LoadAwareScheduling" else {}
        if isinstance(plugin, FilterPlugin):
            measured = times(lambda plugin=plugin: plugin.filter(request, nodes), calls)  # type: ignore[misc]
            yield Measurement(f"filter of {name}, {size}", str(measured), "none", go.get("filter", "none"))
        if isinstance(plugin, ScorePlugin):
            measured = times(lambda plugin=plugin: plugin.score(request, nodes), calls)  # type: ignore[misc]
            yield Measurement(f"score of {name}, {size}", str(measured), "none", go.get("score", "none"))
    for verb, ask in (("filter", work.cycle.filter), ("score", work.cycle.score)):
        measured = times(lambda ask=ask: ask(request, nodes), calls)  # type: ignore[misc]
        yield Measurement(
            f"{verb} of all plugins, {size}", str(measured), "<= 1 ms", GO[verb], measured.median_us / 1000
        )


def _changes(work: _Work, calls: int) -> Iterator[Measurement]:
    """What a change costs: to take it in, and to have it in the arrays."""
    lot = np.random.default_rng(1)
    for pods, go in REPORTS.items():
        report = {**reported.node_metric(0, 1, NOW), **reported.report(1, NOW, pods)}

        def receive(report: Json = report) -> None:
            work.cache.put_node_metric(report)
            work.cache.select(work.names[:1], NOW)

        yield Measurement(f"NodeMetric of {pods} pods, into the arrays", str(times(receive, calls)), "none", go)
    events = iter([work.pod(PODS_PER_NODE, int(lot.integers(len(work.names)))) for _ in range(2 * (calls + WARM_UP))])

    def bound() -> None:
        work.cache.put_pod(next(events), NOW)

    count = len(work.names) // SAMPLED
    yield Measurement("event of a pod that was bound", str(times(bound, calls)))
    some = work.names[:count]
    what = f"lookup of {count:,} of {len(work.names):,} nodes after a pod was bound"
    yield Measurement(what, str(times(lambda: work.cache.select(some, NOW), calls, bound)))
    moving = [work.pod(PODS_PER_NODE + 1, number) for number in range(min(10, len(work.names)))]
    turn = iter(moving * (1 + (calls + WARM_UP) // len(moving)))
    what = f"snapshot of all {len(work.names):,} nodes after a pod was bound"
    measured = times(lambda: work.cache.freeze(NOW), calls, lambda: work.cache.put_pod(next(turn), NOW))
    yield Measurement(what, str(measured))


def main() -> None:
    """Fill, then print a JSON line for each measurement."""
    nodes, calls = map(int, sys.argv[1:])
    before, began = memory_mib()[0], time.perf_counter()
    work = _Work(nodes)
    took, (now, peak) = time.perf_counter() - began, memory_mib()
    pods = nodes * PODS_PER_NODE
    rows = [
        Measurement(
            f"extender's cache of {nodes:,} nodes that report and {pods:,} pods, all plugins: RSS",
            f"{now:.0f} MiB, peak {peak:.0f} MiB, {before:.0f} MiB of it before the first object",
            "none",
            "none",
        ),
        Measurement("taking them in from JSON", f"{took:.1f} s"),
    ]
    for row in (*rows, *_plugins(work, calls), *_changes(work, calls)):
        print(json.dumps(plain(row)), flush=True)


if __name__ == "__main__":
    main()
