"""What is said as an event about the NodeMetric: that its policy cannot be obeyed, that it is again, what gets lost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from crds.node_metric import NodeMetric

POLICY_REJECTED: Final = "PolicyRejected"
"""The requested policy cannot be followed; the note names the field and what is in force instead."""
POLICY_OBEYED: Final = "PolicyObeyed"
"""A policy is followed again."""
FIELDS_DROPPED: Final = "ReportFieldsDropped"
"""The cluster's definition of NodeMetric does not know parts of the report."""
FIELDS_KEPT: Final = "ReportFieldsKept"
"""It knows all of them now."""


class EventRecorder(Protocol):
    """Writes events; `headroom.kube.events.EventRecorder`."""

    async def record(self, regarding: dict[str, Any], type_: str, reason: str, action: str, note: str) -> None:
        """Write one, or keep it for later; never raises."""

    async def flush(self) -> None:
        """Write what could not be written before; never raises."""


@dataclass(slots=True)
class NodeMetricEvents:
    """Writes an event when a state changes, and none while it lasts."""

    recorder: EventRecorder
    """Where to."""
    _policy: str = ""
    _dropped: str = ""

    async def record_policy(self, node_metric: Mapping[str, Any], problem: str, model: str) -> None:
        """Record whether the policy is in force.

        Args:
            node_metric: the NodeMetric that requests it.
            problem: why it is not in force; empty when it is.
            model: the model that is.
        """
        await self.recorder.flush()  # after each report: the API server is there
        before, self._policy = self._policy, problem
        if problem and problem != before:
            note = f"{problem}. Model {model} stays in force."
            await self._record(node_metric, "Warning", POLICY_REJECTED, note)
        elif before and not problem:
            await self._record(
                node_metric, "Normal", POLICY_OBEYED, f"The policy is obeyed: model {model} is in force."
            )

    async def record_dropped(self, node_metric: Mapping[str, Any], problem: str) -> None:
        """Record that parts of the report are dropped; an empty text when none are."""
        before, self._dropped = self._dropped, problem
        if problem and problem != before:
            await self._record(node_metric, "Warning", FIELDS_DROPPED, f"{problem[:1].upper()}{problem[1:]}.")
        elif before and not problem:
            await self._record(node_metric, "Normal", FIELDS_KEPT, "The whole report is kept now.")

    async def _record(self, node_metric: Mapping[str, Any], type_: str, reason: str, note: str) -> None:
        metadata = node_metric.get("metadata") or {}
        regarding = {
            "apiVersion": NodeMetric.API_VERSION,
            "kind": NodeMetric.KIND,
            "name": str(metadata.get("name", "")),
            "uid": str(metadata.get("uid", "")),
        }
        await self.recorder.record(regarding, type_, reason, "Report", note)
