"""What is reported: gathers the numbers of the moment for a full or a fast report."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from agent.pipeline import Pipeline
from agent.pod_source import PodSource
from agent.prediction import UNITS, NodeFacts, NodePrediction, predict
from agent.reporter.node_metric import build_status, prediction_status
from agent.reporter.report import Report
from agent.reporter.spec import SpecInForce
from agent.reporter.usage import Usages, measure
from agent.telemetry import Metrics
from crds.codec import to_json
from crds.meta import Condition
from crds.predict_policy import PredictPolicy


class NodeSource(Protocol):
    """Knows what the node has."""

    @property
    def facts(self) -> NodeFacts:
        """Its capacity, allocatable and reservation; empty while unknown."""

    async def run(self) -> None:
        """Keep it current, until cancelled."""


class Reports:
    """Makes reports of what the pipeline stored and learned."""

    def __init__(self, pipeline: Pipeline, pods: PodSource, node: NodeSource, metrics: Metrics) -> None:
        self._pipeline = pipeline
        self._pods = pods
        self._node = node
        self._metrics = metrics
        self._last: NodePrediction | None = None

    def predict(self, now: float, spec: SpecInForce) -> NodePrediction:
        """The prediction of the moment. A policy that cannot be followed leaves the last good one in force."""
        learner = self._pipeline.learning.learner
        found = predict(now, learner, self._pods.pods(), self._node.facts, spec.spec.predict_policy, self._last)
        self._last = found
        self._pipeline.store.keep_minutes(max(window_days(found.policy), default=0.0))
        return found

    def full(
        self, now: float, spec: SpecInForce, previous: Sequence[Condition] = (), problems: Sequence[str] = ()
    ) -> Report:
        """The full report.

        Args:
            now: The time. [seconds since 1970]
            spec: What the manager asks for.
            previous: The conditions as the server has them.
            problems: What is wrong with reporting, for the condition Collecting.
        """
        pods = self._pods.pods()
        prediction = self.predict(now, spec)
        usages = self._usages(now, spec)
        self._show(usages, prediction)
        told = [*problems, *(f"{step}: {why}." for step, why in sorted(self._pipeline.failing.items()))]
        status = build_status(now, usages, prediction, pods, previous=previous, problems=told)
        return Report(to_json(status), prediction)

    def fast(self, now: float, spec: SpecInForce, prediction: NodePrediction) -> Report:
        """The fast report of a prediction that was just made."""
        return Report(to_json(prediction_status(now, self._usages(now, spec), prediction)), prediction)

    def _usages(self, now: float, spec: SpecInForce) -> Usages:
        return measure(
            now,
            self._pipeline.store,
            self._pods.pods(),
            self._pipeline.learning.learner.class_of,
            window_seconds=spec.window_seconds,
            durations_seconds=spec.durations_seconds,
            memory_policy=spec.memory_policy,
        )

    def _show(self, usages: Usages, prediction: NodePrediction) -> None:
        for name, amounts in usages.classes.items():
            for resource, value in amounts.items():
                self._metrics.usage.labels(name, resource).set(value)
        for name, numbers in prediction.classes.items():
            for resource, peak in numbers.peak.items():
                self._metrics.peak.labels(name, resource).set(peak / UNITS[resource])
        for resource, amount in prediction.reclaimable.items():
            self._metrics.reclaimable.labels(resource).set(amount / UNITS[resource])
        self._metrics.pods.labels("warm").set(prediction.warm)
        self._metrics.pods.labels("cold").set(len(prediction.cold))


def window_days(policy: PredictPolicy) -> Iterator[float]:
    """Every windowDays that a policy asks for, in whichever part."""
    parts = [policy, policy.cpu, policy.memory]
    choices = [choice for part in parts if part is not None for choice in (part, *(part.of or ()))]
    for choice in choices:
        days: object = (choice.parameters or {}).get("windowDays") if isinstance(choice.parameters, Mapping) else None
        if isinstance(days, int | float):
            yield float(days)
