"""Grafana's dashboards, from one source: `make dashboards` writes the chart's files. Knows metrics by name alone.

Amounts are in cores and bytes; the manager exports milli-cores, which queries divide.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tools.dashboards import accuracy, cluster, node, quotas, scheduler
from tools.dashboards.model import Dashboard

DASHBOARDS: Final[Mapping[str, Callable[[], Dashboard]]] = MappingProxyType(
    {
        "cluster": cluster.dashboard,
        "node": node.dashboard,
        "prediction": accuracy.dashboard,
        "scheduler": scheduler.dashboard,
        "quotas": quotas.dashboard,
    }
)
"""File name without its ending -> what makes the dashboard."""

FOLDER: Final = Path(__file__).parents[2] / "charts/headroom/dashboards"
"""Where they stand."""


def files() -> dict[str, str]:
    """The text of every file, by its name."""
    return {f"{name}.json": make().text() for name, make in DASHBOARDS.items()}
