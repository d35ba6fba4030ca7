"""Whether another program reports on this node too: a second agent, or Koordinator's koordlet beside ours.

Both write the same status, and each undoes what the other wrote. It shows in the times of the reports, which nobody
else has a reason to write: times that stand there and that we did not send are another's.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

REMEMBERED_SECONDS: Final = 600.0
"""How long another's report is remembered. [s]"""
CHECK_SECONDS: Final = 60.0
"""A changed object is read at most this often to find out whether the change was a report. [s]"""
TEXT: Final = (
    "another program reports in this NodeMetric too, such as a second agent or Koordinator's koordlet on this node: "
    "each undoes the other's report; leave one of them"
)
"""What is wrong, and what can be done."""
_REMEMBERED: Final = 64
_ENOUGH: Final = 2

Time = tuple[str, Any]


@dataclass(slots=True)
class OtherReporters:
    """Remembers which times of reports are ours, and who else's were seen. Times are those of one steady clock. [s]"""

    _ours: deque[Time] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _others: dict[Time, float] = field(default_factory=dict)
    _reported: bool = False

    def mark_own(self, status: Mapping[str, Any]) -> None:
        """Take the times of a status for ours: before it is sent, arrive or not, and of what stood there before us."""
        self._ours.extend(each for each in _times(status) if each not in self._ours)

    def observe(self, status: Mapping[str, Any], now: float) -> bool:
        """Look at a status as the server has it. Whether another reporter shows in it that was not there before.

        One report may be a last one by an agent that ours replaces; two of different times are by one that stays.
        """
        for each in _times(status):
            if each not in self._ours and each not in self._others:
                self._others[each] = now
        before, self._reported = self._reported, self.present(now)
        return self._reported and not before

    def present(self, now: float) -> bool:
        """Whether another reports, as of the last ten minutes."""
        self._others = {each: at for each, at in self._others.items() if now - at < REMEMBERED_SECONDS}
        names = [name for name, _ in self._others]
        return any(names.count(name) >= _ENOUGH for name in set(names))


def _times(status: Mapping[str, Any]) -> Iterator[Time]:
    prediction = status.get("prediction")
    found = status.get("updateTime"), prediction.get("time") if isinstance(prediction, dict) else None
    return ((name, one) for name, one in zip(("updateTime", "time"), found, strict=True) if isinstance(one, str))
