"""The port of the webhook: claimed when the process starts, so that a port that is taken is an error then."""

import socket
import weakref
from contextlib import suppress
from typing import Any, Final

from manager.listening import ListenError, parse_address

FLAG: Final = "--webhook-listen"
_MOST_OPEN: Final = 100
"""Connections at a time, each of them some 0.3 MiB; an API server needs one for each review that is under way."""


class Listener:
    """A claimed address. Connections are refused until somebody listens on what `take` gives.

    Args:
        address: host:port; port 0 takes a free one, an empty host is all addresses.

    Raises:
        ListenError: the address is not free, or not one; one line.
    """

    def __init__(self, address: str) -> None:
        self.host, port = parse_address(address, FLAG)
        """Host of the address; empty for all."""
        self._address = address
        self._claimed: socket.socket | None = self._bound(port)
        self.port = int(self._claimed.getsockname()[1])
        """The port in use, the same for the whole life of the process."""

    def take(self) -> socket.socket:
        """A bound socket to listen on, which is the caller's to close; each call gives another one.

        Raises:
            ListenError: somebody took the port meanwhile.
        """
        claimed, self._claimed = self._claimed, None
        return claimed or self._bound(self.port)

    def close(self) -> None:
        """Give the address up if nobody has taken it."""
        if self._claimed is not None:
            self._claimed.close()
            self._claimed = None

    def _bound(self, port: int) -> socket.socket:
        try:
            return _bind(self.host, port)
        except OSError as error:
            raise ListenError(f"{FLAG} {self._address}: {error.strerror or error}; choose a free address") from None


class _Door(socket.socket):
    """A listening socket that lets in whoever comes, and when too many are in shows the one out that came first.

    Anybody in the cluster may connect. If a full house turned people away, those who say nothing would keep API servers
    out for ever.
    """

    def __init__(self, family: socket.AddressFamily) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._open: list[weakref.ref[socket.socket]] = []

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection and its address."""
        connection, address = super().accept()
        known = [each() for each in self._open]
        still_open = [each for each in known if each is not None and each.fileno() >= 0]
        too_many = max(len(still_open) - _MOST_OPEN + 1, 0)
        for oldest in still_open[:too_many]:
            with suppress(OSError):  # it has broken off by itself
                oldest.shutdown(socket.SHUT_RDWR)
        self._open = [weakref.ref(each) for each in (*still_open[too_many:], connection)]
        return connection, address


def _bind(host: str, port: int) -> socket.socket:
    every = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if every or ":" in host else socket.AF_INET
    bound = _Door(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if every:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
