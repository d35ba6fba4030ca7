from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.numerics.history import ResourceHistory, cpu_history
from agent.predictors.base import ClassView, Model, PodWindows, View
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

START = 1_700_000_100.0  # a 5-minute slot begins here
ALL: list[Model] = [
    NSigmaV1(),
    NSigmaV2(),
    NSigmaV1(cap_at_highest=False),
    NSigmaV2(cap_at_highest=False),
    BorgDefault(),
    RecentMax(),
    SumMax(),
    Diversity(),
    Coincidence(),
    Coincidence(target_violation_percent=0.1, window_days=0.5),
    ResourceCentral(),
    Percentile(),
    MaxOf((BorgDefault(), NSigmaV2())),
]

usages = st.lists(st.lists(st.floats(0.0, 64.0), min_size=2, max_size=2), min_size=1, max_size=30)


def seen(pods: list[list[float]], observed_seconds: float = 0.001) -> ClassView:
    """Make a class with the listed usage by pod in each 5 minutes: one sample per 5 minutes, almost no decay."""
    history: ResourceHistory = cpu_history()
    count = len(pods[0])
    history.grow(count + 1)
    rows = np.arange(count + 1)
    for number, usage in enumerate(pods):
        values = np.array([sum(usage), *usage])
        ticks = np.arange(START + 300.0 * number, START + 300.0 * (number + 1), 60.0)
        history.windows.add(rows, ticks, np.repeat(values[:, None], 5, axis=1), 60.0)
        history.last[:] = -np.inf  # each slot has the stated value at any time
        history.learn(rows, values, START + 300.0 * (number + 1), np.full(count + 1, observed_seconds))
    return ClassView(history, 0, rows[1:], np.full(count, 2.2))


ALTERNATING = [[1.3, 0.7], [0.7, 1.3]] * 20  # two pods with a constant sum: C is 2.0, S is 2.6
SHARE_7 = float(np.log(8 / 7))  # of `Coincidence` at 7 percent
DEVIATION = 0.3 * np.sqrt(40 / 39)
FALLEN = [[9.0, 9.0]] + [[1.0, 1.0]] * 300
RISING = [[float(number), 1.0] for number in range(288)]
CAPLESS_V1, CAPLESS_V2 = NSigmaV1(cap_at_highest=False), NSigmaV2(cap_at_highest=False)


