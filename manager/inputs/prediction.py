"""The prediction of a NodeMetric for display: no formula reads it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from crds import names
from manager.inputs.amounts import UNKNOWN, Measured
from manager.inputs.reading import Json, Reader, get_objects, get_path

_REPORT_SECONDS: Final = 60
_SILENT_REPORTS: Final = 3
_SILENT_SECONDS: Final = 180.0


@dataclass(frozen=True, slots=True)
class PredictionSummary:
    """A prediction, reduced."""

    peak: Measured = UNKNOWN
    """Predicted peak of Prod pods and system, margin included: `prodPeakMetric`."""
    warm: int | None = None
    """Pods predicted from history; `None` from an agent that does not report it."""
    cold: int | None = None
    """Pods counted at their request."""
    reason: str = ""
    """Reason of condition PredictionReady, one word; empty if unset."""
    silent_after: float = _SILENT_SECONDS
    """A report older than this means that reports are missing. [s]"""

    @classmethod
    def from_object(cls, node_metric: Json) -> Self:
        """Reduce a NodeMetric. What cannot be read counts as not reported."""
        status, pods = get_path(node_metric, "status"), get_path(node_metric, "status", "prediction", "pods")
        conditions = (
            each for each in get_objects(status, "conditions") if each.get("type") == names.CONDITION_PREDICTION_READY
        )
        interval = get_path(node_metric, "spec", "metricCollectPolicy", "reportIntervalSeconds")
        every = interval if isinstance(interval, int) and interval > 0 else _REPORT_SECONDS
        return cls(
            peak=Reader().measured(get_path(status, "prodPeakMetric", "resource", "resources"), "prodPeakMetric"),
            warm=_count(pods, "warm"),
            cold=_count(pods, "cold"),
            reason=sys.intern(next((str(each.get("reason") or "") for each in conditions), "")),
            silent_after=max(_SILENT_SECONDS, float(_SILENT_REPORTS * every)),
        )


def _count(pods: object, which: str) -> int | None:
    found = pods.get(which) if isinstance(pods, Mapping) else None
    return found if isinstance(found, int) and found >= 0 else None
