"""The NodeMetric as the API server has it, and whether another program reports in it too."""

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from crds.codec import CodecError, from_json
from crds.meta import Condition
from crds.names import CONDITION_COLLECTING, CONDITION_PREDICTION_READY

Json = dict[str, Any]
Time = tuple[str, Any]
REMEMBERED_SECONDS: Final = 600.0  # how long another's report is remembered. [s]
CHECK_SECONDS: Final = 60.0
"""A changed object is read at most this often to find out whether the change was a report. [s]"""
ANOTHER_REPORTS: Final = (
    "another program reports in this NodeMetric too, such as a second agent or Koordinator's koordlet on this node: "
    "each undoes the other's report; leave one of them"
)
_OUR_CONDITIONS: Final = (CONDITION_COLLECTING, CONDITION_PREDICTION_READY)
_REMEMBERED: Final = 64
_ENOUGH: Final = 2


class RemoteNodeMetric:
    """The last known object, empty before the first. Malformed fields are ignored."""

    def __init__(self) -> None:
        self._take({})

    def _take(self, node_metric: Json) -> None:
        metadata = _mapping(node_metric.get("metadata"))
        self.object, self.known = node_metric, bool(node_metric)
        self.spec, self.status = _mapping(node_metric.get("spec")), _mapping(node_metric.get("status"))
        version, generation = metadata.get("resourceVersion"), metadata.get("generation")
        self.version = version if isinstance(version, str) else None  # of the object as a whole
        self.generation = generation if isinstance(generation, int) else None  # version of the spec
        self.identity = {key: metadata.get(key) for key in ("uid", "generation")}  # which object, with which spec
        stored = self.status.get("conditions")
        self._conditions = (
            [condition for condition in stored if isinstance(condition, dict)] if isinstance(stored, list) else []
        )

    def update(self, node_metric: Json) -> bool:
        """Remember the object. Whether it took another one's place: it was deleted and made again."""
        before, known = self.identity["uid"], self.known
        self._take(node_metric)
        return known and before != self.identity["uid"]

    @property
    def conditions(self) -> tuple[Condition, ...]:
        result = []
        for condition in self._conditions:
            with contextlib.suppress(CodecError):  # written by another program, and replaced by this report
                result.append(from_json(Condition, condition))
        return tuple(result)

    def is_current(self, metadata: Mapping[str, Any]) -> bool:
        return all(metadata.get(key) == value for key, value in self.identity.items())

    def with_foreign_conditions(self, status: Mapping[str, Any]) -> Json:
        foreign = [condition for condition in self._conditions if condition.get("type") not in _OUR_CONDITIONS]
        return {**status, "conditions": foreign + list(status.get("conditions") or ())}

    def has_conditions(self, wanted: Sequence[Mapping[str, Any]]) -> bool:
        stored = self.status.get("conditions")
        return isinstance(stored, list) and len(stored) == len(wanted) and all(item in stored for item in wanted)


@dataclass(slots=True)
class OtherReporters:
    """Distinguishes our reports from other reporters' by a monotonic clock. [s]

    A second agent, or koordlet on the same node, writes the same status, and each overwrites the other's report. Only
    reporters write the report times, so a time that this agent did not send is another reporter's.
    """

    _ours: deque[Time] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _others: dict[Time, float] = field(default_factory=dict)
    _reported: bool = False

    def mark_own(self, status: Mapping[str, Any]) -> None:
        """Record the times of a status as ours, before it is sent, or as those before our first report."""
        self._ours.extend(time for time in _times(status) if time not in self._ours)

    def observe(self, status: Mapping[str, Any], now: float) -> bool:
        """Record a status of the server, and return whether it shows another reporter for the first time."""
        for time in _times(status):
            if time not in self._ours and time not in self._others:
                self._others[time] = now
        before, self._reported = self._reported, self.present(now)
        return self._reported and not before

    def present(self, now: float) -> bool:
        """Return whether another reports, as of the last ten minutes.

        One report may be a last one by an agent that ours replaces; two of different times are by one that stays.
        """
        self._others = {each: at for each, at in self._others.items() if now - at < REMEMBERED_SECONDS}
        names = [name for name, _ in self._others]
        return any(names.count(name) >= _ENOUGH for name in set(names))


def _times(status: Mapping[str, Any]) -> Iterator[Time]:
    result = {"updateTime": status.get("updateTime"), "time": _mapping(status.get("prediction")).get("time")}
    return ((name, one) for name, one in result.items() if isinstance(one, str))


def with_own_conditions(status: Mapping[str, Any]) -> Json:
    """Return a status with our conditions alone, in a fixed order; without any of them it has no list."""
    result = status.get("conditions")
    ours = [condition for condition in result if isinstance(condition, dict)] if isinstance(result, list) else []
    ours = [our for name in _OUR_CONDITIONS for our in ours if our.get("type") == name]
    return {
        **{key: value for key, value in status.items() if key != "conditions"},
        **({"conditions": ours} if ours else {}),
    }


def _mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}
