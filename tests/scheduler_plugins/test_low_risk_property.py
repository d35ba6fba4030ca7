"""LowRiskOverCommitment over arrays says of every node what the second opinion says of that node alone."""

import random
from typing import Any

import pytest
from hypothesis import strategies as st

from scheduler_plugins.plugins.low_risk_over_commitment import NAME, LowRiskOverCommitment
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.fuzz.strength import fuzz
from tests.golden.second_opinion.low_risk import Asked, Usage, capacity, share, unrounded
from tests.scheduler_plugins.objects import NOW, Json, at, node, pod
from tests.scheduler_plugins.overcommitted import WATCHED, percents, reported

NODES = 8
LIMIT = 300


def _amounts(lot: random.Random) -> Json:
    cpu = lot.choice(["0", "1m", "0.0001", "250m", "1", "1500m", "3", "9"])
    memory = lot.choice(["0", "1", "200Mi", "1Gi", "1.5Gi", "3G", "12Gi"])
    return {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if lot.random() < 0.8}


def _pod(lot: random.Random, name: str, on: str = "") -> Json:
    if lot.random() < 0.2:
        return pod(name, node=on)
    item = pod(name, _amounts(lot), _amounts(lot), node=on)
    for part in ("containers", "initContainers"):
        for _ in range(lot.choice([0, 0, 1])):
            resources = {"requests": _amounts(lot), "limits": _amounts(lot)}
            restarts = {"restartPolicy": "Always"} if lot.random() < 0.3 and part == "initContainers" else {}
            item["spec"].setdefault(part, []).append({"name": "more", "resources": resources, **restarts})
    return item


def _usage(lot: random.Random) -> Usage | None:
    average = lot.choice([0.0, 12.5, 50.0, 100.0, lot.uniform(0, 105)])
    deviation = lot.choice([0.0, 0.0, 1e-7, 5.0, 50.0, lot.uniform(0, 40)])
    return lot.choice([None, (average, deviation), (average, deviation)])


class _Both:
    """Our cache, and what the second opinion has to know of each node."""

    def __init__(self, lot: random.Random) -> None:
        self.lot = lot
        self.watched = lot.random() < 0.6
        self.plugin = LowRiskOverCommitment(
            watcher_address=WATCHED if self.watched else "",
            smoothing_window_size=lot.choice([1, 5, 10]),
            risk_limit_weights=lot.choice([None, {"cpu": 0.3}, {"cpu": 0.0, "memory": 1.0}]),
            risk_limit_weight=lot.choice([None, 0.7]),
            best_effort_may_fill_node=lot.random() < 0.5,
            parity=lot.random() < 0.3,
            metric_expiration_seconds=LIMIT,
        ).defaulted()
        self.cache = ClusterCache(LoadRules(), {NAME: self.plugin})
        self.readings: dict[str, Any] = {}
        self.known = [self._node(f"n{index}") for index in range(NODES)]
        self.cache.put_readings(NAME, self.readings)

    def _node(self, name: str) -> tuple[Json, list[Json], list[Json], list[Usage | None] | None, bool]:
        lot = self.lot
        item = node(name, lot.choice(["0", "4", "16"]), lot.choice(["0", "8Gi", "31.5Gi"]))
        self.cache.put_node(item)
        there = [_pod(lot, f"{name}-{number}", name) for number in range(lot.randrange(4))]
        for each in there:
            self.cache.put_pod(each, NOW)
        coming = [_pod(lot, f"coming-{name}-{number}") for number in range(lot.choice([0, 0, 1, 2]))]
        for each in coming:
            self.cache.charge(self.cache.read(each), [name], NOW)
        age = lot.choice([0, LIMIT - 1, LIMIT, 10 * LIMIT])
        smoothed = self.watched and lot.random() < 0.5
        usage = self._read(item, age, smoothed=smoothed) if lot.random() < 0.9 else None
        stale = age >= LIMIT and not self.plugin.parity
        return item, there, coming, None if stale else usage, smoothed

    def _read(self, item: Json, age: int, *, smoothed: bool) -> list[Usage | None] | None:
        """Usage of the node as shares, after the cache was told of it."""
        parts, name = [_usage(self.lot), _usage(self.lot)], item["metadata"]["name"]
        totals = [capacity(item, column) for column in range(2)]
        if self.watched:
            self.readings[name] = percents(parts[0], parts[1], measured=-age, smoothed=smoothed)
            return [share(part, total) for part, total in zip(parts, totals, strict=True)]
        rates = [part or (0.0, 0.0) for part in parts]
        used = [[round(rate / 100 * total) for rate in pair] for pair, total in zip(rates, totals, strict=True)]
        statistics = {
            kind: {"cpu": f"{used[0][index]}m", "memory": str(used[1][index])}
            for index, kind in enumerate(("avg", "stdev"))
        }
        metric = reported(name, m5=statistics)
        metric["status"]["updateTime"] = at(-age)
        self.cache.put_node_metric(metric)
        return [
            (mean / total, stdev / total) if total else (0, 0)
            for (mean, stdev), total in zip(used, totals, strict=True)
        ]

    def second(self, item: Json) -> list[float]:
        """The second opinion on each node."""
        plugin = self.plugin
        return [
            unrounded(
                Asked(
                    pod=item,
                    node=each,
                    there=there,
                    coming=coming,
                    usage=usage,
                    window=plugin.smoothing_window_size if smoothed else 1,
                    weights=plugin.weights.tolist(),
                    fills=plugin.best_effort_may_fill_node,
                    parity=plugin.parity,
                )
            )
            for each, there, coming, usage, smoothed in self.known
        ]


@fuzz(seed=st.integers(0, 2**32))
def test_arrays_match_the_second_opinion(seed: int) -> None:
    """For any pods, usage and arguments, every score is the second opinion's, rounded."""
    lot = random.Random(seed)  # noqa: S311 - a repeatable test
    both, item = _Both(lot), _pod(lot, "incoming")
    nodes, _ = both.cache.freeze(NOW).select([f"n{index}" for index in range(NODES)])
    scores = both.plugin.score(both.cache.read(item), nodes).tolist()
    assert scores == [pytest.approx(each, abs=0.5 + 1e-6) for each in both.second(item)]
    assert len(both.plugin.explain(both.cache.read(item), nodes)) == NODES


@fuzz(seed=st.integers(0, 2**32))
def test_nodes_do_not_depend_on_each_other(seed: int) -> None:
    """A node scores the same alone and in any company, in any order."""
    lot = random.Random(seed)  # noqa: S311 - a repeatable test
    both, item = _Both(lot), _pod(lot, "incoming")
    snapshot, asked = both.cache.freeze(NOW), both.cache.read(item)
    names = [f"n{index}" for index in range(NODES)]
    lot.shuffle(names)
    together = both.plugin.score(asked, snapshot.select(names)[0]).tolist()
    assert together == [int(both.plugin.score(asked, snapshot.select([name])[0])[0]) for name in names]
    assert all(0 <= score <= 100 for score in together)
