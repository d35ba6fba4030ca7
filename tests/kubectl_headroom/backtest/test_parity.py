"""The backtest and the agent pass the models the same samples."""

from collections.abc import Collection, Mapping
from functools import cache

import numpy as np
import pytest

from agent.numerics.arrays import FloatArray, IntArray
from agent.numerics.history import ResourceHistory
from agent.pods import PodRef
from agent.predictors import PREDICTORS
from agent.predictors.base import ClassView, Model
from agent.predictors.borg_default import BorgDefault
from agent.predictors.coincidence import Coincidence
from agent.predictors.diversity import Diversity
from agent.predictors.max_of import MaxOf
from agent.predictors.nsigma_v1 import NSigmaV1
from agent.predictors.nsigma_v2 import NSigmaV2
from agent.predictors.percentile import Percentile
from agent.predictors.recent_max import RecentMax
from agent.predictors.resource_central import ResourceCentral
from agent.predictors.sum_max import SumMax
from agent.series_index import FIXED
from agent.trainer.trainer import Trainer, TrainingSettings
from agent.tsdb.series import Series
from crds.priority import PriorityBand, QoS
from kubectl_headroom.backtest.group import Machine, machines
from kubectl_headroom.backtest.placement import real
from kubectl_headroom.backtest.trace import PodLifetime, Trace
from kubectl_headroom.backtest.view import SegmentView
from tests.kubectl_headroom.backtest.small import START, STEP, bursts, trace

STEPS = 700
TICK = 60.0
COLD = 6 * 3600.0
STAYS = (
    PodLifetime(0, 0, 0, STEPS),
    PodLifetime(1, 0, 0, 300, "shop/cart"),
    PodLifetime(3, 0, 100, 400, "shop/pay"),
    PodLifetime(5, 0, 250, 640),
    PodLifetime(2, 0, 300, STEPS, "shop/cart"),  # takes over at once
    PodLifetime(6, 0, 500, STEPS, "shop/cart"),  # another of a workload that is there
    PodLifetime(4, 0, 600, STEPS, "shop/pay"),  # comes back after a while: its window holds too little
)
MODELS: list[Model] = [
    NSigmaV1(),
    NSigmaV2(n=2.0),
    NSigmaV1(cap_at_highest=False),
    NSigmaV2(cap_at_highest=False),
    BorgDefault(),
    RecentMax(),
    RecentMax(window_days=0.5),
    SumMax(window_days=1.0),
    SumMax(window_days=0.3),
    Coincidence(),
    Coincidence(7.0, horizon_hours=6.0, window_days=0.7),
    Diversity(window_days=1.0),
    Diversity(window_days=1.4, lambda_min=0.1),
    ResourceCentral(),
    ResourceCentral(percentile=50.0, window_hours=7.0),
    Percentile(),
    Percentile(percentile=50.0),
    MaxOf((BorgDefault(), NSigmaV2(), Diversity(window_days=0.7))),
]
WHEN = [80, 200, 299, 300, 301, 365, 400, 499, 520, 600, 601, 639, 699]


