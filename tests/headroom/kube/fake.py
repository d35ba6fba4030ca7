"""A scripted server for faults that a real API server cannot show on demand.

Everything that a real one can show is tested against a real one, in test_server.py.
"""

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from headroom.kube import ApiServer, Connection

Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FakeServer:
    """Answers each request with the next reply queued for its kind; without one it keeps the client waiting."""

    def __init__(self) -> None:
        self.replies: dict[str, deque[Reply]] = defaultdict(deque)
        self.requests: list[web.Request] = []
        self.bodies: list[Any] = []
        self.texts: list[str] = []
        self._closing = asyncio.Event()

    def add(self, kind: str, *replies: Reply) -> None:
        """Queue replies for a kind of request: list, watch, or the HTTP method of anything else."""
        self.replies[kind].extend(replies)

    def queries(self, kind: str) -> list[dict[str, str]]:
        return [dict(request.query) for request in self.requests if self._kind(request) == kind]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        text = await request.text()
        self.texts.append(text)
        self.bodies.append(json.loads(text) if text else None)
        queue = self.replies[self._kind(request)]
        if not queue:
            await self._closing.wait()
            return web.Response(status=503)
        return await queue.popleft()(request)

    def close(self) -> None:
        self._closing.set()

    @staticmethod
    def _kind(request: web.Request) -> str:
        if request.method != "GET":
            return request.method
        return "watch" if "watch" in request.query else "list"


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[FakeServer, ApiServer]]:
    fake = FakeServer()
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", fake.handle)
    async with TestServer(app) as server:
        try:
            async with ApiServer(connection(str(server.make_url("")).rstrip("/")), user_agent="test") as api:
                yield fake, api
        finally:
            fake.close()


Fake = tuple[FakeServer, ApiServer]


def connection(server: str, token: str | None = None) -> Connection:
    return Connection(server=server, tls=None, authorization=lambda: token)


def answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Reply:  # noqa: ANN401
    """A JSON answer; a str is sent unchanged."""

    async def reply(_request: web.Request) -> web.StreamResponse:
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(text=text, status=status, headers=headers, content_type="application/json")

    return reply


def listed(version: str, *names: str, proceed: str = "") -> Reply:
    metadata = {"resourceVersion": version, **({"continue": proceed} if proceed else {})}
    return answer({"metadata": metadata, "items": [item(name) for name in names]})


def refused(status: int, reason: str = "", message: str = "no", **headers: str) -> Reply:
    return answer({"kind": "Status", "code": status, "reason": reason, "message": message}, status, headers)


def streamed(*chunks: bytes, cut: bool = False) -> Reply:
    """A watch that sends these bytes and then ends, properly or by cutting the connection."""

    async def reply(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0)
        if cut and request.transport is not None:
            await asyncio.sleep(0.01)
            request.transport.close()
        return response

    return reply


def item(name: str, version: str = "1", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"metadata": {"name": name, "resourceVersion": version}, **more}


def event(kind: str, name: str, version: str, **more: Any) -> bytes:  # noqa: ANN401
    return json.dumps({"type": kind, "object": item(name, version, **more)}).encode() + b"\n"


def error_event(code: int) -> bytes:
    return json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": code}}).encode() + b"\n"
