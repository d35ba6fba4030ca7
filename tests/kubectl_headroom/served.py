"""An API server over HTTP with a few objects, for whole runs of the command line."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

_COLLECTIONS: Final = frozenset(
    {
        *("nodes", "pods", "nodemetrics", "elasticquotas", "priorityclasses", "configmaps", "poddisruptionbudgets"),
        *("resourceclaims", "resourceclaimtemplates", "namespaces", "daemonsets", "deployments"),
        *("clustercolocationprofiles", "mutatingwebhookconfigurations"),
    }
)
_REASONS: Final = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 500: "InternalError"}
CONFIG: Final = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: "%s"}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {token: some-token}}]
"""
"""A kubeconfig of a server."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Print nothing: a command that fails closes its other requests."""


@contextmanager
def serving(objects: Mapping[str, Any] | None = None, status: int = 200) -> Iterator[tuple[str, list[Any]]]:
    """Serve objects by path; yield the URL, and the headers of all requests so far.

    Args:
        objects: the objects by path; a collection has those below it.
        status: the HTTP status of every response; 200: the objects.
    """
    stored, requests = objects or {}, list[Any]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            requests.append(self.headers)
            path = self.path.partition("?")[0]
            if status != 200:
                self._respond(status, {"kind": "Status", "reason": _REASONS[status], "message": "no"})
            elif path in stored:
                self._respond(200, stored[path])
            elif path.rpartition("/")[2] in _COLLECTIONS:
                items = [item for place, item in stored.items() if place.startswith(f"{path}/")]
                self._respond(200, {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items})
            else:
                self._respond(404, {"kind": "Status", "reason": "NotFound", "message": f"{path} not found"})

        def _respond(self, code: int, body: Any) -> None:  # noqa: ANN401 - JSON
            text = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = _Server(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
