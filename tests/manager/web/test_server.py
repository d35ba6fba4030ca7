import asyncio
import socket
from typing import Any

import pytest

from headroom.kube import ApiError, ApiServer, ApiUnavailable
from manager.http import ListenError
from manager.settings import load
from manager.web.api_reader import ApiReader, NotRead
from manager.web.server import UiServer, is_loopback
from tests.agent.process import get
from tests.manager.web.made_cluster import typical
from tests.support.objects import Json


class _Api(ApiServer):
    def __init__(self, answer: Json | Exception) -> None:
        self._answer_with = answer

    async def get(self, path: str, params: Any = None) -> Json:  # noqa: ANN401
        if isinstance(self._answer_with, Exception):
            raise self._answer_with
        return {**self._answer_with, "path": path, "params": params}


def _get(port: int, path: str) -> int:
    return get(f"http://127.0.0.1:{port}{path}")[0]


def test_it_listens() -> None:
    """It serves on an address of its own until it is stopped; responses name no version of Python or the library."""
    server = UiServer("127.0.0.1:0", typical().context)
    server.start()
    try:
        assert [_get(server.port, path) for path in ("/ui", "/ui/static/page.js", "/metrics")] == [200, 200, 404]
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(b"GET /ui HTTP/1.0\r\n\r\n")
            head = connection.makefile("rb").read().partition(b"\r\n\r\n")[0]
    finally:
        server.stop()
    assert head.startswith(b"HTTP/1.")
    assert b"Python" not in head
    assert b"\r\nServer:" not in head
    with pytest.raises(OSError, match="refused"):
        _get(server.port, "/ui")


def test_one_that_never_started_gives_the_port_back() -> None:
    first = UiServer("127.0.0.1:0", typical().context)
    first.stop()
    UiServer(f"127.0.0.1:{first.port}", typical().context).stop()


@pytest.mark.parametrize(
    ("address", "loopback"),
    [("127.0.0.1:1", True), ("localhost:1", True), ("[::1]:1", True), (":1", False), ("0.0.0.0:1", False)],
)
def test_loopback_is_known(address: str, loopback: bool) -> None:  # noqa: FBT001 - a row
    assert is_loopback(address) is loopback


def test_wrong_address_names_the_flag() -> None:
    assert load([]).ui_listen == ""
    assert load(["--ui-listen=127.0.0.1:8081"]).ui_listen == "127.0.0.1:8081"
    with pytest.raises(ListenError, match="--ui-listen 'nowhere'"):
        UiServer("nowhere", typical().context)


async def test_node_metrics_are_read() -> None:
    reader, loop = ApiReader(), asyncio.get_running_loop()
    reader.attach(_Api({"kind": "NodeMetric"}), loop)
    result = await asyncio.to_thread(reader.node_metric, "n1")
    assert result is not None
    assert result["path"].endswith("/nodemetrics/n1")
    reader.attach(_Api(ApiError(404, "NotFound", "none")), loop)
    assert await asyncio.to_thread(reader.node_metric, "n1") is None


async def test_unbound_pods_are_read_twice_a_minute() -> None:
    """A list serves all readers for 30 seconds; it contains pods without a node, at most 500."""
    now = [0.0]
    reader, loop = ApiReader(lambda: now[0]), asyncio.get_running_loop()
    reader.attach(_Api({"kind": "PodList"}), loop)
    first = await asyncio.to_thread(reader.unbound_pods)
    assert first["params"] == {"fieldSelector": "spec.nodeName=,status.phase=Pending", "limit": "500"}
    now[0] = 30.0
    assert await asyncio.to_thread(reader.unbound_pods) is first
    now[0] = 31.0
    assert await asyncio.to_thread(reader.unbound_pods) is not first


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ApiError(403, "Forbidden", "may not"), "may not"),
        (ApiUnavailable("away"), "away"),
        (RuntimeError("Session is closed"), "the API server does not answer"),
    ],
)
async def test_failures_are_one_sentence(error: Exception, why: str) -> None:
    reader = ApiReader()
    reader.attach(_Api(error), asyncio.get_running_loop())
    with pytest.raises(NotRead, match=why):
        await asyncio.to_thread(reader.node_metric, "n1")


def test_without_a_session_nothing_hangs() -> None:
    reader, loop = ApiReader(), asyncio.new_event_loop()
    with pytest.raises(NotRead, match="no session"):
        reader.node_metric("n1")
    loop.close()
    reader.attach(_Api({}), loop)
    with pytest.raises(NotRead, match="no session"):
        reader.node_metric("n1")
