"""A login that is renewed while in use: tokens, certificates and authorities."""

from pathlib import Path

import pytest

from headroom.kube import ApiError, ApiServer, ApiUnavailable, connect
from tests.headroom.kube.logins import config, serving_tls, written
from tools.devcluster.certs import Pki


def _config(folder: Path, server: str, authority: Pki, token: str) -> str:
    cluster = {"server": server, "certificate-authority": str(authority.ca)}
    return written(folder, config(cluster=cluster, user={"token": token}))


@pytest.fixture
def authorities(tmp_path: Path) -> tuple[Pki, Pki]:
    return Pki(tmp_path / "before"), Pki(tmp_path / "after")


async def test_rotated_authority_is_read(tmp_path: Path, authorities: tuple[Pki, Pki]) -> None:
    """A server with a certificate of a new authority is spoken to once the kubeconfig names that authority."""
    before, after = authorities
    async with (
        serving_tls(after.server("s", ["127.0.0.1"]), {"t"}) as server,
        ApiServer(connect(_config(tmp_path, server, before, "t")), user_agent="test") as api,
    ):
        with pytest.raises(ApiUnavailable, match="its certificate is refused") as caught:
            await api.get("/version")
        assert caught.value.bad_certificate
        _config(tmp_path, server, after, "t")
        assert await api.get("/version") == {"hello": True}


async def test_new_token_is_read(tmp_path: Path, authorities: tuple[Pki, Pki]) -> None:
    """A token that expired is replaced by the one that the kubeconfig has by then."""
    authority, _ = authorities
    async with (
        serving_tls(authority.server("s", ["127.0.0.1"]), {"new"}) as server,
        ApiServer(connect(_config(tmp_path, server, authority, "old")), user_agent="test") as api,
    ):
        with pytest.raises(ApiError, match="may have expired"):
            await api.get("/version")
        _config(tmp_path, server, authority, "new")
        assert await api.get("/version") == {"hello": True}


async def test_unusable_renewal_changes_nothing(tmp_path: Path, authorities: tuple[Pki, Pki]) -> None:
    """A kubeconfig that is half written, or points to another server by now, is not taken over."""
    tokens = {"old"}
    async with serving_tls(authorities[0].server("s", ["127.0.0.1"]), tokens) as server:
        file = tmp_path / "config"
        login = connect(_config(tmp_path, server, authorities[0], "old"))
        async with ApiServer(login, user_agent="test") as api:
            tokens.clear()
            for text in ("users: [", file.read_text().replace(server, "https://elsewhere")):
                file.write_text(text)
                with pytest.raises(ApiError):
                    await api.get("/version")
                assert api.connection is login
            tokens.add("old")
            assert await api.get("/version") == {"hello": True}
