import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.numerics.history import ResourceHistory, cpu_history
from agent.predictors.base import ClassView, Model
from agent.predictors.borg_default import BorgDefault
from agent.predictors.diversity import Diversity
from agent.predictors.max_of import MaxOf
from agent.predictors.nsigma_v1 import NSigmaV1
from agent.predictors.nsigma_v2 import NSigmaV2
from agent.predictors.percentile import Percentile
from agent.predictors.recent_max import RecentMax
from agent.predictors.resource_central import ResourceCentral
from agent.predictors.sum_max import SumMax

START = 1_700_000_100.0  # a 5-minute slot begins here
CLASS = 0
ALL: list[Model] = [
    NSigmaV1(),
    NSigmaV2(),
    NSigmaV1(cap_at_highest=False),
    NSigmaV2(cap_at_highest=False),
    BorgDefault(),
    RecentMax(),
    SumMax(),
    Diversity(),
    ResourceCentral(),
    Percentile(),
    MaxOf((BorgDefault(), NSigmaV2())),
]

usages = st.lists(st.lists(st.floats(0.0, 64.0), min_size=2, max_size=2), min_size=1, max_size=30)


def seen(pods: list[list[float]], observed_seconds: float = 0.001) -> ClassView:
    """A class that used, in each 5 minutes, what is listed by pod; one sample per 5 minutes, no decay to speak of."""
    history: ResourceHistory = cpu_history()
    count = len(pods[0])
    history.grow(count + 1)
    rows = np.arange(count + 1)
    for number, usage in enumerate(pods):
        values = np.array([sum(usage), *usage])
        ticks = np.arange(START + 300.0 * number, START + 300.0 * (number + 1), 60.0)
        history.windows.add(rows, ticks, np.repeat(values[:, None], 5, axis=1), 60.0)
        history.last[:] = -np.inf  # each slot brings what is said, whatever the time
        history.learn(rows, values, START + 300.0 * (number + 1), np.full(count + 1, observed_seconds))
    return ClassView(history, CLASS, rows[1:], np.full(count, 2.2))


ALTERNATING = [[1.3, 0.7], [0.7, 1.3]] * 20
DEVIATION = 0.3 * np.sqrt(40 / 39)


def test_nsigma_of_class() -> None:
    """Two pods that alternate have a sum without spread: mean 2, so v1 says 2."""
    assert NSigmaV1(cap_at_highest=False).peak(seen(ALTERNATING), 1.0) == pytest.approx(2.0, rel=1e-6)


def test_nsigma_of_pods_is_larger() -> None:
    """V2 takes the larger sum over pods: 2 * (1 + 3 * 0.3)."""
    expected = 2 * (1.0 + 3 * DEVIATION)
    assert NSigmaV2(cap_at_highest=False).peak(seen(ALTERNATING), 1.0) == pytest.approx(expected, rel=1e-6)


def test_cap_is_sum_of_highest() -> None:
    """Capped, v2 says no more than S = 1.3 + 1.3, to which the margin comes."""
    assert NSigmaV2().peak(seen(ALTERNATING), 1.1) == pytest.approx(1.1 * 2.6, rel=1e-6)


def test_departed_pods_are_capped() -> None:
    """A class series that a departed pod has swollen says no more than what the pods present ever used."""
    view = seen([[0.5, 10.0]] * 20)
    present = ClassView(view.history, CLASS, view.pods[:1], view.requests[:1])
    assert NSigmaV1(cap_at_highest=False).peak(present, 1.0) > 10.0
    assert NSigmaV1().peak(present, 1.0) == pytest.approx(0.5)


def test_more_sigmas_are_more() -> None:
    """A larger N never gives a smaller peak."""
    view = seen(ALTERNATING)
    peaks = [NSigmaV2(n=n).peak(view, 1.0) for n in (0.0, 1.0, 2.0, 3.0)]
    assert peaks == sorted(peaks)


def test_borg_divides_requests() -> None:
    """Requests of 4.4 cores at a = 1.1: 4 cores, whatever the margin."""
    assert BorgDefault().peak(seen(ALTERNATING), 1.5) == pytest.approx(4.0)
    assert not BorgDefault().measured


def test_recent_max_is_coincident() -> None:
    """C of pods that alternate between 1.3 and 0.7 is 2.0, S is 2.6."""
    view = seen(ALTERNATING)
    assert RecentMax().peak(view, 1.1) == pytest.approx(2.2)
    assert SumMax().peak(view, 1.1) == pytest.approx(2.86)


def test_window_days_look_back() -> None:
    """A day's window has forgotten what was used the day before."""
    view = seen([[9.0, 9.0]] + [[1.0, 1.0]] * 300)
    assert RecentMax(window_days=1.0).peak(view, 1.0) == pytest.approx(2.0)
    assert SumMax(window_days=2.0).peak(view, 1.0) == pytest.approx(18.0)


def test_pod_without_window_counts_highest() -> None:
    """A pod too young for a 5-minute average counts with its highest sample in C and S."""
    view = seen(ALTERNATING)
    view.history.windows.clear(2)
    assert RecentMax().peak(view, 1.0) == pytest.approx(1.3 + 1.3)
    assert SumMax().peak(view, 1.0) == pytest.approx(1.3 + 1.3)


def test_max_takes_largest() -> None:
    """Max is the largest of its models, each with its own margin: 4 of Borg's, not 1.1 * 4, against 1.1 * 2.6."""
    view = seen(ALTERNATING)
    assert MaxOf((BorgDefault(), SumMax())).peak(view, 1.1) == pytest.approx(4.0)
    assert MaxOf((BorgDefault(a=2.0), SumMax())).peak(view, 1.1) == pytest.approx(2.86)
    assert MaxOf((BorgDefault(), SumMax())).measured
    assert not MaxOf((BorgDefault(),)).measured


