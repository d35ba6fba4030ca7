import ssl
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from tools.devcluster.certs import KeyPair


def config(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """A kubeconfig; `cluster` and `top` add to the cluster and to the whole, `user` replaces the user."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/", **changes.get("cluster", {})}}],
        "users": [{"name": "u", "user": changes.get("user", {"token": "t"})}],
        **changes.get("top", {}),
    }


def written(folder: Path, content: object, name: str = "config") -> str:
    file = folder / name
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(file)


@asynccontextmanager
async def serving_tls(
    pair: KeyPair, tokens: Collection[str] | None = None, client_authority: Path | None = None
) -> AsyncIterator[str]:
    """A server on loopback that shows a certificate; it accepts these tokens alone, and clients of this authority."""

    async def hello(request: web.Request) -> web.Response:
        is_valid = tokens is None or request.headers.get("Authorization", "").removeprefix("Bearer ") in tokens
        return web.json_response({"hello": True}, status=200 if is_valid else 401)

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_authority)
    context.load_cert_chain(pair.cert, pair.key)
    if client_authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    app = web.Application()
    app.router.add_get("/version", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
