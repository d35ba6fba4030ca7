"""Costs of the extender's own work with 5,000 nodes that report: filters, scores, changes, and answers over HTTP."""

import asyncio
import gc
import json
import multiprocessing
import re
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from headroom.runtime.http import serve
from scheduler_plugins.extender.debug import NodePage
from scheduler_plugins.extender.health import Health
from scheduler_plugins.extender.server import Server
from scheduler_plugins.extender.service import Answering, Extender, Mode
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.framework.plugin import FilterPlugin, ScorePlugin
from scheduler_plugins.metrics import PLUGINS_SAMPLED, Telemetry
from scheduler_plugins.plugins.load_aware import NAME, LoadAware
from scheduler_plugins.profile.load import load_profile
from scheduler_plugins.profile.model import Profile
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tools.bench import objects as made
from tools.bench import scheduler_parts as parts
from tools.bench.costs import WARM_UP, Timings, fresh, memory_mib, spread, timed
from tools.bench.rows import NONE, Row

NODES, PODS_PER_NODE = 5000, 30
QUICK_NODES = 20
CALLS, QUICK_CALLS = 200, 3
NOW: Final = 1_800_000_000.0
SAMPLED: Final = 10  # kube-scheduler requests one node in so many
GO: Final = {"filter": "Go's LoadAware 3.1 ms on one thread", "score": "Go's LoadAware 3.9 ms on one thread"}
REPORTS: Final = {30: "Go's LoadAware 31 us", 110: "Go's LoadAware 84 us"}
_LENGTH: Final = re.compile(rb"content-length: (\d+)", re.IGNORECASE)

Json = dict[str, Any]


class Work:
    """The extender's parts without HTTP, filled as by its watches."""

    def __init__(
        self, enabled: Sequence[Enabled], rules: LoadRules, nodes: int, pods_per_node: int = PODS_PER_NODE
    ) -> None:
        self.enabled = enabled
        self.cache = ClusterCache(rules, {part.name: part.plugin for part in enabled})
        for number in range(nodes):
            self.cache.put_node(fresh(made.node(number, NOW)))
        for number in range(nodes):
            pods = [self.pod(index, number) for index in range(pods_per_node)]
            for pod in pods:
                self.cache.put_pod(pod, NOW)
            metric = {**made.node_metric(number), **made.usage_report(number, NOW)}
            usage = {"resources": {"cpu": "50m", "memory": "100Mi"}}
            metric["status"]["podsMetric"] = [
                {"namespace": "shop", "name": pod["metadata"]["name"], "priority": "koord-prod", "podUsage": usage}
                for pod in pods
            ]
            self.cache.put_node_metric(fresh(metric))
        self.names = list(self.cache.nodes)
        self.cache.freeze(NOW)

    def pod(self, each: int, number: int, **spec: str) -> Json:
        """Return a bound pod as the API server has it; `spec` replaces fields of it."""
        pod = fresh(made.pod(each, number))
        uid = f"00000000-0000-4000-8000-{number:06d}{each:06d}"
        pod["metadata"] |= {"uid": uid, "namespace": "shop", "resourceVersion": "123456"}
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastTransitionTime": made.moment(NOW - 3600),
        }
        pod["status"] = {"phase": "Running", "qosClass": "Burstable", "conditions": [scheduled]}
        pod["spec"] |= spec
        return pod


