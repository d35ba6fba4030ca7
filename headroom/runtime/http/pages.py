"""Requests to pages and their replies, independent of the server."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"

_LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True)  # one that is frozen takes five times as long to make
class Request:
    """A request."""

    method: str  # GET or POST
    path: str  # decoded path, without the query: "/debug/nodes/a"
    query: Mapping[str, str] = field(default_factory=dict)  # the last value of each parameter; "" for `?verbose`
    body: bytes = b""
    host: str = ""  # the client's Host header; "" without one
    received: float = field(default=0.0, compare=False)  # when its first bytes were read [s, time.perf_counter]


@dataclass(slots=True)  # as above
class Reply:
    """The reply."""

    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, data: Any, status: int = 200) -> "Reply":  # noqa: ANN401 - any JSON
        return cls(json.dumps(data).encode(), status)

    @classmethod
    def text(cls, text: str, status: int = 200) -> "Reply":
        return cls(text.encode(), status, TEXT)


Page: TypeAlias = Callable[[Request], Reply | Awaitable[Reply]]  # serves requests of one method and path
Pages: TypeAlias = Mapping[tuple[str, str], Page]
"""Pages by method and path; a path that ends in "/" serves all paths below it."""


def reply_to(pages: Pages, request: Request) -> Reply | Awaitable[Reply]:
    """Return the reply to a request. HEAD is handled as GET; the sender omits the body.

    Neither it nor the awaitable raises: a page that fails returns 500, and the log has the reason.
    """
    page = _find(pages, "GET" if request.method == "HEAD" else request.method, request.path)
    if page is None:
        return _not_found(pages, request)
    try:
        made = page(request)
    except Exception as error:  # noqa: BLE001 - the outer runner of pages
        return _failed(request, error)
    return made if isinstance(made, Reply) else _awaited(request, made)


async def _awaited(request: Request, made: Awaitable[Reply]) -> Reply:
    try:
        return await made
    except Exception as error:  # noqa: BLE001 - the outer runner of pages
        return _failed(request, error)


def _find(pages: Pages, method: str, path: str) -> Page | None:
    page = pages.get((method, path))
    if page is None:
        prefixes = [key for key in pages if key[0] == method and key[1].endswith("/") and path.startswith(key[1])]
        page = pages[max(prefixes, key=lambda key: len(key[1]))] if prefixes else None
    return page


def _not_found(pages: Pages, request: Request) -> Reply:
    allowed = sorted({method for method, _ in pages if _find(pages, method, request.path)})
    if not allowed:
        return Reply.text("there is no such page\n", 404)
    return Reply(f"this page accepts {' and '.join(allowed)}\n".encode(), 405, TEXT, {"Allow": ", ".join(allowed)})


def _failed(request: Request, error: Exception) -> Reply:
    _LOG.error("%s %s failed", request.method, request.path, exc_info=error)
    return Reply.text("the request failed; the log has the reason\n", 500)
