"""How long a relist of 20,000 pods keeps requests waiting: `python -m bench.relist`.

An API server of our own answers on loopback, from a process of its own: real JSON, and the extender's own watch.
"""

import asyncio
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from kubeapi import ApiServer, Connection, paths
from scheduler_plugins.assembly import assemble
from scheduler_plugins.settings import parse_flags

PODS, NODES = 20_000, 500
_ENVIRONMENT: Final = [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(20)]


def _pod(number: int) -> dict[str, Any]:
    """A bound pod of some 3 KiB."""
    amounts = {"cpu": f"{100 + number % 900}m", "memory": f"{128 + number % 512}Mi"}
    containers = [{"name": "main", "image": "x", "env": _ENVIRONMENT, "resources": {"requests": amounts}}]
    name = f"p{number}"
    return {
        "metadata": {"namespace": "t", "name": name, "uid": name, "resourceVersion": "5", "labels": {"app": name}},
        "spec": {"nodeName": f"n{number % NODES}", "containers": containers},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    }


def _node(number: int) -> dict[str, Any]:
    name = f"n{number}"
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "5"},
        "status": {"allocatable": {"cpu": "96", "memory": "384Gi"}},
    }


class _Server(BaseHTTPRequestHandler):
    """Lists pods and nodes page by page; every watch ends at once with "gone", so that everything is listed again."""

    protocol_version = "HTTP/1.1"
    lists: Final = {
        paths.PODS: [_pod(each) for each in range(PODS)],
        paths.NODES: [_node(each) for each in range(NODES)],
    }

    def do_GET(self) -> None:
        """Answer."""
        url = urlsplit(self.path)
        asked = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if "watch" in asked:
            time.sleep(0.5)
            self._answer({"type": "ERROR", "object": {"code": 410}})
            return
        items, first = self.lists.get(url.path, []), int(asked.get("continue", 0))
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
def _serving() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    process = multiprocessing.get_context("fork").Process(target=server.serve_forever, daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        process.kill()


async def _longest_pause(url: str, seconds: float) -> tuple[float, float, int]:
    """The longest time in which the loop came to nothing else, from the second listing on. [s]

    Returns:
        By the clock, by the processor's time (which a busy machine does not prolong), and how many pods are known.
    """
    async with ApiServer(Connection(url, None, lambda: None), "bench") as api:
        parts = assemble(parse_flags([], {}), api)
        watching = asyncio.create_task(parts.watch.run())
        while not parts.watch.synced:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)
        end, longest, busiest = time.monotonic() + seconds, 0.0, 0.0
        while (now := time.monotonic()) < end:
            used = time.thread_time()
            await asyncio.sleep(0)
            longest, busiest = max(longest, time.monotonic() - now), max(busiest, time.thread_time() - used)
        watching.cancel()
        known = sum(len(ledger.pods) for name in parts.cache.nodes if (ledger := parts.cache.ledger(name)))
        return longest, busiest, known


def main() -> None:
    """Measure."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    with _serving() as url:
        longest, busiest, known = asyncio.run(_longest_pause(url, seconds))
    print(f"longest pause of the loop under relists of {known:,} pods: {longest * 1000:.0f} ms", end=", ")
    print(f"{busiest * 1000:.0f} ms of the processor's time")


if __name__ == "__main__":
    main()
