"""Builds full and fast reports from the present numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from agent.host.cgroup import CgroupTree, ExclusiveCpus
from agent.metrics import Metrics
from agent.pipeline import Pipeline
from agent.prediction.node import PROD, NodePrediction, NodeResources, predict
from agent.prediction.policy import Policy, in_force
from agent.prediction.readiness import with_accuracy
from agent.prediction.reclaimable import PRESENT_SECONDS
from agent.report_metrics import show_accuracy, show_pressure, show_report, show_training
from agent.reporter.conditions import CollectionStatus, conditions
from agent.reporter.node_metric import build_status, fast_status
from agent.reporter.pressure import extensions, held_back, measure_pressure
from agent.reporter.spec import SpecInForce
from agent.reporter.usage import Usages, measure, present
from agent.reporter.workloads import workload_lines
from agent.sources.pod import PodSource
from agent.tsdb.tsdb import Tsdb
from crds.codec import to_json
from crds.meta import Condition
from crds.predict_policy import PredictPolicy

Json = dict[str, Any]
_ROUNDS_TO_SPARE: Final = 10.0
_LOST: Final = (
    "spec.predictPolicy is gone, for example because another program has replaced the spec: the last policy "
    "stays in force. To have the agent's own default, set it to {}."
)


@dataclass(frozen=True, slots=True)
class Report:
    """A status, ready to be sent."""

    status: Json  # the NodeMetric's status, or the part of it that a fast report has
    prediction: NodePrediction


class NodeSource(Protocol):
    """Has the resources of the node."""

    @property
    def resources(self) -> NodeResources:
        """Its capacity, allocatable and reservation; empty while unknown."""

    async def run(self) -> None:
        """Keep it current, until cancelled."""


class ReportBuilder:
    """Builds reports from the stored and learned data of the pipeline.

    `updateTime` is the time of the newest measurement, not of the report: numbers of a machine without new
    measurements become old for every reader, however often they are sent.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        pods: PodSource,
        node: NodeSource,
        metrics: Metrics,
        default_policy: PredictPolicy | None = None,
        cgroups: CgroupTree | None = None,
    ) -> None:
        """Nothing is reported yet. The default policy (None: the built-in one) holds while no spec requests one.

        `cgroups` knows the exclusive CPUs, and the cgroups that were seen; None where there are none.
        """
        self._pipeline, self._pods, self._node, self._metrics = pipeline, pods, node, metrics
        self._default, self._cgroups = default_policy, cgroups
        self._accepted: tuple[PredictPolicy | None, Tsdb, Policy] | None = None
        self._measured_at: float | None = None

    def accept(self, spec: SpecInForce) -> Policy:
        """Put the spec's policy into force when it arrives: averages and minutes are kept for as long as it needs them.

        A store that replaces another one is passed to it, too.

        A policy that cannot be followed leaves the last good one in force. So does a spec without one, as another
        program leaves behind that replaces the whole spec: the policy last requested stays in force, over restarts too.
        An empty one requests the agent's own default.
        """
        requested, store, trainer = spec.spec.predict_policy, self._pipeline.store, self._pipeline.training.trainer
        if self._accepted is not None and self._accepted[0] == requested and self._accepted[1] is store:
            return self._accepted[2]
        if requested == PredictPolicy():
            trainer.requested_policy = None
        wanted = (requested if requested != PredictPolicy() else None) or trainer.requested_policy or self._default
        policy = in_force(wanted, trainer.policy or self._default)
        if requested not in (None, PredictPolicy()) and not policy.problem:
            trainer.requested_policy = requested
        trainer.policy = policy.policy
        trainer.resize_windows(policy.window_days)
        store.set_minute_retention(policy.window_days)
        self._accepted = requested, store, policy
        return policy

    def predict(self, now: float, spec: SpecInForce) -> NodePrediction:
        """The prediction of the moment, by the policy that the spec requests, see `accept`."""
        training, pods, policy = self._pipeline.training, self._pods.pods(), self.accept(spec)
        used = present(now, self._pipeline.store, self._class_of, PRESENT_SECONDS)
        exclusive = self._exclusive.pods
        limited = held_back(now, self._pipeline.store)
        node = replace(self._node.resources, workloads=spec.workloads)
        result = predict(now, training.trainer, pods, node, policy, used, exclusive, limited)
        if training.accuracy.observe(training.trainer, pods, result):
            show_accuracy(self._metrics, training.accuracy)
        return replace(result, accuracy=training.accuracy.violation_rates())

    def full(
        self, now: float, spec: SpecInForce, previous: Sequence[Condition] = (), problems: Sequence[str] = ()
    ) -> Report:
        """The full report.

        Raises RuntimeError: the pods are still being listed; the previous report is more accurate until then.
        """
        if not self._pods.synced and not self._pods.problem:
            raise RuntimeError("the pods of this node are not listed yet")
        pods, prediction = self._pods.pods(), self.predict(now, spec)
        usages = self._usages(now, spec)
        pressure = measure_pressure(now, self._pipeline.store, usages.pods.keys(), spec.window_seconds)
        status = build_status(
            usages,
            prediction,
            pods,
            as_of=self._measured_at,
            predicted_as_of=self._predicted_as_of(),
            conditions=self._conditions(now, usages, prediction, spec, previous, problems),
            extensions=extensions(pressure),
            exclusive=self._exclusive.cpus,
        )
        workloads = workload_lines(self._pipeline.training.trainer, pods, prediction.cold)
        status = replace(status, workloads=workloads or None)
        show_report(self._metrics, usages, prediction, self._node.resources)
        show_pressure(self._metrics, pressure)
        show_training(self._metrics, self._pipeline.training.trainer)
        return Report(to_json(status), prediction)

    def fast(
        self,
        now: float,
        spec: SpecInForce,
        prediction: NodePrediction,
        previous: Sequence[Condition] = (),
        problems: Sequence[str] = (),
    ) -> Report:
        """The fast report of a prediction that was just made; the rest as for `full`."""
        usages = self._usages(prediction.time, spec)
        stated = self._conditions(now, usages, prediction, spec, previous, problems)
        status = fast_status(
            usages,
            prediction,
            predicted_as_of=self._predicted_as_of(),
            conditions=stated,
            exclusive=self._exclusive.cpus,
        )
        return Report(to_json(status), prediction)

    def _usages(self, now: float, spec: SpecInForce) -> Usages:
        result = measure(
            now,
            self._pipeline.store,
            self._pods.pods(),
            self._class_of,
            window_seconds=spec.window_seconds,
            durations_seconds=spec.durations_seconds,
            memory_policy=spec.memory_policy,
        )
        if result.measured_at is not None:
            self._measured_at = result.measured_at
        return result

    @property
    def _exclusive(self) -> ExclusiveCpus:
        return (self._cgroups and self._cgroups.exclusive) or ExclusiveCpus()

    def _class_of(self, uid: str) -> str:
        return self._pipeline.training.trainer.class_of(uid) or PROD

    def _predicted_as_of(self) -> float | None:
        """Return when the node was last measured, or learned from, if that fell behind. [seconds since 1970]"""
        trainer = self._pipeline.training.trainer
        measured, trained = self._measured_at, trainer.trained_until
        if measured is None or trained is None:
            return measured
        behind = measured - trained > _ROUNDS_TO_SPARE * trainer.settings.interval_seconds
        return trained if behind else measured

    def _conditions(
        self,
        now: float,
        usages: Usages,
        prediction: NodePrediction,
        spec: SpecInForce,
        previous: Sequence[Condition],
        problems: Sequence[str],
    ) -> tuple[Condition, ...]:
        present = [pod for pod in self._pods.pods() if not pod.terminal]
        lacking, unknown = self._pods.problem, ""
        if lacking and not self._pods.synced:
            lacking, unknown = "", lacking
        stated = [*problems, f"{lacking[:1].upper()}{lacking[1:]}."] if lacking else [*problems]
        requested_before = self._pipeline.training.trainer.requested_policy is not None
        if spec.generation is not None and spec.spec.predict_policy is None and requested_before:
            stated.append(_LOST)
        levels = self._cgroups.upper_levels if self._cgroups and not self._cgroups.latest else ""
        failing, missing = self._pipeline.failing, self._pipeline.missing
        collection = CollectionStatus(failing, missing, unknown, levels, stated, prediction.held_back)
        readiness = with_accuracy(prediction.readiness, prediction.accuracy)
        return conditions(now, usages, readiness, present, collection, previous, spec.generation)
