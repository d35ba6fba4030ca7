"""The engine against the definitions, spelled out step by step and pod by pod."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from agent.numerics.arrays import FloatArray
from agent.prediction.policy import ResourceModel
from agent.predictors import PolicyError
from agent.predictors.base import Amount, View
from agent.predictors.sum_max import SumMax
from crds.predict_policy import PredictPolicy, ResourceOverride
from kubectl_headroom.backtest.batch_prediction import BatchPredictor
from kubectl_headroom.backtest.engine import ORACLE, Churn, ModelError, NamedPolicy, Plan, Result, predictions, run
from kubectl_headroom.backtest.group import Machine, WorkloadHistory, machines
from kubectl_headroom.backtest.placement import Placement, churned, packed, real
from kubectl_headroom.backtest.trace import PodLifetime, Trace, TraceError
from tests.kubectl_headroom.backtest.small import bursts, trace

HOUR = 3600
DAY = 24 * HOUR
STEPS = 400
WORKLOAD_HISTORIES: tuple[WorkloadHistory, ...] = ("cluster", "node", "none")
PLAN = Plan(machines=None, seeds=(), horizons_seconds=(2 * HOUR,), warm_up_seconds=4 * HOUR)


def choice(model: str, margin: int = 0, cold: int = 3 * HOUR, **parameters: float) -> NamedPolicy:
    """A policy named after its model."""
    policy = PredictPolicy(
        model=model, parameters=parameters, safety_margin_percent=margin, cold_start_period_seconds=cold
    )
    return NamedPolicy(model, policy)


def pods_of(given: Trace, placement: Placement, machine: int) -> list[tuple[PodLifetime, FloatArray, float]]:
    return [
        (lifetime, given.usage[:, lifetime.series], float(given.limits[lifetime.series]))
        for lifetime in placement.lifetimes
        if lifetime.machine == machine
    ]


def brute(
    given: Trace, placement: Placement, machine: int, model: str, margin: float, window: int, cold: int, ahead: int
) -> tuple[float, float, float]:
    """Violation, severity, savings of recent-max or sum-max by the definitions. Steps: warm up 48, not the horizon."""
    violated, severity, saved, limited = [], [], 0.0, 0.0
    pods = pods_of(given, placement, machine)
    for now in range(48, given.steps - ahead):
        here = [pod for pod in pods if pod[0].start <= now < pod[0].end]
        warm = [pod for pod in here if now - pod[0].start + 1 >= cold]
        limits = sum(limit for _, _, limit in here)
        first = [max(now - window + 1, lifetime.start) for lifetime, _, _ in warm]
        if model == "sum-max":
            peak = sum(series[low : now + 1].max() for low, (_, series, _) in zip(first, warm, strict=True))
        else:
            sums = [
                sum(series[then] for low, (_, series, _) in zip(first, warm, strict=True) if then >= low)
                for then in range(now - window + 1, now + 1)
            ]
            peak = max(sums, default=0.0)
        predicted = min(margin * peak + limits - sum(limit for _, _, limit in warm), limits)
        oracle = max(
            sum(series[then] for lifetime, series, _ in here if then < lifetime.end)
            for then in range(now, now + ahead + 1)
        )
        oracle = min(oracle, limits)
        violated.append(predicted < oracle * (1 - 1e-9))
        severity.append(max(0.0, oracle - predicted) / oracle if oracle else 0.0)
        saved, limited = saved + limits - predicted, limited + limits
    return float(np.mean(violated)), float(np.mean(severity)), saved / limited


@pytest.mark.parametrize("model", ["recent-max", "sum-max"])
@pytest.mark.parametrize("kind", ["packed", "churned", "real"])
def test_scores_are_those_of_the_definitions(kind: str, model: str) -> None:
    """Violation, severity and savings of every machine, of pods that stay, that come and go, and where they were."""
    usage = bursts(STEPS, 7)
    lifetimes = tuple(PodLifetime(series, series % 2, 30 * series, STEPS - 13 * series) for series in range(7))
    limits = [usage[:, series].max() + 1.0 for series in range(7)]
    source = trace(usage, limits, lifetimes=lifetimes if kind == "real" else None)
    churn = Churn(80 * 300.0, slots_per_machine=3) if kind == "churned" else None
    plan = Plan(
        machines=None if kind == "real" else 2,
        seeds=() if kind == "real" else (0, 1),
        horizons_seconds=(2 * HOUR,),
        warm_up_seconds=4 * HOUR,
        churn=churn,
    )
    placements = {
        "packed": lambda: [packed(source, 2, seed) for seed in (0, 1)],
        "churned": lambda: [churned(source, 2, churn or Churn(1.0), seed) for seed in (0, 1)],
        "real": lambda: [real(source)],
    }[kind]()
    oracle, result = run(source, [choice(model, 5, windowDays=0.25)], plan)
    expected = [
        brute(source, placement, machine, model, 1.05, 72, 36, 24) for placement in placements for machine in range(2)
    ]
    assert result.violation == pytest.approx([value[0] for value in expected])
    assert result.severity == pytest.approx([entry[1] for entry in expected])
    assert result.savings == pytest.approx([item[2] for item in expected])
    assert 0.0 < result.violation.mean() < 1.0
    assert oracle.policy == ORACLE
    assert oracle.violation.tolist() == [0.0] * len(expected)
    assert (oracle.savings >= result.savings - 0.2).all()


def test_result_names_its_source() -> None:
    """Results name policy, resource, horizon, machines and seeds, the oracle before each horizon's policies."""
    plan = Plan(machines=3, seeds=(4, 5), horizons_seconds=(HOUR, 6 * HOUR), warm_up_seconds=HOUR)
    result = run(trace(bursts(200, 6)), [choice("sum-max"), choice("recent-max")], plan)
    assert [(entry.policy, entry.horizon_seconds) for entry in result] == [
        (name, seconds) for seconds in (HOUR, 6 * HOUR) for name in (ORACLE, "sum-max", "recent-max")
    ]
    assert {(row.resource, row.machines, row.seeds, len(row.violation)) for row in result} == {("cpu", 3, (4, 5), 6)}


