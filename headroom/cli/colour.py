"""Whether to use colours: `--color` says it, else $NO_COLOR (https://no-color.org), else whether this is a terminal."""

import os
from contextvars import ContextVar
from typing import Final, TextIO

CHOICES: Final = ("auto", "always", "never")  # what `--color` takes
_CHOSEN: ContextVar[str] = ContextVar("colour", default="auto")


def choose(choice: str) -> None:
    """Settle it for this command.

    Args:
        choice: one of `CHOICES`; auto uses colours on a terminal alone.
    """
    _CHOSEN.set(choice)


def wanted(out: TextIO) -> bool:
    """Whether what is written there may bear colours."""
    choice = _CHOSEN.get()
    if choice != "auto":
        return choice == "always"
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
