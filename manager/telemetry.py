"""The manager's own /metrics and health pages, served from a thread that no outage of the event loop can stop."""

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from manager.calculators.base import Result
from manager.facts import Resource
from service.health import Health

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_POLL_SECONDS: Final = 0.1
"""How long the end of the server may wait for it. [s]"""
_SILENCE_SECONDS: Final = 10.0
"""Who connects and then says nothing for so long loses the thread that waits for it. [s]"""
PREFIX: Final = "headroom_manager"
"""What the name of every metric begins with."""

_Part = TypeVar("_Part")


class ListenError(Exception):
    """The address cannot be listened on; one line that says why and what to do."""


class Telemetry:
    """Counters and gauges of the manager."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        """What /metrics shows."""
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        per_node = ["node", "resource"]
        self._calculated = self._gauge(
            "mid_calculated", "What the formula allows to sell [milli-cores, bytes]", per_node
        )
        self._published = self._gauge("mid_published", "What the Node should offer [milli-cores, bytes]", per_node)
        self._requested = self._gauge("mid_requested", "What running Mid pods requested [milli-cores, bytes]", per_node)
        self._deficit = self._gauge("mid_deficit", "Requested beyond what may be sold [milli-cores, bytes]", per_node)
        self._degraded = self._gauge("mid_degraded", "1 when nothing is sold for a reason", ["node", "reason"])
        self._reason: dict[str, str] = {}
        self.leading = self._gauge("leading", "1 while this replica writes")
        """Whether this replica writes."""
        self.node_metric_defined = self._gauge("nodemetric_defined", "1 while the API server knows NodeMetric")
        """Whether the definition of NodeMetric is there."""
        self.config_valid = self._gauge("config_valid", "1 when the ConfigMap is what is in force")
        """Whether the ConfigMap is usable."""
        self.config_entries_disabled = self._gauge("config_entry_errors", "Faults in nodeConfigs entries")
        """Faults in entries of `nodeConfigs`."""
        self.queue = self._gauge("queue_nodes", "Nodes that wait to be looked at")
        """Length of the queue."""
        self.known = self._gauge("known_objects", "Objects remembered", ["kind"])
        """How many objects are remembered."""
        self.writes = Counter(
            f"{PREFIX}_writes", "Writes to the API server", ["what", "result"], registry=self.registry
        )
        """Writes by object and result."""
        self.reconcile_seconds = Histogram(
            f"{PREFIX}_reconcile_seconds", "Time to look at one node, writes included", registry=self.registry
        )
        """Time per node."""
        self._parts: dict[Any, Any] = {}

    def part(self, kind: Callable[[CollectorRegistry], _Part]) -> _Part:
        """Metrics of a part of the manager: one object, made with the registry when first asked for."""
        known = self._parts.get(kind)
        if known is None:
            known = self._parts[kind] = kind(self.registry)
        found: _Part = known
        return found

    def _gauge(self, name: str, text: str, labels: Iterable[str] = ()) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def show(self, node: str, result: Result) -> None:
        """Show what was found out about a node."""
        for resource in Resource:
            self._calculated.labels(node, resource.value).set(result.calculated[resource])
            self._published.labels(node, resource.value).set(result.desired[resource] if result.desired else 0)
            self._requested.labels(node, resource.value).set(result.requested[resource])
            self._deficit.labels(node, resource.value).set(result.deficit[resource])
        reason = result.degraded.reason if result.degraded else ""
        before = self._reason.get(node, "")
        if before != reason and before:
            self._degraded.remove(node, before)
        if reason:
            self._degraded.labels(node, reason).set(1)
        self._reason[node] = reason

    def forget(self, node: str) -> None:
        """Show nothing more about a node."""
        if node not in self._reason:
            return
        for resource in Resource:
            for gauge in (self._calculated, self._published, self._requested, self._deficit):
                gauge.remove(node, resource.value)
        reason = self._reason.pop(node)
        if reason:
            self._degraded.remove(node, reason)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_address = True

    def server_bind(self) -> None:
        # The base class would look its own name up, which hangs where there is no name service.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "headroom-manager", int(self.server_address[1])
        self.setup_environ()


class _Server6(_Server):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    timeout = _SILENCE_SECONDS

    def handle(self) -> None:
        """Answer; whoever says nothing, or breaks off, is let go without a word."""
        with suppress(TimeoutError, ConnectionError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Requests are not logged."""


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


def _page(path: str, health: Callable[[], Health], *, verbose: bool) -> tuple[str, str]:
    """Status and text of a health page."""
    if path not in {"/healthz", "/readyz", "/livez"}:
        return "404 Not Found", "try /metrics, /healthz, /readyz or /livez\n"
    well, words = health().answer(ready=path == "/readyz", verbose=verbose)
    return "200 OK" if well else "503 Service Unavailable", words


class TelemetryServer:
    """Serves /metrics, /healthz, /readyz and /livez; the first two of the health pages say more with `?verbose`.

    Args:
        address: host:port; port 0 takes a free one.
        telemetry: what to show.
        health: what the health pages answer from. Called in a thread, for each request.

    Raises:
        ListenError: the address is not free, or not one.
    """

    def __init__(self, address: str, telemetry: Telemetry, health: Callable[[], Health]) -> None:
        host, port = parse_address(address)
        metrics: Any = make_wsgi_app(telemetry.registry)

        def serve(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
            path = environ.get("PATH_INFO", "")
            if path == "/metrics":
                answer: Iterable[bytes] = metrics(environ, start_response)
                return answer
            status, words = _page(path, health, verbose="verbose" in environ.get("QUERY_STRING", ""))
            start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
            return [words.encode()]

        try:
            kind = _Server6 if ":" in host else _Server
            self._server = make_server(host, port, serve, server_class=kind, handler_class=_QuietHandler)
        except OSError as error:
            raise ListenError(f"--listen {address}: {error.strerror or error}; choose a free address") from None
        ending = {"poll_interval": _POLL_SECONDS}
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs=ending, name="telemetry", daemon=True)

    @property
    def port(self) -> int:
        """The port in use."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)
