"""A client costs a service a bounded amount: connections, threads and memory are counted."""

import asyncio
import gc
import socket
import ssl
import threading
import tracemalloc
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agent.health import pages as agent_pages
from agent.metrics import Metrics
from headroom.runtime import http
from headroom.runtime.health import Health
from manager.health import Progress
from manager.http import HttpServer, ListenError
from manager.metrics import ManagerMetrics, MetricsServer
from manager.web.server import UiServer
from tests.manager.web.made_cluster import typical
from tools.devcluster.certs import Pki
from tools.soak.hostile_clients import ENDLESS, UNFINISHED, hostile_clients, still_open

MANY = 600
MIB = 2**20


def _get(port: int, path: str = "/metrics") -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        body: bytes = answer.read()
        return body


def _opened(served: http.Served, count: int, said: bytes) -> tuple[int, int, bytes]:
    """Open so many unfinished requests; return added threads, remaining connections, and the service's response."""
    threads = threading.active_count()
    with hostile_clients(served.port, count, said):
        page = _get(served.port)
        return threading.active_count() - threads, len(served._shared.connections), page


@asynccontextmanager
async def _agent() -> AsyncIterator[http.Served]:
    served = await http.serve(agent_pages(Metrics().render, Health()), "127.0.0.1", 0, None, http.OPEN)
    yield served
    await served.close(0)


@pytest.mark.long
@pytest.mark.parametrize(("said", "count"), [(UNFINISHED, MANY), (ENDLESS, 300)], ids=["short", "endless"])
async def test_agent_survives_unfinished_headers(said: bytes, count: int) -> None:
    """Hundreds of requests that never end cost the agent a few MiB, no thread, and Prometheus nothing."""
    async with _agent() as served:
        await asyncio.to_thread(_get, served.port)  # made once
        gc.collect()
        tracemalloc.start()
        threads, stayed, page = await asyncio.to_thread(_opened, served, count, said)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert b"headroom_agent_samples_total" in page
    assert stayed <= http.OPEN.connections
    assert threads <= 1  # the requesting one
    assert peak < 24 * MIB


@pytest.mark.long
@pytest.mark.parametrize(
    ("made", "path"),
    [
        (lambda: MetricsServer("127.0.0.1:0", ManagerMetrics(), Progress().health), "/metrics"),
        (lambda: UiServer("127.0.0.1:0", typical().context), "/ui"),
    ],
    ids=["metrics", "page"],
)
def test_manager_survives_unfinished_headers(made: Callable[[], HttpServer], path: str) -> None:
    """The manager's listeners have one thread each, however many connect, and go on answering."""
    server = made()
    server.start()
    try:
        _get(server.port, path)
        threads = threading.active_count()
        with hostile_clients(server.port, MANY) as result:
            assert _get(server.port, path)
            assert threading.active_count() - threads <= 8  # those that pages are made in: as many for any number
            assert still_open(result) <= http.OPEN.connections
    finally:
        server.stop()


async def test_unfinished_handshakes_are_closed_first(tmp_path: Path) -> None:
    """Connections that never finish TLS are bounded, too, and do not keep clients out."""
    pki = Pki(tmp_path)
    pair = pki.server("server", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    door = http.bind("127.0.0.1", 0, handshakes=40)
    served = await http.listen(agent_pages(Metrics().render, Health()), door, context, http.OPEN)
    trusted = ssl.create_default_context(cafile=pki.ca)

    def attack() -> tuple[int, bytes]:
        livez = f"https://127.0.0.1:{served.port}/livez"
        with (
            hostile_clients(served.port, 300, b"\x16\x03\x01") as result,
            urllib.request.urlopen(livez, timeout=60, context=trusted) as page,
        ):
            return still_open(result), page.read()

    stayed, page = await asyncio.to_thread(attack)
    await served.close(0)
    assert page == b"ok\n"
    assert stayed <= 40


@pytest.mark.long
async def test_unread_replies_are_bounded() -> None:
    """Clients that ask for much and do not read hold so much together; then the one that was quiet longest goes."""
    large = 8 * MIB  # more than the clients' own kernel takes for them
    limits = replace(http.OPEN, unsent_bytes=8 * large)
    pages: http.Pages = {("GET", "/metrics"): lambda _: http.Reply.text("x" * large)}
    served = await http.serve(pages, "127.0.0.1", 0, None, limits)
    held: list[int] = []

    def attack() -> bytes:
        with hostile_clients(served.port, 60, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") as result:
            assert len(result) > 50
            page = _get(served.port)
            held.append(sum(connection.unsent for connection in served._shared.connections))
            return page

    assert len(await asyncio.to_thread(attack)) == large
    await served.close(0)
    assert 0 < held[0] <= 9 * large


async def test_metrics_take_a_share_of_the_time() -> None:
    """Concurrent requests share one new text; no client gets a text older than its request."""
    made = 0

    def text() -> bytes:
        nonlocal made
        made += 1
        return b"%d" % made

    page, request = http.MetricsPage(text), http.Request("GET", "/metrics")
    assert {reply.body for reply in await asyncio.gather(*(page(request) for _ in range(100)))} == {b"1"}
    assert (await page(request)).body == b"2"
    leaver = asyncio.create_task(page(request))
    await asyncio.sleep(0)
    stays = asyncio.create_task(page(request))
    leaver.cancel()
    assert (await stays).body == b"3"


async def test_refusals_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with _agent() as served:
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(b"nonsense\r\n\r\n")
            assert b"400" in await reader.readline()
            writer.close()
    assert caplog.text.count("A request was refused") == 1


def test_taken_address_is_an_error() -> None:
    """An address in use is reported by name where it is bound or listened on."""
    choose = pytest.raises(ListenError, match="in use; choose a free address")
    with socket.create_server(("127.0.0.1", 0)) as other, choose:
        HttpServer(f"127.0.0.1:{other.getsockname()[1]}", {})
