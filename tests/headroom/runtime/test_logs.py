"""Logs have one event per line, and untrusted text forges none."""

import json
import logging
import sys
from typing import Any, cast

import pytest

from headroom.kube import ApiServer
from headroom.kube.events import EventRecorder
from headroom.runtime.logs import JsonLines, TextLines, set_up
from headroom.runtime.sanitize import printable, printable_json
from tests.support.api import FakeApi


def _record(message: str, *values: object, failing: bool = False) -> logging.LogRecord:
    result = None
    if failing:
        try:
            dict[str, str]()["two\nlines"]
        except KeyError:
            result = sys.exc_info()
    record = logging.LogRecord("agent.part", logging.WARNING, __file__, 1, message, values, result)
    record.created, record.msecs = 1_700_000_000.25, 250
    return record


def test_json_is_an_object() -> None:
    assert json.loads(JsonLines().format(_record("pod %s is gone", "a"))) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "agent.part",
        "message": "pod a is gone",
    }


def test_text_is_a_line() -> None:
    """A line break in a message does not begin another event."""
    assert TextLines().format(_record("a\nb %d", 1)) == "2023-11-14T22:13:20.250Z WARNING a b 1"


@pytest.mark.parametrize("form", [JsonLines(), TextLines()])
def test_unexpected_error_is_located(form: logging.Formatter) -> None:
    """An unexpected error is one line too, and says where it came from."""
    line = form.format(_record("step failed", failing=True))
    assert "\n" not in line
    assert "KeyError" in line
    assert "test_logs.py" in line


def test_libraries_may_lose_tracebacks(capsys: pytest.CaptureFixture[str]) -> None:
    """A named library's error is logged without the error itself; others keep it."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        set_up("json", "warning", without_traceback=["lib"])
        for name in ("lib.part", "library"):
            try:
                raise ValueError("why")  # noqa: TRY301
            except ValueError:
                logging.getLogger(name).exception("it failed")
        logging.getLogger("library").info("too little to be logged")
    finally:
        root.handlers[:], level = before
        root.setLevel(level)
        logging.captureWarnings(capture=False)
    texts = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["logger"], "exception" in line) for line in texts] == [("lib.part", False), ("library", True)]


HOSTILE = "pod \x1b[2J\nFORGED\u2028x\x85\u202e\x9b\x7f\ud800 ä 😀"


def test_text_is_one_line() -> None:
    """Unprintable characters are escaped; letters of any script stay."""
    assert printable(HOSTILE) == r"pod \x1b[2J\nFORGED\u2028x\x85\u202e\x9b\x7f\ud800 ä 😀"


def test_json_has_the_same_facts() -> None:
    """JSON is escaped as JSON, so that programs read the original text."""
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