def test_part_of_the_resource_decides() -> None:
    """A policy with a part for one resource is evaluated by that part there."""
    override = ResourceOverride(model="borg-default")
    policy = PredictPolicy(model="sum-max", safety_margin_percent=0, cold_start_period_seconds=HOUR, memory=override)
    for resource, saves in (("cpu", False), ("memory", True)):
        source = trace(bursts(STEPS, 4) + 80.0, resource=resource)  # type: ignore[arg-type]
        _, result = run(source, [NamedPolicy("x", policy)], Plan(2, (0,), (HOUR,), 4 * HOUR))
        assert (result.savings_percent == pytest.approx(100 * (1 - 1 / 1.1))) is saves


def test_workload_history_warms() -> None:
    """Pods that come back as the same workload are warm at once, so more is saved; without its history they are not."""
    source = trace(bursts(STEPS, 8))
    churn = Churn(40 * 300.0, 4, comes_back_percent=90.0)
    saved = [
        run(source, [choice("sum-max")], Plan(2, (0,), (HOUR,), 4 * HOUR, churn, workload_history=history))[1]
        for history in WORKLOAD_HISTORIES[:0:-1]
    ]
    assert saved[1].savings_percent > saved[0].savings_percent + 10.0


def test_cluster_knows_pods_that_move() -> None:
    """Pods that come back on any machine are known by their usage on the others, unless the policy does not use it."""
    source = trace(bursts(5 * STEPS, 8))
    policy = PredictPolicy(model="sum-max", cold_start_period_seconds=DAY, workload_history_pod_days=1)
    choices = [NamedPolicy("on", policy), NamedPolicy("off", replace(policy, use_workload_history=False))]
    churn = Churn(40 * 300.0, 4, comes_back_percent=98.0, comes_back_on_any=True)
    cluster, node = (
        [
            result.savings_percent
            for result in run(source, choices, Plan(4, (0,), (HOUR,), 4 * HOUR, churn, workload_history=history))[1:]
        ]
        for history in WORKLOAD_HISTORIES[:2]
    )
    assert cluster[1] == node[0] == node[1]
    assert cluster[0] > node[0] + 10.0


def test_machine_that_is_empty_does_not_count() -> None:
    """A machine with nothing on it at any step that counts has no score."""
    source = trace(bursts(STEPS, 2), lifetimes=(PodLifetime(0, 0, 0, STEPS), PodLifetime(1, 1, 0, 40)))
    result = run(source, [choice("sum-max")], PLAN)
    assert [entry.machines for entry in result] == [1, 1]


def test_nothing_is_left_to_judge() -> None:
    """Where every series has gone before the first step that counts, there are no figures, and that is said."""
    source = trace(bursts(STEPS, 1), lifetimes=(PodLifetime(0, 0, 0, 40),))
    with pytest.raises(TraceError, match="no series is on a machine after the first 4h"):
        run(source, [choice("sum-max")], PLAN)


