"""The log: one event per line on standard error, as text or as JSON."""

import json
import logging
import time
import traceback
from collections.abc import Collection
from pathlib import PurePath
from typing import Final

from headroom.runtime.sanitize import printable, printable_json

FORMS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")  # the least severe message that is logged, from all to few


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object: time, level, logger, message, and the place of an unexpected error."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        entry = {
            "time": _when(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return printable_json(json.dumps(entry, ensure_ascii=False))


class TextLines(logging.Formatter):
    """Formats a record as a line for people; line breaks become spaces, a traceback the list of its places."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        line = " ".join(f"{_when(record)} {record.levelname} {record.getMessage()}".splitlines())
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return printable(line)
        places = [
            f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(error.__traceback__)
        ]
        text = " ".join(str(error).splitlines())
        return printable(f"{line} [{type(error).__name__}: {text}; {' > '.join(places)}]")


class _NoTraceback(logging.Filter):
    """Removes the traceback from records of some libraries."""

    def __init__(self, libraries: Collection[str]) -> None:
        super().__init__()
        self._libraries = frozenset(libraries)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return the record, possibly without its traceback; none is dropped."""
        if record.exc_info and record.name.partition(".")[0] in self._libraries:
            record.exc_info = record.exc_text = None
        return True


def set_up(form: str, level: str, without_traceback: Collection[str] = ()) -> None:
    """Log to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(_NoTraceback(without_traceback))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)


def _when(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
