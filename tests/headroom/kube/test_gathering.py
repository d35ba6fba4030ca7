"""Bytes of a stream that wait for others in the kernel."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from headroom.kube.gathering import Gathering
from tests.headroom.kube.fake import Fake, Reply, answer

PATH = "/api/v1/pods"
LONG = 3600.0
LARGE = 200_000
LINE = b"{}\n"
MANY = LINE * 8


class Script:
    """A stream of which the test sends each part."""

    def __init__(self, *, cut: bool = False) -> None:
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._cut = cut

    def send(self, part: bytes | None) -> None:
        """Send these bytes; None: the stream ends."""
        self._parts.put_nowait(part)

    def reply(self) -> Reply:
        async def reply(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            while (part := await self._parts.get()) is not None:
                await response.write(part)
            if self._cut and request.transport is not None:
                request.transport.close()
            return response

        return reply


@asynccontextmanager
async def _stream(
    fake: Fake, script: Script, seconds: float, first: bytes = MANY
) -> AsyncIterator[Callable[[], "asyncio.Future[bytes]"]]:
    """A stream after its first bytes; a call returns its next ones."""
    server, api = fake
    server.add("watch", script.reply())
    async with asyncio.timeout(30), api.stream(PATH, {"watch": "true"}, 60, lambda: seconds) as chunks:
        script.send(first)
        assert await anext(chunks) == first
        yield lambda: asyncio.ensure_future(anext(chunks))
    script.send(None)


async def test_many_bytes_end_the_wait(fake: Fake) -> None:
    script = Script()
    async with _stream(fake, script, LONG) as more:
        coming = more()
        script.send(b"2")
        await asyncio.sleep(0.05)
        script.send(b"x" * LARGE)
        assert (await coming).startswith(b"2xxx")


async def test_few_lines_are_read_at_once(fake: Fake) -> None:
    script = Script()
    async with _stream(fake, script, LONG, LINE) as more:
        for _ in range(7):
            script.send(LINE)
            assert await more() == LINE
        coming = more()
        script.send(LINE)
        await asyncio.sleep(0.05)
        assert not coming.done()
        script.send(b"x" * LARGE)
        assert (await coming).startswith(LINE + b"xxx")


async def test_nothing_waits_without_a_time(fake: Fake) -> None:
    script = Script()
    async with _stream(fake, script, 0.0) as more:
        script.send(b"2")
        assert await more() == b"2"


async def test_time_ends_each_wait(fake: Fake) -> None:
    script = Script()
    async with _stream(fake, script, 0.01) as more:
        for part in (MANY, MANY + b"3", MANY + b"4"):
            script.send(part)
            assert await more() == part


async def test_end_of_the_connection_ends_the_wait(fake: Fake) -> None:
    script = Script(cut=True)
    async with _stream(fake, script, LONG) as more:
        coming = more()
        script.send(b"2")
        script.send(None)
        assert await coming == b"2"


async def test_connection_serves_the_next_request(fake: Fake) -> None:
    server, api = fake
    script = Script()
    async with _stream(fake, script, 0.01) as more:
        script.send(None)
        await asyncio.wait([more()])
    server.add("list", answer({"metadata": {"resourceVersion": "1"}, "items": []}))
    async with asyncio.timeout(30):
        assert await api.list(PATH) == ([], "1")


async def test_closed_connection_is_left_alone() -> None:
    """The stream reports its end itself."""
    here, there = socket.socketpair()
    there.close()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=here)
    gathering = Gathering(lambda: 0.01)
    transport.abort()
    await asyncio.sleep(0.02)
    gathering.begin(transport, 8)
    gathering.begin(None, 8)


async def test_lines_are_counted_anew_after_a_while() -> None:
    here, there = socket.socketpair()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=here)
    seconds = iter((0.01, LONG, LONG))
    gathering = Gathering(lambda: next(seconds))
    least = []
    gathering.begin(transport, 7)
    await asyncio.sleep(0.02)
    for lines in (7, 1):
        gathering.begin(transport, lines)
        least.append(here.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT))
    assert least == [1, 64 * 1024]
    transport.close()
    there.close()
