"""Small HTTP servers of the manager, each in a thread of its own that no outage of the event loop can stop."""

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_NAME: Final = "headroom-manager"
"""What servers call themselves."""
_POLL_SECONDS: Final = 0.1
"""How long the end of a server may wait for it. [s]"""
_SILENCE_SECONDS: Final = 10.0
"""Who connects and then says nothing for so long loses the thread that waits for it. [s]"""


class ListenError(Exception):
    """The address cannot be listened on; one line that says why and what to do."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_address = True

    def server_bind(self) -> None:
        # The base class would look its own name up, which hangs where there is no name service.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = _NAME, int(self.server_address[1])
        self.setup_environ()


class _Server6(_Server):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    timeout = _SILENCE_SECONDS

    def version_string(self) -> str:
        """What answers: no versions, which tell who looks for a hole where to look."""
        return _NAME

    def handle(self) -> None:
        """Answer; whoever says nothing, or breaks off, is let go without a word."""
        with suppress(TimeoutError, ConnectionError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Requests are not logged."""


def _named(application: "WSGIApplication") -> "WSGIApplication":
    """The application with a `Server` of its own on each answer, in place of the library's with its versions."""

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *failure: Any) -> Callable[[bytes], object]:  # noqa: ANN401 - as WSGI has it
            return start_response(status, [*headers, ("Server", _NAME)], *failure)

        return application(environ, start)

    return answer


def parse_address(text: str, flag: str = "--listen") -> tuple[str, int]:
    """Host and port of "host:port"; an empty host is all addresses.

    Args:
        text: the address.
        flag: where it was given.

    Raises:
        ListenError: it is not one.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004 - the largest port
        raise ListenError(f"{flag} {text!r}: write host:port, such as 127.0.0.1:8080 or :8080")
    return host.strip("[]"), int(port)


class HttpServer:
    """Serves an application.

    Args:
        address: host:port; port 0 takes a free one.
        application: what answers. Called in a thread for each request.
        flag: where the address was given.

    Raises:
        ListenError: the address is not free, or not one.
    """

    def __init__(self, address: str, application: "WSGIApplication", flag: str = "--listen") -> None:
        host, port = parse_address(address, flag)
        try:
            kind = _Server6 if ":" in host else _Server
            self._server = make_server(host, port, _named(application), server_class=kind, handler_class=_QuietHandler)
        except OSError as error:
            raise ListenError(f"{flag} {address}: {error.strerror or error}; choose a free address") from None
        ending = {"poll_interval": _POLL_SECONDS}
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs=ending, name=flag, daemon=True)

    @property
    def port(self) -> int:
        """The port in use."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and free the port; one that was never started is closed alone."""
        if self._thread.ident is not None:
            self._server.shutdown()
            self._thread.join(timeout=5)
        self._server.server_close()
