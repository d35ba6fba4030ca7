"""The log: one event per line on standard error, as text or as JSON."""

import json
import logging
import time
import traceback
from pathlib import PurePath


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and where an unexpected error came from."""

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
        return json.dumps(entry, ensure_ascii=False)


class TextLines(logging.Formatter):
    """One line for people; a line break in a message becomes a space, a traceback the places it passed through."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        line = " ".join(f"{_when(record)} {record.levelname} {record.getMessage()}".splitlines())
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return line
        places = [
            f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(error.__traceback__)
        ]
        return f"{line} [{type(error).__name__}: {' '.join(str(error).splitlines())}; {' > '.join(places)}]"


def set_up(form: str, level: str) -> None:
    """Log to standard error.

    Args:
        form: ``text`` or ``json``.
        level: The least severe message that is logged.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)


def _when(record: logging.LogRecord) -> str:
    """Time of the day in UTC, with milliseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