class Samples:
    """A store that holds what a trace says: five equal ticks for each of its steps."""

    def __init__(self, given: Trace) -> None:
        self.given = given

    def windows(self, metric: str, start: float, end: float) -> Mapping[str, "Series"]:
        if metric != self.given.resource:
            return {}
        ticks = START + TICK * np.arange(STEPS * 5, dtype=np.float64)
        ticks = ticks[(ticks > start) & (ticks <= end)]
        steps = ((ticks - START) // STEP).astype(np.intp)
        result = {}
        for number, lifetime in enumerate(STAYS):
            values = np.where(
                (lifetime.start <= steps) & (steps < lifetime.end), self.given.usage[steps, lifetime.series], np.nan
            )
            there = ~np.isnan(values)
            if there.any():
                result[str(number)] = Series(ticks[there], values[there])
        return result

    def averages(self, metric: str, start: float, end: float, entities: Collection[str]) -> Mapping[str, "Series"]:
        del metric, start, end, entities
        return {}


@cache
def given() -> Trace:
    """Seven pods that come and go, one with a gap."""
    usage = bursts(STEPS, len(STAYS))
    usage[350:380, 5] = np.nan
    return trace(usage, limits=[30.0, 20.0, 25.0, 40.0, 10.0, 22.0, 31.0], lifetimes=STAYS)


@cache
def agent() -> dict[int, ClassView]:
    """The agent's own views at some steps, of the pods that were warm."""
    trainer, result = Trainer(TrainingSettings(interval_seconds=STEP)), {}
    samples, limits = Samples(given()), given().limits
    pods = [
        PodRef(str(number), "", str(number), PriorityBand.PROD, QoS.NONE, workload=lifetime.workload)
        for number, lifetime in enumerate(STAYS)
    ]
    for step in range(STEPS):
        here = [number for number, lifetime in enumerate(STAYS) if lifetime.start <= step < lifetime.end]
        trainer.train(START + STEP * step + 270.0, samples, [pods[number] for number in here])
        if step in WHEN:
            rows = np.array([trainer.row(str(number)) for number in here], dtype=np.intp)
            warm = trainer.histories["cpu"].warm(rows, COLD)
            series = np.array([STAYS[number].series for number in here])
            result[step] = _frozen(trainer.histories["cpu"], rows[warm], limits[series[warm]])
    return result


def _frozen(history: ResourceHistory, rows: IntArray, requests: FloatArray) -> ClassView:
    """A view on a copy of some rows' history, the class first."""
    places = np.append(FIXED.index("prod"), rows)
    copy = type(history)(history.resource, history.units, history.histograms.buckets, history.moments.half_life_seconds)
    copy.grow(len(places))
    copy.restore(history.checkpoint(places), np.arange(len(places)))
    copy.windows.labels[:] = history.windows.labels
    copy.windows.averages[:] = history.windows.averages[places]
    return ClassView(copy, 0, np.arange(1, len(places)), requests)


@cache
def machine() -> Machine:
    (result,) = machines(given(), [real(given())], workload_history="node")
    return result


def at(step: int) -> tuple[SegmentView, int]:
    """The segment that holds a step, and its place in it."""
    for segment in machine().segments(COLD, 0, STEPS):
        if segment.start <= step < segment.end:
            assert segment.view is not None
            return segment.view, step - segment.start
    raise AssertionError(step)


@pytest.mark.parametrize("step", WHEN)
def test_same_pods_are_warm(step: int) -> None:
    """A pod is warm in a backtest when it is for the agent, inherited history included."""
    view, _ = at(step)
    assert view.requests.tolist() == agent()[step].requests.tolist()


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_models_answer_alike(model: Model) -> None:
    """Every model returns the agent's result for a step, all steps at once or one by one."""
    for step in WHEN:
        view, place = at(step)
        expected = model.peak(agent()[step], 1.1)
        together = np.broadcast_to(model.peak(view, 1.1), (view.end - view.start,))
        assert together[[place]] == pytest.approx(expected, rel=1e-6), step
        assert model.peak(view.at(place), 1.1) == pytest.approx(expected, rel=1e-6), step


def test_every_model_is_compared() -> None:
    assert {f"{type(model).__module__}:{type(model).__name__}" for model in MODELS} == set(PREDICTORS.values())


@pytest.mark.parametrize("days", [0.02, 0.3, 0.5, 1.0, 1.3, 2.0, 7.0])
def test_windows_answer_alike(days: float) -> None:
    """C and S at every width, evidence and percentiles are the agent's, whatever part of a day the window has."""
    for step in WHEN:
        view, place = at(step)
        ours, theirs = view.windows(days), agent()[step].windows(days)
        assert ours.highest[[place]] == pytest.approx(theirs.highest, rel=1e-6), step
        assert ours.evidence_seconds[[place]] == pytest.approx(theirs.evidence_seconds), step
        assert ours.usage_seconds[[place]] == pytest.approx(theirs.usage_seconds, rel=1e-6), step
        assert ours.sum_of_max[[place]] == pytest.approx(theirs.sum_of_max, rel=1e-6), step
        assert ours.coincident_max[[place]] == pytest.approx(theirs.coincident_max, rel=1e-6), step
        assert ours.percentiles(90.0)[[place]] == pytest.approx(theirs.percentiles(90.0), rel=1e-6), step


def test_some_window_is_sparse() -> None:
    """The trace has a pod with a sparse window."""
    assert any(view.windows(0.5).sparse.any() for view in agent().values())
