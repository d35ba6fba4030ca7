"""load-watcher's list of metrics as a reading."""

import pytest

from scheduler_plugins.providers.provider import CPU, MEMORY, statistic, utilisation
from scheduler_plugins.snapshot.report import Statistic, Utilisation


def _metrics(*parts: tuple[str, str, float]) -> list[dict[str, object]]:
    return [{"name": "", "type": kind, "operator": operator, "value": value} for kind, operator, value in parts]


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([], None),
        ([("CPU", "AVG", 20), ("CPU", "STD", 5)], (20, 5)),
        ([("CPU", "Latest", 10), ("CPU", "AVG", 20)], (20, 0)),
        ([("CPU", "AVG", 20), ("CPU", "Latest", 10), ("CPU", "", 11)], (20, 0)),  # an average blocks later samples
        ([("CPU", "AVG", 0), ("CPU", "Latest", 10)], (0, 0)),  # an average of 0, too
        ([("CPU", "", 7), ("CPU", "Latest", 8)], (8, 0)),
        ([("CPU", "AVG", 5), ("CPU", "AVG", 9)], (9, 0)),
        ([("CPU", "STD", 5)], (0, 5)),
        ([("CPU", "MAX", 5)], (0, 0)),  # known, but nothing is known of it
        ([("cpu", "AVG", 5), ("Memory", "AVG", 5)], None),  # case matters
    ],
)
def test_picks_as_trimaran_does(parts: list[tuple[str, str, float]], found: tuple[float, float] | None) -> None:
    """Averages go before samples, and the last of a kind counts."""
    assert statistic(_metrics(*parts), CPU) == (None if found is None else Statistic(*found))


def test_reading_has_both() -> None:
    metrics = _metrics(("Memory", "AVG", 30), ("CPU", "Latest", 10))
    assert utilisation(metrics, 5.0, smoothed=True) == Utilisation(Statistic(10), Statistic(30), 5.0, smoothed=True)
    assert statistic(metrics, MEMORY) == Statistic(30)


def test_absent_fields_are_empty() -> None:
    assert statistic([{"type": "CPU"}], CPU) == Statistic(0)


def test_other_metrics_are_a_reading_of_nothing() -> None:
    assert utilisation(_metrics(("Disk", "AVG", 3)), 5.0, smoothed=False) == Utilisation(
        None, None, 5.0, smoothed=False
    )
    assert utilisation([], 5.0, smoothed=False) is None
