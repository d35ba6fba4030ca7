"""The queue of nodes: each once, never two at a time, later when asked."""

import asyncio
import time

import pytest

from manager.reconcile.queue import NodeQueue
from tests.support.world import Clock


class Counting:
    """The real clock, and how often somebody looked at it."""

    asked = 0

    def __call__(self) -> float:
        """The time."""
        self.asked += 1
        return time.monotonic()


@pytest.fixture
def clock() -> Clock:
    """A clock at zero."""
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> NodeQueue:
    """A queue that hands out at once."""
    return NodeQueue(0.0, clock)


async def test_many_changes_are_one(queue: NodeQueue) -> None:
    """However often a node is added, it is handed out once."""
    queue.add_all(["a", "a", "b", "a"])
    assert [await queue.take(), await queue.take()] == ["a", "b"]
    assert len(queue) == 0


async def test_change_during_work_comes_again(queue: NodeQueue) -> None:
    """A node that changes while it is worked on is handed out again, but only afterwards."""
    queue.add("a")
    await queue.take()
    queue.add("a")
    queue.add("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await queue.take()
    queue.done("a")
    assert await queue.take() == "a"


async def test_take_waits_for_work(queue: NodeQueue) -> None:
    """A worker that waits gets the next node."""
    waiting = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.add("a")
    assert await waiting == "a"


async def test_changes_are_coalesced(clock: Clock) -> None:
    """A node is handed out only after the coalescing time."""
    queue = NodeQueue(0.01, clock)
    queue.add("a")
    waiting = asyncio.create_task(queue.take())
    await asyncio.sleep(0.02)
    assert not waiting.done()  # our clock stands still
    clock.now = 0.01
    assert await waiting == "a"


async def test_due_nodes_are_released(queue: NodeQueue, clock: Clock) -> None:
    """A planned node comes when its moment has come; a later plan replaces an earlier one, and None removes it."""
    queue.add_at("a", 10.0)
    queue.add_at("b", 10.0)
    queue.add_at("c", 10.0)
    queue.add_at("b", 20.0)
    queue.add_at("c", None)
    clock.now = 10.0
    queue.release_due()
    assert await queue.take() == "a"
    assert len(queue) == 0
    clock.now = 20.0
    queue.release_due()
    assert await queue.take() == "b"


async def test_replaced_plans_do_not_pile_up(queue: NodeQueue, clock: Clock) -> None:
    """A node that is looked at often and planned for next week each time leaves one plan, and comes at the last one."""
    queue.add_at("b", 5.0)
    for number in range(5000):
        queue.add_at("a", 600000.0 + number)
    assert len(queue._heap) < 2000
    clock.now = 604998.0
    queue.release_due()
    assert await queue.take() == "b"
    assert len(queue) == 0
    clock.now = 604999.0
    queue.release_due()
    assert await queue.take() == "a"


async def test_queue_holds_what_comes(queue: NodeQueue, clock: Clock) -> None:
    """A node is held while it waits or is worked on, and not while it is only planned."""
    queue.add_at("a", 1.0)
    held = [queue.holds("a")]
    clock.now = 1.0
    queue.release_due()
    held.append(queue.holds("a"))
    await queue.take()
    held.append(queue.holds("a"))
    queue.done("a")
    assert [*held, queue.holds("a")] == [False, True, True, False]


async def test_closed_queue_hands_out_nothing(queue: NodeQueue) -> None:
    """Once it is closed nothing is handed out, and it can be waited for until what was is done."""
    queue.add_all(["a", "b"])
    await queue.idle()
    assert await queue.take() == "a"
    queue.close()
    waiting = [asyncio.create_task(queue.take()), asyncio.create_task(queue.idle())]
    await asyncio.sleep(0.01)
    assert not any(task.done() for task in waiting)
    queue.done("a")
    await waiting[1]
    assert not waiting[0].done()
    waiting[0].cancel()


async def test_backlog_of_short_work_lets_others_run(queue: NodeQueue) -> None:
    """Workers whose work waits for nothing take one node each pass of the event loop, however many they are."""
    handed = []

    async def work() -> None:
        while True:
            handed.append(await queue.take())
            queue.done(handed[-1])

    queue.add_all(map(str, range(100)))
    for workers in (1, 3):
        tasks = [asyncio.create_task(work()) for _ in range(workers)]
        for _ in range(20):
            before = len(handed)
            await asyncio.sleep(0)
            assert len(handed) - before <= 1
        for each in tasks:
            each.cancel()
    assert len(handed) > 10


async def test_one_change_wakes_one_worker() -> None:
    """However many workers wait, a change costs one of them a wait, not all."""
    clock = Counting()
    queue = NodeQueue(0.01, clock)
    waiting = [asyncio.create_task(queue.take()) for _ in range(50)]
    await asyncio.sleep(0)
    queue.add("a")
    done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert [each.result() for each in done] == ["a"]
    assert clock.asked < 20
    queue.add("b")
    done, rest = await asyncio.wait(rest, return_when=asyncio.FIRST_COMPLETED)
    assert [each.result() for each in done] == ["b"]
    for each in rest:
        each.cancel()
