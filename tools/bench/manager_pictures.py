"""How the manager's cost and latency grow with the number of nodes, drawn."""

from collections.abc import Iterator, Mapping
from typing import Final

from tools.bench.drawing import Points, drawing, lines
from tools.bench.measurement import Picture

Figures = Mapping[int, Mapping[str, float | None]]
_LATENCIES: Final = {"decrease": "decrease", "first publication": "first", "API server's answer": "answer"}


def pictures(figures: Figures) -> Iterator[Picture]:
    """One with CPU and memory, one with latencies.

    Args:
        figures: number of nodes -> name of a figure, as in `manager_table.ROWS` -> its value.
    """
    with drawing(columns=2) as (axes, finish):
        cpu = {"steady": "manager_cpu", "first publication": "manager_cpu_first"}
        memory = {"at the end": "manager_rss", "at its peak": "manager_rss_peak"}
        lines(axes[0], _series(figures, cpu), "nodes", "CPU [% of a core]")
        lines(axes[1], _series(figures, memory), "nodes", "resident memory [MiB]")
        yield finish("manager-growth", "The manager's CPU and memory by number of nodes")
    with drawing() as (axes, finish):
        keys = {f"{what}, {point}": f"{key}_{point}" for what, key in _LATENCIES.items() for point in ("p50", "p99")}
        lines(axes[0], _series(figures, keys), "nodes", "time [s]", powers=True)
        axes[0].axhline(2.0, color="black", linewidth=0.8, linestyle="--")
        axes[0].annotate("budget", (min(figures), 2.0), xytext=(0, 3), textcoords="offset points")
        yield finish("manager-latency", "From a NodeMetric to its Node by number of nodes")


def _series(figures: Figures, keys: Mapping[str, str]) -> dict[str, Points]:
    """The points that there are."""
    found = {
        name: [(float(count), value) for count in sorted(figures) if (value := figures[count].get(key)) is not None]
        for name, key in keys.items()
    }
    return {name: points for name, points in found.items() if points}
