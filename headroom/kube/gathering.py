"""Changes of a stream that gather in the kernel, so that this process reads many at a time.

Between two reads other processes use the CPU, so each one starts with cold caches.
"""

import asyncio
import socket
from asyncio.trsock import TransportSocket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_MANY: Final = 8  # with fewer lines in the time of a wait none begins: CPU is not scarce, and each is read at once
_ENOUGH_BYTES: Final = 64 * 1024  # a stream with so many is read at once


def at_once() -> float:
    """Return no time: nothing waits. [s]"""
    return 0.0


class Gathering:
    """Lets the bytes of one TCP connection wait for others while many lines come.

    With SO_RCVLOWAT (socket(7)) the kernel reports a socket as readable once it has so many bytes, or has ended. Where
    a kernel does not know that option, nothing waits.

    Args:
        seconds: called before each wait: its longest time; 0: there is none. [s]
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._waits = False
        self._lines, self._until = 0, 0.0  # how many came in the present period, and when that ends [s, loop's clock]

    def begin(self, transport: asyncio.BaseTransport | None, lines: int) -> None:
        """Let the next bytes wait if many lines have come, unless a wait has begun already.

        Args:
            transport: of the connection; None: it is closed.
            lines: how many were read just now.
        """
        if self._waits or not (seconds := self._seconds()):
            return
        loop = asyncio.get_running_loop()
        if (now := loop.time()) >= self._until:
            self._lines, self._until = 0, now + seconds
        self._lines += lines
        link = None if transport is None or self._lines < _MANY else transport.get_extra_info("socket")
        if link is None:
            return
        self._waits = True
        _report_at(link, _ENOUGH_BYTES)
        # It is not cancelled when the stream ends: the connection may serve another request, which must not wait.
        loop.call_later(seconds, self._end, link)

    def _end(self, link: TransportSocket) -> None:
        self._waits = False
        _report_at(link, 1)


def _report_at(link: TransportSocket, count: int) -> None:
    """Let the kernel report the socket once it has so many bytes."""
    with suppress(OSError):  # it is closed, or the kernel does not know the option
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
