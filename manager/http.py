"""HTTP servers of the manager, each in a thread of its own that no outage of the event loop can stop."""

import asyncio
import threading
from typing import Final

from headroom.runtime import http

_STOP_SECONDS: Final = 5.0  # how long the end of a server may wait for answers that are under way [s]


class ListenError(Exception):
    """The address cannot be listened on; one line with the reason and the remedy."""


def parse_address(text: str, flag: str = "--listen") -> tuple[str, int]:
    """Host and port of "host:port"; an empty host is all addresses.

    Raises:
        ListenError: it is not one.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004 - the largest port
        raise ListenError(f"{flag} {text!r}: write host:port, such as 127.0.0.1:8080 or :8080")
    return host.strip("[]"), int(port)


class HttpServer:
    """Serves pages to unauthenticated clients.

    Args:
        address: host:port; port 0 takes a free one.
        pages: the handlers, called in the server's own thread.
        flag: where the address was given.

    Raises:
        ListenError: the address is not free, or not one.
    """

    def __init__(self, address: str, pages: http.Pages, flag: str = "--listen") -> None:
        host, port = parse_address(address, flag)
        self._pages = pages
        try:
            self._socket = http.bind(host, port)
            self._socket.listen()  # the address is taken from now on; early clients are answered after the start
        except OSError as error:
            raise ListenError(f"{flag} {address}: {error.strerror or error}; choose a free address") from None
        self.port = int(self._socket.getsockname()[1])
        self.served: http.Served | None = None
        self._loop = asyncio.new_event_loop()
        self._ends = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=flag, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and free the port; a server that was never started only closes its socket."""
        if self._thread.ident is not None:
            self._loop.call_soon_threadsafe(self._ends.set)
            self._thread.join(2 * _STOP_SECONDS)
        else:
            self._loop.close()
        self._socket.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self.served = await http.listen(self._pages, self._socket, limits=http.OPEN)
        await self._ends.wait()
        await self.served.close(_STOP_SECONDS)
