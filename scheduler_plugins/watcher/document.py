"""load-watcher's answer: the metrics of nodes over a window, in the field names of its wire format."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from crds.duration import format_duration

Metric: TypeAlias = Mapping[str, Any]
"""One value: `name`, `type` (CPU, Memory), `operator` (AVG, STD, Latest), `rollup`, `value` [%]."""

PREFERRED: Final = 900.0
"""The window that load-watcher asks for first. [s]"""
_SHORTER: Final[Mapping[float, float]] = {900.0: 600.0, 600.0: 300.0}
"""Which window stands for one that is not there."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Document:
    """What is known of all nodes."""

    source: str
    """Where the numbers come from."""
    timestamp: float
    """When the answer was made. [unix s]"""
    window_seconds: float
    """The window that the numbers are of. [s]"""
    window_end: float
    """Its end. [unix s]"""
    nodes: Mapping[str, Sequence[Metric]]
    """The metrics by node."""

    def to_json(self, host: str | None = None) -> dict[str, Any] | None:
        """The answer for all nodes or for one; None when that one is not known."""
        if host is None:
            nodes = self.nodes
        elif host in self.nodes:
            nodes = {host: self.nodes[host]}
        else:
            return None
        end = math.floor(self.window_end)
        return {
            "timestamp": math.floor(self.timestamp),
            "window": {
                "duration": short_duration(self.window_seconds),
                "start": end - round(self.window_seconds),
                "end": end,
            },
            "source": self.source,
            "data": {"NodeMetricsMap": {name: _node(metrics) for name, metrics in nodes.items()}},
        }


def _node(metrics: Sequence[Metric]) -> dict[str, Any]:
    return {"metrics": list(metrics), "tags": {}, "metadata": {"dataCenter": ""}}


def latest(windows: Mapping[float, _T], requested: float = PREFERRED) -> tuple[float, _T] | None:
    """The window that stands for the requested one, and what it holds; None when nothing does.

    15m falls back to 10m, and 10m to 5m: by one step, as load-watcher does it.

    Args:
        windows: what is known, by length. [s]
        requested: the wanted length. [s]
    """
    for length in (requested, _SHORTER.get(requested)):
        if length is not None and length in windows:
            return length, windows[length]
    return None


def window_of(lengths: Iterable[float]) -> float | None:
    """The window to take of those that a node reports: as `latest`, else the one that is closest to 15m.

    Agents report whatever windows their NodeMetric asks for, and a number of another window is better than none.
    """
    known = dict.fromkeys(lengths)
    found = latest(known)
    if found is not None:
        return found[0]
    return min(known, key=lambda length: (abs(math.log(length / PREFERRED)), length), default=None)


def short_duration(seconds: float) -> str:
    """A duration without the zeros that Go writes: 900 -> "15m"."""
    text = format_duration(seconds)
    if text.endswith("m0s"):
        text = text.removesuffix("0s")
    return text.removesuffix("0m") if text.endswith("h0m") else text