def test_progress_rises_to_one() -> None:
    """Progress names each machine and ends at 1."""
    texts: list[tuple[float, str]] = []
    run(trace(bursts(STEPS, 6)), [], Plan(3, (0,), (HOUR,), 4 * HOUR), lambda share, what: texts.append((share, what)))
    assert [share for share, _ in texts] == pytest.approx([0.0, 1 / 3, 2 / 3, 1.0])
    assert [what for _, what in texts][:3] == ["machine-0", "machine-1", "machine-2"]


def test_learning_is_reported() -> None:
    texts: list[tuple[float, str]] = []
    plan = Plan(3, (0,), (HOUR,), 4 * HOUR)
    run(trace(bursts(STEPS, 6)), [choice("nsigma-v1")], plan, lambda share, what: texts.append((share, what)))
    assert [what for _, what in texts if "learning" in what] == ["learning, 0%", "learning, 72%"]
    assert [share for share, _ in texts] == sorted(share for share, _ in texts)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(2, (0,), (30 * HOUR,), 10 * HOUR), r"lasts 33h20m.*choose a --horizon of at most 23h15m"),
        (Plan(2, (0,), (12 * HOUR,), 40 * HOUR), "choose a --warm-up of at most 21h15m with this horizon"),
        (Plan(2, (0,), (60 * HOUR,), 40 * HOUR), "choose a shorter --warm-up and a shorter --horizon"),
        (Plan(9, (0,), (HOUR,), HOUR), "9 machines for 4 series; choose at most 4 machines"),
        (Plan(None, (0,), (HOUR,), HOUR), "does not record which machine"),
        (Plan(None, (0,), (HOUR,), HOUR, Churn(6000.0)), "need a number of machines"),
    ],
)
def test_impossible_evaluations(plan: Plan, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        run(trace(bursts(STEPS, 4)), [], plan)


def test_averages_of_another_length() -> None:
    """A trace without averages of five minutes does not represent an agent's data."""
    with pytest.raises(TraceError, match="a value every 60 s, but models use averages of 300 s"):
        run(trace(bursts(STEPS, 4), step=60.0), [], Plan(2, (0,), (HOUR,), HOUR))


def test_unknown_model() -> None:
    with pytest.raises(PolicyError, match="no model is named 'nonsense'"):
        run(trace(bursts(STEPS, 4)), [choice("nonsense")], Plan(2, (0,), (HOUR,), HOUR))


@dataclass(frozen=True)
class OfOneMoment:
    """A model that was written for one moment: over many it adds up pods and steps alike."""

    measured: ClassVar[bool] = True

    def peak(self, view: View, margin: float) -> Amount:
        return margin * float(view.windows().highest.sum())


@dataclass(frozen=True)
class Failing:
    answer: float
    measured: ClassVar[bool] = True

    def peak(self, view: View, margin: float) -> Amount:
        if np.isnan(self.answer):
            raise KeyError("no such pod")
        return self.answer * margin * view.windows().sum_of_max


def batched(model: object) -> BatchPredictor:
    """A model with a margin of 10 %."""
    return BatchPredictor("mine", ResourceModel("mine", model, 1.1, SumMax(), HOUR))  # type: ignore[arg-type]


def one_machine() -> Machine:
    source = trace(bursts(60, 3))
    (result,) = machines(source, [packed(source, 1, 0)], workload_history="node")
    return result


def test_model_of_one_moment_runs_step_by_step() -> None:
    """A model that cannot do arrays is found out, and says the same as one that can."""
    ours, theirs = predictions(one_machine(), [batched(SumMax()), batched(OfOneMoment())], 12, 60)
    assert theirs == pytest.approx(ours)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.nan, "policy mine: model mine failed for cpu: 'no such pod'"),
        (-1.0, "policy mine: model mine returns -"),
        (np.inf, "policy mine: model mine returns inf, which is not an amount"),
    ],
)
def test_failing_model_is_named(answer: float, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        predictions(one_machine(), [batched(Failing(answer))], 12, 60)


def test_groups_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many machines are held together, and however time is cut, the figures are the same."""
    source = trace(bursts(STEPS, 9))
    names = ("nsigma-v2", "percentile", "diversity", "resource-central")

    def evaluated() -> list[Result]:
        return run(source, [choice(name, 10) for name in names], Plan(3, (0, 1), (HOUR,), 4 * HOUR))

    whole = evaluated()
    monkeypatch.setattr("kubectl_headroom.backtest.group.GROUP_VALUES", 100)
    monkeypatch.setattr("kubectl_headroom.backtest.group._SEGMENT_VALUES", 50)
    for one, other in zip(whole, evaluated(), strict=True):
        assert other.violation.tolist() == one.violation.tolist()
        assert other.savings == pytest.approx(one.savings, rel=1e-12)
