"""Formulas of ordinary nodes: the compiled pass names the same nodes as the plugins' filters and scores."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crds import names
from scheduler_plugins import steps
from scheduler_plugins.extender.service import Answering, Extender, Mode
from scheduler_plugins.extender.wire import Arguments
from scheduler_plugins.framework.cycle import Cycle, Enabled, PluginError
from scheduler_plugins.framework.shortlist import Shortlist
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling
from scheduler_plugins.plugins.load_aware import NAME, LoadAware
from scheduler_plugins.plugins.low_risk_over_commitment import LowRiskOverCommitment
from scheduler_plugins.plugins.mid_resources import MidResources
from scheduler_plugins.plugins.node_resources_allocatable import NodeResourcesAllocatable
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.snapshot.arrays import FloatArray, Nodes
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.ordinary import Prepared
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.steps.formula import Formula, Part
from scheduler_plugins.steps.in_python import LARGEST_SPAN
from tests.scheduler_plugins.objects import NOW, Json, World, condition, load_aware, node, node_metric, pod
from tests.scheduler_plugins.quota.objects import quota

NODES = [f"n{number}" for number in range(12)]
COMPILED = pytest.mark.skipif(not steps.COMPILED, reason="the formulas are evaluated by the compiled step")


def _profile(lot: random.Random) -> list[Enabled]:
    """The five plugins with arguments that matter to their formulas."""
    load = LoadAware(
        dominant_resource_weight=lot.choice([0, 0, 3]),
        enable_schedule_when_node_metrics_expired=lot.random() < 0.3,
        filter_expired_node_metrics=lot.random() < 0.8,
        node_metric_expiration_seconds=lot.choice([180, 180, 0]),
        prod_usage_thresholds=lot.choice([None] * 6 + [{"cpu": 40}]),
        score_according_prod_usage=lot.random() < 0.05,
        use_prediction=lot.random() < 0.1,
    )
    risk = LowRiskOverCommitment(
        best_effort_may_fill_node=lot.random() < 0.5, parity=lot.random() < 0.2, metric_expiration_seconds=300
    )
    plugins = [CapacityScheduling(), load, MidResources(), risk, NodeResourcesAllocatable()]
    weights = [1, 10, 1, lot.choice([0, 1]), lot.choice([0, 1, 2.5])]
    return [
        Enabled(type(plugin).__name__ if plugin is not load else NAME, weight, plugin.defaulted())  # type: ignore[attr-defined]
        for plugin, weight in zip(plugins, weights, strict=True)
    ]


class Twins:
    """Two extenders of one cache, of which one has no formulas."""

    def __init__(self, seed: int, mode: Mode) -> None:
        self.lot = random.Random(seed)  # noqa: S311 - a repeatable test
        enabled = _profile(self.lot)
        (load,) = [part.plugin for part in enabled if isinstance(part.plugin, LoadAware)]
        self.cache = ClusterCache(load.load_rules(), {part.name: part.plugin for part in enabled})
        (self.quotas,) = [state for state in self.cache.plugin_states.values() if isinstance(state, QuotaCluster)]
        self.extenders = []
        for formulas in (False, True):
            cycle = Cycle(enabled)
            cycle.ordinary = cycle.ordinary if formulas else ()
            answering = Answering(mode, Shortlist(2, 0.5, 4))
            generator = np.random.default_rng(seed)
            self.extenders.append(Extender(self.cache, cycle, answering, lambda: NOW, generator))

    def change(self) -> None:
        name = self.lot.choice(NODES)
        if self.lot.random() < 0.05:
            self.cache.delete_node(name)
        else:
            self.put(name)

    def put(self, name: str) -> None:
        lot = self.lot
        annotations = {}
        if lot.random() < 0.03:
            thresholds = lot.choice([{"usageThresholds": {"cpu": 30}}, {"prodUsageThresholds": {"cpu": 20}}])
            annotations[names.ANNOTATION_USAGE_THRESHOLDS] = json.dumps(thresholds)
        item = node(name, lot.choice(["16", "100"]), lot.choice(["64Gi", "100Gi"]), annotations)
        item["metadata"]["labels"] = {"topology.kubernetes.io/zone": lot.choice("abc")}
        if lot.random() < 0.1:
            item["spec"] = {"taints": [{"key": "soft", "effect": "PreferNoSchedule"}]}
        self.cache.put_node(item)
        if lot.random() < 0.98:
            cpu, memory = f"{lot.uniform(0, 12):.3f}", f"{lot.randrange(1, 50)}Gi"
            usage = {"5m0s": {"avg": {"cpu": cpu, "memory": memory}, "stdev": {"cpu": "1", "memory": "1Gi"}}}
            age = lot.choice([0] * 198 + [200, 1000])
            metric = node_metric(name, cpu, memory, updated=-age, aggregated=usage)
            if lot.random() < 0.03:
                metric["status"]["conditions"] = [condition(names.CONDITION_MID_DEFICIT, 0)]
            self.cache.put_node_metric(metric)

    def pod(self, number: int) -> Json:
        lot = self.lot
        amounts = {"cpu": lot.choice(["100m", "1", "4"]), "memory": lot.choice(["100Mi", "1Gi", "20Gi"])}
        kind = lot.choice(["burstable"] * 12 + ["limits", "best effort", "mid", "daemon"])
        limits = {"limits": {"cpu": "8", "memory": "30Gi"}, "mid": {"kubernetes.io/mid-cpu": "100"}}.get(kind, {})
        item = pod(f"p{number}", {} if kind in ("best effort", "mid") else amounts, limits)
        item["metadata"]["namespace"] = lot.choice(["default", "default", "a"])
        item["spec"]["priority"] = lot.choice([0, 0, 9500, 9500, 7500])
        if kind == "daemon":
            item["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}]
        if lot.random() < 0.3:
            item["metadata"]["labels"] = {"app": "a"}
            item["spec"]["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"app": "a"}},
                }
            ]
        return item

    def ask(self, item: Json, requested: list[str]) -> list[tuple[Any, ...]]:
        """The result of each extender; the charge of the second one stays."""
        results = []
        for extender in self.extenders:
            self.cache.release(item["metadata"]["uid"])
            result = extender.filter(Arguments(item, requested))
            scores = extender.prioritize(Arguments(item, result.names)).tolist() if result.names else []
            charge = self.cache.in_flight.get(item["metadata"]["uid"])
            charged = list(charge.names) if charge else []
            results.append((list(result.names), result.failed, result.unresolvable, scores, charged))
        return results


def _run(seed: int, mode: Mode, evaluated: Counter[bool]) -> None:
    twins = Twins(seed, mode)
    twins.quotas.put_quota(quota("a", {"cpu": 30}, {"cpu": 30, "memory": 1000}))
    evaluate = twins.cache.evaluate

    def counted(*arguments: Any) -> Any:  # noqa: ANN401 - as `evaluate`
        result = evaluate(*arguments)
        evaluated[result is not None] += 1
        return result

    twins.cache.evaluate = counted  # type: ignore[assignment, method-assign]
    for name in NODES:
        twins.put(name)
    for number in range(15):
        twins.change()
        item, requested = twins.pod(number), twins.lot.sample(NODES, twins.lot.randrange(1, len(NODES) + 1))
        without, with_formulas = twins.ask(item, requested)
        assert with_formulas == without
        if with_formulas[0] and twins.lot.random() < 0.5:
            item["spec"]["nodeName"] = twins.lot.choice(with_formulas[0])
            twins.cache.put_pod(item, NOW)


@COMPILED
@settings(deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(Mode))
def test_formulas_agree_with_plugins(seed: int, mode: Mode) -> None:
    _run(seed, mode, Counter())


@COMPILED
def test_most_requests_are_ordinary() -> None:
    """The comparison above is of results of formulas, and of results where a node is not ordinary."""
    evaluated: Counter[bool] = Counter()
    for seed in range(40):
        _run(seed, Mode.SHORTLIST, evaluated)
    assert min(evaluated.values()) > 50, evaluated
    assert evaluated[True] > evaluated[False], evaluated


# Single formulas over nodes 0 to 2. The values of node 0 decide; those of the others are 0.


def _evaluate(
    formula: Formula,
    amounts: Sequence[int] = (),
    in_flight: Sequence[int] = (0, 0),
    **columns: Any,  # noqa: ANN401
) -> tuple[list[int], list[float]] | None:
    """The rows that pass, and their scores; `in_flight` has the mean and the whole of one amount."""
    common = np.zeros((3, 4), np.int64)
    common[:, 0] = [70, 7, 5]
    common[0, 1:3] = in_flight
    common[:, 3] = [1, 20, 300]
    types = {"group": np.int8, "time": np.float64}
    arrays: dict[str, Any] = {}
    for name, value in columns.items():
        arrays[name] = np.zeros((*np.shape(value), 3), types.get(name, np.int64))
        arrays[name][..., 0] = value
    result = steps.Evaluator(common, [Part(formula, arrays, 1, 1.0)], 1, 3).evaluate(np.arange(3), [amounts], 100.0)
    if result is None:
        return None
    rows, ids, scores, pods = result
    assert pods == common[rows, 3].sum()
    assert ids.tolist() == common[rows, 0].tolist()
    return rows.tolist(), scores.tolist()


ALL, OTHERS = ([0, 1, 2], [0.0, 0.0, 0.0]), ([1, 2], [0.0, 0.0])


@COMPILED
@pytest.mark.parametrize(
    ("slack", "group", "in_flight", "result"),
    [
        (3, 0, (3, 3), ALL),
        (3, 0, (3, 4), None),  # it depends on where the pods in flight land
        (2, 0, (3, 3), None),  # 1 above the slack
        (1, 0, (3, 3), OTHERS),
        (1, 1, (3, 9), OTHERS),
        (1, -1, (3, 9), ALL),
        (1, -2, (3, 9), None),
        (3, -2, (3, 3), ALL),
        (2**63 - 1, 0, (2**61, 2**62), ALL),
        (-(2**62), 0, (0, 0), OTHERS),
    ],
)
def test_filter(slack: int, group: int, in_flight: tuple[int, int], result: object) -> None:
    assert _evaluate(Formula(slack="slack", group="group"), [0], in_flight, slack=[slack], group=group) == result


@COMPILED
def test_limit_of_the_score() -> None:
    """Without a group, nodes above the slack are not ordinary. Only the mean of pods in flight counts."""
    formula = Formula(slack="slack")
    assert _evaluate(formula, [0], (3, 9), slack=[3]) == ALL
    assert _evaluate(formula, [0], (3, 9), slack=[2]) is None
    assert _evaluate(formula, [4], slack=[9]) is None  # above the slack of the others


@COMPILED
@pytest.mark.parametrize("group", ["", "group"])
def test_old_reading(group: str) -> None:
    formula = Formula(slack="slack", group=group, time="time", seconds=101)
    for time, result in ((0.0, ALL), (-0.9, ALL), (-1.0, None), (-np.inf, None), (np.inf, ALL), (np.nan, None)):
        assert _evaluate(formula, [0], slack=[0], group=0, time=time) == result
    never = Formula(time="time")
    assert _evaluate(never, time=-1e9) == ALL
    assert _evaluate(never, time=-np.inf) is None


@COMPILED
@pytest.mark.parametrize(
    ("spare", "dominant", "score"),
    [
        ([50, 80], 0, (45 * 1 + 75 * 2) // 3),  # of 100, less 5 of the pod
        ([50, 80], 3, (45 * 1 + 75 * 2 + 45 * 3) // 6),
        ([4, 80], 0, 75 * 2 // 3),
        ([106, 106], 0, None),  # above 100 is not ordinary: the plugin decides
    ],
)
def test_score_by_the_rest(spare: list[int], dominant: int, score: int | None) -> None:
    formula = Formula(spare="spare", divisor="divisor", weights=(1, 2), dominant=dominant)
    columns = {"spare": np.zeros((2, 3), np.int64), "divisor": np.full((2, 3), 100)}
    columns["spare"][:, 0] = spare
    evaluator = steps.Evaluator(np.zeros((3, 6), np.int64), [Part(formula, columns, 1, 1.0)], 2, 5)
    result = evaluator.evaluate(np.arange(3), [(5, 5)], 0.0)
    assert (result is None) if score is None else (result is not None and result[2].tolist() == [score, 0, 0])


@COMPILED
def test_scores() -> None:
    assert _evaluate(Formula(score="score"), score=77) == ([0, 1, 2], [77, 0, 0])
    assert _evaluate(Formula(score="score"), score=101) is None
    assert _evaluate(Formula(score="score"), score=-1) is None
    assert _evaluate(Formula(position="position"), position=-5) == ([0, 1, 2], [0, 100, 100])
    assert _evaluate(Formula(position="position"), position=0) == ALL
    assert _evaluate(Formula(position="position"), position=LARGEST_SPAN) == ([0, 1, 2], [100, 0, 0])
    assert _evaluate(Formula(position="position"), position=LARGEST_SPAN + 1) is None
    assert _evaluate(Formula(position="position"), position=-(2**63)) is None  # the difference has 64 bits and a sign


@COMPILED
def test_pod_without_amounts_passes() -> None:
    """It passes without the formula, and scores 0 beside the other scores."""
    columns = {"score": np.array([50, 101, -1]), "slack": np.full((1, 3), -9), "group": np.zeros(3, np.int8)}
    filters = Formula(slack="slack", group="group", score="score")
    parts = [Part(filters, columns, 1, 1.0), Part(Formula(score="score"), {"score": np.array([80, 40, 0])}, 1, 3.0)]
    result = steps.Evaluator(np.zeros((3, 4), np.int64), parts, 1, 3).evaluate(np.arange(3), [None, ()], 0.0)
    assert result is not None
    assert result[2].tolist() == [60, 30, 0]


@COMPILED
def test_wrong_arguments() -> None:
    common, columns = np.zeros((3, 4), np.int64), {"slack": np.zeros((1, 3), np.int64)}
    evaluator = steps.Evaluator(common, [Part(Formula(slack="slack"), columns, 1, 1.0)], 1, 3)
    with pytest.raises(IndexError):
        evaluator.evaluate(np.array([3]), [(0,)], 0.0)
    with pytest.raises(ValueError, match="the pod has 2 amounts, the formula 1"):
        evaluator.evaluate(np.array([0]), [(0, 0)], 0.0)
    with pytest.raises(ValueError, match="zip"):
        evaluator.evaluate(np.array([0]), [], 0.0)
    assert evaluator.evaluate(np.array([], np.intp), [(0,)], 0.0) is None
    with pytest.raises(KeyError, match="missing"):
        steps.Evaluator(common, [Part(Formula(score="missing"), columns, 1, 1.0)], 1, 3)


# Which profiles have formulas


@dataclass(frozen=True)
class Scorer:
    def score(self, _pod: PodRequest, nodes: Nodes) -> FloatArray:
        return np.zeros(len(nodes))


@dataclass(frozen=True)
class Ordinary(Scorer):
    def formula(self) -> Formula | None:
        return Formula()

    def prepare(self, _pod: PodRequest, _nodes: Nodes) -> Prepared:
        raise RuntimeError("no numbers")


@dataclass(frozen=True)
class Never(Ordinary):
    def formula(self) -> Formula | None:
        return None


@COMPILED
@pytest.mark.parametrize(
    ("others", "count"),
    [
        ([], 1),
        ([Enabled("sorts nothing", 1, object())], 1),
        ([Enabled("plain", 1, Scorer())], 0),
        ([Enabled("never", 1, Never())], 0),
        ([Enabled("elsewhere", 1, Ordinary(), frozenset(["filter"]))], 0),
    ],
)
def test_all_plugins_need_a_formula(others: list[Enabled], count: int) -> None:
    cycle = Cycle([Enabled(NAME, 1, load_aware()), *others])
    assert len(cycle.ordinary) == count
    assert len(Cycle([Enabled(NAME, 1, load_aware(use_prediction=True))]).ordinary) == 0


@COMPILED
def test_plugin_that_fails_is_named() -> None:
    world = World()
    cycle = Cycle([Enabled("o", 1, Ordinary())])
    with pytest.raises(PluginError, match="o could not prepare: RuntimeError: no numbers"):
        cycle.prepare(world.request(pod()), world.nodes())
