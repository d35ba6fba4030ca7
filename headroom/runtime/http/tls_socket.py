"""A listening socket that clients without a finished TLS handshake cannot exhaust."""

import asyncio
import socket
import weakref
from contextlib import suppress
from typing import Any


class TlsSocket(socket.socket):
    """Accepts every connection; beyond a limit of unfinished handshakes it closes the oldest of them.

    If it refused new connections instead, clients that never finish their handshake would block all others.
    """

    def __init__(self, family: int, handshakes: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._most = handshakes
        self._handshakes: dict[int, weakref.ref[socket.socket]] = {}

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection and its address."""
        connection, address = super().accept()
        pending = {number: ref for number, ref in self._handshakes.items() if _is_open(ref(), number)}
        for number in [*pending][: max(len(pending) - self._most + 1, 0)]:
            oldest = pending.pop(number)()
            if oldest is not None:
                with suppress(OSError):  # the client has closed it
                    oldest.shutdown(socket.SHUT_RDWR)
        pending[connection.fileno()] = weakref.ref(connection)
        self._handshakes = pending
        return connection, address

    def settled(self, transport: asyncio.Transport) -> None:
        self._handshakes.pop(transport.get_extra_info("socket").fileno(), None)


def _is_open(connection: socket.socket | None, number: int) -> bool:
    return connection is not None and connection.fileno() == number


def bind(host: str, port: int, handshakes: int = 256) -> TlsSocket:
    """A bound socket, not yet listening.

    Args:
        host: address or name; "" for all addresses of both families, where the machine has both.
        port: port; 0 for any that is free.
        handshakes: the limit of connections without a finished TLS handshake, at some 0.3 MiB each.
            Without TLS more than are accepted in an iteration of the event loop: none closes before its request.

    Raises:
        OSError: there is no such address, or it is not free.
    """
    every = not host and socket.has_dualstack_ipv6()
    family, address = (socket.AF_INET6 if every else socket.AF_INET), ("", port)
    if host:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]  # type: ignore[assignment]
    bound = TlsSocket(family, handshakes)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if every:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound
