"""LowRiskOverCommitment's view of pods, limits and load."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import names
from scheduler_plugins.plugins.low_risk_over_commitment import NAME, LowRiskOverCommitment
from scheduler_plugins.snapshot.arrays import Nodes
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.report import Statistic, Utilisation
from scheduler_plugins.snapshot.units import round_half_away
from tests.scheduler_plugins.objects import NOW, Json, node, node_metric, pod

WATCHED: Final = "http://load-watcher:2020"  # `watcherAddress` of a plugin that is fed with readings


def percents(
    cpu: tuple[float, float] | None = None,
    memory: tuple[float, float] | None = None,
    *,
    measured: float = 0,
    smoothed: bool = False,
) -> Utilisation:
    parts = [None if part is None else Statistic(*part) for part in (cpu, memory)]
    return Utilisation(parts[0], parts[1], NOW + measured, smoothed)


def reported(name: str = "n", updated: float | None = 0, **windows: Any) -> Json:  # noqa: ANN401 - type -> amounts
    aggregated = {f"{window.removeprefix('m')}m0s": usage for window, usage in windows.items()}
    return node_metric(name, "1", "1Gi", updated=updated, aggregated=aggregated)


class Overcommitted:
    def __init__(self, **arguments: Any) -> None:  # noqa: ANN401 - any argument of the plugin
        self.plugin = LowRiskOverCommitment(**arguments).defaulted()
        self.cache = ClusterCache(LoadRules(), {NAME: self.plugin})
        self.cache.put_node(node("n", "4", "8Gi"))

    def put(self, *pods: Json, on: str = "n") -> "Overcommitted":
        for item in pods:
            self.cache.put_pod({**item, "spec": {**item["spec"], "nodeName": on}}, NOW)
        return self

    def read(self, **readings: Utilisation) -> "Overcommitted":
        self.cache.update_readings(NAME, readings)
        return self

    def nodes(self, *names: str, now: float = 0) -> Nodes:
        return self.cache.freeze(NOW + now).select(names or ("n",))[0]

    def score(self, item: Json | None = None, *names: str, now: float = 0) -> int | list[int]:
        pod = self.cache.read(item or guaranteed("new", "1", "1Gi"))
        scores: list[int] = self.plugin.score(pod, self.nodes(*names, now=now)).tolist()
        return scores if names else scores[0]

    def explain(self, item: Json | None = None, now: float = 0) -> Mapping[str, Any]:
        return self.plugin.explain(self.cache.read(item or guaranteed("new", "1", "1Gi")), self.nodes(now=now))[0]


def guaranteed(name: str, cpu: str, memory: str) -> Json:
    return pod(name, {"cpu": cpu, "memory": memory}, {"cpu": cpu, "memory": memory})


def burstable(name: str, cpu: tuple[str, str], memory: tuple[str, str] = ("1Gi", "1Gi")) -> Json:
    return pod(name, {"cpu": cpu[0], "memory": memory[0]}, {"cpu": cpu[1], "memory": memory[1]})


BEST_EFFORT = pod("best-effort")


# Limits


@pytest.mark.parametrize(
    ("weight", "bound", "incoming", "score"),
    [
        (0.5, guaranteed("a", "2", "2Gi"), guaranteed("new", "1", "1Gi"), 100),  # its load is unknown
        # With limits of 7 cores and requests of 2 on 4 cores, 3 of 5 cores beyond do not exist: 100 (1 - 0.5 * 0.6).
        (0.5, burstable("a", ("1", "6")), guaranteed("new", "1", "1Gi"), 70),
        # The worse resource decides: memory, with 6 of 7 GiB beyond requests missing.
        (1.0, burstable("a", ("1", "4"), ("1Gi", "7Gi")), burstable("new", ("1", "1"), ("6Gi", "7Gi")), 14),
        (0.5, BEST_EFFORT, pod("new", {"cpu": "4", "memory": "8Gi"}), 100),  # a limit is no less than the request
        (1.0, burstable("a", ("3", "4")), burstable("new", ("500m", "3500m")), 13),  # 12.5: halves round up, as in Go
    ],
)
def test_limits_beyond_the_node_are_a_risk(weight: float, bound: Json, incoming: Json, score: int) -> None:
    assert Overcommitted(risk_limit_weight=weight).put(bound).score(incoming) == score


def test_nodes_are_ranked_by_their_limits() -> None:
    """With the same requests, the node with lower limits is better: story 1 of the design text."""
    world = Overcommitted()
    world.cache.put_node(node("m", "4", "8Gi"))
    world.put(burstable("a", ("1", "4"))).put(burstable("b", ("1", "6")), on="m")
    assert world.score(burstable("new", ("1", "2")), "n", "m") == [75, 67]


# Load


def test_load_beyond_requests_is_a_risk() -> None:
    """A node with usage beyond its requests is at risk, whatever its limits: story 2 of the design text."""
    world = Overcommitted(watcher_address=WATCHED).put(burstable("a", ("1", "4")))
    assert world.read(n=percents((20, 0), (5, 0))).score() == 83
    assert world.read(n=percents((90, 0), (5, 0))).score() == 33


def test_deviation_makes_it_gradual() -> None:
    world = Overcommitted(watcher_address=WATCHED).put(burstable("a", ("2", "9")))
    assert world.read(n=percents((50, 10))).score(burstable("new", ("2", "2"))) == 25


def test_smoothing_is_undone_for_smoothed_readings() -> None:
    """A deviation of means is smaller than that of samples; only providers that smooth are corrected for it."""
    world = Overcommitted(watcher_address=WATCHED, smoothing_window_size=9).put(burstable("a", ("2", "4")))
    plain = world.read(n=percents((40, 5))).score()
    smoothed = world.read(n=percents((40, 5), smoothed=True)).score()
    assert (plain, smoothed) == (74, 62)
    assert world.read(n=percents((40, 15))).score() == smoothed


def test_reports_are_not_smoothed() -> None:
    """Nodes report deviations of samples: the smoothing window does not apply to them."""
    world = Overcommitted(smoothing_window_size=9).put(burstable("a", ("2", "4")))
    statistics = {"avg": {"cpu": "1600m", "memory": "0"}, "stdev": {"cpu": "200m", "memory": "0"}}
    world.cache.put_node_metric(reported(m30=statistics))
    assert world.score() == 74


def test_load_of_a_request_is_the_pods_own() -> None:
    world = Overcommitted(watcher_address=WATCHED, risk_limit_weight=0.0).put(burstable("a", ("2", "9")))
    world.read(n=percents((50, 10)))
    assert world.score(guaranteed("new", "1m", "1Mi")) == world.score(guaranteed("new", "4", "8Gi")) == 50


def test_empty_node_has_a_valid_score() -> None:
    world = Overcommitted(watcher_address=WATCHED)
    world.cache.put_node(node("n", "0", "0"))
    assert world.read(n=percents((50, 10), (50, 10))).score() == 50


# Metrics that are missing or old


@pytest.mark.parametrize(
    ("arguments", "reading", "age", "score"),
    [
        ({}, None, 0, 83),  # the limits' part alone
        ({}, percents(), 0, 83),
        ({}, percents((90, 0)), 0, 33),
        ({}, percents((90, 0)), 299, 33),
        ({}, percents((90, 0)), 300, 83),  # stale
        ({"metric_expiration_seconds": 0}, percents((90, 0)), 10**6, 33),  # they never expire
        ({"parity": True}, None, 0, 0),  # as upstream
        ({"parity": True}, percents(), 0, 83),
        ({"parity": True}, percents((90, 0)), 10**6, 33),
    ],
)
def test_metrics_that_are_missing_or_old(
    arguments: dict[str, Any], reading: Utilisation | None, age: float, score: int
) -> None:
    world = Overcommitted(watcher_address=WATCHED, **arguments).put(burstable("a", ("1", "4")))
    if reading is not None:
        world.read(n=reading)
    assert world.score(now=age) == score


def test_reports_of_a_provider_do_not_mix() -> None:
    metric = reported(m5={"avg": {"cpu": "3600m", "memory": "1Mi"}})
    watched = Overcommitted(watcher_address=WATCHED).put(burstable("a", ("1", "4")))
    watched.cache.put_node_metric(metric)
    assert watched.score() == 83
    node_usage = Overcommitted().put(burstable("a", ("1", "4"))).read(n=percents((1, 0)))
    assert node_usage.score() == 83
    node_usage.cache.put_node_metric(metric)
    assert node_usage.score() == 33


# NodeMetric


def _cores(cpu: str) -> Json:
    return {"cpu": cpu, "memory": "0"}


@pytest.mark.parametrize(
    ("duration", "windows", "percent"),
    [
        # The longest, with its own deviation.
        (
            0,
            {"m5": {"avg": _cores("1"), "stdev": _cores("1m")}, "m30": {"avg": _cores("2"), "stdev": _cores("400m")}},
            (50, 10),
        ),
        (300, {"m5": {"avg": _cores("1")}, "m30": {"avg": _cores("3")}}, (25, 0)),  # the type of the arguments
        (60, {"m5": {"avg": _cores("1")}}, None),
        (0, {"m30": {"avg": _cores("2")}, "m5": {"stdev": _cores("2")}}, (50, 0)),
        (0, {"m5": {"avg": _cores("2")}, "m30": {"stdev": _cores("2")}}, (50, 0)),
        (0, {}, (25, 0)),  # the plain usage
    ],
)
def test_which_window_is_read(duration: float, windows: Json, percent: tuple[float, float] | None) -> None:
    world = Overcommitted(node_metric_aggregated_duration=float(duration))
    world.cache.put_node_metric(reported(**windows))
    texts = world.explain()
    assert texts["metrics"] == ("missing" if percent is None else "fresh")
    assert (texts["cpu"]["averagePercent"], texts["cpu"]["stdevPercent"]) == (percent or (None, None))


def test_node_metric_without_time_is_stale() -> None:
    metric = reported(updated=None, m5={"avg": {"cpu": "3600m", "memory": "0"}})
    for parity, score in ((False, 83), (True, 33)):
        world = Overcommitted(parity=parity).put(burstable("a", ("1", "4")))
        world.cache.put_node_metric(metric)
        assert world.score() == score


# Pods


def test_best_effort_pods_count_as_nothing() -> None:
    world = Overcommitted(watcher_address=WATCHED).put(BEST_EFFORT).read(n=percents((90, 10), (20, 5)))
    assert world.score(pod("new")) == 0
    assert world.score() == 100


def mid(name: str, native_request: str, native_limit: str) -> Json:
    amounts = {names.MID_CPU: "6000", names.MID_MEMORY: str(6 * 2**30)}
    return pod(name, {"cpu": native_request, **amounts}, {"cpu": native_limit, **amounts})


@pytest.mark.parametrize("parity", [False, True])
def test_native_limits_of_mid_pods_do_not_count(parity: bool) -> None:  # noqa: FBT001
    """The native limits of Mid pods add no risk to a node, and a Mid pod is scored by the risk of its node."""
    world = Overcommitted(parity=parity, watcher_address=WATCHED, risk_limit_weight=1.0)
    world.put(guaranteed("a", "2", "2Gi"), mid("b", "0", "6"), mid("c", "500m", "6")).read(n=percents((10, 1), (10, 1)))
    assert world.explain()["cpu"]["limitMilli"] == 3500
    assert world.explain(mid("new", "0", "6"))["cpu"]["limitMilli"] == 2500
    assert world.score() == world.score(mid("new", "0", "6")) == 100
    assert world.put(burstable("d", ("1", "3"))).score(mid("new", "0", "6")) == 25  # 1.5 of 2 cores are missing


def test_best_effort_pods_may_fill_the_node() -> None:
    world = Overcommitted(watcher_address=WATCHED, best_effort_may_fill_node=True)
    world.read(n=percents((90, 10), (20, 5)))
    assert world.score(pod("new")) == 100
    world.put(BEST_EFFORT)
    assert world.score(pod("new")) == world.score() == 50


def test_best_effort_pods_use_unlimited_capacity() -> None:
    world = Overcommitted(best_effort_may_fill_node=True).put(burstable("a", ("1", "2")))
    assert world.explain()["cpu"]["limitMilli"] == 3000
    assert world.put(BEST_EFFORT).explain()["cpu"]["limitMilli"] == 4000


def test_rule_leaves_higher_limits_alone() -> None:
    pods = (burstable("a", ("1", "6")), BEST_EFFORT)
    worlds = [Overcommitted(best_effort_may_fill_node=fills).put(*pods) for fills in (False, True)]
    assert [world.score() for world in worlds] == [70, 70]


@pytest.mark.parametrize("fills", [False, True])
def test_pods_in_flight_count_as_bound(fills: bool) -> None:  # noqa: FBT001
    """A pod in flight counts in the limits' risk like a bound pod, but not in the load's risk."""
    for coming in (burstable("coming", ("1", "4")), BEST_EFFORT):
        flying = Overcommitted(watcher_address=WATCHED, best_effort_may_fill_node=fills)
        flying.put(burstable("a", ("1", "3"))).read(n=percents((60, 10), (30, 10)))
        before = flying.explain()
        flying.cache.charge(flying.cache.read(coming), ["n"], flying.nodes().now)
        bound = Overcommitted(watcher_address=WATCHED, best_effort_may_fill_node=fills)
        bound.put(burstable("a", ("1", "3")), coming).read(n=percents((60, 10), (30, 10)))
        for resource in ("cpu", "memory"):
            flown, landed = flying.explain()[resource], bound.explain()[resource]
            assert flown["limitRisk"] == landed["limitRisk"]
            assert flown["loadRisk"] == before[resource]["loadRisk"]


def test_deleted_pods_do_not_count() -> None:
    world = Overcommitted().put(burstable("a", ("1", "6")))
    assert world.score() == 70
    world.cache.delete_pod("uid-a")
    assert world.score() == 100


def test_sums_do_not_overflow() -> None:
    greedy = burstable("greedy", ("1m", "1m"), ("1Mi", "9E"))
    world = Overcommitted(risk_limit_weight=1.0).put(greedy)
    coming = world.cache.read(greedy)
    for index in range(1099):
        world.cache.charge(replace(coming, uid=f"coming-{index}"), ["n"], NOW)
    assert world.score() == 0
    assert world.explain()["memory"]["limitBytes"] == 1100 * 2**50 + 2**30


_CORES = st.integers(1, 8)


@given(bound=st.lists(st.tuples(_CORES, _CORES), max_size=3), flying=_CORES, usage=st.integers(0, 100), age=_CORES)
def test_kept_scores_are_exact(bound: list[tuple[int, int]], flying: int, usage: int, age: int) -> None:
    """The score that the node's record keeps is that of both risks, whether limits exceed the node or not."""
    world = Overcommitted(watcher_address=WATCHED, metric_expiration_seconds=4)
    world.put(*(burstable(f"p{row}", (str(low), str(high))) for row, (low, high) in enumerate(bound)))
    world.read(n=percents((usage, 10), (usage, 5), measured=-age))
    coming = burstable("coming", ("1", str(flying)))
    world.cache.charge(world.cache.read(coming), ["n"], NOW)
    nodes, amounts = world.nodes(), world.cache.read(coming).amounts[NAME]
    risk = world.plugin.risk(world.plugin.totals(nodes, amounts), world.plugin.load_risk(nodes))
    assert world.score(coming) == round_half_away(100 * (1 - risk.max()))


