"""The bounds of `hotNodes` for clusters of any size, and the steps from hot to tainted and back."""

import random
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from manager.hot_nodes.decision import Decision, Hold, Places, Reason, decide, places
from manager.hot_nodes.load import HotSettings, Load
from manager.inputs import Resource

NODES = 10


def _load(percent: int | None, **fields: object) -> Load:
    settings = HotSettings(**{"mode": "prefer", "after_seconds": 120, **fields})  # type: ignore[arg-type]
    if percent is None:
        return Load(settings, unusable="there is no report")
    return Load(settings, {Resource.CPU: percent}, expires_in=900.0)


class Cluster:
    """A cluster with reports each minute, and the taints that it would write."""

    def __init__(self, nodes: int = NODES, **settings: object) -> None:
        self.nodes, self.settings = nodes, settings
        self.places, self.holds = Places(), dict[str, Hold]()
        self.tainted, self.now = set[str](), 0.0

    def report(self, name: str, percent: int | None) -> Decision:
        """Decide about a node after a report."""
        load = _load(percent, **self.settings)
        hold = self.holds.setdefault(name, Hold())
        hold.observe(load, None if percent is None else self.now)
        decision = decide(name, load, hold, self.places, self.tainted, self.nodes, self.now)
        if decision.marked and load.settings.effect:
            self.tainted.add(name)
        else:
            self.tainted.discard(name)
        return decision

    def minute(self, percents: Mapping[str, int | None]) -> dict[str, Decision]:
        self.now += 60.0
        return {name: self.report(name, percent) for name, percent in percents.items()}


def test_hot_node_is_tainted_after_it_held() -> None:
    """A node is tainted when reports have shown it hot for afterSeconds; a cooler report between starts over."""
    cluster = Cluster()
    assert [cluster.minute({"a": percent})["a"].marked for percent in (70, 70, 60, 70, 70, 70)] == [False] * 5 + [True]


def test_one_old_report_never_holds() -> None:
    """Time that passes without a new report does not count as heat."""
    cluster, load, hold = Cluster(), _load(90), Hold()
    hold.observe(load, 60.0)
    hold.observe(load, 60.0)
    decision = decide("a", load, hold, cluster.places, set(), NODES, 10_000.0)
    assert decision == Decision(False, Reason.NOT_HOT)


def test_taint_stays_until_cool() -> None:
    """Between the lower threshold and the upper one a taint stays, and none is set."""
    cluster = Cluster(after_seconds=0)
    marks = [cluster.minute({"a": percent})["a"].marked for percent in (60, 66, 60, 56, 55, 60, 65)]
    assert marks == [False, True, True, True, False, False, False]


def test_taint_of_an_earlier_manager_stays() -> None:
    """A manager that starts keeps the taint of a node that is not cool, without a hold and without the rate."""
    cluster = Cluster(per_minute=0)
    cluster.tainted.add("a")
    assert cluster.minute({"a": 60})["a"].marked
    assert not cluster.minute({"a": 50})["a"].marked


def test_expired_report_loses_the_taint() -> None:
    cluster = Cluster(after_seconds=0)
    assert cluster.minute({"a": 90})["a"].marked
    assert cluster.minute({"a": None})["a"] == Decision(False, Reason.NO_REPORT)
    assert not cluster.tainted


def test_share_bounds_the_taints() -> None:
    """A hot node without a free place waits, and the reason is the share."""
    cluster = Cluster(after_seconds=0)
    decisions = cluster.minute(dict.fromkeys("abcde", 80))
    assert len(cluster.tainted) == 2
    assert {decision.reason for decision in decisions.values()} == {Reason.TAINTED, Reason.SHARE}


def test_waiting_node_that_is_hotter_gets_the_free_place() -> None:
    """A place that becomes free goes to the hottest waiting node, whichever reports first."""
    cluster = Cluster(nodes=5, after_seconds=0)
    assert cluster.minute({"a": 70})["a"].marked
    waiting = {"b": 71, "c": 99}
    assert {decision.reason for decision in cluster.minute(waiting).values()} == {Reason.SHARE}
    cluster.minute({"a": 30})
    cluster.minute(waiting)
    assert cluster.tainted == {"c"}


