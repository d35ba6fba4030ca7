"""The state of the configuration as text: for `kubectl describe`, and for events."""

import re
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from manager.config.changes import Change
from manager.config.findings import entry_name
from manager.config.in_force import InForce, Origin
from manager.config.overlaps import Overlap, named

_MOST_FINDINGS: Final = 8
_MOST_LISTED: Final = 5
_LONGEST: Final = 400
_WIDEST: Final = 138  # `kubectl describe` cuts the lines of annotations there
_ENTRY: Final = re.compile(r"nodeConfigs\[(\d+)\]")
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


def format_timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(_TIME)


def parse_timestamp(text: object) -> float | None:
    """The time of `format_timestamp`; `None` for anything else. [s since 1970]"""
    try:
        return datetime.strptime(str(text), _TIME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def disabled_entries(state: InForce) -> tuple[str, ...]:
    """The entries of `nodeConfigs` that are disabled, as messages call them."""
    matches = (_ENTRY.match(error.path) for error in state.entry_errors)
    entries = state.config.node_configs or ()
    indexes = dict.fromkeys(int(match[1]) for match in matches if match)
    return tuple(entry_name(index, entries[index].name if index < len(entries) else None) for index in indexes)


def sentences(findings: Sequence[object], most: int = _MOST_FINDINGS) -> str:
    """The first ones, and how many there are more."""
    text = "; ".join(str(finding) for finding in findings[:most])
    rest = len(findings) - most
    return f"{text}; and {rest} more" if rest > 0 else text


def summary(state: InForce, overlaps: Sequence[Overlap]) -> str:
    """A summary for the ConfigMap's annotation, in lines that `kubectl describe` does not cut."""
    if state.errors:
        lines = [f"NOT in force, {_count(len(state.errors), 'fault')}:", *_listed(state.errors), instead(state)]
    else:
        lines = [f"in force since {format_timestamp(state.since)}"]
    if disabled := disabled_entries(state):
        count = "1 entry" if len(disabled) == 1 else f"{len(disabled)} entries"
        lines += [f"{count} disabled: {sentences(disabled)}", *_listed(state.entry_errors)]
    if overlaps:
        lines += ["overlaps:", *_listed(overlaps)]
    if state.warnings:
        lines += [f"{_count(len(state.warnings), 'warning')}:", *_listed(state.warnings)]
    wrapped = (textwrap.wrap(line, _WIDEST, subsequent_indent="  ", break_on_hyphens=False) for line in lines)
    return "\n".join(line for lines in wrapped for line in lines)


def _listed(findings: Sequence[object]) -> list[str]:
    rest = len(findings) - _MOST_LISTED
    return [f"- {finding}"[:_LONGEST] for finding in findings[:_MOST_LISTED]] + (
        [f"- and {rest} more"] if rest > 0 else []
    )


def instead(state: InForce) -> str:
    """Return the text about the config in force while the ConfigMap is not usable."""
    if state.origin is Origin.DEFAULTS:
        return "the defaults apply, and colocation is disabled"
    return f"the last good one, in force since {format_timestamp(state.since)}, stays in force"


def applied(changes: Sequence[Change], nodes: int) -> str:
    """Return the summary of a new configuration for so many nodes, from the changes of their strategies."""
    changed = sorted(name for change in changes for name in change.nodes)
    if not changed:
        return f"in force; the strategy of none of the {_count(nodes, 'node')} changes"
    return f"in force; the strategy of {named(changed)} of {nodes} changes"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
