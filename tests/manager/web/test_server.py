import asyncio
import socket
from typing import Any

import pytest

from headroom.kube import ApiError, ApiServer, ApiUnavailable
from manager.http import ListenError
from manager.settings import load
from manager.web.explanation import NodeMetrics, NotRead
from manager.web.server import UiServer, is_loopback
from tests.agent.process import get
from tests.manager.web.made_cluster import typical
from tests.support.objects import Json


class _Api(ApiServer):
    def __init__(self, answer: Json | Exception) -> None:
        self._answer_with = answer

    async def get(self, path: str, params: Any = None) -> Json:  # noqa: ANN401, ARG002
        if isinstance(self._answer_with, Exception):
            raise self._answer_with
        return {**self._answer_with, "path": path}


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
    metrics, loop = NodeMetrics(), asyncio.get_running_loop()
    metrics.attach(_Api({"kind": "NodeMetric"}), loop)
    result = await asyncio.to_thread(metrics.read, "n1")
    assert result is not None
    assert result["path"].endswith("/nodemetrics/n1")
    metrics.attach(_Api(ApiError(404, "NotFound", "none")), loop)
    assert await asyncio.to_thread(metrics.read, "n1") is None


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ApiError(403, "Forbidden", "may not"), "may not"),
        (ApiUnavailable("away"), "away"),
        (RuntimeError("Session is closed"), "the API server does not answer"),
    ],
)
async def test_failures_are_one_sentence(error: Exception, why: str) -> None:
    metrics = NodeMetrics()
    metrics.attach(_Api(error), asyncio.get_running_loop())
    with pytest.raises(NotRead, match=why):
        await asyncio.to_thread(metrics.read, "n1")


def test_without_a_session_nothing_hangs() -> None:
    metrics, loop = NodeMetrics(), asyncio.new_event_loop()
    with pytest.raises(NotRead, match="no session"):
        metrics.read("n1")
    loop.close()
    metrics.attach(_Api({}), loop)
    with pytest.raises(NotRead, match="no session"):
        metrics.read("n1")
