"""The requests that the page answers: GET and HEAD, below /ui, from this machine. Everything else is refused."""

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPMethod, HTTPStatus
from importlib.resources import files
from typing import Any, Final

from headroom.runtime.http import Pages, Reply, Request
from manager.context import Context
from manager.mid.explanation.document import as_json as explanation_as_json
from manager.web import explanation, layout, node_page, overview, overview_page
from manager.web.explanation import NodeMetrics
from manager.web.history import RESOURCES, Plot, Series
from manager.web.recorder import Recorder

_LOG: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 8
"""Requests that are worked on or wait for their turn; whoever comes then is told to come again."""
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

Words = Mapping[str, str]


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
    """The page.

    Args:
        context: what the manager knows.
        metrics: reads single NodeMetrics.
        local: whether it listens on loopback, so that only names of loopback may be asked for: a page of somebody else
            whose name was made to point here must not read this one.
    """

    def __init__(self, context: Context, metrics: NodeMetrics, *, local: bool) -> None:
        self._context, self._metrics, self._local = context, metrics, local
        self._turn, self._present = threading.Lock(), 0
        folder = files("manager.web") / "static"
        self._static = {name: Answer((folder / name).read_bytes(), type_) for name, type_ in _STATIC.items()}

    def pages(self) -> Pages:
        """All paths, whatever is asked of them: every answer has the same guards, a refusal too."""
        return {(method.value, "/"): self.answer for method in HTTPMethod if method is not HTTPMethod.HEAD}

    async def answer(self, request: Request) -> Reply:
        """Answer a request."""
        answer = await self._answer(request)
        return Reply(answer.body, answer.status.value, answer.type, {**dict(HEADERS), **dict(answer.more)})

    async def _answer(self, request: Request) -> Answer:
        if self._local and _host(request) not in _LOOPBACK:
            return _plain(HTTPStatus.FORBIDDEN, "open this page as localhost, by kubectl port-forward")
        if request.method not in ("GET", "HEAD"):
            refusal = _plain(HTTPStatus.METHOD_NOT_ALLOWED, "this page only reads")
            return Answer(refusal.body, refusal.type, refusal.status, (("Allow", "GET, HEAD"),))
        if self._present >= _AT_ONCE:
            return _plain(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once: try again")
        try:
            return await asyncio.shield(self._in_thread(request))
        except Exception:  # noqa: BLE001 - the outer runner: what one node has, however odd, must not take the page away
            _LOG.exception("The page at %s failed; please report it", request.path)
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR, "an error that should not happen: see the manager's log")

    def _in_thread(self, request: Request) -> asyncio.Future[Answer]:
        """Counts until the thread is free again, even when whoever asked has left meanwhile."""
        working = asyncio.get_running_loop().run_in_executor(None, self._route, request.path, request.query)
        self._present += 1

        def leave(_: asyncio.Future[Answer]) -> None:
            self._present -= 1

        working.add_done_callback(leave)
        return working

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
        explained = explanation.of_node(self._context, self._metrics, name)
        if explained is None:
            return self._html(lambda: node_page.missing(self._context, name), HTTPStatus.NOT_FOUND)
        return self._html(lambda: node_page.render(self._context, name, _length(words), explained))

    def _data(self, path: str, words: Words) -> Answer:
        context, now = self._context, self._context.wall()
        recorder = context.state_of(Recorder)
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
        recorder = context.state_of(Recorder)
        if what == "history":
            return self._json(lambda: _plot(recorder.history.plot(name, _length(words), now)))
        if what == "explain":
            explained = explanation.of_node(context, self._metrics, name)
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
    return node_page.length_of(words.get("range", ""))


def _host(request: Request) -> str:
    """The name that was asked for, without its port."""
    given = request.host.strip().lower()
    name, colon, port = given.rpartition(":")
    return name if colon and port.isdigit() else given


def _plain(status: HTTPStatus, words: str) -> Answer:
    return Answer(f"{words}\n".encode(), "text/plain; charset=utf-8", status)


def _unknown() -> Answer:
    return _plain(HTTPStatus.NOT_FOUND, f"try {layout.ROOT}")