@pytest.mark.parametrize(
    ("model", "used", "observed", "margin", "expected"),
    [
        (CAPLESS_V1, ALTERNATING, 0.001, 1.0, 2.0),
        (CAPLESS_V2, ALTERNATING, 0.001, 1.0, 2 * (1.0 + 3 * DEVIATION)),  # the larger sum over pods
        (NSigmaV2(n=1.0, cap_at_highest=False), ALTERNATING, 0.001, 1.0, 2 * (1.0 + DEVIATION)),
        (NSigmaV2(), ALTERNATING, 0.001, 1.1, 1.1 * 2.6),  # at most S, plus the margin
        (BorgDefault(), ALTERNATING, 0.001, 1.5, 4.0),  # requests of 4.4 cores at a = 1.1, whatever the margin
        (RecentMax(), ALTERNATING, 0.001, 1.1, 1.1 * 2.0),
        (SumMax(), ALTERNATING, 0.001, 1.1, 1.1 * 2.6),
        (RecentMax(window_days=1.0), FALLEN, 0.001, 1.0, 2.0),  # a day's window has forgotten the day before
        (SumMax(window_days=2.0), FALLEN, 0.001, 1.0, 18.0),
        (MaxOf((BorgDefault(), SumMax())), ALTERNATING, 0.001, 1.1, 4.0),  # each with its own margin
        (MaxOf((BorgDefault(a=2.0), SumMax())), ALTERNATING, 0.001, 1.1, 2.86),
        (Diversity(), ALTERNATING, 0.001, 1.0, 2.6),  # pods never seen for any time: lambda is 1
        # 200 minutes of evidence: lambda falls in a straight line to lambdaMin at the whole window
        (Diversity(window_days=0.5), ALTERNATING, 300.0, 1.0, 2.0 + (1.0 - 0.6 * 200 / 720) * 0.6),
        (Diversity(window_days=200 / 1440), ALTERNATING, 300.0, 1.1, 1.1 * (2.0 + 0.4 * 0.6)),
        (Diversity(window_days=1 / 24), ALTERNATING, 300.0, 1.0, 2.0 + 0.4 * 0.6),  # seen for longer
        (Diversity(), [[0.0, 0.0]] * 3, 300.0, 1.0, 0.0),
        (Coincidence(), [[0.0, 0.0]] * 3, 300.0, 1.0, 0.0),
        (Coincidence(), ALTERNATING, 300.0, 1.1, 1.1 * 2.6),  # less than a day counts as one: share is above 1
        (Coincidence(7.0), ALTERNATING, 300.0, 1.0, 2.0 + SHARE_7 * 2.6 * (1 - 2 / 2.6)),
        (Coincidence(7.0, horizon_hours=1.0), ALTERNATING, 300.0, 1.0, 2.0),  # k would be below 0
        (Coincidence(0.1), [[1.3], [0.7]] * 20, 300.0, 1.0, 1.3),  # of one pod S is C
        (ResourceCentral(), RISING, 0.001, 1.0, 286.0),  # p99 of 288 averages is the third highest
        (ResourceCentral(percentile=100), RISING, 0.001, 1.1, 1.1 * 288.0),
        (ResourceCentral(percentile=50, window_hours=1), RISING, 0.001, 1.0, 282.0),
        # the class is always 2 (bucket end 2.069), each p95 is 1.3 (1.366), cut off to milli-cores, times the margin
        (Percentile(), ALTERNATING, 0.001, 1.0, 2 * 1.366),
        (Percentile(), ALTERNATING, 0.001, 1.1, 2 * 1.502),
        (Percentile(percentile=50), ALTERNATING, 0.001, 1.0, 2.069),
    ],
)
def test_worked_peaks(model: Model, used: list[list[float]], observed: float, margin: float, expected: float) -> None:
    assert model.peak(seen(used, observed), margin) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("model", "measured"), [(BorgDefault(), False), (MaxOf((BorgDefault(),)), False), (ALL[-1], True)]
)
def test_model_of_requests_measures_nothing(model: Model, *, measured: bool) -> None:
    assert model.measured is measured


def test_pods_that_left_do_not_count() -> None:
    """A departed pod in a class series does not raise the peak beyond the present pods' own peaks."""
    view = seen([[0.5, 10.0]] * 20)
    present = ClassView(view.history, 0, view.pods[:1], view.requests[:1])
    assert CAPLESS_V1.peak(present, 1.0) > 10.0
    assert NSigmaV1().peak(present, 1.0) == pytest.approx(0.5)


def test_diversity_weighs_evidence_by_usage() -> None:
    """A pod of 3 cores seen for the whole hour and one of 1 core new to it: lambda = (3 * 0.4 + 1 * 1) / 4 = 0.55."""
    view = seen([[3.0, 0.0]] * 11 + [[0.0, 1.0]], 300.0)
    view.history.observed[2] = 0.0
    assert Diversity(window_days=1 / 24).peak(view, 1.0) == pytest.approx(3.0 + 0.55 * 1.0)


def test_highest_sample_stands_in_for_a_window_that_holds_too_little() -> None:
    """A pod too young for an average, or with data for less than half of the observed time."""
    young = seen(ALTERNATING)
    young.history.windows.clear(2)
    assert RecentMax().peak(young, 1.0) == SumMax().peak(young, 1.0) == pytest.approx(1.3 + 1.3)
    view = seen([[2.0, 1.0]] * 12, 300.0)
    view.history.moments.highest[1] = 5.0
    assert SumMax(window_days=1 / 24).peak(view, 1.0) == pytest.approx(3.0)
    view.history.observed[1] = 86400.0
    assert SumMax(window_days=1.0).peak(view, 1.0) == pytest.approx(6.0)
    assert SumMax(window_days=1 / 24).peak(view, 1.0) == pytest.approx(3.0)
    assert ResourceCentral().peak(view, 1.0) == pytest.approx(6.0)


@pytest.mark.parametrize("model", ALL)
@given(pods=usages, margin=st.floats(1.0, 2.0))
def test_peak_grows_with_the_margin_at_most_as_much(model: Model, pods: list[list[float]], margin: float) -> None:
    view = seen(pods)
    plain, widened = model.peak(view, 1.0), model.peak(view, margin)
    assert 0.0 <= plain < 1000.0
    assert plain - 1e-9 <= widened <= plain * margin + 1e-9


