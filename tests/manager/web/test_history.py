import numpy as np
import pytest

from manager.web.history import RINGS, WIDTH, Floats, History, Series, at, nothing
from tests.support.objects import NOW


def _point(used: float, **others: float) -> Floats:
    point = nothing()
    point[at(Series.USAGE, "cpu")] = used
    for name, value in others.items():
        point[at(Series[name], "cpu")] = value
    return point


def history_of(*points: tuple[str, float, float]) -> History:
    history = History()
    for name, second, used in points:
        history.put(name, _point(used), NOW + second)
    return history


def test_a_minute_keeps_the_last() -> None:
    plot = history_of(("n1", 0, 1.0), ("n1", 30, 2.0), ("n1", 60, 3.0)).plot("n1", "2h", NOW + 60)
    assert plot.of(Series.USAGE, "cpu")[-2:].tolist() == [2.0, 3.0]
    assert plot.times[-1] == NOW + 60
    assert np.isnan(plot.of(Series.USAGE, "memory")).all()


def test_ten_minutes_keep_the_largest() -> None:
    """The largest that was measured, so that no peak is lost, and the last of the rest."""
    history = History()
    for minute, used, published in ((0, 1.0, 7.0), (4, 5.0, 3.0), (9, 2.0, 4.0)):
        history.put("n1", _point(used, MID=published), NOW + 60 * minute)
    plot = history.plot("n1", "24h", NOW + 540)
    assert [plot.of(series, "cpu")[-1] for series in (Series.USAGE, Series.MID)] == [5.0, 4.0]


@pytest.mark.parametrize("length", RINGS)
def test_old_points_go(length: str) -> None:
    """Samples older than a ring never return, also after a longer pause."""
    history, ring = history_of(("n1", 0, 1.0)), RINGS[length]
    assert history.plot("n1", length, NOW + ring.seconds - ring.step_seconds).of(Series.USAGE, "cpu")[0] == 1.0
    for _ in range(2):
        assert np.isnan(history.plot("n1", length, NOW + ring.seconds).values).all()
        history.put("n2", _point(2.0), NOW + ring.seconds)  # of another node: the column is used again
    assert len(history.plot("n1", length, NOW).times) == ring.points


def test_a_node_that_is_gone_is_forgotten() -> None:
    history = history_of(("gone", 0, 1.0), ("stays", 0, 2.0))
    history.keep({"stays"})
    history.put("new", _point(3.0), NOW + 60)
    assert "gone" not in history
    sums = [np.nansum(history.plot(name, "2h", NOW + 60).values) for name in ("gone", "stays", "new")]
    assert sums == [0.0, 2.0, 3.0]


def test_memory_is_bounded() -> None:
    """5,000 nodes take less than 50 MiB, however long they are watched: memory is taken for 256 of them at a time."""
    empty, history = History().nbytes, history_of(("n1", 0, 1.0))
    before = history.nbytes
    assert empty + (before - empty) * -(-5000 // 256) < 50 * 2**20
    for hour in range(100):
        history.put("n1", _point(1.0), NOW + 3600 * hour)
    assert history.nbytes == before


def test_sums_of_large_clusters_fit() -> None:
    """The sum over a cluster may be larger than what half precision can hold; a node's are exact to a promille."""
    history, big = History(), np.full(WIDTH, 320_000.0, np.float32)
    history.put_sum(big, NOW)
    history.put("n1", np.full(WIDTH, 15.437, np.float32), NOW)
    assert (history.plot_of_sums("2h", NOW).values[:, -1] == 320_000.0).all()
    assert history.plot("n1", "2h", NOW).values[:, -1] == pytest.approx(15.437, rel=1e-3)
    history.put("n1", big, NOW)  # no node is that large: it is cut, not turned into infinity
    assert np.isfinite(history.plot("n1", "2h", NOW).values[:, -1]).all()
