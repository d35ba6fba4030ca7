"""The forwarder carries bytes both ways, and the end of each direction by itself."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tools.devcluster import forward

BODY = b"x" * 3_000_000


async def _answer_after_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    body = await reader.read()
    writer.write(b"%d bytes" % len(body))
    writer.close()


@asynccontextmanager
async def _forwarder(target: tuple[str, int]) -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    task = asyncio.create_task(forward.serve(listener, target))
    yield listener.getsockname()[1]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_half_close_is_carried() -> None:
    """A client that has said all it has to say still gets the answer."""
    server = await asyncio.start_server(_answer_after_end, "127.0.0.1", 0)
    async with server, _forwarder(server.sockets[0].getsockname()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(BODY)
        writer.write_eof()
        assert await reader.read() == b"%d bytes" % len(BODY)
        writer.close()
        await writer.wait_closed()


async def test_refusal_closes_connection() -> None:
    """When nobody listens at the target, the client's connection ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        target = free.getsockname()
    async with _forwarder(target) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


def test_address_is_split() -> None:
    """Host and port of an address."""
    assert forward.split_address("127.0.0.1:80") == ("127.0.0.1", 80)