def all_plugins() -> Profile:
    """Return the profile of the benchmark on the real kube-scheduler."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(parts.profile(parts.Mode(parts.SHORTLIST)), file)
        file.flush()
        return load_profile(Path(file.name))


def compute(*, quick: bool = False) -> Iterator[Row]:
    """Memory, then times of the processor, with all plugins as in the benchmark on the real kube-scheduler."""
    nodes, calls = (QUICK_NODES, QUICK_CALLS) if quick else (NODES, CALLS)
    profile = all_plugins()
    before, began = memory_mib()[0], time.perf_counter()
    work = Work(profile.enabled, profile.load_rules, nodes)
    took, (now, peak) = time.perf_counter() - began, memory_mib()
    yield Row(
        f"extender's cache of {nodes:,} nodes that report and {nodes * PODS_PER_NODE:,} pods, all plugins: RSS",
        f"{now:.0f} MiB, peak {peak:.0f} MiB, {before:.0f} MiB of it before the first object",
    )
    yield Row("taking them in from JSON", f"{took:.1f} s")
    yield from _plugins(work, calls)
    yield from _changes(work, calls)


def _plugins(work: Work, calls: int) -> Iterator[Row]:
    """Filters and scores over all nodes: each plugin, then all of them."""
    request = work.cache.read(work.pod(0, 0, nodeName=""))
    nodes, _ = work.cache.select(work.names, NOW)
    size = f"{len(nodes):,} nodes, compute"

    def row(verb: str, name: str, timings: Timings) -> Row:
        if name != NAME:
            return Row(f"{verb} of {name}, {size}", str(timings))
        return Row(f"{verb} of {name}, {size}", str(timings), "<= 0.5 ms", GO[verb], timings.milliseconds(50))

    for part in work.enabled:
        plugin = part.plugin
        if isinstance(plugin, FilterPlugin):
            yield row("filter", part.name, timed(lambda plugin=plugin: plugin.filter(request, nodes), calls))  # type: ignore[misc]
        if isinstance(plugin, ScorePlugin):
            yield row("score", part.name, timed(lambda plugin=plugin: plugin.score(request, nodes), calls))  # type: ignore[misc]
    cycle = Cycle(work.enabled)
    yield row("filter", "all plugins", timed(lambda: cycle.filter(request, nodes), calls))
    yield row("score", "all plugins", timed(lambda: cycle.score(request, nodes), calls))


def _changes(work: Work, calls: int) -> Iterator[Row]:
    """The cost of a change: to apply it, and to have it in the arrays."""
    lot = np.random.default_rng(1)
    for pods, go in REPORTS.items():
        report = {**made.node_metric(0, 1, NOW), **made.report(1, NOW, pods)}

        def receive(report: Json = report) -> None:
            work.cache.put_node_metric(report)
            work.cache.select(work.names[:1], NOW)

        yield Row(f"NodeMetric of {pods} pods, into the arrays", str(timed(receive, calls)), NONE, go)
    events = iter([work.pod(PODS_PER_NODE, int(lot.integers(len(work.names)))) for _ in range(2 * (calls + WARM_UP))])

    def bound() -> None:
        work.cache.put_pod(next(events), NOW)

    yield Row("event of a pod that was bound", str(timed(bound, calls)))
    some = work.names[: len(work.names) // SAMPLED]
    what = f"lookup of {len(some):,} of {len(work.names):,} nodes after a pod was bound"
    yield Row(what, str(timed(lambda: work.cache.select(some, NOW), calls, bound)))
    moving = [work.pod(PODS_PER_NODE + 1, number) for number in range(min(10, len(work.names)))]
    turn = iter(moving * (1 + (calls + WARM_UP) // len(moving)))
    what = f"snapshot of all {len(work.names):,} nodes after a pod was bound"
    yield Row(what, str(timed(lambda: work.cache.freeze(NOW), calls, lambda: work.cache.put_pod(next(turn), NOW))))


def http(*, quick: bool = False) -> Iterator[Row]:
    """Round trips with all names and with a tenth of them, LoadAware alone."""
    nodes, calls = (QUICK_NODES, QUICK_CALLS) if quick else (NODES, CALLS)
    plugin = LoadAware().defaulted()
    work = Work([Enabled(NAME, 1.0, plugin)], plugin.load_rules(), nodes)
    for mode, verb in ((Mode.SHORTLIST, "filter"), (Mode.WEIGHTED, "filter"), (Mode.WEIGHTED, "prioritize")):
        for sent in (nodes, nodes // 10):
            with _served(work, mode) as connection:
                times = _round_trips(connection, verb, work, sent, calls)
            what, most = f"{mode} {verb}, {sent:,} names, HTTP round trip", float(np.percentile(times, 99)) * 1000
            yield Row(what, spread(times), *(("p99 <= 5 ms", NONE, most) if sent == NODES else ()))


def _serve(work: Work, mode: Mode, pipe: Connection) -> None:
    """Serve the extender over HTTP, send its port, and end with the first message."""
    telemetry = Telemetry()
    cycle = Cycle(work.enabled, telemetry.observe_plugin, PLUGINS_SAMPLED)
    extender = Extender(work.cache, cycle, Answering(mode), lambda: NOW, np.random.default_rng(1))
    server = Server(extender, Health(), telemetry, NodePage(work.cache, lambda: NOW))

    async def run() -> None:
        served = await serve(server.pages(), "127.0.0.1", 0)
        pipe.send(served.port)
        await asyncio.to_thread(pipe.recv)
        await served.close()

    gc.freeze()  # as the program does once it knows the cluster
    asyncio.run(run())


@contextmanager
def _served(work: Work, mode: Mode) -> Iterator[socket.socket]:
    """A connection to the extender, which is a process of its own that starts with the cluster known."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(work, mode, theirs))
    process.start()
    try:
        with socket.create_connection(("127.0.0.1", ours.recv())) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield connection
    finally:
        ours.send("stop")
        process.join()


def _round_trips(connection: socket.socket, verb: str, work: Work, sent: int, calls: int) -> list[float]:
    """Times from the first byte sent to the last byte of the answer; the client does as little as it can. [s]"""
    requests = []
    for number in range(WARM_UP + calls):
        pod = work.pod(0, 0, nodeName="")
        pod["metadata"] |= {"name": f"incoming-{number}", "uid": f"incoming-{number}"}
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": work.names[:sent]}).encode()
        requests.append(
            b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (verb.encode(), len(body), body)
        )
    waiting = iter(requests)

    def trip() -> None:
        connection.sendall(next(waiting))
        answer = connection.recv(2**16)
        head, _, body = answer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if length is None or not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"{verb} answered {head!r}")
        left = int(length[1]) - len(body)
        while left > 0:
            left -= len(connection.recv(2**20))

    return timed(trip, calls).clock
