"""The extender at 5,000 nodes: computing an answer, and the round trip over HTTP."""

import asyncio
import gc
import json
import multiprocessing
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np

from headroom.runtime.http import serve
from scheduler_plugins.extender.debug import NodePage
from scheduler_plugins.extender.health import Health
from scheduler_plugins.extender.server import Server
from scheduler_plugins.extender.service import Answering, Extender, Mode
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.metrics import Telemetry
from scheduler_plugins.plugins.load_aware import NAME, LoadAware
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.pod import PodRequest
from tools.bench.measurement import Measurement, spread

NODES, QUICK_NODES = 5000, 50
CALLS, QUICK_CALLS = 300, 3
WARM_UP = 10
PODS_PER_NODE = 30
NOW = 1_735_689_600.0
UPDATED = "2025-01-01T00:00:00Z"
PLUGIN = LoadAware().defaulted()
_LENGTH: Final = re.compile(rb"content-length: (\d+)", re.IGNORECASE)

Json = dict[str, Any]


def _pod(name: str, node: str = "") -> Json:
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    return {
        "metadata": {"namespace": "default", "name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "x", "resources": resources}]},
        "status": {},
    }


def _node_metric(name: str, lot: np.random.Generator, pods: int = PODS_PER_NODE) -> Json:
    usage = {"resources": {"cpu": f"{lot.integers(1000, 18000)}m", "memory": f"{lot.integers(8, 60)}Gi"}}
    reported = [
        {
            "namespace": "default",
            "name": f"{name}-{number}",
            "priority": "koord-prod",
            "podUsage": {"resources": {"cpu": f"{lot.integers(1, 500)}m", "memory": f"{lot.integers(1, 900)}Mi"}},
        }
        for number in range(pods)
    ]
    return {
        "metadata": {"name": name},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}},
        "status": {"updateTime": UPDATED, "nodeMetric": {"nodeUsage": usage}, "podsMetric": reported},
    }


def _cluster(nodes: int) -> ClusterCache:
    """Nodes of 32 cores with 30 reported pods each."""
    lot = np.random.default_rng(1)
    cache = ClusterCache(PLUGIN.load_rules(), {NAME: PLUGIN})
    for index in range(nodes):
        name = f"node-{index:05}.example.internal"
        cache.put_node({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "32", "memory": "128Gi"}}})
        for number in range(PODS_PER_NODE):
            cache.put_pod(_pod(f"{name}-{number}", name), NOW)
        cache.put_node_metric(_node_metric(name, lot))
    return cache


def _times(call: Callable[[], object], count: int) -> list[float]:
    for _ in range(WARM_UP):
        call()
    times = []
    for _ in range(count):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return times


def _serve(cache: ClusterCache, mode: Mode, told: Connection) -> None:
    """The extender over HTTP, until something is said; the port is told first."""
    telemetry = Telemetry()
    cycle = Cycle([Enabled(NAME, 1.0, PLUGIN)], telemetry.observe_plugin)
    extender = Extender(cache, cycle, Answering(mode), lambda: NOW, np.random.default_rng(1))
    server = Server(extender, Health(), telemetry, NodePage(cache, lambda: NOW))

    async def run() -> None:
        served = await serve(server.pages(), "127.0.0.1", 0)
        told.send(served.port)
        await asyncio.to_thread(told.recv)
        told.send(time.process_time())
        await served.close()

    gc.freeze()  # as the program does once it knows the cluster
    asyncio.run(run())


@contextmanager
def _served(cache: ClusterCache, mode: Mode) -> Iterator[socket.socket]:
    """A connection to the extender, which is a process of its own as in life, and starts with the cluster known."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(cache, mode, theirs))
    process.start()
    try:
        with socket.create_connection(("127.0.0.1", ours.recv())) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield connection
    finally:
        ours.send("stop")
        process.join()


def _round_trips(connection: socket.socket, verb: str, names: list[str], calls: int) -> list[float]:
    """Times from the first byte sent to the last byte of the answer; the client does as little as it can."""
    pods = (
        json.dumps({"Pod": _pod(f"incoming-{number}"), "Nodes": None, "NodeNames": names}).encode()
        for number in range(WARM_UP + calls)
    )
    requests = (
        b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (verb.encode(), len(body), body)
        for body in pods
    )
    ready = list(requests)
    waiting = iter(ready)

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

    return _times(trip, calls)


def measure(*, quick: bool = False) -> Iterator[Measurement]:
    """Compute times at 5,000 nodes, and round trips with 5,000 and 500 names."""
    count, calls = (QUICK_NODES, QUICK_CALLS) if quick else (NODES, CALLS)
    cache = _cluster(count)
    pod = PodRequest.from_json(_pod("incoming"), cache.rules)
    names = list(cache.nodes)
    nodes = cache.freeze(NOW).select(names)[0]
    go = "Go plugin {} on one thread"
    for verb, ask, alone in (("filter", PLUGIN.filter, "3.1 ms"), ("score", PLUGIN.score, "3.9 ms")):
        times = _times(lambda ask=ask: ask(pod, nodes), calls)  # type: ignore[misc]
        what, middle = f"{verb}, {count:,} nodes, compute", float(np.median(times)) * 1000
        yield Measurement(what, spread(times), "<= 1 ms", go.format(alone), middle)
    lot = np.random.default_rng(2)

    def changed() -> None:
        cache.put_pod(_pod("moving", names[int(lot.integers(count))]), NOW)
        cache.freeze(NOW).select(names)

    yield Measurement(f"snapshot after a change, and {count:,} names looked up", spread(_times(changed, calls)))
    for pods, reference in ((30, "31 us"), (110, "84 us")):
        report = _node_metric(names[0], lot, pods)
        times = _times(lambda report=report: cache.put_node_metric(report), calls)  # type: ignore[misc]
        yield Measurement(
            f"one NodeMetric of {pods} pods taken in", spread(times, unit="us"), "none", f"Go plugin {reference}"
        )
    for mode, verb, sent in (
        (Mode.SHORTLIST, "filter", count),
        (Mode.SHORTLIST, "filter", count // 10),
        (Mode.WEIGHTED, "filter", count),
        (Mode.WEIGHTED, "filter", count // 10),
        (Mode.WEIGHTED, "prioritize", count),
        (Mode.WEIGHTED, "prioritize", count // 10),
    ):
        with _served(cache, mode) as connection:
            times = _round_trips(connection, verb, names[:sent], calls)
        what, most = f"{mode} {verb}, {sent:,} names, HTTP round trip", float(np.percentile(times, 99)) * 1000
        yield (
            Measurement(what, spread(times), "p99 <= 10 ms", value=most)
            if sent == NODES
            else Measurement(what, spread(times))
        )
