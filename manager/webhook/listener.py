"""The port of the webhook: claimed when the process starts, so that a port that is taken is an error then."""

import socket
from typing import Final

from manager.telemetry import ListenError, parse_address

FLAG: Final = "--webhook-listen"


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


def _bind(host: str, port: int) -> socket.socket:
    every = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if every or ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if every:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
