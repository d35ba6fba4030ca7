"""An API server's part for one agent, over HTTP on loopback: its Node, its pods, its NodeMetric."""

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from tools.bench.counting import CountingServer
from tools.bench.workload import CPUS, MEMORY_BYTES

NODE = "node"
VERSION = "1"

Json = dict[str, Any]


def pod(uid: str, number: int) -> Json:
    """A running pod of a Deployment."""
    amounts = {"cpu": "500m", "memory": "1Gi"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"service-{number}-6d5f8", "controller": True}
    metadata = {"namespace": "shop", "name": f"service-{number}-6d5f8-x", "uid": uid, "resourceVersion": VERSION}
    container = {"name": "main", "image": "registry.example/service:1", "resources": {"requests": amounts}}
    return {
        "metadata": {**metadata, "ownerReferences": [owner], "labels": {"pod-template-hash": "6d5f8"}},
        "spec": {"nodeName": NODE, "containers": [container]},
        "status": {"phase": "Running", "qosClass": "Burstable"},
    }


def node() -> Json:
    """The Node."""
    amounts = {"cpu": str(CPUS), "memory": str(MEMORY_BYTES)}
    metadata = {"name": NODE, "uid": NODE, "resourceVersion": VERSION}
    return {"metadata": metadata, "status": {"capacity": amounts, "allocatable": amounts}}


class _Routes:
    """Answers as an API server does; watches stay open and silent."""

    def __init__(self, pods: Sequence[Json], closing: asyncio.Event) -> None:
        self.counting = CountingServer()
        self._lists = {"pods": list(pods), "nodes": [node()]}
        self._closing = closing

    def application(self) -> web.Application:
        """The paths that an agent asks for."""
        application = web.Application()
        application.router.add_get("/api/v1/{kind:pods|nodes}", self._list)
        application.router.add_get("/apis/{rest:.*}", self._get)
        application.router.add_patch("/apis/{rest:.*}", self._patch)
        application.router.add_post("/{rest:.*}", self._post)
        return application

    async def _list(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            items = self._lists[request.match_info["kind"]]
            return web.json_response({"metadata": {"resourceVersion": VERSION}, "items": items})
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await self._closing.wait()
        return response

    async def _get(self, request: web.Request) -> web.Response:
        if "PartialObjectMetadata" in request.headers.get("Accept", ""):
            return web.json_response({"metadata": await self.counting.metadata(request.path)})
        return web.json_response(await self.counting.get(request.path))

    async def _patch(self, request: web.Request) -> web.Response:
        return web.json_response(await self.counting.patch(request.path, json.loads(await request.text())))

    async def _post(self, request: web.Request) -> web.Response:
        return web.json_response(await self.counting.post(request.path, json.loads(await request.text())), status=201)


@contextmanager
def served(pods: Sequence[Json], kubeconfig: Path) -> Iterator[CountingServer]:
    """Serve from a thread, and write a kubeconfig for it."""
    loop, started = asyncio.new_event_loop(), threading.Event()
    closing = asyncio.Event()
    routes, port = _Routes(pods, closing), [0]

    async def serve() -> None:
        runner = web.AppRunner(routes.application(), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, shutdown_timeout=0.1).start()
        port[0] = runner.addresses[0][1]
        started.set()
        await closing.wait()
        await runner.cleanup()
        await asyncio.sleep(0.01)  # closed connections let go of their sockets in the next turns of the loop

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    started.wait()
    _write(kubeconfig, f"http://127.0.0.1:{port[0]}")
    try:
        yield routes.counting
    finally:
        loop.call_soon_threadsafe(closing.set)
        thread.join()
        loop.close()


def _write(file: Path, server: str) -> None:
    entries = {"cluster": {"server": server}, "user": {"token": "x"}, "context": {"cluster": NODE, "user": NODE}}
    content: Json = {f"{kind}s": [{"name": NODE, kind: entry}] for kind, entry in entries.items()}
    file.write_text(yaml.safe_dump({"current-context": NODE, **content}))
