"""List and watch through every fault: cuts, garbage, expired versions, refusals, outages."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from headroom import kube
from headroom.kube import Changed, Relisted, WatchHealth, WatchTiming, list_and_watch
from tests.headroom.kube.fake import (
    Fake,
    answer,
    connection,
    error_event,
    event,
    item,
    listed,
    refused,
    streamed,
)

QUICK = WatchTiming(first_delay_seconds=0.001, longest_delay_seconds=0.002)
PATH = "/api/v1/pods"
MISSING = answer("404 page not found", 404)


async def _take(count: int, watch: AsyncGenerator[Relisted | Changed, None]) -> list[Any]:
    """The first so many results, in short: names of a list, or (type, name)."""
    taken: list[Any] = []
    async with asyncio.timeout(20), aclosing(watch) as changes:
        async for change in changes:
            if isinstance(change, Relisted):
                taken.append([result["metadata"]["name"] for result in change.items])
            else:
                taken.append((change.type, change.object["metadata"]["name"]))
            if len(taken) == count:
                break
    return taken


async def test_changes_follow_the_list(fake: Fake) -> None:
    """Everything is listed first, then each change comes, starting from the list's version."""
    server, api = fake
    server.add("list", listed("7", "a", "b"))
    server.add("watch", streamed(event("ADDED", "c", "8"), event("DELETED", "a", "9")))
    health = WatchHealth()
    watch = list_and_watch(api, PATH, "spec.nodeName=n1", "app=x", health, QUICK)
    assert await _take(3, watch) == [["a", "b"], ("ADDED", "c"), ("DELETED", "a")]
    query = server.queries("watch")[0]
    seconds = int(query.pop("timeoutSeconds"))
    assert QUICK.shortest_watch_seconds <= seconds <= 2 * QUICK.shortest_watch_seconds
    selectors = {"fieldSelector": "spec.nodeName=n1", "labelSelector": "app=x"}
    assert query == {**selectors, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "7"}
    assert server.queries("list")[0] == {**selectors, "limit": "25"}
    assert health.synced
    assert health.last_contact is not None


async def test_resumes_after_last_version(fake: Fake) -> None:
    """A watch that ends goes on from the last version seen; a bookmark counts, and is not passed on."""
    server, api = fake
    server.add("list", listed("1"))
    server.add("watch", streamed(event("ADDED", "a", "2"), event("BOOKMARK", "", "50")))
    server.add("watch", streamed(event("ADDED", "b", "51")))
    assert await _take(3, list_and_watch(api, PATH, timing=QUICK)) == [[], ("ADDED", "a"), ("ADDED", "b")]
    assert [query["resourceVersion"] for query in server.queries("watch")] == ["1", "50"]


async def test_cut_stream_loses_nothing(fake: Fake) -> None:
    """A connection cut in the middle of a line is resumed after the last whole one."""
    server, api = fake
    server.add("list", listed("1"))
    half = event("ADDED", "b", "3")[:20]
    server.add("watch", streamed(event("ADDED", "a", "2") + half, cut=True))
    server.add("watch", streamed(event("ADDED", "b", "3")))
    assert await _take(3, list_and_watch(api, PATH, timing=QUICK)) == [[], ("ADDED", "a"), ("ADDED", "b")]
    assert server.queries("watch")[1]["resourceVersion"] == "2"


@pytest.mark.parametrize(
    "fault",
    [
        refused(410, "Expired"),
        streamed(error_event(410)),
        streamed(error_event(500)),
        refused(400, "BadRequest", "invalid resource version"),
        refused(504, "Timeout", "Too large resource version: 9, current: 3"),  # a restored etcd
    ],
    ids=["http-410", "event-410", "event-500", "http-400", "http-504"],
)
async def test_unusable_version_relists(fake: Fake, fault: Callable[..., Awaitable[Any]]) -> None:
    server, api = fake
    server.add("list", listed("9", "a"), listed("3", "b"))
    server.add("watch", fault)
    assert await _take(2, list_and_watch(api, PATH, timing=QUICK)) == [["a"], ["b"]]


async def test_lasting_silence_relists(fake: Fake) -> None:
    """A watch without even a bookmark is not trusted: so looks one that waits for a version of before a restore."""
    server, api = fake
    server.add("list", listed("999999999999", "a"), listed("3", "b"))
    server.add("watch", streamed())
    impatient = WatchTiming(first_delay_seconds=0.001, bookmark_seconds=0.0)
    assert await _take(2, list_and_watch(api, PATH, timing=impatient)) == [["a"], ["b"]]


