"""A stand-in for what a real kubelet cannot be made to answer on demand; its TLS is real."""

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from agent.sources.kubelet import Address
from tools.devcluster.certs import Pki

NOWHERE = ("127.0.0.1", 1)


class Kubelet:
    """What a kubelet answers; real TLS, scripted content."""

    def __init__(self) -> None:
        self.pods: list[Any] | None = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body: str | None = None
        self.tokens: list[str] = []
        self.address: Address = NOWHERE

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one request."""
        self.tokens.append(request.headers.get("Authorization", ""))
        listed: dict[str, Any] = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self.pods}
        return web.Response(text=self.body or json.dumps(listed), status=self.status, headers=self.headers)


@asynccontextmanager
async def serving(pki: Pki, names: tuple[str, ...] = ()) -> AsyncIterator[Kubelet]:
    """One on loopback, with a certificate for that address, or else for these names."""
    kubelet = Kubelet()
    pair = pki.server("kubelet", () if names else ("127.0.0.1",), names)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    app = web.Application()
    app.router.add_get("/pods", kubelet.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    kubelet.address = ("127.0.0.1", int(runner.addresses[0][1]))
    try:
        yield kubelet
    finally:
        await runner.cleanup()
