"""From an agent's report to the Node: what is expected on which Node since when, and when it was seen. Pure."""

from collections import defaultdict
from dataclasses import dataclass, field

from manager.inputs import Resource
from manager.mid import publish

FIRST, DECREASE = "first", "decrease"


@dataclass(slots=True)
class _Expected:
    """A number that must appear on a Node."""

    kind: str
    milli: int
    answered: float | None = None
    seen: float | None = None


@dataclass(slots=True)
class Latencies:
    """Pairs each report that must be published at once with the moment the Node shows it. Times of one clock. [s]

    Increases are published after they held for a while, and are not timed.
    """

    times: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Kind (first, decrease) -> time from the answer to the report until the Node was seen to change. [s]"""
    missed: int = 0  # reports whose number never appeared before the next report of their node
    changes: int = 0  # how often a Node was seen to have another number
    _published: dict[str, int | None] = field(default_factory=dict)
    _reported: dict[str, int] = field(default_factory=dict)
    _expected: dict[str, _Expected] = field(default_factory=dict)

    def reports(self, node: str, milli: int) -> None:
        """An agent is about to report that this much is reclaimable. [milli-cores]"""
        if self._expected.pop(node, None) is not None:
            self.missed += 1
        self._reported[node] = milli
        published = self._published.get(node)
        if published is None:
            self._expected[node] = _Expected(FIRST, milli)
        elif publish.is_urgent(published, milli, Resource.CPU):
            self._expected[node] = _Expected(DECREASE, milli)

    def refused(self, node: str) -> None:
        """The report did not reach the API server, as far as is known: nothing is expected of its node."""
        self._expected.pop(node, None)
        self._reported.pop(node, None)

    def answered(self, node: str, now: float) -> None:
        """The API server has taken the report."""
        expected = self._expected.get(node)
        if expected is not None:
            expected.answered = now
            self._settle(node, expected)

    def shows(self, node: str, milli: int | None, now: float) -> None:
        """A watch shows what a Node has. [milli-cores]"""
        if node in self._published and self._published[node] == milli:
            return
        self.changes += node in self._published
        self._published[node] = milli
        expected = self._expected.get(node)
        if expected is not None and expected.milli == milli:
            expected.seen = now
            self._settle(node, expected)

    def waiting(self) -> int:
        """How many numbers have not appeared yet."""
        return len(self._expected)

    def behind(self) -> int:
        """How many Nodes do not show what was reported last, be it less or more."""
        return sum(self._published.get(node) != milli for node, milli in self._reported.items())

    def _settle(self, node: str, expected: _Expected) -> None:
        if expected.answered is None or expected.seen is None:
            return
        self.times[expected.kind].append(max(expected.seen - expected.answered, 0.0))
        del self._expected[node]
