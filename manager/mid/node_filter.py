"""Nodes that take no part: by label selectors as of kubectl, and those of other operating systems. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from headroom.cluster.selector import matches
from manager.calculators.base import Degraded, Result

DEFAULT: Final = (
    "kubernetes.io/os=windows;type=virtual-kubelet;virtualization=virtualnode2;eks.amazonaws.com/compute-type=fargate"
)
"""Windows, Virtual Kubelet and the older virtual nodes of Azure, the newer ones, and Fargate."""
OS_LABEL: Final = "kubernetes.io/os"  # kubelet sets it; agents run on Linux alone
_LINUX: Final = "linux"
REASON: Final = "NodeExcluded"  # reason for publishing nothing on such a node

_KEY = r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?)?"
_EQUALITY: Final = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})", re.ASCII)
_SET: Final = re.compile(rf"({_KEY})\s+(in|notin)\s*\(\s*({_VALUE}(?:\s*,\s*{_VALUE})*)\s*\)", re.ASCII)
_PRESENCE: Final = re.compile(rf"(!?)\s*({_KEY})", re.ASCII)
_NEVER_TOGETHER: Final = ("type=virtual-kubelet", "eks.amazonaws.com/compute-type=fargate")
_BETWEEN: Final = re.compile(r",(?![^()]*\))")


def parse(text: str) -> dict[str, Any] | None:
    """A selector such as `type=virtual-kubelet,zone in (a, b),!real`, as `headroom.cluster.selector.matches` takes it.

    Returns:
        `None` for an empty text: it selects nothing.

    Raises:
        ValueError: it is not a selector, or needs labels that no node has together; one line that names the part.
    """
    if not text.strip():
        return None
    requirements = [_requirement(part.strip()) for part in _BETWEEN.split(text)]
    if all(_requirement(label) in requirements for label in _NEVER_TOGETHER):
        raise ValueError(
            f"{text!r} selects no node, because a comma means that a node has both labels: separate selectors of which "
            "any excludes a node by a semicolon"
        )
    return {"matchExpressions": requirements}


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
    """Selectors of nodes to exclude, of which any is enough."""

    text: str = DEFAULT  # the selectors as written, separated by semicolons; empty excludes no node of Linux
    selectors: Sequence[Mapping[str, Any]] = field(default_factory=lambda: tuple(_selectors(DEFAULT)))

    @classmethod
    def of(cls, text: str) -> Self:
        """Read selectors, separated by semicolons.

        Raises:
            ValueError: one of them is not a selector.
        """
        return cls(text, tuple(_selectors(text)))

    def excludes(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node takes no part. One of another operating system than Linux never does."""
        return _other_system(labels) != "" or any(matches(selector, labels) for selector in self.selectors)

    def excluded_result(self, result: Result, labels: Mapping[str, str]) -> Result:
        """The result of an excluded node, calculated as if colocation were disabled, with the reason that applies."""
        system = _other_system(labels)
        cause = f"agents run on Linux, and this node's {OS_LABEL} is {system}" if system else self._cause()
        why = Degraded(REASON, f"{cause}: it gets no NodeMetric and publishes nothing")
        notes = [note for note in result.notes if result.degraded is None or note != result.degraded.message]
        return replace(result, outcome=why, notes=(why.message, *notes))

    def _cause(self) -> str:
        return f"this node's labels match --exclude-nodes {self.text!r} of headroom-manager"


def _selectors(text: str) -> Iterator[Mapping[str, Any]]:
    return (selector for part in text.split(";") if (selector := parse(part)) is not None)


def _other_system(labels: Mapping[str, str]) -> str:
    """Return the operating system of a node, by its label; empty for Linux, and without one."""
    system = labels.get(OS_LABEL) or _LINUX
    return "" if system == _LINUX else system
