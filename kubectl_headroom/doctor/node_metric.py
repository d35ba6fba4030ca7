"""The part of a NodeMetric that doctor reads: the time of the report, the clock, the writers, the pods. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from crds.names import CONDITION_NODE_HOT
from manager.api import Amounts, NodeReport

_DEFAULT_INTERVAL_SECONDS: Final = 60.0

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeMetricSummary:
    """A node's."""

    node: str  # its name
    updated: float | None  # when the agent made its last full report, by the node's clock; None: never [unix s]
    predicted: float | None  # when the agent last reported its prediction, by the node's clock [unix s]
    written: float | None  # when the API server last took something of the agent's, by the server's clock [unix s]
    interval: float  # how often a report is requested [s]
    writers: tuple[str, ...]  # the field managers of the report
    hot_reason: str  # the reason of condition NodeHot; empty without it
    pods_metric: Any  # the reported usage of pods, `status.podsMetric`

    @classmethod
    def of(cls, obj: Json) -> "NodeMetricSummary":
        """The reduced NodeMetric."""
        status = obj.get("status") or {}
        policy = (obj.get("spec") or {}).get("metricCollectPolicy") or {}
        entries = [field for field in obj["metadata"].get("managedFields") or () if _is_report(field)]
        written = [when for entry in entries if (when := _seconds(entry.get("time"))) is not None]
        hot = (condition for condition in status.get("conditions") or () if condition.get("type") == CONDITION_NODE_HOT)
        return cls(
            node=str(obj["metadata"]["name"]),
            updated=_seconds(status.get("updateTime")),
            predicted=_seconds((status.get("prediction") or {}).get("time")),
            written=max(written, default=None),
            interval=float(policy.get("reportIntervalSeconds") or _DEFAULT_INTERVAL_SECONDS),
            writers=tuple(sorted({str(entry.get("manager")) for entry in entries})),
            hot_reason=next((str(condition.get("reason")) for condition in hot), ""),
            pods_metric=status.get("podsMetric"),
        )

    @property
    def ahead(self) -> float | None:
        """Return how far the node's clock is ahead of the API server's, within a second or two; None: not known. [s]

        Both were read at the same moment: by the agent when it made the report, by the API server when it took it.
        """
        last = max((time for time in (self.updated, self.predicted) if time is not None), default=None)
        return None if last is None or self.written is None else last - self.written

    def pod_usage(self, pods: Collection[str]) -> Mapping[str, Amounts]:
        """Return the reported usage of those of some pods that ran here, by "namespace/name"."""
        report = NodeReport.from_object({"status": {"prediction": {}, "podsMetric": self.pods_metric}}, pods)
        return report.pod_usage if report else {}

    def age(self, now: float) -> float | None:
        """Time since the last full report by the API server's clock, where it is known; None: there was none. [s]"""
        return None if self.updated is None else now - (self.updated - (self.ahead or 0.0))


def _is_report(entry: Json) -> bool:
    return "f:updateTime" in ((entry.get("fieldsV1") or {}).get("f:status") or {})


def _seconds(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None
