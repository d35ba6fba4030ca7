"""What one policy publishes on one replayed node: the agent's report, the manager's calculation, and what is written.

The report is made by the agent's own prediction and reporter, read by the manager's own facts, and what is written to
the Node is what the manager's own writer decides: increases hold, small differences wait, old reports take Mid away.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from agent.numerics.arrays import FloatArray
from agent.pods import PodRef
from agent.prediction.node import NodePrediction, predict
from agent.predictors.base import WEEK_DAYS
from agent.reporter import spec as specs
from agent.reporter.node_metric import build_status
from agent.reporter.usage import Usages, measure
from crds.codec import to_json
from crds.colocation import ColocationStrategy
from crds.predict_policy import PredictPolicy
from manager.calculators.mid import calculate, deadline
from manager.inputs import Amounts, NodeReport, ObservedAt, PodInputs, Resource, from_objects
from manager.mid import publish
from tools.bench.counting import merged
from tools.bench.replay_node import Agent, ReplayedNode

Json = dict[str, Any]

_LOOKS: Final = 8  # looks of the manager in a row that still write; one or two are usual
_AFTER_DEADLINE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to decide what is published."""

    name: str  # what it is called
    policy: PredictPolicy | None = None  # the prediction policy; None is the default one
    strategy: ColocationStrategy = field(default_factory=lambda: ColocationStrategy(enable=True))
    """The colocation strategy."""


def usages_of(agent: Agent, now: float) -> Usages:
    """What the reports of this moment say about the recent past, whatever the policy."""
    wanted = specs.default()
    return measure(
        now,
        agent.pipeline.store,
        agent.pods.pods(),
        agent.pipeline.training.trainer.class_of,
        window_seconds=wanted.window_seconds,
        durations_seconds=(),  # percentiles of the node are for the scheduler; nothing here reads them
        memory_policy=wanted.memory_policy,
    )


class Reporter:
    """The agent's reports under one policy."""

    def __init__(self, policy: PredictPolicy | None, node: ReplayedNode) -> None:
        self.policy = policy  # the prediction policy; None is the default one
        self._facts = node.facts
        self._previous: NodePrediction | None = None

    @property
    def window_days(self) -> float:
        """How far back its models look. [days]"""
        return WEEK_DAYS if self._previous is None else self._previous.window_days

    def report(self, now: float, agent: Agent, usages: Usages) -> NodeReport | None:
        """What the manager reads in the agent's report."""
        trainer = agent.pipeline.training.trainer
        found = predict(now, trainer, agent.pods.pods(), self._facts, self.policy)
        self._previous = found
        # The manager reads the classes of our agent; the usage of single pods is for the scheduler.
        status = build_status(usages, found, (), as_of=usages.measured_at, predicted_as_of=usages.measured_at)
        return NodeReport.from_object({"status": to_json(status)})

    def forget(self) -> None:
        """The agent ended: its next one starts from what was saved."""
        self._previous = None


class Publisher:
    """The manager at work for one variant on one node."""

    def __init__(self, variant: Variant, node: ReplayedNode) -> None:
        self.variant = variant  # what it follows
        facts = node.facts
        amounts = {
            what: {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in given.items()}
            for what, given in (("capacity", facts.capacity), ("allocatable", facts.allocatable))
        }
        self._name = node.name
        self._node: Json = {"metadata": {"name": node.name}, "status": amounts}
        self._pods: Sequence[PodInputs] = ()
        self._listed: Sequence[PodRef] = ()
        self._report: NodeReport | None = None
        self._received = ObservedAt()
        self._memory = publish.PublishState()
        self._due: float | None = None
        self.api_up = True  # whether the API server takes writes
        self.written: list[tuple[float, int | None, int | None]] = []
        """Every write: when, and what the Node has since then. [seconds since 1970, milli-cores, bytes]"""

    def reported(self, now: float, report: NodeReport | None, pods: Sequence[PodRef]) -> None:
        """The agent's report has come.

        Args:
            now: when. [seconds since 1970]
            report: what it says.
            pods: the pods on the node, the same list while they are the same.
        """
        self._report, self._received = report, ObservedAt(now, now)
        if pods is not self._listed:
            self._listed, self._pods = pods, [_known(pod, self._name) for pod in pods]
        self.look(now)

    def run_until(self, now: float) -> None:
        """Look at what falls due before this moment."""
        while self._due is not None and self._due < now:
            self.look(self._due)

    def look(self, now: float) -> None:
        """The manager looks at the node: calculates, and writes what is due."""
        for _ in range(_LOOKS):
            if not self._look_once(now):
                return
        raise RuntimeError(f"the manager writes again and again with {self.variant.name}: {self.written[-_LOOKS:]}")

    def _look_once(self, now: float) -> bool:
        facts = from_objects(self._node, self._report, self._pods, self.variant.strategy, now, self._received)
        result = calculate(facts)
        decision = publish.decide(
            publish.published_amounts(self._node),
            result.desired,
            facts.strategy,
            self._memory,
            now,
            result.requested,
            expired=result.expired,
        )
        self._memory = decision.state
        ends = deadline(facts)
        waits = [] if ends is None else [now + max(ends, 0.0) + _AFTER_DEADLINE_SECONDS]
        if decision.requeue_at is not None:
            waits.append(decision.requeue_at)
        self._due = min((when for when in waits if when > now), default=None)
        if not decision.writes or not self.api_up:
            return False
        self._node = {**self._node, **merged({"status": self._node["status"]}, publish.status_patch(decision.writes))}
        self._memory = publish.state_after_writes(decision, now)
        offers = publish.published_amounts(self._node)
        self.written.append((now, offers[Resource.CPU].amount, offers[Resource.MEMORY].amount))
        return True

    def published(self, times: FloatArray, resource: str) -> FloatArray:
        """What the Node had at these times, shape (N,); 0 where it had nothing. [milli-cores or bytes]"""
        place = 1 if resource == "cpu" else 2
        amounts = np.array([0.0, *(float(one[place] or 0) for one in self.written)])
        found: FloatArray = amounts[np.searchsorted([one[0] for one in self.written], times, side="right")]
        return found


def _known(pod: PodRef, node: str) -> PodInputs:
    """The same pod as the manager knows it."""
    requests = Amounts(pod.requests.get("cpu", 0), pod.requests.get("memory", 0))
    return PodInputs(pod.title, pod.uid, node, pod.band, terminal=False, requests=requests, mid_requests=Amounts())
