"""nodemetric_report: statistics of windows, and the classes of pods."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from agent.numerics import aggregate
from tests.golden.adapters import Adapter, priority


def _percentile(vector: dict[str, Any]) -> dict[str, Any]:
    try:
        value = aggregate.percentile(np.array(vector["values"], dtype=np.float64), vector["percentile"])
    except ValueError:
        return {"error": True}
    return {"error": False, "value": value}


def _aggregate(vector: dict[str, Any]) -> dict[str, Any]:
    values = np.array(vector["values"], dtype=np.float64)
    found = aggregate.statistics(np.arange(values.size, dtype=np.float64), values)
    names = ("p50", "p90", "p95", "p99", "last", "count")
    return {"avg": found.average, **{name: getattr(found, name) for name in names}}


def _aggregate_cold_start(vector: dict[str, Any]) -> dict[str, Any]:
    return {"coldStart": aggregate.is_cold(vector["sampleSpanSeconds"], vector["windowSeconds"])}


OPERATIONS: Final[Mapping[str, Adapter]] = {
    **priority.OPERATIONS,
    "percentile": _percentile,
    "aggregate": _aggregate,
    "aggregate_cold_start": _aggregate_cold_start,
}
