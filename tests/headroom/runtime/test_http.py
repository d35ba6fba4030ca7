import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from headroom.runtime.http import Limits, Served, ServerTls, serve
from headroom.runtime.http.connection import Connection
from headroom.runtime.http.pages import Pages, Reply, Request
from tools.devcluster.certs import Pki

LARGE = 2**20


class Site:
    """Pages that record their requests, and one that waits until it is released."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.entered, self.go = asyncio.Event(), asyncio.Event()

    def echo(self, request: Request) -> Reply:
        self.requests.append(request)
        return Reply.json([request.method, request.path, request.query, request.body.decode()])

    async def slow(self, _request: Request) -> Reply:
        self.entered.set()
        await self.go.wait()
        return Reply.text("slow")

    def large(self, request: Request) -> Reply:
        self.requests.append(request)
        return Reply.text("x" * LARGE)

    def broken(self, _request: Request) -> Reply:
        raise KeyError("oops")

    @property
    def pages(self) -> Pages:
        return {
            ("GET", "/echo"): self.echo,
            ("POST", "/echo"): self.echo,
            ("GET", "/below/"): self.echo,
            ("GET", "/slow"): self.slow,
            ("GET", "/large"): self.large,
            ("GET", "/broken"): self.broken,
        }


@pytest.fixture
async def site() -> Site:
    return Site()


@asynccontextmanager
async def listening(site: Site, limits: Limits | None = None, tls: ServerTls | None = None) -> AsyncIterator[Served]:
    served = await serve(site.pages, "127.0.0.1", 0, tls, limits)
    try:
        yield served
    finally:
        site.go.set()
        await served.close()


Send = Callable[[bytes], Awaitable[bytes]]


async def say(served: Served, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(data)
    try:
        async with asyncio.timeout(20):
            return await reader.read()
    finally:
        writer.close()


@pytest.fixture
async def send(site: Site) -> AsyncIterator[Send]:
    async with listening(site) as served:
        yield lambda data: say(served, data)


def _body(answer: bytes) -> list[object]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n"), head
    parsed: list[object] = json.loads(body)
    return parsed


async def test_requests_are_read(send: Send) -> None:
    """Method, path, query and body arrive decoded, chunks put together; HTTP/1.0 is answered and closed."""
    answer = await send(b"GET /below/a%20%C3%A4?verbose&x=1&x=2 HTTP/1.0\r\n\r\n")
    assert _body(answer) == ["GET", "/below/a ä", {"verbose": "", "x": "2"}, ""]
    assert b"\r\nConnection: close\r\n" in answer
    chunks = b"3\r\nabc\r\n2;note=x\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
    answer = await send(b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks)
    assert _body(answer) == ["POST", "/echo", {}, "abcde"]


async def test_connections_are_kept(send: Send) -> None:
    """Requests that come at once are answered one by one in their order, also behind one that takes its time."""
    answer = await send(
        b"GET /echo?1 HTTP/1.1\r\nHost: x\r\n\r\n"
        b"POST /echo?2 HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi"
        b"GET /echo?3 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        b"GET /echo?4 HTTP/1.1\r\nConnection: close\r\n\r\n"
        b"GET /echo?5 HTTP/1.1\r\n\r\n"
    )
    bodies = [json.loads(part.partition(b"\r\n\r\n")[2]) for part in answer.split(b"HTTP/1.1 200 OK")[1:]]
    assert [list(body[2]) for body in bodies] == [["1"], ["2"], ["3"], ["4"]]
    assert answer.count(b"Connection: keep-alive\r\n") == 1


async def test_slow_pages_keep_the_order(site: Site) -> None:
    async with listening(site) as served:
        answer = asyncio.create_task(
            say(served, b"GET /slow HTTP/1.1\r\n\r\nGET /echo HTTP/1.1\r\nConnection: close\r\n\r\n")
        )
        await site.entered.wait()
        assert not site.requests
        site.go.set()
        assert (await answer).index(b"slow") < (await answer).index(b"/echo")


async def test_head_has_no_body(send: Send) -> None:
    answer = await send(b"HEAD /echo HTTP/1.0\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert b"\r\nContent-Length: 25\r\n" in answer


async def test_continue_is_sent(send: Send) -> None:
    """A client that waits for leave to send its body gets it; with a body that is too large it gets 413 at once."""
    ask = b"POST /echo HTTP/1.1\r\nContent-Length: %d\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    answer = await send(ask % 2 + b"hi")
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert (await send(ask % 10**12)).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),  # TLS where HTTP is spoken
        (b"GET http://[ HTTP/1.1\r\n\r\n", 400),
        (b"GET /echo?" + b"a=1&" * 16 + b" HTTP/1.1\r\n\r\n", 400),  # a hundred times its text, once read
        (b"POST /echo HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"GET /nothing HTTP/1.0\r\n\r\n", 404),
        (b"DELETE /echo HTTP/1.0\r\n\r\n", 405),
        (b"GET /broken HTTP/1.0\r\n\r\n", 500),
        (b"GET /echo HTTP/1.1\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", 200),
    ],
)
async def test_malformed_requests(send: Send, request_bytes: bytes, status: int) -> None:
    """A malformed or unknown request gets its status, and the connection ends."""
    assert (await send(request_bytes)).startswith(b"HTTP/1.1 %d " % status)


async def test_sizes_are_bounded(site: Site) -> None:
    """Bodies, headers and chunk frames stay within their limits."""
    chunked = b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with listening(site, Limits(body_bytes=1000, head_bytes=500)) as served:
        for data, status in (
            (b"POST /echo HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", 413),
            (chunked + b"%x\r\n" % 1001 + b"x" * 1001, 413),
            (chunked + (b"1;" + b"e" * 200 + b"\r\nx\r\n") * 30, 413),
            (chunked + b"0\r\nTrailer: " + b"x" * 4000, 413),
            (b"GET /" + b"x" * 600, 431),
            (b"GET /echo HTTP/1.1\r\nX: " + b"x" * 600, 431),
        ):
            assert (await say(served, data)).startswith(b"HTTP/1.1 %d " % status), data[:40]
        fits = b"POST /echo HTTP/1.0\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000
        assert _body(await say(served, fits))[3] == "x" * 1000


async def test_memory_is_shared(site: Site) -> None:
    """Many large bodies at once are too much although each is allowed; the memory of a rejected one is free again."""
    async with listening(site, Limits(buffered_bytes=5000)) as served:
        unfinished = b"POST /echo HTTP/1.0\r\nContent-Length: 4000\r\n\r\n" + b"x" * 3900
        both = {asyncio.create_task(say(served, unfinished)) for _ in range(2)}
        done, waiting = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        assert [(await entry)[:12] for entry in done] == [b"HTTP/1.1 503"]
        for pod in waiting:
            pod.cancel()
        await asyncio.wait(waiting)
        async with asyncio.timeout(20):
            while served._shared.buffered:
                assert (await say(served, b"GET /echo HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")


async def test_slow_clients_are_shown_out(site: Site) -> None:
    """A request that does not end is a 408, whether its head or its body is missing."""
    async with listening(site, Limits(request_seconds=0.03, timeout_check_seconds=0.01)) as served:
        assert (await say(served, b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nab")).startswith(b"HTTP/1.1 408 ")
        assert (await say(served, b"GET /ec")).startswith(b"HTTP/1.1 408 ")


def _let_time_run_out(served: Served) -> Connection:
    """The time limit of the only connection; it is checked in a moment."""
    (connection,) = served._shared.connections
    connection.deadline = 0.0
    return connection


async def test_idle_connections_are_closed(site: Site) -> None:
    async with listening(site, Limits(idle_seconds=0.02, timeout_check_seconds=0.01)) as served:
        assert await say(served, b"") == b""
    async with listening(site, Limits(timeout_check_seconds=0.01)) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /echo HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"]")
        _let_time_run_out(served)
        assert await _is_closed(reader)
        writer.close()


async def test_slow_pages_are_not_shown_out(site: Site) -> None:
    """The time that an answer takes is ours."""
    async with listening(site, Limits(timeout_check_seconds=0.01)) as served:
        answer = asyncio.create_task(say(served, b"GET /slow HTTP/1.0\r\n\r\n"))
        await site.entered.wait()
        connection = _let_time_run_out(served)
        async with asyncio.timeout(20):
            while not connection.deadline:  # until it was checked
                await say(served, b"GET /echo HTTP/1.0\r\n\r\n")
        site.go.set()
        assert (await answer).endswith(b"slow")


async def test_quiet_connections_are_closed_first(site: Site) -> None:
    """When too many are connected, the one that was quiet longest goes; the others and the new one stay."""
    async with listening(site, Limits(connections=3)) as served:
        open_ones = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(3)]
        for reader, writer in open_ones:
            writer.write(b"GET /echo HTTP/1.1\r\n\r\n")
            await reader.readuntil(b"]")
        reader, writer = open_ones[0]  # it was quiet longest, and speaks again
        writer.write(b"GET /echo HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"]")
        assert (await say(served, b"GET /echo HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        assert await _is_closed(open_ones[1][0])
        for reader, writer in (open_ones[0], open_ones[2]):
            writer.write(b"GET /echo HTTP/1.1\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        for _, writer in open_ones:
            writer.close()


async def _is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


async def test_answers_wait_for_readers(site: Site) -> None:
    """A client that sends and does not read gets as much as fits on the way, and the rest when it reads."""
    count = 16
    async with listening(site) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1000)
        writer.write(b"GET /large HTTP/1.1\r\n\r\n" * (count - 1) + b"GET /large HTTP/1.0\r\n\r\n")
        async with asyncio.timeout(20):
            while not any(requested.path == "/large" for requested in site.requests):
                assert (await say(served, b"GET /echo HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        assert len([requested for requested in site.requests if requested.path == "/large"]) < count
        total = 0
        while data := await reader.read(2**20):
            total += len(data)
        assert total > count * LARGE
        writer.close()


async def test_pipelines_are_bounded(site: Site) -> None:
    """Of pipelined requests sixteen wait for their turn; no more is read, and one more is rejected."""
    async with listening(site) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /slow HTTP/1.1\r\n\r\n" * 16)
        await site.entered.wait()
        (connection,) = served._shared.connections
        assert connection._transport is not None
        assert not connection._transport.is_reading()
        writer.write(b"GET /echo HTTP/1.0\r\n\r\n")
        site.go.set()
        async with asyncio.timeout(20):
            assert (await reader.read()).count(b"HTTP/1.1 200 OK") == 17
        writer.close()
        answer = await say(served, b"GET /slow HTTP/1.1\r\n\r\n" * 3000)
        assert (answer.count(b"HTTP/1.1 200 OK"), answer.count(b"HTTP/1.1 503 ")) == (17, 1)


async def test_waiting_requests_are_counted(site: Site) -> None:
    """Waiting requests count as unfinished ones, and are dropped for others."""
    waiting = b"GET /slow HTTP/1.1\r\n\r\n" + b"GET /echo?%s HTTP/1.1\r\n\r\n" % (b"x" * 400) * 15
    async with listening(site, Limits(buffered_bytes=5000)) as served:
        answer = asyncio.create_task(say(served, waiting))
        await site.entered.wait()
        assert served._shared.buffered <= 5000
        site.go.set()
        assert b"HTTP/1.1 503 " in await answer
        assert served._shared.buffered == 0


async def test_close_finishes_the_present_request(site: Site) -> None:
    """Closing accepts no more connections, drops idle ones, and finishes the present request."""
    served = await serve(site.pages, "127.0.0.1", 0)
    idle, idle_writer = await asyncio.open_connection("127.0.0.1", served.port)
    idle_writer.write(b"GET /echo HTTP/1.1\r\n\r\n")
    await idle.readuntil(b"]")
    answer = asyncio.create_task(say(served, b"GET /slow HTTP/1.1\r\n\r\n"))
    await site.entered.wait()
    closing = asyncio.create_task(served.close())
    assert await idle.read() == b""
    idle_writer.close()
    with pytest.raises(OSError, match="Connect call failed"):
        await say(served, b"")
    assert not closing.done()
    site.go.set()
    assert b"\r\nConnection: close\r\n" in await answer
    await closing


async def test_close_does_not_wait_for_ever(site: Site) -> None:
    served = await serve(site.pages, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(b"GET /slow HTTP/1.1\r\n\r\n")
    await site.entered.wait()
    await served.close(grace_seconds=0.01)
    assert await _is_closed(reader)
    writer.close()


async def _ask_with_tls(port: int, context: ssl.SSLContext) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(b"GET /echo HTTP/1.0\r\n\r\n")
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_tls_is_spoken(site: Site, tmp_path: Path) -> None:
    """With a certificate HTTPS is spoken; a certificate that is renewed on disk is shown from then on."""
    old, new = Pki(tmp_path / "old"), Pki(tmp_path / "new")
    pair, renewed = old.server("server", ["127.0.0.1"]), new.server("server", ["127.0.0.1"])
    async with listening(site, Limits(timeout_check_seconds=0.01), ServerTls(pair.cert, pair.key)) as served:
        assert _body(await _ask_with_tls(served.port, ssl.create_default_context(cafile=old.ca)))[1] == "/echo"
        pair.key.write_bytes(renewed.key.read_bytes())  # half of it: the old pair stays
        assert _body(await _ask_with_tls(served.port, ssl.create_default_context(cafile=old.ca)))[1] == "/echo"
        pair.cert.write_bytes(renewed.cert.read_bytes())
        context = ssl.create_default_context(cafile=new.ca)
        async with asyncio.timeout(20):
            while True:
                try:
                    answer = await _ask_with_tls(served.port, context)
                    break
                except ssl.SSLCertVerificationError:
                    await asyncio.sleep(0.01)
        assert _body(answer)[1] == "/echo"


async def test_clients_show_certificates(site: Site, tmp_path: Path) -> None:
    """With a client CA only clients with its certificates get a response."""
    pki = Pki(tmp_path)
    pair, client = pki.server("server", ["127.0.0.1"]), pki.client("client", "kube-scheduler")
    context = ssl.create_default_context(cafile=pki.ca)
    async with listening(site, None, ServerTls(pair.cert, pair.key, pki.ca)) as served:
        with suppress(ssl.SSLError, ConnectionError):  # which of them, or an end without an answer, is TLS's to choose
            assert await _ask_with_tls(served.port, context) == b""
        assert not site.requests
        context.load_cert_chain(client.cert, client.key)
        assert _body(await _ask_with_tls(served.port, context))[1] == "/echo"


async def test_addresses_are_exclusive(site: Site) -> None:
    async with listening(site) as served:
        with pytest.raises(OSError, match="Address already in use"):
            await serve(site.pages, "127.0.0.1", served.port)
