"""What is logged when the manager's event loop ends."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from manager.__main__ import _at_the_end


async def _watch() -> AsyncIterator[int]:
    try:
        while True:
            yield 1
            await asyncio.sleep(0)
    finally:
        await asyncio.sleep(0.01)


async def _endless(inner: AsyncIterator[int]) -> AsyncIterator[int]:
    try:
        async for each in inner:
            yield each
    finally:
        await asyncio.sleep(0.01)
        await inner.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("handled", [True, False])
def test_generators_left_behind_are_no_error(caplog: pytest.LogCaptureFixture, handled: bool) -> None:  # noqa: FBT001
    """A watch inside another one that asyncio closes at the same time is told as an error only without our handler."""
    left = []

    async def run() -> None:
        left.append(_endless(_watch()))
        await anext(left[0])
        if handled:
            asyncio.get_running_loop().set_exception_handler(_at_the_end)

    asyncio.run(run())
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert bool(errors) is not handled
