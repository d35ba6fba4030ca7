import asyncio
import time

import pytest

from manager.reconcile.queue import NodeQueue
from tests.support.world import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> NodeQueue:
    return NodeQueue(0.0, clock)


async def taken(queue: NodeQueue) -> list[str]:
    return [await queue.take() for _ in range(len(queue))]


async def test_many_changes_are_one(queue: NodeQueue) -> None:
    queue.add_all(["a", "a", "b", "a"])
    assert await taken(queue) == ["a", "b"]


async def test_change_during_work_comes_again(queue: NodeQueue) -> None:
    queue.add("a")
    await queue.take()
    queue.add_all(["a", "a"])
    waiting = asyncio.create_task(queue.take())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    queue.done("a")
    assert await waiting == "a"


async def test_due_nodes_are_released(queue: NodeQueue, clock: Clock) -> None:
    """A later deadline replaces an earlier one, None removes it; a node is held from its deadline until it is done."""
    for name, when in (("a", 10.0), ("b", 10.0), ("c", 10.0), ("b", 20.0), ("c", None)):
        queue.add_at(name, when)
    held = [queue.holds("a")]
    for clock.now, due in ((9.0, []), (10.0, ["a"]), (20.0, ["b"])):
        queue.release_due()
        held.append(queue.holds("a"))
        assert await taken(queue) == due
    queue.done("a")
    assert [*held, queue.holds("a")] == [False, False, True, True, False]


async def test_replaced_deadlines_do_not_pile_up(queue: NodeQueue, clock: Clock) -> None:
    """A node that is planned for next week each time leaves one deadline, and comes at the last one."""
    queue.add_at("b", 5.0)
    for number in range(5000):
        queue.add_at("a", 600000.0 + number)
    assert len(queue._heap) < 2000
    for clock.now, due in ((604998.0, ["b"]), (604999.0, ["a"])):
        queue.release_due()
        assert await taken(queue) == due


async def test_closed_queue_hands_out_nothing(queue: NodeQueue) -> None:
    queue.add_all(["a", "b"])
    await queue.idle()
    assert await queue.take() == "a"
    queue.close()
    take, idle = asyncio.create_task(queue.take()), asyncio.create_task(queue.idle())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not idle.done()
    queue.done("a")
    await idle
    assert not take.done()
    take.cancel()


async def test_backlog_of_short_work_lets_others_run(queue: NodeQueue) -> None:
    """Workers without waits take one node per pass of the event loop, for any number of workers."""
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
        for task in tasks:
            task.cancel()
    assert len(handed) > 10


async def test_one_change_starts_one_worker() -> None:
    reads: list[float] = []

    def clock() -> float:
        reads.append(time.monotonic())
        return reads[-1]

    queue = NodeQueue(0.01, clock)
    waiting = {asyncio.create_task(queue.take()) for _ in range(50)}
    await asyncio.sleep(0)
    for name in "ab":
        queue.add(name)
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert [entry.result() for entry in done] == [name]
    assert len(reads) < 40
    for pod in waiting:
        pod.cancel()
