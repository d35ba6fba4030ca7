"""No look for garbage is at everything that a service knows, and garbage goes all the same."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from headroom.runtime import garbage_collection

MANY = 300_000


@pytest.fixture
def clean() -> Iterator[None]:
    """Exclude objects of other tests."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def _cycles(count: int) -> list[list[Any]]:
    made: list[list[Any]] = [[] for _ in range(count)]
    for made_object in made:
        made_object.append(made_object)
    return made


@pytest.mark.usefixtures("clean")
def test_looks_stay_small() -> None:
    """A collection of the old generation finds objects made since the last one, for any number of objects."""
    observed: list[int] = []

    def count(phase: str, _: Any) -> None:  # noqa: ANN401 - as gc has it
        if phase == "start":
            observed.append(sum(len(gc.get_objects(generation)) for generation in range(3)))

    with garbage_collection.setting_aside():
        gc.callbacks.append(count)
        try:
            cycles = _cycles(MANY)
            for place in range(MANY):  # as everything is replaced that is listed once more
                cycles[place] = []
        finally:
            gc.callbacks.remove(count)
    assert len(observed) > 100
    assert max(observed) < MANY / 8


class _Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.mark.usefixtures("clean")
async def test_garbage_that_was_set_aside_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles set aside while referenced are freed once they are many; a few may stay."""
    monkeypatch.setattr(garbage_collection, "_SECONDS", 0.001)
    monkeypatch.setattr(garbage_collection, "_GROWTH", 1.0)  # however much other tests have left
    garbage_collection.reset_baseline()
    tending = asyncio.create_task(garbage_collection.run_collector())
    await asyncio.sleep(0)
    held = [_Cycle() for _ in range(MANY)]
    one = weakref.ref(held[0])
    gc.collect()
    held.clear()
    gc.collect()
    assert one() is not None
    while one() is not None:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.001)
    tending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await tending
