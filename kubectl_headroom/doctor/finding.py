"""The finding of a check: a sentence, a severity, and a fix."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

_MOST_NAMES: Final = 5


class Severity(StrEnum):
    """The severity of a finding."""

    OK = "ok"  # all is well
    INFO = "info"  # worth knowing, or could not be read
    WARNING = "warning"  # something works less well than it could, or soon will
    ERROR = "error"  # something does not work


@dataclass(frozen=True, slots=True)
class Finding:
    """A result of a check."""

    severity: Severity  # how bad it is
    message: str  # a sentence or two
    fix: str = ""  # what corrects it, one command where there is one; empty where nothing has to be done
    objects: Sequence[str] = ()  # the names of all that it is about, where the message names only the first
    docs: str | None = None  # the page below docs/ with details; None: the check's, for warnings and errors
    is_unreadable: bool = False  # whether the check lacks a permission

    def __post_init__(self) -> None:
        """Fold the message into one line: the text of a container or an API server may have several."""
        object.__setattr__(self, "message", " ".join(self.message.split()))
        object.__setattr__(self, "objects", tuple(self.objects))


ok = partial(Finding, Severity.OK)
info = partial(Finding, Severity.INFO)
warning = partial(Finding, Severity.WARNING)
error = partial(Finding, Severity.ERROR)


def about(
    severity: Severity, names: Sequence[str], message: str, fix: str = "", docs: str | None = None, noun: str = "node"
) -> Iterator[Finding]:
    """A finding about several objects, none where there are none.

    `{count}` and `{names}` in the message become "2 nodes" and "a, b"; `{first}` in the fix the first name. Neither may
    hold text of others, which may have braces.
    """
    if names:
        text = message.replace("{count}", count(len(names), noun)).replace("{names}", named(names))
        yield Finding(severity, text, fix.replace("{first}", names[0]), names, docs)


def named(names: Sequence[str]) -> str:
    """The first names, and how many there are more: "a, b, c, d, e and 2 more"."""
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 node", "2 nodes"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
