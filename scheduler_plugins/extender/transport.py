"""HTTP for pages: one listener, with or without TLS."""

import inspect
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web

from scheduler_plugins.extender.http import Pages, Request

BODY_LIMIT: Final = 32 * 2**20
"""Largest body that is read. 5,000 full Node objects have about half of it. [bytes]"""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """What a listener with TLS needs; PEM files."""

    certificate: Path
    """The certificate, and those that vouch for it."""
    key: Path
    """Its private key."""
    client_ca: Path | None = None
    """Who vouches for clients; None: anybody may connect."""


class Served:
    """A listener."""

    def __init__(self, runner: web.AppRunner) -> None:
        self._runner = runner

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Listen no more, answer what is under way, and close all connections."""
        await self._runner.cleanup()


async def serve(pages: Pages, host: str, port: int, tls: ServerTls | None = None) -> Served:
    """Answer for these pages from now on.

    Args:
        pages: what is answered.
        host: address to listen on; "" for all.
        port: port to listen on; 0 for any that is free.
        tls: certificates; None: plain HTTP.

    Raises:
        OSError: the address cannot be listened on, or a file cannot be read.
        ssl.SSLError: a file holds no certificate or key.
    """

    async def answer(request: web.Request) -> web.Response:
        query = dict(request.query)
        page = pages[request.method, request.path]
        made = page(Request(request.method, request.path, query, await request.read()))
        reply = await made if inspect.isawaitable(made) else made
        return web.Response(body=reply.body, status=reply.status, headers={"Content-Type": reply.content_type})

    app = web.Application(client_max_size=BODY_LIMIT)
    for method, path in pages:
        app.router.add_route(method, path, answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    context = None
    if tls is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tls.client_ca)
        context.load_cert_chain(tls.certificate, tls.key)
    try:
        await web.TCPSite(runner, host or None, port, ssl_context=context).start()
    except OSError:
        await runner.cleanup()
        raise
    return Served(runner)
