"""What load-watcher's list of metrics says of a node, in the words of a reading. Pure: no clock, no network."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from scheduler_plugins.snapshot.utilisation import Statistic, Utilisation

CPU: Final = "CPU"  # `type` of a metric of the CPU; case matters
MEMORY: Final = "Memory"  # `type` of a metric of the memory
AVERAGE: Final = "AVG"  # `operator` of an average
STDEV: Final = "STD"  # `operator` of a standard deviation
LATEST: Final = "Latest"  # `operator` of a plain sample; an empty one means the same

_SAMPLES: Final = ("", LATEST)


def utilisation(metrics: Sequence[Mapping[str, Any]], measured_at: float, *, smoothed: bool) -> Utilisation | None:
    """A reading from a node's metrics; None when there are none. Metrics of other types say nothing of either resource.

    Args:
        metrics: load-watcher's list: objects with `type`, `operator` and `value` (percent).
        measured_at: end of the window that they are of. [unix s]
        smoothed: whether each sample behind them is itself a mean over a smoothing window.
    """
    if not metrics:
        return None
    return Utilisation(statistic(metrics, CPU), statistic(metrics, MEMORY), measured_at, smoothed)


def statistic(metrics: Sequence[Mapping[str, Any]], kind: str) -> Statistic | None:
    """Average and deviation of one type of metric, picked as Trimaran's plugins do; None when there is none.

    The last average counts; a plain sample stands for it only while no average came before. Any metric of the type
    makes the rest known: what is not stated is 0.
    """
    average, stdev, known, averaged = 0.0, 0.0, False, False
    for metric in metrics:
        if metric.get("type") != kind:
            continue
        known, operator, value = True, metric.get("operator") or "", float(metric.get("value") or 0.0)
        if operator == AVERAGE:
            average, averaged = value, True
        elif operator == STDEV:
            stdev = value
        elif operator in _SAMPLES and not averaged:
            average = value
    return Statistic(average, stdev) if known else None
