"""The requests that the page answers: GET and HEAD, below /ui, from this machine. Everything else is refused."""

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from manager.context import Context
from manager.explain.document import as_json as explanation_as_json
from manager.ui import explaining, layout, node_page, overview, overview_page
from manager.ui.explaining import NodeMetrics
from manager.ui.history import RESOURCES, Plot, Series
from manager.ui.recorder import Recorder

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_LOG: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 8
"""Requests that are worked on or wait for their turn; whoever comes then is told to come again."""
_MOST_WORDS: Final = 20
_HTML: Final = "text/html; charset=utf-8"
_JSON: Final = "application/json"
_STATIC: Final[Mapping[str, str]] = {
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
"""Of every answer."""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})

Words = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back."""

    body: bytes
    """Content."""
    type: str = _HTML
    """Media type."""
    status: HTTPStatus = HTTPStatus.OK
    """Status."""
    more: tuple[tuple[str, str], ...] = ()
    """Further headers."""


class Application:
    """A WSGI application.

    Args:
        context: what the manager knows.
        metrics: reads single NodeMetrics.
        local: whether it listens on loopback, so that only names of loopback may be asked for: a page of somebody else
            whose name was made to point here must not read this one.
    """

    def __init__(self, context: Context, metrics: NodeMetrics, *, local: bool) -> None:
        self._context, self._metrics, self._local = context, metrics, local
        self._turn, self._places = threading.Lock(), threading.BoundedSemaphore(_AT_ONCE)
        folder = files("manager.ui") / "static"
        self._static = {name: Answer((folder / name).read_bytes(), type_) for name, type_ in _STATIC.items()}

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer a request."""
        method = environ.get("REQUEST_METHOD", "")
        answer = self._answer(environ, method)
        length = ("Content-Length", str(len(answer.body)))
        status = f"{answer.status.value} {answer.status.phrase}"
        start_response(status, [("Content-Type", answer.type), length, *HEADERS, *answer.more])
        return [b"" if method == "HEAD" else answer.body]

    def _answer(self, environ: "WSGIEnvironment", method: str) -> Answer:
        if self._local and _host(environ) not in _LOOPBACK:
            return _plain(HTTPStatus.FORBIDDEN, "open this page as localhost, by kubectl port-forward")
        if method not in ("GET", "HEAD"):
            refusal = _plain(HTTPStatus.METHOD_NOT_ALLOWED, "this page only reads")
            return Answer(refusal.body, refusal.type, refusal.status, (("Allow", "GET, HEAD"),))
        if not self._places.acquire(blocking=False):
            return _plain(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once: try again")
        try:
            return self._route(_path(environ), _words(environ))
        except Exception:  # noqa: BLE001 - the outer runner: what one node has, however odd, must not take the page away
            _LOG.exception("The page at %s failed; please report it", environ.get("PATH_INFO", ""))
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR, "an error that should not happen: see the manager's log")
        finally:
            self._places.release()

    def _route(self, path: str, words: Words) -> Answer:
        if path in ("/", "/ui/"):
            return Answer(b"", status=HTTPStatus.FOUND, more=(("Location", layout.ROOT),))
        if path == layout.ROOT:
            return self._html(lambda: overview_page.render(self._context, overview.Query.of(words)))
        first, _, rest = path.removeprefix(f"{layout.ROOT}/").partition("/")
        if not path.startswith(f"{layout.ROOT}/"):
            return _unknown()
        if first == "static" and rest in self._static:
            return self._static[rest]
        if first == "nodes" and rest:
            return self._node(rest, words)
        return self._data(rest, words) if first == "api" else _unknown()

    def _html(self, render: Callable[[], str], status: HTTPStatus = HTTPStatus.OK) -> Answer:
        with self._turn:  # one at a time, so that readers never take more than half of the process from the manager
            return Answer(render().encode(), status=status)

    def _node(self, name: str, words: Words) -> Answer:
        explained = explaining.of_node(self._context, self._metrics, name)
        if explained is None:
            return self._html(lambda: node_page.missing(self._context, name), HTTPStatus.NOT_FOUND)
        return self._html(lambda: node_page.render(self._context, name, _length(words), explained))

    def _data(self, path: str, words: Words) -> Answer:
        context, now = self._context, self._context.wall()
        recorder = context.part(Recorder)
        if path == "overview":
            return self._json(lambda: overview.as_json(overview.overview(recorder), context))
        if path == "history":
            return self._json(lambda: _plot(recorder.history.plot_of_sums(_length(words), now)))
        if path == "nodes":
            return self._json(lambda: _list(recorder, words, now))
        first, _, rest = path.partition("/")
        name, _, what = rest.partition("/")
        if first != "nodes" or name not in context.cluster.nodes or what not in ("", "history", "explain"):
            return Answer(b'{"error": "there is no such thing"}', _JSON, HTTPStatus.NOT_FOUND)
        return self._data_of_node(name, what, words)

    def _data_of_node(self, name: str, what: str, words: Words) -> Answer:
        context, now = self._context, self._context.wall()
        recorder = context.part(Recorder)
        if what == "history":
            return self._json(lambda: _plot(recorder.history.plot(name, _length(words), now)))
        if what == "explain":
            explained = explaining.of_node(context, self._metrics, name)
            return self._json(lambda: explanation_as_json(explained.explanation) if explained else None)
        row = recorder.rows.get(name)
        return self._json(lambda: overview.row_as_json(row, now) if row else None)

    def _json(self, data: Callable[[], Any]) -> Answer:
        with self._turn:
            return Answer(json.dumps(data(), ensure_ascii=False).encode(), _JSON)


def _list(recorder: Recorder, words: Words, now: float) -> dict[str, Any]:
    found = overview.select(recorder.rows.values(), overview.Query.of(words))
    return {
        "found": found.found,
        "page": found.page,
        "pages": found.pages,
        "nodes": [overview.row_as_json(row, now) for row in found.rows],
    }


def _plot(plot: Plot) -> dict[str, Any]:
    """Lines for programs: cores and GiB, null where nothing is known."""

    def line(series: Series, resource: str) -> list[float | None]:
        return [None if each != each else round(each, 6) for each in plot.of(series, resource).tolist()]  # noqa: PLR0124 - nan

    lines = {
        f"{each}{unit}": {series.json_name: line(series, each) for series in Series}
        for each, unit in zip(RESOURCES, ("Cores", "GiB"), strict=True)
    }
    return {"times": plot.times.tolist(), **lines}


def _length(words: Words) -> str:
    return node_page.length_of((words.get("range") or [""])[-1])


def _host(environ: "WSGIEnvironment") -> str:
    """The name that was asked for, without its port."""
    given = str(environ.get("HTTP_HOST", "")).strip().lower()
    name, colon, port = given.rpartition(":")
    return name if colon and port.isdigit() else given


def _path(environ: "WSGIEnvironment") -> str:
    raw: str = environ.get("PATH_INFO", "")
    return raw.encode("latin-1", "replace").decode("utf-8", "replace")


def _words(environ: "WSGIEnvironment") -> Words:
    try:
        return parse_qs(environ.get("QUERY_STRING", ""), max_num_fields=_MOST_WORDS)
    except ValueError:  # more of them than any link of ours has
        return {}


def _plain(status: HTTPStatus, words: str) -> Answer:
    return Answer(f"{words}\n".encode(), "text/plain; charset=utf-8", status)


def _unknown() -> Answer:
    return _plain(HTTPStatus.NOT_FOUND, f"try {layout.ROOT}")
