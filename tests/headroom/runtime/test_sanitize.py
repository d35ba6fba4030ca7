"""Untrusted text in logs, events and pages."""

import json
import logging
from typing import Any, cast

import pytest

from headroom.kube import ApiServer
from headroom.kube.events import EventRecorder
from headroom.runtime.logs import JsonLines, TextLines
from headroom.runtime.sanitize import printable, printable_json
from tests.support.api import FakeApi

HOSTILE = "pod \x1b[2J\nFORGED\u2028x\x85\u202e\x9b\x7f\ud800 ä 😀"


def test_text_is_one_line() -> None:
    """What is not printable is shown as an escape; letters of any script stay."""
    assert printable(HOSTILE) == r"pod \x1b[2J\nFORGED\u2028x\x85\u202e\x9b\x7f\ud800 ä 😀"


def test_json_says_the_same() -> None:
    """JSON is escaped as JSON does it, so that programs read what was there."""
    text = printable_json(json.dumps({"a": HOSTILE}, indent=1, ensure_ascii=False))
    assert json.loads(text) == {"a": HOSTILE}
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize("form", [TextLines(), JsonLines()])
def test_log_lines(form: logging.Formatter) -> None:
    record = logging.LogRecord("agent", logging.WARNING, "", 0, "said %s", (HOSTILE,), None)
    line = form.format(record)
    assert line.isprintable(), line


async def test_events() -> None:
    """A note in `kubectl describe` forges no line."""
    api: Any = FakeApi()
    recorder = EventRecorder(cast("ApiServer", api), "test")
    await recorder.record({"kind": "Node", "name": "n"}, "Normal", "A", "B", HOSTILE)
    (body,) = api.written("POST", "/events")
    assert body["note"] == printable(HOSTILE)
