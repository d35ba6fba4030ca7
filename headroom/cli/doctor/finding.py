"""What a check says: one sentence, how bad it is, and what mends it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

_MOST_NAMES: Final = 5


class Severity(StrEnum):
    """How bad it is."""

    OK = "ok"  # all is well
    INFO = "info"  # worth knowing, or could not be looked at
    WARNING = "warning"  # something works less well than it could, or soon will
    ERROR = "error"  # something does not work


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check has to say."""

    severity: Severity  # how bad it is
    message: str  # what was found, in a sentence or two
    fix: str = ""  # what mends it, one command where there is one; empty where nothing has to be done
    docs: str = ""  # the page that says more, below docs/
    objects: tuple[str, ...] = ()  # the names of all that it is about, where the message names only the first
    is_blind: bool = False  # whether this says only that the check could not look

    def __post_init__(self) -> None:
        """Fold the message into one line: what others said of it may have several."""
        object.__setattr__(self, "message", " ".join(self.message.split()))

    def as_json(self, check: str) -> dict[str, Any]:
        """The finding for programs.

        Args:
            check: the check that says it.
        """
        return {
            "check": check,
            "severity": str(self.severity),
            "message": self.message,
            "fix": self.fix,
            "docs": self.docs,
            "objects": list(self.objects),
        }


def ok(message: str) -> Finding:
    """All is well."""
    return Finding(Severity.OK, message)


def info(message: str, fix: str = "", docs: str = "", objects: Sequence[str] = ()) -> Finding:
    """Worth knowing."""
    return Finding(Severity.INFO, message, fix, docs, tuple(objects))


def warning(message: str, fix: str, docs: str = "", objects: Sequence[str] = ()) -> Finding:
    """Works less well than it could."""
    return Finding(Severity.WARNING, message, fix, docs, tuple(objects))


def error(message: str, fix: str, docs: str = "", objects: Sequence[str] = ()) -> Finding:
    """Does not work."""
    return Finding(Severity.ERROR, message, fix, docs, tuple(objects))


def named(names: Sequence[str]) -> str:
    """The first names, and how many there are more: "a, b, c, d, e and 2 more"."""
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def count(number: int, what: str) -> str:
    """A number with its noun: "1 node", "2 nodes"."""
    return f"{number} {what}{'' if number == 1 else 's'}"