@given(pods=usages, target=st.floats(0.1, 7.0), hours=st.floats(1.0, 24.0), days=st.floats(0.01, 30.0))
def test_coincidence_follows_the_stated_risk(pods: list[list[float]], target: float, hours: float, days: float) -> None:
    """Any of them is between C and S; a higher target or a shorter horizon is never more."""
    view = seen(pods, 300.0)
    peak = Coincidence(target, hours, days).peak(view, 1.0)
    assert RecentMax(days).peak(view, 1.0) - 1e-6 <= peak <= SumMax(days).peak(view, 1.0) + 1e-6
    assert Coincidence(min(target * 1.5, 7.0), hours, days).peak(view, 1.0) <= peak + 1e-9
    assert Coincidence(target, max(hours / 2, 1.0), days).peak(view, 1.0) <= peak + 1e-9


def watched(averages: list[list[float]], days: float) -> View:
    """Pods with the listed averages in their window, and that much evidence."""
    values = np.array(averages, dtype=np.float32)
    highest = np.nanmax(values, axis=1).astype(np.float64)[np.newaxis]
    windows = PodWindows(values, highest, np.zeros(len(values), np.bool_), np.full(highest.shape, days * 86400.0))
    return cast("View", SimpleNamespace(windows=lambda _days: windows))


@pytest.mark.parametrize(
    ("used", "days", "expected"),
    [
        ([[1.3, 0.7] * 2016, [0.7, 1.3] * 2016], 14.0, 2.190),
        ([[1.3, 0.7] * 1008, [0.7, 1.3] * 1008], 14.0, 2.268),  # half of it without usage: at once is less
        ([[8.0, *[0.0] * 99], [*[0.0] * 99, 6.0]], 14.0, 8.0 + 0.4474 * 14.0 * (1 - 8 / 14)),
        ((8.0 * np.eye(50)).tolist(), 14.0, 8.0 + 0.4474 * (8.0 - 8.0 * 300 / 86400 / 14) * 50**0.5),
    ],
)
def test_coincidence_after_two_weeks(used: list[list[float]], days: float, expected: float) -> None:
    """Share is ln(8 / 1.5) / sqrt(14) = 0.4474: few pods may peak at once, of many the root of the squares counts."""
    assert Coincidence().peak(watched(used, days), 1.0) == pytest.approx(expected, abs=0.001)


@given(
    pods=st.lists(st.lists(st.floats(0.0, 64.0), min_size=30, max_size=30), min_size=1, max_size=5),
    lost=st.sets(st.integers(1, 29)),
    days=st.floats(0.0, 14.0),
)
def test_coincidence_is_not_less_without_some_averages(pods: list[list[float]], lost: set[int], days: float) -> None:
    """Averages that are no peak of a pod or of all, and the evidence that they were, are missing."""
    values = np.array(pods)
    values[:, 0] = values.max(axis=1)
    gaps = values.copy()
    gaps[:, list(lost)] = np.nan
    less = days * (1 - len(lost) / 30)
    full, part = (
        Coincidence().peak(watched(values.tolist(), days), 1.0),
        Coincidence().peak(watched(gaps.tolist(), less), 1.0),
    )
    assert full <= part + 1e-9


@given(pods=usages)
def test_models_are_ordered(pods: list[list[float]]) -> None:
    """C <= diversity <= S, n-sigma capped <= S, and more sigmas are not less."""
    view = seen(pods, 300.0)
    c, s, between = (model.peak(view, 1.0) for model in (RecentMax(0.05), SumMax(0.05), Diversity(window_days=0.05)))
    assert c - 1e-6 <= between <= s + 1e-6
    wide = seen(pods)
    v1, v2, highest = (model.peak(wide, 1.0) for model in (NSigmaV1(), NSigmaV2(), SumMax()))
    assert v1 <= min(v2, highest) + 1e-6
    peaks = [NSigmaV2(n=n).peak(wide, 1.0) for n in (0.0, 1.0, 2.0, 3.0)]
    assert peaks == sorted(peaks)