@pytest.mark.parametrize("model", ALL)
def test_short_history_answers(model: Model) -> None:
    """One sample is enough for an answer that is a number."""
    peak = model.peak(seen([[1.0, 2.0]]), 1.1)
    assert 0.0 <= peak < 10.0


@pytest.mark.parametrize("model", ALL)
@given(pods=usages, margin=st.floats(1.0, 2.0))
def test_peak_is_sane(model: Model, pods: list[list[float]], margin: float) -> None:
    """Whatever was used, a peak is finite, not negative, and grows with the margin at most as much as that."""
    view = seen(pods)
    plain, widened = model.peak(view, 1.0), model.peak(view, margin)
    assert 0.0 <= plain < 1000.0
    assert plain - 1e-9 <= widened <= plain * margin + 1e-9


@given(pods=usages)
def test_models_are_ordered(pods: list[list[float]]) -> None:
    """C <= S, and n-sigma capped <= S."""
    view = seen(pods)
    highest = SumMax().peak(view, 1.0) + 1e-6
    assert RecentMax().peak(view, 1.0) <= highest
    assert NSigmaV1().peak(view, 1.0) <= highest
    assert NSigmaV1().peak(view, 1.0) <= NSigmaV2().peak(view, 1.0) + 1e-6


def test_diversity_without_evidence() -> None:
    """Pods never seen for any time: lambda is 1, and the peak S = 2.6."""
    assert Diversity().peak(seen(ALTERNATING), 1.0) == pytest.approx(2.6)


@pytest.mark.parametrize(
    ("window_hours", "expected"),
    [
        (12.0, 2.0 + (1.0 - 0.6 * 200 / 720) * 0.6),  # seen for 200 of 720 minutes: lambda 0.833
        (200 / 60, 2.0 + 0.4 * 0.6),  # seen for all of the window: lambdaMin
        (1.0, 2.0 + 0.4 * 0.6),  # seen for longer
    ],
)
def test_diversity_grows_with_evidence(window_hours: float, expected: float) -> None:
    """C = 2, S = 2.6, 200 minutes of evidence: lambda falls in a straight line to lambdaMin at the whole window."""
    view = seen(ALTERNATING, 300.0)
    assert Diversity(window_days=window_hours / 24).peak(view, 1.0) == pytest.approx(expected)
    assert Diversity(window_days=window_hours / 24).peak(view, 1.1) == pytest.approx(1.1 * expected)


def test_diversity_weighs_by_usage() -> None:
    """A pod of 3 cores seen for the whole hour and one of 1 core new to it: lambda = (3 * 0.4 + 1 * 1) / 4 = 0.55."""
    view = seen([[3.0, 0.0]] * 11 + [[0.0, 1.0]], 300.0)
    view.history.observed[2] = 0.0
    assert Diversity(window_days=1 / 24).peak(view, 1.0) == pytest.approx(3.0 + 0.55 * 1.0)


def test_diversity_of_idle_pods() -> None:
    """Pods that use nothing have a peak of nothing."""
    assert Diversity().peak(seen([[0.0, 0.0]] * 3, 300.0), 1.0) == 0.0


def test_percentile_of_own_history() -> None:
    """Of 288 averages the 99th percentile is the third highest: 1 + 2 + … leaves out 287 and 286."""
    view = seen([[float(number), 1.0] for number in range(288)])
    assert ResourceCentral().peak(view, 1.0) == pytest.approx(285.0 + 1.0)
    assert ResourceCentral(percentile=100).peak(view, 1.1) == pytest.approx(1.1 * 288.0)
    assert ResourceCentral(percentile=50, window_hours=1).peak(view, 1.0) == pytest.approx(281.0 + 1.0)


def test_koordinators_percentile() -> None:
    """The larger of the class's p95 and the sum of its pods': bucket ends, cut off to milli-cores, times the margin.

    Two pods that alternate between 1.3 and 0.7: the class is always 2 (bucket end 2.069), each p95 is 1.3 (1.366).
    """
    view = seen(ALTERNATING)
    assert Percentile().peak(view, 1.0) == pytest.approx(2 * 1.366)
    assert Percentile().peak(view, 1.1) == pytest.approx(2 * 1.502)
    assert Percentile(percentile=50).peak(view, 1.0) == pytest.approx(2.069)


def test_thin_window_counts_highest() -> None:
    """Where the window holds less than half of what a pod was observed, its highest sample ever stands in."""
    view = seen([[2.0, 1.0]] * 12, 300.0)
    view.history.moments.highest[1] = 5.0
    assert SumMax(window_days=1 / 24).peak(view, 1.0) == pytest.approx(3.0)
    view.history.observed[1] = 86400.0
    assert SumMax(window_days=1.0).peak(view, 1.0) == pytest.approx(6.0)
    assert SumMax(window_days=1 / 24).peak(view, 1.0) == pytest.approx(3.0)
    assert ResourceCentral().peak(view, 1.0) == pytest.approx(6.0)


@given(pods=usages)
def test_diversity_lies_between(pods: list[list[float]]) -> None:
    """C <= diversity <= S."""
    view = seen(pods, 300.0)
    found = Diversity(window_days=0.05).peak(view, 1.0)
    assert RecentMax(0.05).peak(view, 1.0) <= found + 1e-6
    assert found <= SumMax(0.05).peak(view, 1.0) + 1e-6
