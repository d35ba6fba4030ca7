"""Clients on loopback that mean no good: many, slow, and never finished. Bounded in number, and gone with the block."""

import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

UNFINISHED: Final = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Padding: " + b"x" * 7000
"""Headers that never end, shorter than any limit on them."""


@contextmanager
def strangers(port: int, count: int, said: bytes = UNFINISHED) -> Iterator[list[socket.socket]]:
    """So many connections that say this, and neither go on nor read; one that was shown out meanwhile is no error."""
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            each = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            try:
                each.sendall(said)
            except ConnectionError:
                continue
            found.append(each)
        yield found


def still_open(connections: list[socket.socket]) -> int:
    """How many have not been closed by the other side."""
    with selectors.DefaultSelector() as selector:
        for each in connections:
            selector.register(each, selectors.EVENT_READ)
        ended = 0
        for key, _ in selector.select(0):
            try:
                ended += not key.fileobj.recv(1, socket.MSG_PEEK)  # type: ignore[union-attr]
            except ConnectionError:
                ended += 1
        return len(connections) - ended
