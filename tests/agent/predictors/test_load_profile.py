"""The default model: worked numbers, and what holds whatever the pods did."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.numerics.history import cpu_history, memory_history
from agent.predictors import PolicyError, build, window_days
from agent.predictors.base import ClassView
from agent.predictors.load_profile import LoadProfile
from agent.predictors.max_of import MaxOf
from agent.predictors.sum_max import SumMax
from crds.predict_policy import ResourcePolicy

MIDNIGHT = 1_700_006_400.0
DAY = 288
HISTORIES = {"cpu": cpu_history, "memory": memory_history}

usages = st.lists(st.lists(st.floats(0.0, 64.0), min_size=2, max_size=2), min_size=1, max_size=30)


def seen(pods: dict[int, list[float]], days: float, resource: str = "cpu") -> ClassView:
    """Pods observed for some days that used, in ten of them, what is listed by slot, and else nothing."""
    history = HISTORIES[resource]()
    rows = np.arange(len(next(iter(pods.values()))))
    history.grow(len(rows))
    averages = np.zeros((len(rows), 10 * DAY), dtype=np.float32)
    averages[:, list(pods)] = np.array(list(pods.values())).T
    history.windows.resize(10 * DAY)
    first = int(MIDNIGHT // 300)
    history.windows.slot = first + 10 * DAY - 1
    history.windows.write(rows, first + np.arange(10 * DAY), averages)
    history.observed[:] = days * 86400.0
    return ClassView(history, 0, rows, np.full(len(rows), 4.0))


def alternating(days: float, resource: str = "cpu") -> ClassView:
    """Two pods that take turns between 1.3 and 0.7 at the same times of each day: C = E = 2, S = 2.6."""
    return seen({slot: [[1.3, 0.7], [0.7, 1.3]][slot % 2] for slot in range(10 * DAY)}, days, resource)


@pytest.mark.parametrize(
    ("resource", "days", "peak"),
    [
        ("cpu", 1.0, 2.6),  # 1.4 * 0.769^0.75 = 1.15: all of S
        ("cpu", 10.0, 2.0 + 0.2459 * 0.6),  # 1.4 * 0.8214 * 0.2138
        ("cpu", 30.0, 2.0 + 0.1178 * 0.6),  # 1.4 * 0.8214 * 0.1024
        ("cpu", 300.0, 2.0 + 0.1178 * 0.6),  # a month is all the evidence that counts
        ("memory", 10.0, 2.0 + 0.4935 * 0.6),  # 1.9 * 0.8214 * 0.3162
    ],
)
def test_worked_numbers(resource: str, days: float, peak: float) -> None:
    """The example of the documentation, for both resources: the longer known, the less of S - B is charged."""
    assert LoadProfile().peak(alternating(days, resource), 1.0) == pytest.approx(peak, abs=2e-4)


def test_same_hour_counts_together() -> None:
    """Jobs at the same hour of different nights: C = 1.3, E = 2, and B lies at 0.6 of the way; at other hours at C."""
    same = seen({0: [1.0, 0.3], DAY: [0.3, 1.0]}, 30.0)
    other = seen({0: [1.0, 0.3], DAY + 9: [0.3, 1.0]}, 30.0)
    model = LoadProfile(spread_share=0.0)
    assert model.peak(same, 1.0) == pytest.approx(1.3 + 0.6 * 0.7)
    assert model.peak(other, 1.0) == pytest.approx(1.3)


def test_young_pods_weigh_by_their_own() -> None:
    """A pod of a day beside one of a month: the young one's share of S is charged in full, the old one's is not."""
    view = alternating(30.0)
    view.history.observed[1] = 86400.0
    expected = (0.1178 + 1.0) / 2
    assert LoadProfile().peak(view, 1.0) == pytest.approx(2.0 + expected * 0.6, abs=2e-4)


def test_windows_differ_by_resource() -> None:
    """What is kept is enough for the resource that looks back further, also inside of max."""
    assert window_days(LoadProfile()) == 10.0
    assert window_days(MaxOf((LoadProfile(), SumMax()))) == 10.0
    assert window_days(LoadProfile(window_days=3.0)) == 3.0
    assert [LoadProfile().window_days_of(name) for name in ("cpu", "memory")] == [10.0, 7.0]


@pytest.mark.parametrize(
    "parameters",
    [{"windowDays": 31}, {"profileShare": 1.1}, {"spreadShare": -1}, {"spreadFall": True}, {"spreadFall": "1"}],
)
def test_wrong_parameters_are_refused(parameters: dict[str, object]) -> None:
    """A parameter out of range is refused with its name and what is allowed."""
    with pytest.raises(PolicyError, match=f"parameters.{next(iter(parameters))}: must be a number from"):
        build(ResourcePolicy("load-profile", parameters, (), 0))


@given(pods=usages, days=st.floats(0.0, 400.0), margin=st.floats(1.0, 2.0))
def test_between_together_and_apart(pods: list[list[float]], days: float, margin: float) -> None:
    """C <= E <= S and C <= peak <= S, times the margin, whatever was used and for however long."""
    view = seen(dict(enumerate(pods)), days)
    windows = view.windows(10.0)
    peak = LoadProfile().peak(view, margin)
    assert windows.coincident <= windows.profile() + 1e-4
    assert windows.profile() <= windows.total + 1e-4
    assert margin * windows.coincident - 1e-4 <= peak <= margin * windows.total + 1e-4


@given(pods=usages, days=st.tuples(st.floats(0.0, 40.0), st.floats(0.0, 40.0)))
def test_falls_with_evidence(pods: list[list[float]], days: tuple[float, float]) -> None:
    """More evidence of the same usage never raises the peak; it never falls below B."""
    young, old = (LoadProfile().peak(seen(dict(enumerate(pods)), each), 1.0) for each in sorted(days))
    assert LoadProfile(spread_share=0.0).peak(seen(dict(enumerate(pods)), 1.0), 1.0) - 1e-4 <= old <= young + 1e-4


def test_idle_pods_need_nothing() -> None:
    """Pods that use nothing have a peak of 0, not of an undefined share of it."""
    assert LoadProfile().peak(seen({0: [0.0, 0.0], 1: [0.0, 0.0]}, 5.0), 1.0) == 0.0
