"""GET /watcher[?host=NAME] and GET /watcher/health, as load-watcher answers them."""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from headroom.runtime.http import JSON, Paced, Page, Reply, Request
from scheduler_plugins.watcher.document import Document

_NOT_FOUND: Final = 404
_NOTHING_YET: Final = 500
_UNWELL: Final = 503


def pages(
    document: Callable[[], Awaitable[Document | None]], healthy: Callable[[], bool]
) -> dict[tuple[str, str], Page]:
    """The pages.

    Args:
        document: what is known now; None: nothing yet.
        healthy: whether the numbers are kept up to date.
    """

    async def made() -> tuple[Document, bytes] | None:
        known = await document()
        return None if known is None else (known, msgspec.json.encode(known.to_json()))

    paced = Paced(made)  # anybody in the pod network may ask

    async def watcher(request: Request) -> Reply:
        """All nodes, or one: 404 when that one is not known, 500 without a word while nothing is known."""
        found = await paced()
        if found is None:
            return Reply(b"", _NOTHING_YET)
        known, whole = found
        host = request.query.get("host") or None
        if host is None:
            return Reply(whole)
        body = known.to_json(host)
        return Reply(msgspec.json.encode(body)) if body else Reply.text(f"No metrics found for host {host}", _NOT_FOUND)

    def health(_request: Request) -> Reply:
        """200, or 503 while the cluster is not known or not heard."""
        return Reply(b"", 200 if healthy() else _UNWELL, JSON)

    return {("GET", "/watcher"): watcher, ("GET", "/watcher/health"): health}