async def test_busy_server_keeps_version(fake: Fake) -> None:
    server, api = fake
    server.add("list", listed("5"))
    server.add("watch", refused(429, "TooManyRequests"), refused(503), streamed(event("ADDED", "a", "6")))
    assert await _take(2, list_and_watch(api, PATH, timing=QUICK)) == [[], ("ADDED", "a")]
    assert [query["resourceVersion"] for query in server.queries("watch")] == ["5", "5", "5"]


@pytest.mark.parametrize(
    "garbage",
    [b"<html>\n", b"[]\n", b'{"type": "ADDED"}\n', b'{"type": "ADDED", "object": {"metadata": {}}}\n', b"\xff\xfe\n"],
)
async def test_garbage_is_survived(fake: Fake, garbage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Bytes that are no event end that stream, are logged, and the watch goes on from the last version."""
    server, api = fake
    server.add("list", listed("1"))
    server.add("watch", streamed(event("ADDED", "a", "2") + garbage + event("ADDED", "lost", "3")))
    server.add("watch", streamed(event("ADDED", "b", "3")))
    assert await _take(3, list_and_watch(api, PATH, timing=QUICK)) == [[], ("ADDED", "a"), ("ADDED", "b")]
    assert server.queries("watch")[1]["resourceVersion"] == "2"
    assert "something that is not an event" in caplog.text


async def test_large_objects_arrive(fake: Fake) -> None:
    server, api = fake
    server.add("list", listed("1"))
    large = event("ADDED", "large", "2", data="x" * 700_000)
    pieces = [large[start : start + 65_521] for start in range(0, len(large), 65_521)]
    server.add("watch", streamed(*pieces, event("ADDED", "small", "3")))
    result = []
    async with asyncio.timeout(20), aclosing(list_and_watch(api, PATH, timing=QUICK)) as changes:
        async for change in changes:
            if isinstance(change, Changed):
                result.append(change.object)
                if len(result) == 2:
                    break
    assert result[0] == item("large", "2", data="x" * 700_000)
    assert result[1]["metadata"]["name"] == "small"


async def test_many_lines_in_one_chunk(fake: Fake) -> None:
    server, api = fake
    server.add("list", listed("1"))
    server.add("watch", streamed(b"\n" + event("ADDED", "a", "2") + b"\n\n" + event("MODIFIED", "a", "3")))
    assert await _take(3, list_and_watch(api, PATH, timing=QUICK)) == [[], ("ADDED", "a"), ("MODIFIED", "a")]


async def test_absent_server_is_waited_out(
    unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While the server is away, attempts go on with growing pauses, and one line is logged."""
    pauses = await _pauses(monkeypatch, f"http://127.0.0.1:{unused_tcp_port}", count=8)
    assert [round(pause, 3) for pause in pauses] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert len(caplog.records) == 1
    assert "cannot be reached" in caplog.text


async def test_closing_server_is_not_hammered(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that ends every watch at once is requested less and less often."""
    server, api = fake
    server.add("list", listed("1"))
    server.add("watch", *(streamed() for _ in range(6)))
    pauses = await _pauses(monkeypatch, api.connection.server, count=4)
    assert [round(pause, 3) for pause in pauses] == [0.5, 1, 2, 4]


async def test_retry_after_is_obeyed(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with Retry-After is not requested earlier, and not by all clients at the same moment."""
    server, api = fake
    retry = [{"Retry-After": text} for text in ("7", "soon", "60")]
    server.add("list", *(refused(429, **header) for header in retry), refused(503, **{"Retry-After": "86400"}))
    pauses = await _pauses(monkeypatch, api.connection.server, count=4)
    # A fifth is the jitter; a Retry-After of a day counts as five minutes.
    assert [round(pause, 3) for pause in pauses] == [7 * 1.2, 1, 60 * 1.2, 300 * 1.2]


async def test_each_state_is_logged_once(fake: Fake, caplog: pytest.LogCaptureFixture) -> None:
    """A reason that stays is said once, also when it follows another one; one that passes is not said at all."""
    server, api = fake
    server.add("list", *(refused(503, "", "shutting down") for _ in range(3)), refused(500, "", "starting"))
    server.add("list", *(refused(403, "Forbidden", "pods is forbidden") for _ in range(4)), listed("1", "a"))
    server.add("watch", streamed(event("ADDED", "b", "2")))
    server.add("list", refused(403, "Forbidden", "pods is forbidden"))
    caplog.set_level(logging.INFO, "headroom.kube.watch")
    health = WatchHealth()
    assert await _take(2, list_and_watch(api, PATH, health=health, timing=QUICK)) == [["a"], ("ADDED", "b")]
    said = [record.getMessage().removeprefix(f"Cannot watch {PATH}, ") for record in caplog.records]
    assert said == [
        f"trying again until it works: The API server at {api.connection.server} answers 503: shutting down",
        "trying again until it works: pods is forbidden (Forbidden, HTTP 403)",
        f"Watching {PATH} again",
    ]


async def test_health_names_the_problem(fake: Fake) -> None:
    """While a watch is not up, its health says why: also when listing is allowed and watching is not."""
    server, api = fake
    server.add("list", refused(403, "Forbidden", "pods is forbidden"), listed("1", "a"), listed("1", "a"))
    server.add("watch", refused(403, "Forbidden", "no watch"), streamed(event("ADDED", "b", "2")))
    health = WatchHealth()
    observed = []
    async with asyncio.timeout(20), aclosing(list_and_watch(api, PATH, health=health, timing=QUICK)) as changes:
        async for change in changes:
            observed.append((type(change).__name__, health.problem))
            if isinstance(change, Changed):
                break
    assert observed == [
        ("Relisted", "pods is forbidden (Forbidden, HTTP 403)"),
        ("Relisted", "no watch (Forbidden, HTTP 403)"),
        ("Changed", ""),
    ]


async def _pauses(monkeypatch: pytest.MonkeyPatch, server: str, count: int) -> list[float]:
    """The pauses that a watch makes, without waiting for them and without their jitter."""
    pauses: list[float] = []
    enough = asyncio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) >= count:
            enough.set()
            await asyncio.Event().wait()

    monkeypatch.setattr("headroom.kube.watch.asyncio.sleep", sleep)
    monkeypatch.setattr("headroom.kube.watch.random.uniform", lambda _low, high: high)

    async def run() -> None:
        async with kube.ApiServer(connection(server), user_agent="test") as api:
            async for _ in list_and_watch(api, PATH):
                pass

    task = asyncio.create_task(run())
    async with asyncio.timeout(20):
        await enough.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return pauses


async def test_list_keeps_selected_parts(fake: Fake) -> None:
    """With `keep`, a list holds the kept parts of each object, while changes have whole objects."""
    server, api = fake
    server.add("list", listed("7", "a", proceed="more"), listed("7", "b"))
    server.add("watch", streamed(event("ADDED", "c", "8")))
    watch = list_and_watch(api, PATH, timing=QUICK, keep=lambda found: found["metadata"]["name"])
    async with asyncio.timeout(20), aclosing(watch) as changes:
        first, second = await anext(changes), await anext(changes)
    assert isinstance(first, Relisted)
    assert first.items == ["a", "b"]
    assert isinstance(second, Changed)
    assert second.object["metadata"]["name"] == "c"


async def test_known_list_is_not_read_again(fake: Fake) -> None:
    """A caller that has listed everything can watch from that version on."""
    server, api = fake
    server.add("watch", streamed(event("ADDED", "c", "8")))
    assert await _take(1, list_and_watch(api, PATH, timing=QUICK, since="7")) == [("ADDED", "c")]
    assert server.queries("list") == []
    assert server.queries("watch")[0]["resourceVersion"] == "7"


async def test_missing_kind_is_noted(fake: Fake) -> None:
    """A kind unknown to the server is distinguished from other rejections, until the server knows it."""
    server, api = fake
    health = WatchHealth()
    result = []

    async def missing(_: web.Request) -> web.StreamResponse:
        result.append(health.not_found)
        return web.Response(status=404, text="404 page not found")

    server.add("list", missing, missing, listed("7", "a"))
    assert await _take(1, list_and_watch(api, PATH, health=health, timing=QUICK)) == [["a"]]
    assert result == [False, True]
    assert not health.not_found


async def test_absent_kind_may_be_an_empty_one(fake: Fake) -> None:
    """A caller of an optional kind learns that it is absent once the server has said so twice.

    Once might be one of several servers without the new definition.
    """
    server, api = fake
    health = WatchHealth()
    server.add("list", MISSING, MISSING, listed("7", "a"), MISSING, listed("8", "b"))
    server.add("watch", refused(410, "Expired"))
    watch = list_and_watch(api, PATH, health=health, timing=replace(QUICK, absent_is_empty=True))
    async with aclosing(watch):
        assert await anext(watch) == Relisted([])
        assert (health.synced, health.not_found) == (True, True)
        assert len(server.queries("list")) == 2
        assert health.last_contact is not None
        assert await _take(2, watch) == [["a"], ["b"]]
    assert not health.not_found


async def test_kind_that_goes_away_is_an_empty_one(fake: Fake) -> None:
    """A removed definition removes its objects, also without observed deletions."""
    server, api = fake
    server.add("list", listed("7", "a"), MISSING, MISSING)
    server.add("watch", MISSING, MISSING)
    assert await _take(2, list_and_watch(api, PATH, timing=replace(QUICK, absent_is_empty=True))) == [["a"], []]
