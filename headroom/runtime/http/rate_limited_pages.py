"""Pages that anybody in the pod network may ask for: what they cost is bounded, whoever asks and however often."""

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
"""What clients without a login may do. All of them together hold less than 64 MiB of a service: 2 of unfinished
requests, 16 of answers that are not taken, and at most 64 KiB of an answer and 128 KiB in the kernel a connection."""
_SHARE: Final = 0.1  # how much of a core the making of one page may take
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"


class Paced(Generic[_Made]):
    """What takes time to make, for whoever asks.

    It is never older than the question; questions that come too fast share one that is made later.
    """

    def __init__(self, make: Callable[[], Awaitable[_Made]]) -> None:
        self._make = make
        self._coming: asyncio.Task[_Made] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._not_before = 0.0

    async def __call__(self) -> _Made:
        """What is made next."""
        if self._coming is None:
            self._coming = asyncio.get_running_loop().create_task(self._made())
        return await asyncio.shield(self._coming)  # one who leaves does not take the answer from the others

    async def _made(self) -> _Made:
        async with self._one_at_a_time:
            await asyncio.sleep(self._not_before - time.monotonic())
            self._coming = None  # whoever asks from here on may see what is newer than this
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

        self._reply = Paced(made)

    async def __call__(self, _request: Request) -> Reply:
        return await self._reply()


def health_pages(health: Callable[[], Health], *, livez: Page) -> Pages:
    """/healthz, /readyz and /livez."""

    def answered(request: Request, *, ready: bool) -> Reply:
        well, text = health().answer(ready=ready, verbose="verbose" in request.query)
        return Reply.text(text, 200 if well else 503)

    return {
        ("GET", "/healthz"): lambda request: answered(request, ready=False),
        ("GET", "/readyz"): lambda request: answered(request, ready=True),
        ("GET", "/livez"): livez,
    }
