import logging
import re

import pytest

from headroom.kube.events import EventRecorder
from tests.headroom.kube.fake import Fake, answer, refused
from tests.support.world import Clock

START = 1_700_000_000.0
NODE = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"}


async def _tell(recorder: EventRecorder, note: str = "It is full.") -> None:
    await recorder.record(NODE, "Warning", "Full", "Refusing", note)


async def test_event_is_complete(fake: Fake) -> None:
    """An event says who, what, why, when and about which object; cluster-scoped objects speak in `default`."""
    server, api = fake
    server.add("POST", answer({}))
    await _tell(EventRecorder(api, "headroom-manager", Clock(START)))
    body = server.bodies[0]
    assert server.requests[0].path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert body["metadata"].pop("name").startswith("n1.")
    assert body.pop("reportingInstance").startswith("headroom-manager-")
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "eventTime": "2023-11-14T22:13:20.000000Z",
        "reportingController": "headroom-manager",
        "type": "Warning",
        "reason": "Full",
        "action": "Refusing",
        "note": "It is full.",
        "regarding": NODE,
    }


async def test_repetition_is_counted(fake: Fake) -> None:
    """The same event again is counted, and the count is written once a minute; another note is another event."""
    server, api = fake
    clock = Clock(START)
    recorder = EventRecorder(api, "headroom-manager", clock)
    server.add("POST", answer({}), answer({}))
    server.add("PATCH", answer({}))
    for _ in range(3):
        await _tell(recorder)
    clock.now += 61
    await _tell(recorder)
    await _tell(recorder, "It is fuller.")
    assert [request.method for request in server.requests] == ["POST", "PATCH", "POST"]
    assert server.bodies[1] == {"series": {"count": 4, "lastObservedTime": "2023-11-14T22:14:21.000000Z"}}


async def test_vanished_event_is_written_again(fake: Fake) -> None:
    """An event that has expired on the server, or was last recorded an hour ago, is created again."""
    server, api = fake
    clock = Clock(START)
    recorder = EventRecorder(api, "headroom-manager", clock)
    server.add("POST", answer({}), answer({}), answer({}))
    server.add("PATCH", refused(404, "NotFound"))
    for later in (0, 61, 3700):
        clock.now += later
        await _tell(recorder)
    assert [request.method for request in server.requests] == ["POST", "PATCH", "POST", "POST"]


async def test_refused_event_is_tried_again(fake: Fake, caplog: pytest.LogCaptureFixture) -> None:
    """An event that the server rejects raises nothing, is logged once, and is retried a few times."""
    server, api = fake
    caplog.set_level(logging.WARNING)
    clock = Clock(START)
    recorder = EventRecorder(api, "headroom-manager", clock)
    server.add("POST", *(refused(403, "Forbidden") for _ in range(5)))
    await _tell(recorder)
    await _tell(recorder)  # it is waiting already
    for _ in range(20):
        await recorder.flush()
        clock.now += 200.0
    assert [request.method for request in server.requests] == ["POST"] * 5
    assert recorder.waiting == 0
    assert caplog.text.count("An event could not be written (Full: It is full.)") == 1
    assert caplog.text.count("An event was given up (Full: It is full.)") == 1


async def test_event_outlives_an_outage(fake: Fake) -> None:
    """While the server is away events wait, without a request each; then they are sent in order."""
    server, api = fake
    clock = Clock(START)
    recorder = EventRecorder(api, "headroom-manager", clock)
    server.add("POST", refused(503, "ServiceUnavailable"), answer({}), answer({}), answer({}))
    for note in ("1", "2"):
        await _tell(recorder, note)
    await recorder.flush()
    assert (len(server.requests), recorder.waiting) == (1, 2)
    clock.now += 3
    await _tell(recorder, "3")
    assert [body["note"] for body in server.bodies] == ["1", "1", "2", "3"]
    assert server.bodies[1]["eventTime"] == "2023-11-14T22:13:20.000000Z"
    assert recorder.waiting == 0


