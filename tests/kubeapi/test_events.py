"""Events: written once, counted after."""

import logging
from collections.abc import AsyncIterator

import pytest

from kubeapi import ApiServer
from kubeapi.events import EventRecorder
from tests.kubeapi.fake import FakeServer, answer, refused, serving

NODE = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"}
Fake = tuple[FakeServer, ApiServer]


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
async def fake() -> AsyncIterator[Fake]:
    """A fake server and a session with it."""
    async with serving() as pair:
        yield pair


async def _tell(recorder: EventRecorder, note: str = "It is full.") -> None:
    await recorder.record(NODE, "Warning", "Full", "Refusing", note)


async def test_event_is_complete(fake: Fake) -> None:
    """An event says who, what, why, when and about which object; cluster-scoped objects speak in `default`."""
    server, api = fake
    server.add("POST", answer({}))
    await _tell(EventRecorder(api, "headroom-manager", Clock()))
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
    clock = Clock()
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
    """An event that has expired on the server, or was last told an hour ago, is written anew."""
    server, api = fake
    clock = Clock()
    recorder = EventRecorder(api, "headroom-manager", clock)
    server.add("POST", answer({}), answer({}), answer({}))
    server.add("PATCH", refused(404, "NotFound"))
    for later in (0, 61, 3700):
        clock.now += later
        await _tell(recorder)
    assert [request.method for request in server.requests] == ["POST", "PATCH", "POST", "POST"]


async def test_failure_is_only_logged(fake: Fake, caplog: pytest.LogCaptureFixture) -> None:
    """An event that cannot be written is logged, fails nobody, and is tried again at its next occasion."""
    server, api = fake
    caplog.set_level(logging.WARNING)
    recorder = EventRecorder(api, "headroom-manager", Clock())
    server.add("POST", refused(403, "Forbidden"), answer({}))
    await _tell(recorder)
    await _tell(recorder)
    assert [request.method for request in server.requests] == ["POST", "POST"]
    assert "An event could not be written (Full: It is full.)" in caplog.text


async def test_long_notes_are_cut(fake: Fake) -> None:
    """A note is cut to what the server accepts, between characters."""
    server, api = fake
    server.add("POST", answer({}))
    await _tell(EventRecorder(api, "headroom-manager", Clock()), "ä" * 2000)
    assert server.bodies[0]["note"] == "ä" * 512


async def test_memory_is_bounded(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many events are remembered; the oldest are forgotten first."""
    server, api = fake
    monkeypatch.setattr("kubeapi.events._REMEMBERED", 2)
    recorder = EventRecorder(api, "headroom-manager", Clock())
    server.add("POST", *(answer({}) for _ in range(4)))
    for note in ("1", "2", "3", "3", "1"):
        await _tell(recorder, note)
    assert [body["note"] for body in server.bodies] == ["1", "2", "3", "1"]
