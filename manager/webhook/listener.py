"""The port of the webhook: claimed when the process starts, so that a port that is taken is an error then."""

from typing import Final

from headroom.runtime import http
from manager.http import ListenError, parse_address

FLAG: Final = "--webhook-listen"
_STRANGERS: Final = 50
"""TLS handshakes at a time, each of them some 0.3 MiB; an API server needs one for each review that is under way."""


class Listener:
    """A reserved address. Connections are refused until a server listens on the socket that `take` returns.

    Args:
        address: host:port; port 0 takes a free one, an empty host is all addresses.

    Raises:
        ListenError: the address is not free, or not one; one line.
    """

    def __init__(self, address: str) -> None:
        self.host, port = parse_address(address, FLAG)  # host of the address; empty for all
        self._address = address
        self._claimed: http.TlsSocket | None = self._bound(port)
        self.port = int(self._claimed.getsockname()[1])  # the port in use, the same for the whole life of the process

    def take(self) -> http.TlsSocket:
        """A bound socket to listen on, which is the caller's to close; each call gives another one.

        Raises:
            ListenError: another program took the port meanwhile.
        """
        claimed, self._claimed = self._claimed, None
        return claimed or self._bound(self.port)

    def close(self) -> None:
        """Release the address if no server has taken it."""
        if self._claimed is not None:
            self._claimed.close()
            self._claimed = None

    def _bound(self, port: int) -> http.TlsSocket:
        try:
            return http.bind(self.host, port, _STRANGERS)
        except OSError as error:
            raise ListenError(f"{FLAG} {self._address}: {error.strerror or error}; choose a free address") from None
