"""A replayed node: its pods, the agent that measures them, and the manager that publishes for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from agent.collectors.base import Tick
from agent.metrics import Metrics
from agent.numerics.arrays import FloatArray
from agent.pipeline import Pipeline
from agent.pods import PodRef
from agent.prediction.node import NodePrediction, NodeResources, predict
from agent.predictors.base import WEEK_DAYS
from agent.reporter import spec as specs
from agent.reporter.node_metric import build_status
from agent.reporter.usage import measure as measured_usages
from agent.samples import CPU, MEMORY, NODE, CollectionResult, Sample
from agent.settings import TrainSettings
from agent.store_failover import StoreFailover
from agent.training import CheckpointedTrainer
from agent.tsdb.tsdb import Tsdb
from crds.codec import to_json
from crds.colocation import ColocationStrategy
from crds.predict_policy import PredictPolicy
from manager.calculators.mid import calculate, deadline
from manager.inputs import Amounts, NodeReport, ObservedAt, PodInputs, Resource, from_objects
from manager.mid import publish
from tools.bench.counting import merged

STEP_SECONDS: Final = 300.0
TICKS: Final = (99.0, 199.0, 299.0)  # when the agent measures in a step [s]
FIRST_TICKS: Final = (224.0, 299.0)  # the same in its first step: training begins a quarter of its interval later [s]
SYSTEM: Final = {CPU: 0.1, MEMORY: float(1 << 29)}  # the system's usage [cores, bytes]
RESERVED: Final = {CPU: 250, MEMORY: 1 << 30}  # the node's reservation for it: more than it needs [milli-cores, bytes]
UNITS: Final = {CPU: 1000, MEMORY: 1}  # milli-cores in a core, bytes in a byte
_LOOKS: Final = 8  # looks of the manager in a row that still write; one or two are usual

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy that decides the published amount."""

    name: str
    predict: PredictPolicy | None = None  # None is the default one
    strategy: ColocationStrategy = field(default_factory=lambda: ColocationStrategy(enable=True))


@dataclass(slots=True)
class Node:
    """A node of the trace, as a source of pods and as a collector that measures them."""

    name: str
    start: float  # when the trace begins [seconds since 1970]
    usage: Mapping[str, FloatArray]  # by resource, what each pod uses in each step, shape (T, P) [cores or bytes]
    present: Sequence[PodRef]  # the pods, in the same order
    step: int = 0  # which step it is
    synced: bool = True
    problem: str = ""

    @property
    def resources(self) -> NodeResources:
        """The node as its agent knows it: its pods request all of it."""
        allocatable = {name: sum(pod.requests[name] for pod in self.present) for name in UNITS}
        return NodeResources(
            allocatable=allocatable, capacity={name: amount + RESERVED[name] for name, amount in allocatable.items()}
        )

    def free(self, resource: str) -> FloatArray:
        """Return the allocatable amount that the pods do not use, shape (T,). [milli-cores or bytes]"""
        left: FloatArray = self.resources.allocatable[resource] - self.usage[resource].sum(axis=1) * UNITS[resource]
        return left

    def pods(self) -> Sequence[PodRef]:
        """Return the pods, as any source of pods does."""
        return self.present

    async def run(self) -> None:
        """Follow nothing."""

    def collect(self, tick: Tick) -> CollectionResult:
        """Return the usage in this step."""
        samples = []
        for name, usage in self.usage.items():
            used = usage[self.step].tolist()
            samples.append(Sample(name, NODE, tick.now, sum(used) + SYSTEM[name]))
            samples += [Sample(name, pod.uid, tick.now, each) for pod, each in zip(self.present, used, strict=True)]
        return CollectionResult(samples, pods_listed=True)


