"""What a publisher sends, and the interface that builds it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent.prediction.node import NodePrediction
from agent.reporter.spec import SpecInForce
from crds.meta import Condition

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """A status, ready to be sent."""

    status: Json
    """The NodeMetric's status, or the part of it that a fast report has."""
    prediction: NodePrediction
    """What it says."""


class ReportSource(Protocol):
    """Makes reports of the moment. All of it may raise StoreError."""

    def predict(self, now: float, spec: SpecInForce) -> NodePrediction:
        """The prediction, at the cost of a millisecond."""

    def full(
        self, now: float, spec: SpecInForce, previous: Sequence[Condition] = (), problems: Sequence[str] = ()
    ) -> Report:
        """The full report; see `agent.reporter.reporter.Reports.full`."""

    def fast(
        self,
        now: float,
        spec: SpecInForce,
        prediction: NodePrediction,
        previous: Sequence[Condition] = (),
        problems: Sequence[str] = (),
    ) -> Report:
        """The fast report of a prediction that was just made."""
