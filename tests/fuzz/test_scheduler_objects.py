"""Objects that anybody wrote: whatever Nodes, Pods and NodeMetrics hold, the scheduler's cache goes on."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from crds import names
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.plugins.load_aware import NAME, LoadAware
from scheduler_plugins.plugins.mid_resources import NAME as MID
from scheduler_plugins.plugins.mid_resources import MidResources
from scheduler_plugins.snapshot.cache import ClusterCache
from tests.fuzz.strength import fuzz
from tests.scheduler_plugins.objects import NOW, condition, node, node_metric, pod, pod_metric

Json = Any

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from(
        ["5", "-1", "1e9", "9Ei", "1500m", "nan", "5m0s", "-5m", "2025-01-01T00:00:00Z", "0001-01-01T00:00:00Z"]
    ),
    st.just("9" * 5000),
    st.sampled_from([2**63, -(2**63), 2**64, 10**400, 1e308, -1e308, math.inf]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)
NUMBERS = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), SCALARS | st.integers(-5, 200), max_size=3)
GROUPS = st.fixed_dictionaries(
    {},
    optional={
        "usageThresholds": NUMBERS | VALUES,
        "ProdUsageThresholds": NUMBERS,
        "aggregatedUsage": st.fixed_dictionaries(
            {"usageThresholds": NUMBERS},
            optional={"usageAggregationType": SCALARS | st.just("p95"), "usageAggregatedDuration": SCALARS},
        )
        | VALUES,
    },
)
DEEP = "[" * 100_000
TEXTS = st.text(max_size=12) | (GROUPS | NUMBERS | VALUES).map(json.dumps) | st.sampled_from([DEEP, "9" * 5000, "null"])
ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [
            names.ANNOTATION_USAGE_THRESHOLDS,
            names.ANNOTATION_RAW_ALLOCATABLE,
            names.ANNOTATION_ESTIMATED_SCALING_FACTORS,
            names.ANNOTATION_ESTIMATED_SECONDS_AFTER_SCHEDULED,
            names.ANNOTATION_ESTIMATED_SECONDS_AFTER_INITIALIZED,
        ]
    ),
    TEXTS,
    max_size=4,
)
METRIC = node_metric(
    "n",
    pods=[pod_metric()],
    aggregated={"5m0s": {"p95": {"cpu": "3"}, "avg": {"cpu": "2"}}},
    system={"cpu": "1"},
)
METRIC["status"]["conditions"] = [condition(names.CONDITION_MID_DEFICIT, 0)]
METRIC["status"]["prediction"] = {
    "time": METRIC["status"]["updateTime"],
    "classes": [{"name": "node", "peak": {"cpu": "9"}}],
}
POD = pod("p", {"cpu": "1"}, {"memory": "1Gi"}, node="n", scheduled=-30, priority=9500)
NODE = node("n")


def _paths(thing: Json, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    return [path, *(found for key, part in inner for found in _paths(part, (*path, key)))]


def _with(thing: Json, path: tuple[Any, ...], value: Json) -> Json:
    """A copy in which another value stands at the end of a path."""
    if not path:
        return value
    copy = dict(thing) if isinstance(thing, dict) else list(thing)
    copy[path[0]] = _with(thing[path[0]], path[1:], value)
    return copy


def damaged(original: Json) -> st.SearchStrategy[Json]:
    """The object with other values in some places; its name and uid stay, as the API server sees to that."""
    kept = {("metadata",), ("metadata", "name"), ("metadata", "uid"), ()}
    places = st.sampled_from([path for path in _paths(original) if path not in kept])

    def put(edits: list[tuple[tuple[Any, ...], Json]]) -> Json:
        found = original
        for path, value in edits:
            try:
                found = _with(found, path, value)
            except (KeyError, IndexError, TypeError):
                continue  # an edit before took this place away
        return found

    return st.lists(st.tuples(places, VALUES), min_size=1, max_size=3).map(put)


def _taken(put: Callable[[Json], None], item: Json) -> bool:
    """Whether the cache took an object; refusing it with one of the errors that the watch knows is sound, too."""
    try:
        put(item)
    except Exception:  # noqa: BLE001 - the watch isolates it, whatever it is
        return False
    return True


class _World:
    """A cache with a sound state, and plugins that look at all of it."""

    def __init__(self, *, use_prediction: bool = True) -> None:
        plugin = LoadAware(
            use_prediction=use_prediction, allow_customize_estimation=True, supported_resources=("gpu",)
        ).defaulted()
        plugins = {NAME: plugin, MID: MidResources()}
        self.cache = ClusterCache(plugin.load_rules(), plugins)
        self.cycle = Cycle([Enabled(name, 1.0, each) for name, each in plugins.items()])
        for put, item in ((self.cache.put_node, NODE), (self.cache.put_node_metric, METRIC), (self._put_pod, POD)):
            put(item)
        self.cache.put_node(node("other"))

    def _put_pod(self, item: Json) -> None:
        self.cache.put_pod(item, NOW)

    def put(self, kind: str, item: Json) -> bool:
        """Deliver an object."""
        put = {"node": self.cache.put_node, "metric": self.cache.put_node_metric, "pod": self._put_pod}[kind]
        return _taken(put, item)

    def check(self) -> None:
        """Any pod gets an answer for each node."""
        for item in (pod("q", {"cpu": "1"}, priority=9500), pod("r", {names.MID_CPU: "1"})):
            request, nodes = self.cache.read(item), self.cache.freeze(NOW)
            assert sorted(nodes.names) == ["n", "other"]
            verdict, scores = self.cycle.filter(request, nodes), self.cycle.score(request, nodes)
            assert len(verdict.refused) == len(scores) == 2
            assert np.isfinite(scores).all()
            assert all(verdict.refusal(row) is None or verdict.refusal(row) for row in range(2))
            json.dumps(self.cycle.explain(request, nodes), allow_nan=False)

    def load(self) -> tuple[int, ...]:
        """What the first node uses."""
        ledger = self.cache.ledger("n")
        assert ledger is not None
        return ledger.load()


@fuzz(item=damaged(METRIC))
def test_any_node_metric(item: Json) -> None:
    """A NodeMetric is understood, or refused as the watch expects it, and then its last good state counts."""
    world = _World()
    before = world.load()
    if not world.put("metric", item):
        assert world.load() == before
    world.check()


@fuzz(item=damaged(NODE), annotations=ANNOTATIONS)
def test_any_node(item: Json, annotations: dict[str, str]) -> None:
    """A Node with any annotations and amounts is judged, or keeps its last good state."""
    world = _World()
    world.put("node", {**NODE, "metadata": {"name": "n", "annotations": annotations}})
    world.check()
    world.put("node", item)
    world.check()


@fuzz(item=damaged(POD), annotations=ANNOTATIONS)
def test_any_pod(item: Json, annotations: dict[str, str]) -> None:
    """A Pod of any shape counts, or is refused with an error that the watch knows; its sums can be taken back."""
    world = _World()
    world.put("pod", {**POD, "metadata": {**POD["metadata"], "annotations": annotations}})
    world.check()
    world.put("pod", item)
    world.check()
    world.cache.delete_pod("uid-p")
    ledger = world.cache.ledger("n")
    assert ledger is not None
    assert not any(ledger.sums.node_delta + ledger.sums.estimated + ledger.sums.prod_delta + ledger.sums.unreported)


@pytest.mark.parametrize("text", [DEEP, '{"usageThresholds":' + DEEP, '{"usageThresholds":{"cpu":' + "9" * 5000 + "}}"])
def test_annotations_that_exhaust_a_parser(text: str) -> None:
    """An annotation that is nested without end, or holds a number without end, is named and left out."""
    world = _World()
    known = (names.ANNOTATION_USAGE_THRESHOLDS, names.ANNOTATION_RAW_ALLOCATABLE)
    assert world.put("node", {**NODE, "metadata": {"name": "n", "annotations": dict.fromkeys(known, text)}})
    factors = names.ANNOTATION_ESTIMATED_SCALING_FACTORS
    assert world.put("pod", {**POD, "metadata": {**POD["metadata"], "annotations": {factors: text}}})
    world.check()
    assert all(f"annotation {name} is ignored" in world.cache.failures["n"] for name in known)
