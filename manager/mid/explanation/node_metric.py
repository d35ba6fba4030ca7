"""NodeMetrics as the commands need them: decoded, with numbers instead of quantities, and their age."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from crds.codec import CodecError, from_json
from crds.names import CONDITION_PREDICTION_READY
from crds.node_metric import NodeMetric, NodeMetricStatus, ResourceMap
from crds.quantity import milli_value, value


@dataclass(frozen=True, slots=True)
class Amount:
    """CPU and memory; None is not known."""

    cpu_milli: int | None = None
    memory_bytes: int | None = None

    @classmethod
    def of(cls, resources: Mapping[str, Any] | None) -> "Amount":
        """CPU and memory of a resource list.

        Raises:
            QuantityError: an amount is not a quantity.
        """
        parts = resources or {}
        return cls(
            milli_value(parts["cpu"]) if "cpu" in parts else None, value(parts["memory"]) if "memory" in parts else None
        )

    def as_json(self) -> dict[str, int | None]:
        return {"cpuMilli": self.cpu_milli, "memoryBytes": self.memory_bytes}


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a NodeMetric."""

    age_seconds: float | None = None  # time since the last full report; None when there was none [s]
    interval_seconds: int | None = None  # the requested interval of reports [s]
    usage: Amount = Amount()  # everything on the node
    prod_peak: Amount = Amount()  # predicted peak of Prod and system
    reclaimable: Amount = Amount()  # what Prod pods requested and will not use
    pods: Mapping[str, Amount] | None = None  # usage per pod, "namespace/name"; None when nothing was reported
    prediction: str = "no report"  # "ready", or one word for why it is not
    problem: str | None = None  # why it could not be read


def read(node_metric: Mapping[str, Any], now: float) -> Report:
    """Decode a NodeMetric; a malformed one becomes a report with a `problem`."""
    try:
        return _report(from_json(NodeMetric, dict(node_metric)), now)
    except CodecError as error:
        name = (node_metric.get("metadata") or {}).get("name")
        return Report(prediction="unreadable", problem=f"NodeMetric {name} cannot be read: {error}")


def _report(node_metric: NodeMetric, now: float) -> Report:
    status = node_metric.status
    policy = node_metric.spec.metric_collect_policy
    interval = policy.report_interval_seconds if policy else None
    if status is None or status.update_time is None:
        return Report(interval_seconds=interval)
    usage = status.node_metric.node_usage if status.node_metric else None
    peak, reclaimable = status.prod_peak_metric, status.prod_reclaimable_metric
    return Report(
        age_seconds=age(status.update_time, now),
        interval_seconds=interval,
        usage=_amount(usage),
        prod_peak=_amount(peak.resource if peak else None),
        reclaimable=_amount(reclaimable.resource if reclaimable else None),
        pods={f"{pod.namespace}/{pod.name}": _amount(pod.pod_usage) for pod in status.pods_metric or ()},
        prediction=_prediction(status),
    )


def _amount(resources: ResourceMap | None) -> Amount:
    return Amount.of(resources.resources if resources else None)


def _prediction(status: NodeMetricStatus) -> str:
    for condition in status.conditions or ():
        if condition.type == CONDITION_PREDICTION_READY:
            return "ready" if condition.status == "True" else condition.reason or "not ready"
    # Another agent sets no conditions: only its reclaimable amount counts.
    reclaimable = status.prod_reclaimable_metric
    return "ready" if reclaimable and reclaimable.resource and reclaimable.resource.resources else "none"


def age(moment: str, now: float) -> float | None:
    """Seconds since an RFC 3339 time, never negative; None when the text is not a time."""
    try:
        sent = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return max(0.0, now - (sent if sent.tzinfo else sent.replace(tzinfo=UTC)).timestamp())