class Agent:
    """The agent of one node under several policies; its history depends on none of them."""

    def __init__(self, node: Node, database: Path, policies: Sequence[PredictPolicy | None]) -> None:
        self._node, self._database = node, database
        self._predictions: list[tuple[PredictPolicy | None, NodePrediction | None]] = [
            (policy, None) for policy in policies
        ]
        self._pipeline: Pipeline | None = None

    def learn(self, step: int) -> None:
        """Measure and learn in one step.

        Raises:
            RuntimeError: a step of the pipeline failed.
        """
        node, pipeline = self._node, self._running()
        node.step, begin = step, node.start + step * STEP_SECONDS
        days = max(WEEK_DAYS if result is None else result.window_days for _, result in self._predictions)
        pipeline.training.trainer.resize_windows(days)
        pipeline.store.set_minute_retention(days)
        for offset in FIRST_TICKS if pipeline.training.trainer.trained_until is None else TICKS:
            pipeline.run_once(begin + offset)
        if pipeline.failing:
            raise RuntimeError(f"the agent failed in step {step}: {pipeline.failing}")

    def report(self, now: float) -> list[tuple[PredictPolicy | None, NodeReport | None]]:
        """Return the manager's inputs from the agent's report under each policy."""
        pipeline, pods, wanted = self._running(), self._node.pods(), specs.default()
        trainer = pipeline.training.trainer
        usages = measured_usages(
            now,
            pipeline.store,
            pods,
            trainer.class_of,
            window_seconds=wanted.window_seconds,
            durations_seconds=(),  # percentiles of the node are for the scheduler
            memory_policy=wanted.memory_policy,
        )
        reports, at = [], usages.measured_at
        for place, (policy, _) in enumerate(self._predictions):
            result = predict(now, trainer, pods, self._node.resources, policy)
            self._predictions[place] = (policy, result)
            status = build_status(usages, result, (), as_of=at, predicted_as_of=at)
            reports.append((policy, NodeReport.from_object({"status": to_json(status)})))
        return reports

    def stop(self, now: float) -> None:
        """End it as a rolling update does; the next step starts another one on the same database."""
        if self._pipeline is not None:
            self._pipeline.close(now)
            self._pipeline = None
        self._predictions = [(policy, None) for policy, _ in self._predictions]

    def _running(self) -> Pipeline:
        if self._pipeline is None:
            self._pipeline = Pipeline(
                {"replayed": self._node},
                self._node,
                StoreFailover(lambda: Tsdb.open(self._database)),
                lambda store: CheckpointedTrainer(store, TrainSettings(STEP_SECONDS, checkpoint_seconds=6 * 3600.0)),
                Metrics(),
            )
        return self._pipeline


class Publisher:
    """The manager at work for one policy on one node."""

    def __init__(self, policy: Policy, node: Node) -> None:
        self.policy, resources = policy, node.resources
        amounts = {
            what: {name: f"{amount}m" if name == CPU else str(amount) for name, amount in inputs.items()}
            for what, inputs in (("capacity", resources.capacity), ("allocatable", resources.allocatable))
        }
        self._node: Json = {"metadata": {"name": node.name}, "status": amounts}
        self._pods = [_pod_inputs(pod, node.name) for pod in node.present]
        self._report: NodeReport | None = None
        self._received, self._state = ObservedAt(), publish.PublishState()
        self._due: float | None = None
        self.api_up = True  # whether the API server takes writes
        self.written: list[tuple[float, int | None, int | None]] = []
        """Every write: when, and the Node's amounts since then. [seconds since 1970, milli-cores, bytes]"""

    def reported(self, now: float, report: NodeReport | None) -> None:
        """Take the agent's report."""
        self._report, self._received = report, ObservedAt(now, now)
        self.advance(now)

    def run_until(self, now: float) -> None:
        """Process the writes due before this moment."""
        while self._due is not None and self._due < now:
            self.advance(self._due)

    def advance(self, now: float) -> None:
        """Calculate, and do the due writes."""
        for _ in range(_LOOKS):
            if not self._look_once(now):
                return
        raise RuntimeError(f"the manager writes again and again: {self.policy.name}: {self.written[-_LOOKS:]}")

    def _look_once(self, now: float) -> bool:
        facts = from_objects(self._node, self._report, self._pods, self.policy.strategy, now, self._received)
        result = calculate(facts)
        before = publish.published_amounts(self._node)
        decision = publish.decide(
            before, result.desired, facts.strategy, self._state, now, result.requested, expired=result.expired
        )
        self._state, ends = decision.state, deadline(facts)
        waits = [] if ends is None else [now + max(ends, 0.0) + 1.0]
        waits += [] if decision.requeue_at is None else [decision.requeue_at]
        self._due = min((when for when in waits if when > now), default=None)
        if not decision.writes or not self.api_up:
            return False
        self._node = {**self._node, **merged({"status": self._node["status"]}, publish.status_patch(decision.writes))}
        self._state = publish.state_after_writes(decision, now)
        published = publish.published_amounts(self._node)
        self.written.append((now, published[Resource.CPU].amount, published[Resource.MEMORY].amount))
        return True

    def published(self, times: FloatArray, resource: str) -> FloatArray:
        """Return the Node's amounts at these times, shape (N,); 0 where it had nothing. [milli-cores or bytes]"""
        place = 1 if resource == CPU else 2
        amounts = np.array([0.0, *(float(entry[place] or 0) for entry in self.written)])
        shown: FloatArray = amounts[np.searchsorted([request[0] for request in self.written], times, side="right")]
        return shown


def _pod_inputs(pod: PodRef, node: str) -> PodInputs:
    requests = Amounts(pod.requests[CPU], pod.requests[MEMORY])
    return PodInputs(pod.title, pod.uid, node, pod.band, terminal=False, requests=requests, mid_requests=Amounts())
