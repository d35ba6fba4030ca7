import asyncio
import ssl
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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


@asynccontextmanager
async def socks_proxy(target: str) -> AsyncIterator[tuple[int, list[tuple[str, str, str, int]]]]:
    """A SOCKS5 proxy that leads every connection to one server; its port, and user, password, name and port of each."""
    wanted: list[tuple[str, str, str, int]] = []
    parts = urlsplit(target)

    async def text(reader: asyncio.StreamReader) -> str:
        return (await reader.readexactly((await reader.readexactly(1))[0])).decode()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while content := await reader.read(4096):
            writer.write(content)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        await text(reader)  # the ways to log in
        writer.write(b"\x05\x02")
        await reader.readexactly(1)
        user, password = await text(reader), await text(reader)
        writer.write(b"\x01\x00")
        await reader.readexactly(4)  # connect, to a name
        host, port = await text(reader), int.from_bytes(await reader.readexactly(2))
        wanted.append((user, password, host, port))
        inner_reader, inner_writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], wanted
