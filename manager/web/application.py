"""The requests for the page and its JSON: GET and HEAD, below /ui, from this machine. Others are refused."""

import asyncio
import json
import logging
import math
import threading
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPMethod, HTTPStatus
from importlib.resources import files
from typing import Any, Final

from headroom.runtime.http import Pages, Reply, Request
from manager.context import Context
from manager.mid.explanation.document import as_json as explanation_as_json
from manager.web import explanation, overview, pods
from manager.web.api_reader import ApiReader
from manager.web.history import RESOURCES, RINGS, Plot, Series
from manager.web.next_step import next_step
from manager.web.recorder import Recorder

_LOG: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 8  # requests in progress or in the queue; a further one gets 503
_HTML: Final = "text/html; charset=utf-8"
_JSON: Final = "application/json"
_ROOT: Final = "/ui"
_STATIC: Final[Mapping[str, str]] = {
    "index.html": _HTML,
    "style.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
HEADERS: Final = (
    # Nothing from elsewhere, nothing inline: a name that slipped through as HTML could not run.
    ("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
"""Headers of every response."""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})

Words = Mapping[str, str]


class Application:
    """The page.

    With a listener on loopback (`local`), only loopback names are served: a foreign page with a name that
    was made to point here must not read this one.
    """

    def __init__(self, context: Context, reader: ApiReader, *, local: bool) -> None:
        self._context, self._reader, self._local = context, reader, local
        self._turn, self._present = threading.Lock(), 0
        folder = files("manager.web") / "static"
        self._static = {name: _reply((folder / name).read_bytes(), type_) for name, type_ in _STATIC.items()}

    def pages(self) -> Pages:
        """Serve all paths: every response has the same guards, also an error."""
        return {(method.value, "/"): self.answer for method in HTTPMethod if method is not HTTPMethod.HEAD}

    async def answer(self, request: Request) -> Reply:
        """Answer a request."""
        if self._local and _host(request) not in _LOOPBACK:
            return _plain(HTTPStatus.FORBIDDEN, "open this page as localhost, by kubectl port-forward")
        if request.method not in ("GET", "HEAD"):
            return _plain(HTTPStatus.METHOD_NOT_ALLOWED, "this page only reads", Allow="GET, HEAD")
        if self._present >= _AT_ONCE:
            return _plain(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once: try again")
        try:
            return await asyncio.shield(self._in_thread(request))
        except Exception:  # noqa: BLE001 - the outer runner: a malformed node must not break the page
            _LOG.exception("The page at %s failed; please report it", request.path)
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR, "an error that should not happen: see the manager's log")

    def _in_thread(self, request: Request) -> asyncio.Future[Reply]:
        """Counts until the thread is free again, also after the client has left."""
        working = asyncio.get_running_loop().run_in_executor(None, self._route, request.path, request.query)
        self._present += 1

        def leave(_: asyncio.Future[Reply]) -> None:
            self._present -= 1

        working.add_done_callback(leave)
        return working

    def _route(self, path: str, words: Words) -> Reply:
        if path in ("/", "/ui/"):
            return _reply(b"", _HTML, HTTPStatus.FOUND, Location=_ROOT)
        first, _, rest = path.removeprefix(f"{_ROOT}/").partition("/")
        if path == _ROOT or (path.startswith(f"{_ROOT}/") and first == "nodes" and rest):
            return self._static["index.html"]  # the script reads the path
        if not path.startswith(f"{_ROOT}/"):
            first = ""
        if first == "static" and rest in self._static:
            return self._static[rest]
        return self._data(rest, words) if first == "api" else _plain(HTTPStatus.NOT_FOUND, f"try {_ROOT}")

    def _data(self, path: str, words: Words) -> Reply:
        context, now, length = self._context, self._context.wall(), _length(words)
        recorder = context.state_of(Recorder)
        history, rows = recorder.history, recorder.rows
        if path == "overview":
            return self._json(lambda: _overview(overview.overview(recorder), context))
        if path == "history":
            return self._json(lambda: _plot(history.plot_of_sums(length, now)))
        if path == "pending":
            pending = pods.pending(self._reader, now)
            return self._json(lambda: pending)
        if path == "nodes":
            return self._json(lambda: _list(overview.select(rows.values(), overview.Query.of(words)), now))
        first, _, rest = path.partition("/")
        name, _, what = rest.partition("/")
        if first == "nodes" and name in context.cluster.nodes and what in ("", "history", "explain"):
            return self._node_data(name, what, length)
        return _reply(b'{"error": "not found"}', _JSON, HTTPStatus.NOT_FOUND)

    def _node_data(self, name: str, what: str, length: str) -> Reply:
        context, now, recorder = self._context, self._context.wall(), self._context.state_of(Recorder)
        if what == "history":
            return self._json(lambda: _plot(recorder.history.plot(name, length, now)))
        if what == "explain" and (explained := explanation.of_node(context, self._reader, name)):
            found, problem = explained
            rows = partial(pods.of_node, found.seen.node_metric, context.cluster.pods_on(name))
            return self._json(lambda: {**explanation_as_json(found), "problem": problem, "pods": rows()})
        row = None if what else recorder.rows.get(name)
        return self._json(lambda: row and overview.row_as_json(row, now))

    # One at a time, so that readers never take more than half of the process from the manager.

    def _json(self, data: Callable[[], Any]) -> Reply:
        with self._turn:
            return _reply(json.dumps(data()).encode(), _JSON)


def _overview(found: overview.Overview, context: Context) -> dict[str, Any]:
    edit = f"kubectl -n {context.settings.namespace} edit configmap {context.settings.config_name}"
    return {**overview.as_json(found, context), "next": next_step(found, edit, context.in_force.config)}


def _list(found: overview.Selection, now: float) -> dict[str, Any]:
    nodes = [overview.row_as_json(row, now) for row in found.rows]
    return {"found": found.found, "page": found.page, "pages": found.pages, "nodes": nodes}


def _plot(plot: Plot) -> dict[str, Any]:
    """Lines for programs: cores and GiB, null where nothing is known."""

    def line(series: Series, resource: str) -> list[float | None]:
        return [None if math.isnan(value) else round(value, 6) for value in plot.of(series, resource).tolist()]

    lines = {
        f"{each}{unit}": {series.json_name: line(series, each) for series in Series}
        for each, unit in zip(RESOURCES, ("Cores", "GiB"), strict=True)
    }
    return {"times": plot.times.tolist(), **lines}


def _length(words: Words) -> str:
    """Return how far plots go back; two hours by default."""
    window = words.get("range", "")
    return window if window in RINGS else next(iter(RINGS))


def _host(request: Request) -> str:
    """Return the requested host name, without its port."""
    host = request.host.strip().lower()
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def _reply(body: bytes, media_type: str, status: HTTPStatus = HTTPStatus.OK, **more: str) -> Reply:
    return Reply(body, status.value, media_type, {**dict(HEADERS), **more})


def _plain(status: HTTPStatus, words: str, **more: str) -> Reply:
    return _reply(f"{words}\n".encode(), "text/plain; charset=utf-8", status, **more)
