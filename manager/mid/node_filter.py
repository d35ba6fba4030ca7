"""Nodes that take no part: by a label selector as of kubectl, and those of other operating systems. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from headroom.cluster.selector import matches
from manager.calculators.base import Degraded, Result

DEFAULT: Final = "type=virtual-kubelet"  # the label of the Virtual Kubelet project
OS_LABEL: Final = "kubernetes.io/os"  # kubelet sets it; agents run on Linux alone
_LINUX: Final = "linux"
REASON: Final = "NodeExcluded"  # reason for publishing nothing on such a node

_KEY = r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?)?"
_EQUALITY: Final = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})", re.ASCII)
_SET: Final = re.compile(rf"({_KEY})\s+(in|notin)\s*\(\s*({_VALUE}(?:\s*,\s*{_VALUE})*)\s*\)", re.ASCII)
_PRESENCE: Final = re.compile(rf"(!?)\s*({_KEY})", re.ASCII)
_BETWEEN: Final = re.compile(r",(?![^()]*\))")


def parse(text: str) -> dict[str, Any] | None:
    """A selector such as `type=virtual-kubelet,zone in (a, b),!real`, as `headroom.cluster.selector.matches` takes it.

    Returns:
        `None` for an empty text: it selects nothing.

    Raises:
        ValueError: it is not a selector; one line that names the part.
    """
    if not text.strip():
        return None
    return {"matchExpressions": [_requirement(part.strip()) for part in _BETWEEN.split(text)]}


def _requirement(text: str) -> dict[str, Any]:
    if result := _EQUALITY.fullmatch(text):
        key, operator, value = result.groups()
        return {"key": key, "operator": "NotIn" if operator == "!=" else "In", "values": [value]}
    if result := _SET.fullmatch(text):
        key, operator, listed = result.groups()
        values = [value.strip() for value in listed.split(",")]
        return {"key": key, "operator": "In" if operator == "in" else "NotIn", "values": values}
    if result := _PRESENCE.fullmatch(text):
        absent, key = result.groups()
        return {"key": key, "operator": "DoesNotExist" if absent else "Exists"}
    raise ValueError(f"{text!r} is no label selector: write it like type=virtual-kubelet, zone in (a, b) or !real")


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """A selector of nodes to exclude."""

    text: str = DEFAULT  # the selector as written; empty excludes no node
    selector: Mapping[str, Any] | None = field(default_factory=lambda: parse(DEFAULT))

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a selector.

        Raises:
            ValueError: it is not one.
        """
        return cls(text, parse(text))

    def excludes(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node takes no part. One of another operating system than Linux never does."""
        return _other_system(labels) != "" or matches(self.selector, labels)

    def excluded_result(self, result: Result, labels: Mapping[str, str]) -> Result:
        """The result of an excluded node, calculated as if colocation were disabled, with the reason that applies."""
        system = _other_system(labels)
        cause = f"agents run on Linux, and this node's {OS_LABEL} is {system}" if system else self._cause()
        why = Degraded(REASON, f"{cause}: it gets no NodeMetric and publishes nothing")
        notes = [note for note in result.notes if result.degraded is None or note != result.degraded.message]
        return replace(result, outcome=why, notes=(why.message, *notes))

    def _cause(self) -> str:
        return f"this node's labels match --exclude-nodes {self.text!r} of headroom-manager"


def _other_system(labels: Mapping[str, str]) -> str:
    """Return the operating system of a node, by its label; empty for Linux, and without one."""
    system = labels.get(OS_LABEL) or _LINUX
    return "" if system == _LINUX else system
