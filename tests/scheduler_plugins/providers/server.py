"""A small HTTP server for tests of providers: it responds by path, and records its requests."""

import inspect
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

NOW: Final = 1_735_689_600.0  # 2025-01-01T00:00:00Z. [unix s]

Answer = Callable[[web.Request], Any]  # returns JSON, or a complete response


@dataclass
class Requests:
    url: str = ""  # address of the server
    requests: list[tuple[str, Mapping[str, str], Mapping[str, str]]] = field(default_factory=list)
    """Path, parameters and headers of each request so far."""

    def params(self, path: str) -> list[Mapping[str, str]]:
        return [params for requested, params, _ in self.requests if requested == path]


@asynccontextmanager
async def answering(pages: Mapping[str, Answer], tls: ssl.SSLContext | None = None) -> AsyncIterator[Requests]:
    record = Requests()

    async def handle(request: web.Request) -> web.StreamResponse:
        record.requests.append((request.path, dict(request.query), dict(request.headers)))
        page = pages.get(request.path)
        if page is None:
            return web.Response(status=404, text="404 page not found")
        made = page(request)
        if inspect.isawaitable(made):
            made = await made
        return made if isinstance(made, web.StreamResponse) else web.json_response(made)

    app = web.Application()
    app.router.add_get("/{anything:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    record.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield record
    finally:
        await runner.cleanup()
