"""Restarts of an API server, with a loop that is made up: which begin, and what is said of one that never settles."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tools.soak import api_server
from tools.soak.api_server import FEWEST, Seen, UnsettledError
from tools.soak.progress import Telling


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A loop of which nothing runs, and outages that only count."""
    made = SimpleNamespace(outages=0, unsettled=0, takes=0.0)

    @contextmanager
    def opened() -> Iterator[Any]:
        yield SimpleNamespace(processes={}, cluster=SimpleNamespace(keep_logs=lambda: None))

    def outage(_loop: object, seen: Seen, _chance: object) -> None:
        made.outages += 1
        if made.outages == made.unsettled:
            raise UnsettledError("restart 2: the extender being healthy did not happen")
        made.telling.began -= made.takes
        seen.restarts += 1
        seen.took.append(made.takes)

    monkeypatch.setattr(api_server, "Loop", SimpleNamespace(open=opened))
    monkeypatch.setattr(api_server, "outage", outage)
    monkeypatch.setattr(api_server, "_gap", lambda *_: 0.0)
    made.telling = Telling(420.0, time.monotonic())
    return made


def test_what_never_settles_is_named(stage: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    """The restart that did not settle is the claim that fails, and no other begins after it."""
    stage.unsettled = 2
    api_server.trial(stage.telling)
    assert stage.outages == 2
    assert stage.telling.failed == 1
    assert "the extender being healthy did not happen" in capsys.readouterr().out


def test_no_restart_begins_late(stage: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    """When the time is over nothing begins any more, and too few restarts are no success."""
    stage.takes = 250.0
    api_server.trial(stage.telling)
    assert stage.outages == 2 < FEWEST
    assert stage.telling.failed == 1
    assert "the time was enough for 2 restarts" in capsys.readouterr().out


def test_last_restart_has_time_to_settle(stage: SimpleNamespace) -> None:
    """Once there are enough, none begins in the last fifth of the time."""
    stage.takes = 30.0
    api_server.trial(stage.telling)
    assert stage.outages == 12  # of 420 s, 336 are over then
    assert stage.telling.failed == 0
