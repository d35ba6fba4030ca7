"""A login that changes while it is in use: tokens, certificates and authorities that somebody else renews."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from headroom.kube import ApiError, ApiServer, ApiUnavailable, connect
from tools.devcluster.certs import KeyPair, Pki


@asynccontextmanager
async def _serving(pair: KeyPair, tokens: set[str]) -> AsyncIterator[str]:
    """A server on loopback that shows a certificate and knows some tokens."""

    async def hello(request: web.Request) -> web.Response:
        known = request.headers.get("Authorization", "").removeprefix("Bearer ") in tokens
        return web.json_response({"hello": True}, status=200 if known else 401)

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    app = web.Application()
    app.router.add_get("/version", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _write(file: Path, server: str, authority: Path, token: str) -> str:
    config: dict[str, Any] = {
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "u", "user": {"token": token}}],
    }
    file.write_text(yaml.safe_dump(config))
    return str(file)


@pytest.fixture
def authorities(tmp_path: Path) -> tuple[Pki, Pki]:
    """The authority of before and the one of after its rotation."""
    return Pki(tmp_path / "before"), Pki(tmp_path / "after")


async def test_rotated_authority_is_read(tmp_path: Path, authorities: tuple[Pki, Pki]) -> None:
    """A server with a certificate of a new authority is spoken to once the kubeconfig names that authority."""
    before, after = authorities
    async with _serving(after.server("s", ["127.0.0.1"]), {"t"}) as server:
        file = tmp_path / "config"
        async with ApiServer(connect(_write(file, server, before.ca, "t")), user_agent="test") as api:
            with pytest.raises(ApiUnavailable, match="its certificate is refused") as caught:
                await api.get("/version")
            assert caught.value.bad_certificate
            _write(file, server, after.ca, "t")
            assert await api.get("/version") == {"hello": True}


async def test_new_token_is_read(tmp_path: Path, authorities: tuple[Pki, Pki]) -> None:
    """A token that expired is replaced by the one that the kubeconfig has by then."""
    async with _serving(authorities[0].server("s", ["127.0.0.1"]), {"new"}) as server:
        file = tmp_path / "config"
        async with ApiServer(connect(_write(file, server, authorities[0].ca, "old")), user_agent="test") as api:
            with pytest.raises(ApiError, match="may have expired"):
                await api.get("/version")
            _write(file, server, authorities[0].ca, "new")
            assert await api.get("/version") == {"hello": True}


async def test_unusable_renewal_changes_nothing(tmp_path: Path, authorities: tuple[Pki, Pki]) -> None:
    """A kubeconfig that is half written, or points to another server by now, is not taken over."""
    known = {"old"}
    async with _serving(authorities[0].server("s", ["127.0.0.1"]), known) as server:
        file = tmp_path / "config"
        login = connect(_write(file, server, authorities[0].ca, "old"))
        async with ApiServer(login, user_agent="test") as api:
            known.clear()
            for text in ("users: [", file.read_text().replace(server, "https://elsewhere")):
                file.write_text(text)
                with pytest.raises(ApiError):
                    await api.get("/version")
                assert api.connection is login
            known.add("old")
            assert await api.get("/version") == {"hello": True}
