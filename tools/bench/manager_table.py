"""What was measured with each number of nodes as one table, with how it grows. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tools.bench.rows import NONE, Row, short


@dataclass(frozen=True, slots=True)
class Figure:
    """One line: what `figures` hold under this key, for people."""

    key: str  # name of the figure
    what: str  # what it is
    unit: str  # its unit
    budget: str = NONE  # the budget that the design sets for 5,000 nodes
    grows: bool = True  # whether a line through the figures says something


ROWS: Final = (
    Figure("manager_cpu", "manager, CPU, every node reporting each minute", "% of a core", "<= 30"),
    Figure(
        "manager_cpu_first", "manager, CPU, while every node is published for the first time", "% of a core", "<= 30"
    ),
    Figure("manager_rss", "manager, RSS at the end", "MiB", "<= 250"),
    Figure("manager_rss_peak", "manager, RSS at its peak", "MiB", "<= 250"),
    Figure("first_p50", "NodeMetric to Node, first publication, p50", "s", grows=False),
    Figure("first_p99", "NodeMetric to Node, first publication, p99", "s", "<= 2", grows=False),
    Figure("decrease_p50", "NodeMetric to Node, decrease, p50", "s", grows=False),
    Figure("decrease_p99", "NodeMetric to Node, decrease, p99", "s", "<= 2", grows=False),
    Figure("answer_p50", "the API server's answer to a report, p50", "s", grows=False),
    Figure("answer_p99", "the API server's answer to a report, p99", "s", grows=False),
    Figure("missed", "numbers that no Node showed before its next report", "", "<= 0", grows=False),
    Figure("reports", "NodeMetrics reported", "/s"),
    Figure("heartbeats", "status heartbeats of kubelets", "/s"),
    Figure("writes", "Node writes of the manager", "/s"),
    Figure("start_first", "start: process to the first write", "s"),
    Figure("start_all", "start: process to a NodeMetric for every node", "s"),
    Figure("restart", "start with nothing changed: process to every node looked at", "s"),
    Figure("restart_writes", "start with nothing changed: writes", "", "<= 0", grows=False),
    Figure("stop", "stop: SIGTERM to the end", "s", grows=False),
    Figure("pause", "the longest pause of the event loop, every node reporting", "ms", "<= 100", grows=False),
    Figure("edit", "an edit with 100 entries: to the last NodeMetric's spec", "s"),
    Figure("edit_pause", "the longest pause of the event loop in that time", "ms", "<= 100", grows=False),
    Figure("scrape", "GET /metrics", "s"),
    Figure("apiserver_cpu", "kube-apiserver, CPU beside it", "% of a core"),
    Figure("etcd_cpu", "etcd, CPU beside it", "% of a core"),
    Figure("load_cpu", "load generator, CPU beside it", "% of a core"),
    Figure("other_cpu", "everything else on the machine, CPU", "% of a core", grows=False),
)
"""The lines of the table, in order."""


NEGLIGIBLE: Final = 0.01  # of the largest figure: a line that starts this near to nothing starts with nothing


def line(counts: Sequence[float], figures: Sequence[float]) -> tuple[float, float]:
    """Start and slope of the straight line with the least squares."""
    slope, start = np.polyfit(np.asarray(counts, dtype=float), np.asarray(figures, dtype=float), 1)
    return float(start), float(slope)


def growth(counts: Sequence[int], figures: Sequence[float | None]) -> str:
    """How a figure grows: "3.1 + 7.8 per 1,000 nodes"; empty with less than two figures."""
    known = [(count, figure) for count, figure in zip(counts, figures, strict=True) if figure is not None]
    if len({count for count, _ in known}) < 2:  # noqa: PLR2004 - through one point go all lines
        return ""
    start, slope = line(*zip(*known, strict=True))
    if abs(start) < max(figure for _, figure in known) * NEGLIGIBLE:
        start = 0.0
    sign = "-" if slope < 0 else "+"
    return f"{short(start)} {sign} {short(abs(slope) * 1000)} per 1,000 nodes"


def percentiles(seconds: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
    """Median and 99th percentile, `None` of nothing."""
    if not seconds:
        return None, None
    median, p99 = np.percentile(np.asarray(seconds), (50, 99))
    return float(median), float(p99)


def header(counts: Sequence[int]) -> list[str]:
    """Titles of the columns."""
    return ["what", *(f"{count:,} nodes" for count in counts), "growth", "budget"]


def lines(figures: Mapping[int, Mapping[str, float | None]]) -> list[list[str]]:
    """The cells of the table.

    Args:
        figures: number of nodes -> name of a figure -> its value, as `ROWS` name and measure them.
    """
    counts = sorted(figures)
    table = []
    for row in ROWS:
        found = [figures[count].get(row.key) for count in counts]
        what = f"{row.what} [{row.unit}]" if row.unit else row.what
        table.append([what, *map(short, found), growth(counts, found) if row.grows else "", row.budget])
    return table


def measurements(figures: Mapping[int, Mapping[str, float | None]]) -> list[Row]:
    """A line for each figure that has a budget: with each number of nodes, judged by the largest."""
    counts = sorted(figures)
    made = []
    for row in ROWS:
        if row.budget == NONE:
            continue
        found = [figures[count].get(row.key) for count in counts]
        sizes = ", ".join(f"{count:,}" for count in counts)
        unit = f" {row.unit}".rstrip()
        measured = f"{', '.join(map(short, found))}{unit} with {sizes} nodes"
        made.append(Row(row.what, measured, f"{row.budget}{unit}", NONE, found[-1]))
    return made
