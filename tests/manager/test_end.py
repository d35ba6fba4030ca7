"""What is logged when the manager's event loop ends."""

import asyncio

import pytest

from manager.__main__ import _at_the_end


@pytest.mark.parametrize("context", [{"asyncgen": None}, {}])
def test_generators_left_behind_are_no_error(context: dict[str, None]) -> None:
    """A watch that kopf left, and that is busy when asyncio closes it, is passed over; other trouble is told."""
    told = []

    class Loop(asyncio.SelectorEventLoop):
        def default_exception_handler(self, context: dict[str, object]) -> None:
            told.append(context)

    loop = Loop()
    try:
        loop.set_exception_handler(_at_the_end)
        loop.call_exception_handler({"message": "an error occurred during closing of a generator", **context})
    finally:
        loop.close()
    assert bool(told) is ("asyncgen" not in context)
