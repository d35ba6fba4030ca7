"""Pages that any client in the pod network may request: their cost is bounded for any number of clients."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from headroom.runtime.health import Health
from headroom.runtime.http.connection import Limits
from headroom.runtime.http.pages import Page, Pages, Reply, Request

_Made = TypeVar("_Made")

OPEN: Final = Limits(
    body_bytes=0,
    head_bytes=8 * 2**10,
    buffered_bytes=2 * 2**20,
    unsent_bytes=16 * 2**20,
    kernel_bytes=32 * 2**10,
    request_seconds=10.0,
)
"""The limits for clients without a login. All of them together use less than 64 MiB of a service: 2 of unfinished
requests, 16 of unsent replies, and at most 64 KiB of a reply and 128 KiB in the kernel a connection."""
_SHARE: Final = 0.1  # the part of a core that rendering a page may use
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"


class CoalescedRender(Generic[_Made]):
    """A costly result that concurrent callers share.

    It is never older than the call; calls in fast succession share a later result.
    """

    def __init__(self, make: Callable[[], Awaitable[_Made]]) -> None:
        self._make = make
        self._coming: asyncio.Task[_Made] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._not_before = 0.0

    async def __call__(self) -> _Made:
        """Return the next result."""
        if self._coming is None:
            self._coming = asyncio.get_running_loop().create_task(self._made())
        return await asyncio.shield(self._coming)  # a cancelled caller does not cancel the others

    async def _made(self) -> _Made:
        async with self._one_at_a_time:
            await asyncio.sleep(self._not_before - time.monotonic())
            self._coming = None  # later callers need a newer result
            began = time.thread_time()
            try:
                return await self._make()
            finally:
                self._not_before = time.monotonic() + (time.thread_time() - began) * (1 / _SHARE - 1)


class MetricsPage:
    """/metrics, paced."""

    def __init__(self, text: Callable[[], bytes]) -> None:
        async def made() -> Reply:
            return Reply(text(), content_type=_METRICS)

        self._reply = CoalescedRender(made)

    async def __call__(self, _request: Request) -> Reply:
        return await self._reply()


def health_pages(health: Callable[[], Health], *, livez: Page) -> Pages:
    """/healthz, /readyz and /livez."""

    def answered(request: Request, *, ready: bool) -> Reply:
        well, text = health().reply(ready=ready, verbose="verbose" in request.query)
        return Reply.text(text, 200 if well else 503)

    return {
        ("GET", "/healthz"): lambda request: answered(request, ready=False),
        ("GET", "/readyz"): lambda request: answered(request, ready=True),
        ("GET", "/livez"): livez,
    }
