"""One event per line."""

import json
import logging
import sys

import pytest

from headroom.runtime.logs import JsonLines, TextLines, set_up


def _record(message: str, *values: object, failing: bool = False) -> logging.LogRecord:
    found = None
    if failing:
        try:
            dict[str, str]()["two\nlines"]
        except KeyError:
            found = sys.exc_info()
    record = logging.LogRecord("agent.part", logging.WARNING, __file__, 1, message, values, found)
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
    """What a named library says of an error is logged without the error itself; others keep it."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        set_up("json", "warning", without_traceback=["lib"])
        for name in ("lib.part", "library"):
            try:
                raise ValueError("why")  # noqa: TRY301
            except ValueError:
                logging.getLogger(name).exception("it failed")
        logging.getLogger("library").info("too little to be told")
    finally:
        root.handlers[:], level = before
        root.setLevel(level)
        logging.captureWarnings(capture=False)
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["logger"], "exception" in line) for line in told] == [("lib.part", False), ("library", True)]
