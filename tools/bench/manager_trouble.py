"""A large edit of the configuration, stalls, and one hostile node: what becomes of the other nodes meanwhile."""

import json
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from crds.names import ANNOTATION_COLOCATION_STRATEGY, CONFIG_MAP_KEY, CONFIG_MAP_NAME
from headroom.kube import paths
from manager.inputs import Resource
from manager.mid import publish
from manager.node_metric import COLLECTION
from tools.bench import manager_report as made
from tools.bench.manager_probed import longest
from tools.devcluster import Cluster
from tools.devcluster.api import ApiError
from tools.devcluster.commands import DevClusterError
from tools.devcluster.process import Process, wait_until

ENTRIES: Final = 100
EDIT_SECONDS, TROUBLE_SECONDS = 600.0, 120.0
LISTS_SECONDS: Final = 3.0
"""Between two lists of all NodeMetrics: one after the other would keep a core busy that the manager needs."""
STALLS_SECONDS: Final = (6.5, 8.0)
TROUBLES: Final = 2 * len(STALLS_SECONDS) + 1
WATCHED: Final = 40  # so many nodes fall silent, and as many report less, around each trouble
FLOOD_REPORTS: Final = 200
FLOOD_WRITES: Final = 40  # so many events and conditions of one node are no flood: a few at once, then one a minute
DEGRADE_SECONDS: Final = 900
LEASE: Final = "headroom-manager"

Json = dict[str, Any]
Figures = dict[str, float | None]


