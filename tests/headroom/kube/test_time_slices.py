"""A list is processed in slices: no task waits for a whole page, however long each of its objects takes."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headroom.kube.time_slices import SLICE, in_slices
from tests.headroom.kube.fake import answer, serving


class _Neighbour:
    """Another task on the same loop, which counts the objects processed between two of its turns."""

    def __init__(self) -> None:
        self.taken = self.most = 0

    def take(self, item: Any) -> Any:  # noqa: ANN401 - any object
        self.taken += 1
        self.most = max(self.most, self.taken)
        return item

    async def live(self) -> None:
        while True:
            self.taken = 0
            await asyncio.sleep(0)


async def _beside(work: Callable[[_Neighbour], Any]) -> _Neighbour:
    neighbour = _Neighbour()
    living = asyncio.create_task(neighbour.live())
    await work(neighbour)
    living.cancel()
    return neighbour


async def test_slices_are_small() -> None:
    """A bounded number of objects is processed between two turns of another task, all of them in order."""
    taken: list[int] = []
    neighbour = await _beside(lambda neighbour: in_slices(range(20_000), neighbour.take, taken))
    assert taken == [*range(20_000)]
    assert neighbour.most <= SLICE


async def test_slow_objects_make_smaller_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that take long come one by one."""
    clock = iter(range(10_000))
    monkeypatch.setattr("headroom.kube.time_slices.time.perf_counter", lambda: float(next(clock)))
    neighbour = await _beside(lambda neighbour: in_slices(range(100), neighbour.take, []))
    assert neighbour.most == 1


async def test_pages_are_taken_in_slices() -> None:
    """The same holds for the pages of a list, of any size."""
    page = [{"metadata": {"name": f"p{number}"}} for number in range(5000)]
    async with serving() as (server, api):
        server.add("list", answer({"items": page, "metadata": {"resourceVersion": "7"}}))
        neighbour = await _beside(lambda neighbour: api.list("/api/v1/pods", keep=neighbour.take))
    assert 0 < neighbour.most <= SLICE
