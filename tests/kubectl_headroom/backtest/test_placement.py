import numpy as np
import pytest

from kubectl_headroom.backtest.placement import Churn, check_churn, churned, packed, random_packing, real
from kubectl_headroom.backtest.trace import PodLifetime, TraceError
from tests.kubectl_headroom.backtest.small import bursts, trace


def test_random_packing_is_numpys() -> None:
    """The packing of the published figures: ``default_rng(seed).permutation(V) % M``, seeds 0 and 1 of 7 on 3."""
    assert random_packing(7, 3, 0).tolist() == (np.random.default_rng(0).permutation(7) % 3).tolist()
    assert random_packing(7, 3, 0).tolist() != random_packing(7, 3, 1).tolist()


def test_packed_series_stay() -> None:
    """A packed series is on one machine from its first value to its last."""
    usage = bursts(10, 4)
    usage[:3, 1], usage[8:, 1], usage[5, 1] = np.nan, np.nan, np.nan
    result = packed(trace(usage), 2, 0)
    assert {(lifetime.series, lifetime.start, lifetime.end) for lifetime in result.lifetimes} == {
        (0, 0, 10),
        (1, 3, 8),
        (2, 0, 10),
        (3, 0, 10),
    }
    assert result.machines == ("machine-0", "machine-1")
    assert [
        lifetime.machine for lifetime in sorted(result.lifetimes, key=lambda lifetime: lifetime.series)
    ] == random_packing(4, 2, 0).tolist()


def test_real_placement_names_workloads() -> None:
    """A stay without a workload of its own is of its series' workload; without any it is of none."""
    source = trace(bursts(10, 2), lifetimes=(PodLifetime(1, 0, 0, 5), PodLifetime(0, 1, 2, 9, "x")))
    assert [lifetime.workload for lifetime in real(source).lifetimes] == [None, "x"]
    with pytest.raises(TraceError, match="does not record which machine a series was on"):
        real(trace(bursts(10, 2)))


def test_slots_are_always_taken() -> None:
    """Every slot of every machine holds one pod at any step, and never two."""
    source = trace(bursts(400, 5))
    result = churned(source, 3, Churn(20 * 300.0, slots_per_machine=4), 0)
    for machine in range(3):
        there = np.zeros(400)
        for lifetime in result.lifetimes:
            if lifetime.machine == machine:
                there[lifetime.start : lifetime.end] += 1
        assert (there == 4).all()


def test_lives_are_exponential() -> None:
    """Lifetimes have the requested mean and spread."""
    source = trace(bursts(20_000, 2))
    lives = [
        lifetime.end - lifetime.start
        for lifetime in churned(source, 2, Churn(50 * 300.0), 1).lifetimes
        if lifetime.end < 20_000
    ]
    assert np.mean(lives) == pytest.approx(50, rel=0.05)
    assert np.std(lives) == pytest.approx(50, rel=0.1)


@pytest.mark.parametrize(("percent", "share"), [(0.0, 0.0), (50.0, 0.5), (100.0, 1.0)])
def test_pods_come_back(percent: float, share: float) -> None:
    """So many of those that end are followed by one of the same workload, which goes on with the same series."""
    source = trace(bursts(5000, 50))
    lifetimes = churned(source, 1, Churn(50 * 300.0, 4, percent), 0).lifetimes
    series = {(lifetime.workload, lifetime.series) for lifetime in lifetimes}
    back = len(lifetimes) - len({workload for workload, _ in series})
    assert back / (len(lifetimes) - 4) == pytest.approx(share, abs=0.06)
    assert len(series) == len({workload for workload, _ in series})


def test_pods_come_back_on_any_machine() -> None:
    """They get the slot that becomes free next: as many come back, mostly on other machines, and slots stay taken."""
    source = trace(bursts(5000, 50))
    lifetimes = churned(source, 10, Churn(50 * 300.0, 4, 80.0, comes_back_on_any=True), 0).lifetimes
    there = np.zeros((5000, 10))
    before: dict[str | None, int] = {}
    moved = []
    for lifetime in lifetimes:
        there[lifetime.start : lifetime.end, lifetime.machine] += 1
        if lifetime.workload in before:
            moved.append(before[lifetime.workload] != lifetime.machine)
        before[lifetime.workload] = lifetime.machine
    assert (there == 4).all()
    assert len(moved) / (len(lifetimes) - 40) == pytest.approx(0.8, abs=0.05)
    assert np.mean(moved) == pytest.approx(0.9, abs=0.03)
    assert len({(lifetime.workload, lifetime.series) for lifetime in lifetimes}) == len(before)


def test_same_seed_same_placement() -> None:
    inputs, churn = trace(bursts(300, 5)), Churn(6000.0)
    assert churned(inputs, 2, churn, 3) == churned(inputs, 2, churn, 3)
    assert churned(inputs, 2, churn, 3) != churned(inputs, 2, churn, 4)


def test_series_with_gaps_cannot_churn() -> None:
    """A series that is not there all the time cannot live anywhere at any time."""
    usage = bursts(10, 2)
    usage[4, 1] = np.nan
    with pytest.raises(TraceError, match="pod-1 is not"):
        churned(trace(usage), 1, Churn(6000.0), 0)


def test_more_pods_than_fit() -> None:
    """Short lives in very many slots would take all memory: refused with the flags, before anything is made."""
    source = trace(bursts(1000, 2))
    check_churn(source, 40, Churn(3600.0, 12), seeds=2)
    with pytest.raises(TraceError, match=r"about 204,000,000 pods .* 2,000,000 that fit; give a longer --churn-mean"):
        check_churn(source, 40, Churn(6000.0, 100_000), seeds=1)
