"""A listening socket whose clients cannot fill it by beginning TLS and never getting to HTTP."""

import asyncio
import socket
import weakref
from contextlib import suppress
from typing import Any


class TlsSocket(socket.socket):
    """Lets in whoever comes; when too many are in that have not said who they are, it shows the first of them out.

    If a full house turned people away, those who say nothing would keep all others out for ever.
    """

    def __init__(self, family: int, strangers: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._most = strangers
        self._strangers: dict[int, weakref.ref[socket.socket]] = {}

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection and its address."""
        connection, address = super().accept()
        known = {number: each for number, each in self._strangers.items() if _is_open(each(), number)}
        for number in [*known][: max(len(known) - self._most + 1, 0)]:
            stranger = known.pop(number)()
            if stranger is not None:
                with suppress(OSError):  # it has broken off by itself
                    stranger.shutdown(socket.SHUT_RDWR)
        known[connection.fileno()] = weakref.ref(connection)
        self._strangers = known
        return connection, address

    def settled(self, transport: asyncio.Transport) -> None:
        self._strangers.pop(transport.get_extra_info("socket").fileno(), None)


def _is_open(connection: socket.socket | None, number: int) -> bool:
    return connection is not None and connection.fileno() == number


def bind(host: str, port: int, strangers: int = 256) -> TlsSocket:
    """A bound socket, not yet listening.

    Args:
        host: address or name; "" for all addresses of both families, where the machine has both.
        port: port; 0 for any that is free.
        strangers: how many connections at a time may be without a finished TLS handshake, at some 0.3 MiB each.
            Without TLS more than are accepted in one turn of the event loop, so that nobody is shown out unheard.

    Raises:
        OSError: there is no such address, or it is not free.
    """
    every = not host and socket.has_dualstack_ipv6()
    family, address = (socket.AF_INET6 if every else socket.AF_INET), ("", port)
    if host:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]  # type: ignore[assignment]
    bound = TlsSocket(family, strangers)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if every:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound
