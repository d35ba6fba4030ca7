"""Which nodes get the taint `headroom.dev/hot`: the hold, the share of the cluster, and the rate. Pure.

A node is due when its reports have shown it hot for `afterSeconds`. It gets the taint when the cluster has a free
place, a hotter node does not wait for it, and the rate allows it; it keeps the taint until it is cool.

    places = floor(nodes * maxNodesPercent / 100), but one of several nodes

Of 30 nodes, 20 % are 6 places. When nodes go and there are more taints than places, the coolest of them lose theirs.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from manager.hot_nodes.load import DRY_RUN, OFF, HotSettings, Load
from manager.mid.eviction.limits import SlidingMinute

_UNKNOWN: Final = 1000  # heat of a tainted node before its first report: it is not the first to lose the taint


class Reason(StrEnum):
    """The cause of a taint, or of its absence: the reasons of condition `NodeHot`."""

    TAINTED = "Tainted"
    DRY_RUN = "DryRun"  # it would have the taint
    SHARE = "ShareReached"  # it is hot, and as many nodes as allowed have the taint
    RATE = "RateReached"  # it is hot, and gets the taint within a minute
    FORBIDDEN = "Forbidden"  # it is hot, and the API server refuses the taint
    NOT_HOT = "NotHot"
    NO_REPORT = "NoFreshReport"
    OFF = "Off"

    @property
    def hot(self) -> bool:
        return self in {Reason.TAINTED, Reason.DRY_RUN, Reason.SHARE, Reason.RATE, Reason.FORBIDDEN}


class Decision(NamedTuple):
    """The verdict about one node, with its reason."""

    marked: bool  # in dryRun nothing is written, but the node takes a place
    reason: Reason
    wait: float | None = None  # in how many seconds to decide again even if nothing changes [s]


@dataclass(slots=True)
class Hold:
    """For how long the reports of one node have shown it hot, by the times at which they were observed."""

    since: float | None = None
    latest: float = 0.0

    def observe(self, load: Load, at: float | None) -> None:
        """Add the last report, which may be an old one; it was observed at that time. [s]"""
        if load.unusable or not load.hot or at is None:
            self.since = None
            return
        self.since, self.latest = at if self.since is None else self.since, at

    def lasted(self, seconds: float) -> bool:
        return self.since is not None and self.latest - self.since >= seconds


@dataclass(slots=True)
class NodeHeat:
    """The state of one node between reconciliations."""

    hold: Hold = field(default_factory=Hold)
    load: Load = field(default_factory=lambda: Load(HotSettings()))  # by the last report
    decision: Decision = Decision(False, Reason.OFF)  # noqa: RUF009 - a frozen value
    written: str = ""  # the effect of the taint that this manager has seen on the Node or written to it
    reported: Reason = Reason.OFF  # the reason of the last event

    def clear(self) -> None:
        """Drop the observations, as of a node that is new."""
        self.hold, self.written = Hold(), ""


@dataclass(slots=True)
class Places:
    """The hot nodes of the cluster that have a place, or wait for one, and the rate of new taints."""

    claimed: set[str] = field(default_factory=set)
    """Nodes with a place beside those that have the taint: of dryRun, and those with a write that has not ended."""
    heat: dict[str, int] = field(default_factory=dict)  # of the nodes with a place, and of those that wait for one
    rate: SlidingMinute = field(default_factory=SlidingMinute)

    def drop(self, name: str) -> None:
        self.claimed.discard(name)
        self.heat.pop(name, None)

    def keeps(self, name: str, holders: Collection[str], places: int) -> bool:
        """Return whether a node with a place is among the hottest, as many as there are places."""
        if len(holders) <= places:
            return True
        return sum(self._rank(node) > self._rank(name) for node in holders) < places

    def admits(self, name: str, holders: Collection[str], places: int) -> bool:
        """Return whether a waiting node gets a free place: hotter ones come first."""
        hotter = sum(self._rank(node) > self._rank(name) for node in self.heat if node not in holders)
        return hotter < places - len(holders)

    def _rank(self, name: str) -> tuple[int, str]:
        return self.heat.get(name, _UNKNOWN), name


def places(nodes: int, settings: HotSettings) -> int:
    """Return how many of so many nodes may have the taint: one of several, however small the share."""
    return max(nodes * settings.max_nodes_percent // 100, min(nodes - 1, 1), 0)


def decide(
    name: str, load: Load, hold: Hold, cluster: Places, tainted: Collection[str], nodes: int, now: float
) -> Decision:
    """Decide about one node, and take its place and its part of the rate.

    Args:
        name: the node.
        load: by its last report.
        hold: with that report.
        cluster: the places; they change.
        tainted: the nodes that have the taint.
        nodes: how many nodes the cluster has.
        now: a clock that never jumps. [s]
    """
    settings = load.settings
    if settings.mode == OFF or load.unusable:
        cluster.drop(name)
        return Decision(False, Reason.OFF if settings.mode == OFF else Reason.NO_REPORT)
    has_place = (name in tainted or name in cluster.claimed) and not load.cool
    if not has_place and not (load.hot and hold.lasted(settings.after_seconds)):
        cluster.drop(name)
        return Decision(False, Reason.NOT_HOT)
    cluster.heat[name] = load.heat
    allowed = cluster.keeps if has_place else cluster.admits
    if not allowed(name, cluster.claimed.union(tainted), places(nodes, settings)):
        cluster.claimed.discard(name)
        return Decision(False, Reason.SHARE, load.expires_in)
    dry = settings.mode == DRY_RUN
    if not (has_place if dry else name in tainted):  # it is a new one
        free_at = cluster.rate.free_at(settings.per_minute, now)
        if free_at is None or free_at > now:
            return Decision(False, Reason.RATE, load.expires_in if free_at is None else free_at - now)
        cluster.rate.take(now)
    cluster.claimed.add(name)
    return Decision(True, Reason.DRY_RUN if dry else Reason.TAINTED, load.expires_in)