@dataclass(slots=True)
class Trouble:
    """A manager of many nodes that has published all of them."""

    cluster: Cluster  # the cluster
    namespace: str  # where the ConfigMap and the Lease are
    config: Json  # the configuration in force
    count: int  # how many nodes
    manager: Process  # the manager
    pauses: Path  # where its pauses are noted
    first: int = 1  # the first of the nodes that saw no trouble yet

    def edit(self) -> Figures:
        """Put a configuration with many entries in force: each node gets another spec. How long that takes."""
        began, clock = time.time(), time.monotonic()
        entries = [
            {
                "name": f"entry-{entry}",
                "nodeSelector": {
                    "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": names}]
                },
                "metricReportIntervalSeconds": _interval(entry),
            }
            for entry in range(ENTRIES)
            if (names := [made.name(number) for number in range(entry, self.count, ENTRIES)])
        ]
        text = json.dumps({**self.config, "nodeConfigs": entries})
        path = paths.config_map(self.namespace, CONFIG_MAP_NAME)
        self.cluster.api.merge(path, {"data": {CONFIG_MAP_KEY: text}})
        last = made.metric_path(self.count - 1)
        self._wait(lambda: self._right(self.cluster.api.get(last)), "the spec of the last node", EDIT_SECONDS)
        self._wait(lambda: not self._wrong_specs(), "every NodeMetric to have its spec", EDIT_SECONDS, LISTS_SECONDS)
        took = time.monotonic() - clock
        return {"edit": took, "edit_pause": longest(self.pauses, began) * 1000}

    def _wrong_specs(self) -> int:
        return sum(not self._right(each) for each in self._all(COLLECTION))

    def _right(self, metric: Json) -> bool:
        entry = int(metric["metadata"]["name"].rpartition("-")[2]) % ENTRIES
        interval = metric.get("spec", {}).get("metricCollectPolicy", {}).get("reportIntervalSeconds")
        return bool(interval == _interval(entry))

    def _all(self, path: str) -> Iterable[Json]:
        token = ""
        while True:
            page = self.cluster.api.get(f"{path}?limit=500{f'&continue={token}' if token else ''}")
            yield from page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return

    def stalls(self) -> Figures:
        """Hold back the API server, then the manager, while nodes fall silent and report less."""
        server = self.cluster.apiserver.process
        if server is None:
            raise DevClusterError("the API server does not run")
        lost = 0
        for process in (server, self.manager):
            for seconds in STALLS_SECONDS:
                lost += self._while(lambda process=process, seconds=seconds: _hold(process, seconds))  # type: ignore[misc]
        return {"stall_lost": float(lost)}

    def hostile(self) -> Figures:
        """One node floods the manager with all that its objects can hold."""
        began, before = time.time(), self._transitions()
        lost = self._while(self._flood)
        name, about = made.name(0), "fieldSelector=regarding.name%3D"
        events = self.cluster.api.get(f"/apis/events.k8s.io/v1/namespaces/default/events?{about}{name}")["items"]
        return {
            "hostile_lost": float(lost),
            "hostile_events": float(len(events)),
            "hostile_pause": longest(self.pauses, began) * 1000,
            "lease_lost": float(self._transitions() - before),
        }

    def _flood(self) -> None:
        """Node 0: an annotation of a quarter of a megabyte, reports of a megabyte, and reports that flap."""
        api, node, status = self.cluster.api, paths.node(made.name(0)), paths.status(made.metric_path(0))
        unknown = {"model": "max", "of": [{"model": f"nsigma-w{number}"} for number in range(9000)]}
        text = json.dumps({"nodePredictPolicy": unknown})
        api.merge(node, {"metadata": {"annotations": {ANNOTATION_COLOCATION_STRATEGY: text}}})
        pods = {"namespace": "n", "name": "p", "podUsage": {"resources": {"cpu": "1m", "memory": "1Mi"}}}
        for turn in range(FLOOD_REPORTS):
            now = time.time() - (turn % 2) * 2 * DEGRADE_SECONDS
            body = made.report(0, now, pods=0)
            if turn % 40 == 0:
                body["status"]["podsMetric"] = [pods] * 8_000
            with suppress(ApiError, OSError):  # the server may take no object of that size
                api.merge(status, body)

    def _transitions(self) -> int:
        lease = self.cluster.api.get(paths.lease(self.namespace, LEASE))
        return int(lease["spec"].get("leaseTransitions") or 0)

    def _while(self, happens: Callable[[], None]) -> int:
        """Have something happen; how many nodes do not show soon afterwards what they should."""
        api, each, first = self.cluster.api, min(WATCHED, (self.count - 1) // (2 * TROUBLES)), self.first
        silent, falling = range(first, first + each), range(first + each, first + 2 * each)
        self.first = falling.stop
        now = time.time()
        for number in silent:  # they expire before, in and after it
            body = made.report(0, now - DEGRADE_SECONDS + 2 + 12.0 * (number - first) / each, pods=0)
            api.merge(paths.status(made.metric_path(number)), body)
        for number in falling:
            api.merge(paths.status(made.metric_path(number)), made.report(0, time.time(), pods=0))
        happens()
        wanted: dict[int, int | None] = dict.fromkeys(silent)
        return self._left({**wanted, **dict.fromkeys(falling, made.reclaimable(0)[0])})

    def _left(self, wanted: dict[int, int | None]) -> int:
        """Wait for what nodes should have; how many do not."""
        left = dict(wanted)

        def none_left() -> bool:
            for number in list(left):
                with suppress(ApiError):
                    node = self.cluster.api.get(paths.node(made.name(number)))
                    if publish.published_amounts(node)[Resource.CPU].amount == left[number]:
                        del left[number]
            return not left

        with suppress(DevClusterError):
            self._wait(none_left, "nodes to show what they should", TROUBLE_SECONDS)
        return len(left)

    def _wait(self, holds: Callable[[], bool], what: str, seconds: float, pause: float = 0.2) -> None:
        wait_until(holds, what, seconds, [self.manager], pause)


def _interval(entry: int) -> int:
    """What the entry asks of its nodes. [s]"""
    return 100 + entry


def _hold(process: Process, seconds: float) -> None:
    process.signal(signal.SIGSTOP)
    time.sleep(seconds)  # the stall itself
    process.signal(signal.SIGCONT)
