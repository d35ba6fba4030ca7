"""The extender at 5,000 nodes: computing an answer, and the round trip over HTTP."""

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from aiohttp import web

from bench.measurement import Measurement, spread
from scheduler_plugins.extender.server import Server
from scheduler_plugins.extender.service import Answering, Extender, Mode
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.plugins.load_aware import NAME, LoadAware
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.telemetry import Telemetry

NODES, QUICK_NODES = 5000, 50
CALLS, QUICK_CALLS = 300, 3
WARM_UP = 10
PODS_PER_NODE = 30
NOW = 1_735_689_600.0
UPDATED = "2025-01-01T00:00:00Z"
PLUGIN = LoadAware().defaulted()

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


@contextmanager
def _served(cache: ClusterCache, mode: Mode) -> Iterator[http.client.HTTPConnection]:
    """The extender over HTTP, in a thread with its own loop."""
    telemetry = Telemetry()
    cycle = Cycle([Enabled(NAME, 1.0, PLUGIN)], telemetry.observe_plugin)
    extender = Extender(cache, cycle, Answering(mode), lambda: NOW, np.random.default_rng(1))
    server = Server(extender, list, list, telemetry)
    loop, started, port = asyncio.new_event_loop(), threading.Event(), [0]

    async def start() -> web.AppRunner:
        runner = web.AppRunner(server.application(), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port[0] = runner.addresses[0][1]
        return runner

    def serve() -> None:
        runner = loop.run_until_complete(start())
        started.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=serve)
    thread.start()
    started.wait()
    connection = http.client.HTTPConnection("127.0.0.1", port[0])
    try:
        yield connection
    finally:
        connection.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _round_trips(connection: http.client.HTTPConnection, verb: str, names: list[str], calls: int) -> list[float]:
    bodies = iter(
        json.dumps({"Pod": _pod(f"incoming-{number}"), "Nodes": None, "NodeNames": names}).encode()
        for number in range(WARM_UP + calls)
    )

    def trip() -> None:
        connection.request("POST", f"/{verb}", next(bodies), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{verb} answered {response.status}")
        response.read()

    return _times(trip, calls)


def measure(*, quick: bool = False) -> Iterator[Measurement]:
    """Compute times at 5,000 nodes, and round trips with 5,000 and 500 names."""
    count, calls = (QUICK_NODES, QUICK_CALLS) if quick else (NODES, CALLS)
    cache = _cluster(count)
    pod = PodRequest.from_json(_pod("incoming"), cache.rules)
    names = list(cache.nodes)
    nodes = cache.freeze(NOW).select(names)[0]
    go = "Go plugin {} on one thread"
    yield Measurement(
        f"filter, {count:,} nodes, compute",
        spread(_times(lambda: PLUGIN.filter(pod, nodes), calls)),
        "<= 1 ms",
        go.format("3.1 ms"),
    )
    yield Measurement(
        f"score, {count:,} nodes, compute",
        spread(_times(lambda: PLUGIN.score(pod, nodes), calls)),
        "<= 1 ms",
        go.format("3.9 ms"),
    )
    lot = np.random.default_rng(2)

    def changed() -> None:
        cache.put_pod(_pod("moving", names[int(lot.integers(count))]), NOW)
        cache.freeze(NOW).select(names)

    yield Measurement(
        f"snapshot after a change, and {count:,} names looked up", spread(_times(changed, calls)), "none", "none"
    )
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
        (Mode.WEIGHTED, "prioritize", count),
    ):
        with _served(cache, mode) as connection:
            times = _round_trips(connection, verb, names[:sent], calls)
        budget = "p99 <= 10 ms" if sent == NODES else "none"
        yield Measurement(f"{mode} {verb}, {sent:,} names, HTTP round trip", spread(times), budget, "none")
