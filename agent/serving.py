"""The agent over HTTP: /healthz, /readyz, /livez, /metrics, and pages that others add. Knows names and texts only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from service.health import Health

JSON: Final = "application/json"
YAML: Final = "application/yaml"
_STOP_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Page:
    """One more path."""

    text: Callable[[], str]
    """Makes its content. A RuntimeError or OSError becomes 503 with its message."""
    content_type: str = "text/plain"
    """What it is."""


class HttpServer:
    """Serves them all on one port."""

    def __init__(self, metrics: Callable[[], bytes], health: Health, pages: Mapping[str, Page] | None = None) -> None:
        """Nothing is bound yet.

        Args:
            metrics: Makes what /metrics shows, in the text format.
            health: What the health pages show.
            pages: Further paths.
        """
        self._metrics = metrics
        self._health = health
        self._pages = dict(pages or {})
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen.

        Args:
            host: Address; empty for all.
            port: Port; 0 for any that is free.

        Returns:
            The port.

        Raises:
            OSError: It cannot be bound.
        """
        app = web.Application()
        app.add_routes([web.get("/healthz", self._healthz), web.get("/readyz", self._readyz)])
        app.add_routes([web.get("/livez", self._livez), web.get("/metrics", self._show_metrics)])
        app.add_routes([web.get(path, self._page) for path in self._pages])
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_STOP_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host or None, port)
        await site.start()
        addresses = self._runner.addresses
        return int(addresses[0][1]) if addresses else port

    async def stop(self) -> None:
        """Stop listening; an answer that is under way may end."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return self._told(request, ready=False)

    async def _readyz(self, request: web.Request) -> web.Response:
        return self._told(request, ready=True)

    def _told(self, request: web.Request, *, ready: bool) -> web.Response:
        well, text = self._health.answer(ready=ready, verbose="verbose" in request.query)
        return web.Response(text=text, status=200 if well else 503)

    async def _livez(self, _request: web.Request) -> web.Response:
        """200 while the program can answer: restarting it because the disk is full would lose what it remembers."""
        return web.Response(text="ok\n")

    async def _show_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _page(self, request: web.Request) -> web.Response:
        page = self._pages[request.path]
        try:
            return web.Response(text=page.text(), content_type=page.content_type)
        except (RuntimeError, OSError) as error:  # the store's
            return web.Response(text=f"{error}\n", status=503)