async def test_clock_set_back_delays_no_event(fake: Fake) -> None:
    """A clock that is set back by a day does not keep waiting events and counts waiting for a day."""
    server, api = fake
    clock = Clock(START)
    recorder = EventRecorder(api, "headroom-manager", clock)
    server.add("POST", answer({}), refused(503, "ServiceUnavailable"), answer({}))
    server.add("PATCH", answer({}))
    for note in ("1", "1", "2"):
        await _tell(recorder, note)
    assert recorder.waiting == 1
    clock.now -= 86400
    await recorder.flush()
    assert recorder.waiting == 0
    clock.now += 61
    await recorder.flush()
    assert [request.method for request in server.requests] == ["POST", "POST", "POST", "PATCH"]


async def test_queue_is_bounded(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    server, api = fake
    monkeypatch.setattr("headroom.kube.events._MOST_WAITING", 2)
    clock = Clock(START)
    recorder = EventRecorder(api, "headroom-manager", clock)
    server.add("POST", refused(503, "ServiceUnavailable"))
    for note in ("1", "2", "3"):
        await _tell(recorder, note)
    assert recorder.waiting == 2
    clock.now += 3700
    await recorder.flush()
    assert (len(server.requests), recorder.waiting) == (1, 0)


async def test_other_replica_counts_on(fake: Fake) -> None:
    """A repeated event, after a restart or by another replica, counts on the first event."""
    server, api = fake
    clock = Clock(START)
    server.add("POST", answer({}), refused(409, "AlreadyExists"))
    server.add("PATCH", answer({"series": {"count": 6}}), answer({}))
    await _tell(EventRecorder(api, "headroom-manager", clock))
    clock.now += 10
    await _tell(EventRecorder(api, "headroom-manager", clock))
    posts = [body for body in server.bodies if "kind" in body]
    assert posts[0]["metadata"] == posts[1]["metadata"]
    assert server.bodies[2:] == [{}, {"series": {"count": 7, "lastObservedTime": "2023-11-14T22:13:30.000000Z"}}]


async def test_unwritten_count_is_written_later(fake: Fake) -> None:
    """A repetition within a minute of the first is not lost: it is counted on the server when the minute is over."""
    server, api = fake
    clock = Clock(START)
    recorder = EventRecorder(api, "headroom-manager", clock)
    server.add("POST", answer({}))
    server.add("PATCH", answer({}))
    await _tell(recorder)
    await _tell(recorder)
    for _ in range(2):
        await recorder.flush()
        clock.now += 61
    await recorder.flush()
    assert [body["series"]["count"] for body in server.bodies[1:]] == [2]


@pytest.mark.parametrize(
    ("name", "starts"),
    [("system:node", "system-node."), ("a" * 219 + ".b", "a" * 219 + "."), ("", "event."), ("pod.a", "pod.a.")],
)
async def test_name_is_valid(fake: Fake, name: str, starts: str) -> None:
    server, api = fake
    server.add("POST", answer({}))
    regarding = {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": name, "uid": "u"}
    await EventRecorder(api, "headroom-manager", Clock(START)).record(regarding, "Normal", "Seen", "Look", "x")
    metadata = server.bodies[0]["metadata"]
    assert metadata["namespace"] == "shop"
    assert metadata["name"].startswith(starts)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", metadata["name"])


async def test_long_notes_are_cut(fake: Fake) -> None:
    server, api = fake
    server.add("POST", answer({}))
    await _tell(EventRecorder(api, "headroom-manager", Clock(START)), "ä" * 2000)
    assert server.bodies[0]["note"] == "ä" * 512


async def test_memory_is_bounded(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    server, api = fake
    monkeypatch.setattr("headroom.kube.events._REMEMBERED", 2)
    recorder = EventRecorder(api, "headroom-manager", Clock(START))
    server.add("POST", *(answer({}) for _ in range(4)))
    for note in ("1", "2", "3", "3", "1"):
        await _tell(recorder, note)
    assert [body["note"] for body in server.bodies] == ["1", "2", "3", "1"]
