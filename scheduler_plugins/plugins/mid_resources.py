"""MidResources: reject nodes in deficit, or without a fresh prediction, for Mid pods.

The Mid resources on a Node are behind the formula: the manager writes them after the agent reported,
and if either stops, the last figure stays on the Node. This is the lower bound that the scheduler keeps by itself.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from crds import names
from crds.priority import PriorityBand
from scheduler_plugins.framework.plugin import Problem, ProblemKind
from scheduler_plugins.framework.verdict import PASSES, Refusal, Verdict
from scheduler_plugins.snapshot.arrays import BoolArray, FloatArray, IntArray, Nodes, NodeState, Table
from scheduler_plugins.snapshot.ordinary import Prepared
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.report import NodeReport
from scheduler_plugins.steps.formula import Formula

NAME: Final = "MidResources"  # how profiles and tables call it
DEFICIT: Final = "node(s) Mid resources in deficit"
"""Reason for refusing a node whose Mid pods request more than may be published."""
STALE: Final = "node(s) Mid prediction expired"  # reason for refusing a node whose prediction is too old
ABSENT: Final = "node(s) Mid prediction missing"  # reason for refusing a node that reports no prediction

_REFUSALS: Final = (Refusal(DEFICIT), Refusal(ABSENT), Refusal(STALE))
_DEFICIT, _ABSENT, _STALE = range(3)


@dataclass(frozen=True, slots=True)
class MidResources:
    """The plugin; its fields are its arguments."""

    prediction_expiration_seconds: int = 900
    """Age beyond which a node's report or prediction is too old to allocate by; 0: age does not matter. The manager
    withdraws the node's Mid resources at `degradeTimeMinutes` (15): an earlier expiry would refuse published amounts,
    later would allocate what a manager that is gone cannot withdraw. [s]"""

    def defaulted(self) -> "MidResources":
        return self

    def problems(self) -> Sequence[Problem]:
        """Everything wrong with the arguments."""
        seconds = self.prediction_expiration_seconds
        if seconds >= 0:
            return ()
        text = f"{seconds}: must not be negative"
        return (Problem("predictionExpirationSeconds", ProblemKind.INVALID, text),)

    def dtype(self) -> np.dtype[Any]:
        """The fields of a node's record."""
        return np.dtype(
            [
                ("deficit", np.bool_),  # its Mid pods requested more than may be published
                ("predicted", np.float64),  # time of the older of report and prediction; -inf: one is missing [unix s]
                ("usable", np.float64),  # the same; -inf: in deficit, too [unix s]
            ]
        )

    def record(self, node: NodeState) -> tuple[Any, ...]:
        """A node's record: it does not depend on the node's pods."""
        return node.once(NAME, self._record)

    @staticmethod
    def _record(node: NodeState) -> tuple[Any, ...]:
        report = node.ledger.report
        deficit = report is not None and report.conditions.get(names.CONDITION_MID_DEFICIT, False)
        predicted = _time(report)
        return deficit, predicted, -math.inf if deficit else predicted

    def filter(self, pod: PodRequest, nodes: Nodes) -> Verdict:
        """Refuse a Mid pod the nodes in deficit, and those with a missing or old prediction.

        Evictions do not help this pod in time, so the refusal never triggers preemption.
        """
        if not holds_mid(pod):
            return Verdict.all_pass(len(nodes))
        table = nodes.tables[NAME]
        refused: IntArray = np.full(len(nodes), PASSES, np.int64)
        refused[self._stale(table, nodes.now)] = _STALE
        if self.prediction_expiration_seconds:
            refused[np.isinf(table["predicted"])] = _ABSENT
        refused[table["deficit"]] = _DEFICIT
        return Verdict(refused, _REFUSALS)

    def _stale(self, table: Table, now: float) -> BoolArray:
        age: FloatArray = now - table["predicted"]
        # As for the manager, one that is exactly that old still counts, and a time in the future is fresh.
        limit = self.prediction_expiration_seconds or np.inf
        return np.greater(age, limit)

    def formula(self) -> Formula:
        """A Mid pod passes unless a node is in deficit, or has an old prediction."""
        # One that is exactly that old still counts.
        return Formula(time="usable", seconds=math.nextafter(self.prediction_expiration_seconds or math.inf, math.inf))

    def prepare(self, pod: PodRequest, _nodes: Nodes) -> Prepared:
        return () if holds_mid(pod) else None

    def explain(self, pod: PodRequest, nodes: Nodes) -> Sequence[Mapping[str, Any]]:
        """Return the deficit of each node, and the age of its prediction."""
        verdict, now = self.filter(pod, nodes), nodes.now
        records = map(nodes.tables[NAME].record, range(len(nodes)))
        return [dict(self._of_node(pod, record, now, verdict.refusal(row))) for row, record in enumerate(records)]

    def _of_node(
        self,
        pod: PodRequest,
        record: Any,  # noqa: ANN401 - a record of the table
        now: float,
        refusal: Refusal | None,
    ) -> Iterator[tuple[str, Any]]:
        age, limit = now - float(record["predicted"]), self.prediction_expiration_seconds
        yield "midPod", holds_mid(pod)
        yield "deficit", bool(record["deficit"])
        if np.isfinite(age):
            yield "predictionAgeSeconds", round(age, 3)
        if refusal is not None:
            above = "running Mid pods request more than may be published (condition MidDeficit of the NodeMetric)"
            stale = f"report or prediction is {age:.0f} s old, predictionExpirationSeconds is {limit}"
            absent = "the NodeMetric has no prediction that states its time: is the agent running there?"
            yield "binding", {DEFICIT: above, STALE: stale, ABSENT: absent}[refusal.reason]


def holds_mid(pod: PodRequest) -> bool:
    """Return whether a pod counts as Mid: by its band, or because it requests a Mid resource."""
    return pod.band is PriorityBand.MID or pod.requests_mid


def _time(report: NodeReport | None) -> float:
    """The older of the times of the report and its prediction; -inf when one is missing.

    An agent without `status.prediction` (Koordinator's) predicts with each report.
    """
    if report is None or report.update_time is None:
        return -np.inf
    if report.prediction is None:
        return report.update_time
    return -np.inf if report.prediction.time is None else min(report.update_time, report.prediction.time)
