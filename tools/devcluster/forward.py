"""Carry TCP connections from this machine's loopback into a network namespace.

A script of its own (standard library only): `forward.py 127.0.0.1:PORT ADDRESS:PORT NAMESPACE-FILE`. It opens its
listening socket where it starts, then enters the namespace: new connections come from outside, go out inside.
"""

import asyncio
import contextlib
import ctypes
import os
import socket
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

CHUNK_BYTES = 1 << 16

Streams = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


def split_address(text: str) -> tuple[str, int]:
    """`127.0.0.1:80` as host and port."""
    host, _, port = text.rpartition(":")
    return host, int(port)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction to its end, then close only that direction: the other may still have something to say."""
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def carry_to(target: tuple[str, int]) -> Streams:
    """Make the handler that connects each client with the target."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # the client sees its connection closed, as without a forwarder
            inner_reader, inner_writer = await asyncio.open_connection(*target)
            try:
                await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))
            finally:
                inner_writer.close()
        writer.close()

    return carry


async def serve(listener: socket.socket, target: tuple[str, int]) -> None:
    """Forward until this process is ended."""
    server = await asyncio.start_server(carry_to(target), sock=listener)
    async with server:
        await server.serve_forever()


def enter_network(namespace: Path) -> None:
    """Move this process into a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with namespace.open("rb") as file:
        if libc.setns(file.fileno(), 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(namespace))


def main() -> None:
    """Listen outside, enter the namespace, forward."""
    address, target, namespace = sys.argv[1:]
    listener = socket.create_server(split_address(address), backlog=1024)
    enter_network(Path(namespace))
    print(f"{address} leads to {target}", flush=True)
    asyncio.run(serve(listener, split_address(target)))


if __name__ == "__main__":
    main()
