"""How long relists keep requests waiting in the extender: the longest pause of its event loop.

An API server of our own answers on loopback, from a process of its own: real JSON, and the extender's own watches.
"""

import asyncio
import json
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit

from headroom.kube import ApiServer, Connection, paths
from headroom.runtime.garbage_collection import keep_tending
from scheduler_plugins.settings import load
from scheduler_plugins.snapshot.watch import NODE_METRICS
from scheduler_plugins.wiring import Parts, assemble
from tools.bench.rows import Row

_BUDGET_MS: Final = 50
_ASKED: Final = 100  # Nodes that are looked at in each turn, as a request of kube-scheduler's does
_ENVIRONMENT: Final = [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(20)]


@dataclass(frozen=True, slots=True)
class _Size:
    """Of a cluster."""

    pods: int
    nodes: int
    seconds: float  # how long it is listed anew, again and again [s]


_LARGE: Final = (_Size(20_000, 500, 30.0), _Size(20_000, 5000, 30.0))
_SMALL: Final = (_Size(2000, 100, 2.0),)


def _pod(number: int, nodes: int) -> dict[str, Any]:
    """A bound pod of some 3 KiB."""
    amounts = {"cpu": f"{100 + number % 900}m", "memory": f"{128 + number % 512}Mi"}
    containers = [{"name": "main", "image": "x", "env": _ENVIRONMENT, "resources": {"requests": amounts}}]
    name = f"p{number}"
    return {
        "metadata": {"namespace": "t", "name": name, "uid": name, "resourceVersion": "5", "labels": {"app": name}},
        "spec": {"nodeName": f"n{number % nodes}", "containers": containers},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    }


def _node(number: int) -> dict[str, Any]:
    name = f"n{number}"
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "5"},
        "status": {"allocatable": {"cpu": "96", "memory": "384Gi"}},
    }


def _report(number: int, turn: int) -> dict[str, Any]:
    """A NodeMetric that is another in every list."""
    usage = {"resources": {"cpu": f"{20_000 + turn}m", "memory": "100Gi"}}
    status = {"updateTime": "2026-01-01T00:00:00Z", "nodeMetric": {"nodeUsage": usage}}
    return {"metadata": {"name": f"n{number}", "resourceVersion": "5"}, "status": status}


class _Listing(ThreadingHTTPServer):
    """The API server."""

    lists: dict[str, list[dict[str, Any]]]
    turn = 0

    def run(self, size: _Size) -> None:
        """Answer, for ever. The objects are made here: they are no part of what is measured."""
        self.lists = {
            paths.PODS: [_pod(number, size.nodes) for number in range(size.pods)],
            paths.NODES: [_node(number) for number in range(size.nodes)],
        }
        self.nodes = size.nodes
        self.serve_forever()

    def handle_error(self, *_: object) -> None:
        """Nothing: clients leave."""


class _Answering(BaseHTTPRequestHandler):
    """Lists page by page; every watch ends at once with "gone", so that everything is listed again."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer."""
        url, server = urlsplit(self.path), cast("_Listing", self.server)
        asked = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if "watch" in asked:
            time.sleep(0.5)
            self._answer({"type": "ERROR", "object": {"code": 410}})
            return
        first = int(asked.get("continue", 0))
        if url.path == NODE_METRICS and not first:
            server.turn += 1
            server.lists[NODE_METRICS] = [_report(number, server.turn) for number in range(server.nodes)]
        items = server.lists.get(url.path, [])
        last = first + int(asked.get("limit", len(items)))
        metadata = {"resourceVersion": "5", **({"continue": str(last)} if last < len(items) else {})}
        self._answer({"items": items[first:last], "metadata": metadata})

    def _answer(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def _serving(size: _Size) -> Iterator[str]:
    server = _Listing(("127.0.0.1", 0), _Answering)
    process = multiprocessing.get_context("fork").Process(target=server.run, args=(size,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        process.kill()
        server.server_close()


async def _longest_pause(url: str, size: _Size) -> tuple[float, float]:
    """The longest time in which the loop came to nothing else, once the extender is ready. [s]

    Returns:
        By the clock, and by the processor's time, which a busy machine prolongs less.
    """
    async with ApiServer(Connection(url, None, lambda: None), "bench") as api:
        parts = assemble(load([], {}), api)
        tasks = [asyncio.create_task(each) for each in (keep_tending(), parts.watch.run())]
        while parts.health.missing():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        names = parts.cache.nodes[:_ASKED]
        end, longest, busiest = time.monotonic() + size.seconds, 0.0, 0.0
        while (now := time.monotonic()) < end:
            used = time.thread_time()
            await asyncio.sleep(0)
            parts.cache.select(names, time.time())
            longest, busiest = max(longest, time.monotonic() - now), max(busiest, time.thread_time() - used)
        if (known := _known(parts)) != size.pods:
            raise RuntimeError(f"{known:,} pods are known, not {size.pods:,}")
        for each in tasks:
            each.cancel()
        return longest, busiest


def _known(parts: Parts) -> int:
    return sum(len(ledger.pods) for name in parts.cache.nodes if (ledger := parts.cache.ledger(name)))


def measure(*, quick: bool) -> Iterator[Row]:
    """One line per size."""
    for size in _SMALL if quick else _LARGE:
        with _serving(size) as url:
            longest, busiest = asyncio.run(_longest_pause(url, size))
        yield Row(
            f"longest pause of the event loop while {size.pods:,} pods and {size.nodes:,} nodes with new reports "
            "are listed, again and again",
            f"{busiest * 1000:.0f} ms of processor ({longest * 1000:.0f} ms by the clock)",
            f"<= {_BUDGET_MS} ms",
            value=busiest * 1000,
        )
