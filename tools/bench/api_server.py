"""The part of an API server that one program needs, on loopback; it may stream pods as large as Kubernetes allows."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tools.bench.large_pods_kinds import KINDS, NODES, QUOTA, template

SETTLE_SECONDS: Final = 1.5  # how long a program has, after its watches began, to read all else. [s]
_OBJECTS: Final = {"nodes": NODES, "elasticquotas": [QUOTA]}
_LISTED: Final = ("pods", "nodemetrics", "configmaps", "namespaces", "poddisruptionbudgets", *_OBJECTS)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """A program with one kind of pod."""

    component: str
    mode: str  # "watch" or "list": how the pods reach it
    placement: str  # a key of PLACEMENTS
    kind: str  # a key of KINDS, "plain", or "mixed": each pod of the next kind
    pods: int

    def name(self) -> str:
        """Return the run's name in a table."""
        return f"{self.component}, {self.mode}, {self.placement}, {self.kind}, {self.pods:,} pods"

    def objects(self) -> Callable[[int], bytes]:
        """Return the JSON of a pod by its number."""
        kinds = list(KINDS) if self.kind == "mixed" else [self.kind]
        made = {kind: template(kind, self.placement) for kind in kinds}

        def pod(number: int) -> bytes:
            node = 0 if self.component == "agent" else number % len(NODES)
            return made[kinds[number % len(kinds)]].replace(b"@", b"%08x" % number).replace(b"~", b"%02d" % node)

        return pod


class Server:
    """Lists and watches; the pods are streamed once."""

    def __init__(self, run: Run) -> None:
        self._run, self._object = run, run.objects()
        self.began = 0.0  # when the first pod was sent [s since 1970]
        self.sent = 0  # pods of the watch
        self.fed = asyncio.Event()  # set once all pods were sent, or the program cut their watch

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer any request."""
        name = request.path.rpartition("/")[2]
        if request.method != "GET":
            body = json.loads(await request.read() or b"{}")
            return web.json_response(body | {"metadata": body.get("metadata", {}) | {"uid": "x"}})
        if name in _LISTED and "watch" in request.query:
            try:
                return await self._watch(request, name)
            except ConnectionResetError:  # the program begins another watch, or has ended
                if name == "pods":
                    self.fed.set()
                return web.Response()
        if name == "pods" and self._run.mode == "list":
            return await self._pods(request)
        if name in _LISTED:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": _OBJECTS.get(name, [])})
        verbs = ["get", "list", "watch", "patch"]
        kinds = [
            {"name": entry, "singularName": entry, "kind": entry, "namespaced": entry == "configmaps", "verbs": verbs}
            for entry in _LISTED
        ]
        responses: Json = {"/version": {}, "/api": {"versions": ["v1"]}, "/apis": {"groups": []}}
        responses["/api/v1"] = {"groupVersion": "v1", "resources": kinds}
        if "/nodemetrics/" in request.path:
            responses[request.path] = {"metadata": {"name": name, "uid": "1", "generation": 1}, "spec": {}}
        result = responses.get(request.path)
        return web.json_response(result or {"reason": "NotFound"}, status=200 if result is not None else 404)

    async def _watch(self, request: web.Request, name: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if name == "pods" and self._run.mode == "watch" and not self.began:
            await asyncio.sleep(SETTLE_SECONDS)  # the program has read all else
            self.began = time.time()
            for number in range(self._run.pods):
                await response.write(b'{"type":"ADDED","object":' + self._object(number) + b"}\n")
                self.sent = number + 1
            self.fed.set()
        mark = {"kind": "Bookmark", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
        while True:
            await response.write(json.dumps({"type": "BOOKMARK", "object": mark}).encode() + b"\n")
            await asyncio.sleep(20)

    async def _pods(self, request: web.Request) -> web.StreamResponse:
        self.began = self.began or time.time()
        first = int(request.query.get("continue", 0))
        last = min(first + int(request.query.get("limit", self._run.pods)), self._run.pods)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        metadata = {"resourceVersion": "1", **({"continue": str(last)} if last < self._run.pods else {})}
        await response.write(b'{"metadata":' + json.dumps(metadata).encode() + b',"items":[')
        for number in range(first, last):
            await response.write((b"," if number > first else b"") + self._object(number))
        await response.write(b"]}")
        self.sent = last
        if last == self._run.pods:
            self.fed.set()
        return response


@asynccontextmanager
async def served(server: Server, folder: Path) -> AsyncIterator[None]:
    """Serve, and write a kubeconfig into a folder."""
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", server.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    entries = {"cluster": {"server": url}, "user": {"token": "x"}, "context": {"cluster": "c", "user": "c"}}
    content: Json = {f"{kind}s": [{"name": "c", kind: entry}] for kind, entry in entries.items()}
    (folder / "kubeconfig").write_text(json.dumps({"current-context": "c", **content}))
    try:
        yield
    finally:
        await runner.cleanup()