def test_fewer_nodes_release_the_coolest() -> None:
    """When the cluster shrinks, the coolest tainted nodes lose the taint until the share holds again."""
    cluster = Cluster(after_seconds=0)
    percents = {"a": 70, "b": 90}
    cluster.minute(percents)
    assert cluster.tainted == {"a", "b"}
    cluster.nodes = 5
    cluster.minute(percents)
    assert cluster.tainted == {"b"}


def test_rate_admits_some_per_minute() -> None:
    cluster = Cluster(nodes=100, after_seconds=0, per_minute=3)
    percents = {f"n{number}": 80 for number in range(8)}
    counts = []
    for _ in range(4):
        decisions = cluster.minute(percents)
        counts.append(len(cluster.tainted))
        assert all(0 < (decision.wait or 0) <= 900.0 for decision in decisions.values())
    assert counts == [3, 6, 8, 8]


def test_dry_run_takes_places() -> None:
    """A dry run shows the nodes that would be tainted under the same bounds, and writes nothing."""
    cluster = Cluster(mode="dryRun", after_seconds=0)
    decisions = cluster.minute(dict.fromkeys("abcd", 80))
    assert sorted(decision.reason for decision in decisions.values()) == [Reason.DRY_RUN] * 2 + [Reason.SHARE] * 2
    assert not cluster.tainted


def test_leaving_dry_run_keeps_the_rate() -> None:
    """The first real taints after dryRun obey maxPerMinute too."""
    cluster = Cluster(nodes=100, mode="dryRun", after_seconds=0, per_minute=2)
    percents = {f"n{number}": 80 for number in range(6)}
    for _ in range(3):
        cluster.minute(percents)
    cluster.settings["mode"] = "noSchedule"
    cluster.minute(percents)
    assert len(cluster.tainted) == 2


def test_off_removes_every_taint() -> None:
    cluster = Cluster(after_seconds=0)
    cluster.minute({"a": 90})
    cluster.settings["mode"] = "off"
    assert cluster.minute({"a": 90})["a"] == Decision(False, Reason.OFF)
    assert not cluster.tainted
    assert cluster.places == Places(rate=cluster.places.rate)


def test_one_node_alone_is_never_tainted() -> None:
    """A small share allows one of several nodes, and never the only one."""
    assert [places(nodes, HotSettings(max_nodes_percent=20)) for nodes in (0, 1, 2, 9, 10, 14, 15)] == [
        0,
        0,
        1,
        1,
        2,
        2,
        3,
    ]


@given(
    nodes=st.integers(0, 40),
    share=st.integers(1, 100),
    per_minute=st.integers(0, 5),
    after=st.sampled_from([0, 60, 150]),
    seed=st.integers(0, 2**32),
)
def test_bounds_hold_for_any_history(nodes: int, share: int, per_minute: int, after: int, seed: int) -> None:
    """Whatever reports come, share, rate, hold and freshness bound the taints of every moment."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    cluster = Cluster(nodes, max_nodes_percent=share, per_minute=per_minute, after_seconds=after)
    names = [f"n{number}" for number in range(nodes)]
    new_at, hot_since, limit = list[float](), dict[str, float](), places(nodes, HotSettings(max_nodes_percent=share))
    for _ in range(30):
        cluster.now += draw.choice([1.0, 20.0, 60.0])
        for name in draw.sample(names, draw.randint(0, nodes)):
            percent, before = draw.choice([None, 30, 55, 60, 66, 90]), name in cluster.tainted
            hot_since = (
                {**hot_since, name: hot_since.get(name, cluster.now)}
                if (percent or 0) > 65
                else {other: since for other, since in hot_since.items() if other != name}
            )
            marked = cluster.report(name, percent).marked
            assert not (marked and (percent is None or percent <= 55)), "stale or cool"
            if marked and not before:
                new_at.append(cluster.now)
                assert cluster.now - hot_since[name] >= after
            assert len(cluster.tainted) <= limit
    for start in new_at:
        assert sum(start <= at < start + 60.0 for at in new_at) <= per_minute