# The explanation


def test_numbers_are_explained() -> None:
    world = Overcommitted(watcher_address=WATCHED).put(burstable("a", ("1", "6")))
    texts = world.read(n=percents((50, 10), (25, 5), measured=-7)).explain()
    assert (texts["metrics"], texts["ageSeconds"]) == ("fresh", 7.0)
    assert texts["cpu"] == {
        "requestMilli": 2000,
        "limitMilli": 7000,
        "capacityMilli": 4000,
        "averagePercent": 50.0,
        "stdevPercent": 10.0,
        "limitRisk": 0.6,
        "loadRisk": 0.9954,
        "risk": 0.7977,
    }
    assert texts["memory"]["capacityBytes"] == 8 * 2**30


def test_unknown_values_are_not_explained() -> None:
    texts = Overcommitted().explain(BEST_EFFORT)
    assert (texts["metrics"], texts["ageSeconds"], texts["cpu"]["averagePercent"]) == ("missing", None, None)
    assert texts["cpu"]["requestMilli"] == 0


@pytest.mark.parametrize("empty", [{}, {"spec": {}}, {"spec": {"containers": [{"resources": {"requests": None}}]}}])
def test_sparse_pods_are_best_effort(empty: Json) -> None:
    assert Overcommitted().cache.read({**BEST_EFFORT, **empty}).amounts[NAME] == (0, 0, 0, 0, 1)
