"""From trained history to peaks by class and Reclaimable. No clocks, no I/O.

Per resource, with m = 1 + safety margin on measured usage (models apply it themselves):

    Peak[c]     = m * model(warm pods of c) + sum over its cold pods of max(request, else limit; highest seen),
                  at most the node's capacity; of a known workload max(min(request, history), highest seen)
    sysExtra    = max(0, Peak[sys] - max(capacity - allocatable, annotation reservation))
    slack       = max(0, allocatable - requests of the Prod pods)
    Reclaimable = max(0, min(ratio * requests of warm Prod pods + requests of cold Prod pods
                               - Peak[Prod] - max(0, sysExtra - slack),
                             allocatable - Peak[Prod] - sysExtra))

where peaks are raised to their floors (`agent.prediction.reclaimable.raised`).
The margin is in Peak[sys] once. Amounts are milli-cores and bytes; a peak is rounded up, Reclaimable down.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from agent.numerics.arrays import BoolArray, FloatArray
from agent.numerics.history import ResourceHistory
from agent.pods import PodRef, Resources
from agent.prediction.policy import Policy, ResourceModel, in_force
from agent.prediction.readiness import Readiness, evaluate_readiness
from agent.prediction.reclaimable import ReclaimableTerms, lowered, raised, reclaimable_terms
from agent.prediction.stated_risk import StatedRisk, ViolationRate
from agent.predictors.base import MODEL_FAILURES, ClassView, ProdView, ReclaimableEstimate, ReclaimableModel
from agent.samples import CPU, MEMORY, NODE, SYS
from agent.series_index import CLASS_NAMES, FIXED
from agent.trainer.trainer import Trainer
from crds.predict_policy import PredictPolicy
from crds.workload_history import workload_id

PROD: Final = "prod"  # the class that Headroom reclaims from
UNITS: Final[Mapping[str, int]] = {CPU: 1000, MEMORY: 1}
"""Factor of a history's unit in the unit of amounts: milli-cores per core, bytes per byte."""
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True)
class NodeResources:
    """The resources of the node. A resource that is absent is unknown, and then nothing of it is reclaimable."""

    allocatable: Resources = field(default_factory=dict)
    """The allocatable of pods: annotation raw-allocatable, else status.allocatable. [milli-cores, bytes]"""
    capacity: Resources = field(default_factory=dict)
    reservation: Resources = field(default_factory=dict)  # of the reservation annotation. [milli-cores, bytes]
    workloads: Mapping[str, Resources] = field(default_factory=dict)
    """The highest usage per pod of workloads on any node, by `workload_id`. [milli-cores, bytes]"""


@dataclass(frozen=True, slots=True)
class ClassNumbers:
    """Usage and prediction of the node, the system, or a class of pods. Unknown values are absent."""

    mean: Resources  # decayed mean of those that are here now. [milli-cores, bytes]
    stdev: Resources  # decayed standard deviation. [milli-cores, bytes]
    peak: Resources  # predicted peak, margin and cold pods included. [milli-cores, bytes]
    samples: int  # training samples behind it, of the resource that has fewer
    span_seconds: int  # observed time behind it, of the resource that has less. [s]


@dataclass(frozen=True, slots=True)
class NodePrediction:
    """Everything that is reported of a prediction. A resource that cannot be evaluated is absent."""

    time: float  # when it was made. [seconds since 1970]
    policy: PredictPolicy  # the policy in force
    classes: Mapping[str, ClassNumbers]  # by class: node, sys, prod, mid, batch, free
    warm: int  # pods predicted from history
    cold: tuple[str, ...]  # pods that count at their request, "namespace/name", sorted
    reclaimable: Resources  # the part of the Prod pods' requests that they will not use
    prod_peak: Resources  # peak of Prod plus the system's, margin included
    terms: Mapping[str, ReclaimableTerms]  # how Reclaimable came about, by resource
    readiness: Readiness
    problem: str = ""  # why the requested policy is not the one in force; empty when it is
    window_days: float = 0.0  # the window of 5-minute averages that the models in force read. [days]
    risks: Mapping[str, StatedRisk] = field(default_factory=dict)  # the risk that the policy states, by resource
    accuracy: Mapping[str, ViolationRate] = field(default_factory=dict)  # how often usage exceeded earlier predictions
    held_back: tuple[str, ...] = ()  # pods that memory.high or swap holds back, "namespace/name", sorted
    by_history: Mapping[str, int] = field(default_factory=dict)
    """Cold Prod pods that count at the usage of their workload on other nodes, by workload."""


def predict(
    now: float,
    trainer: Trainer,
    pods: Sequence[PodRef],
    node: NodeResources,
    policy: Policy | PredictPolicy | None,
    present: Mapping[str, Mapping[str, float]] | None = None,
    exclusive: Collection[str] = (),
    held_back: Collection[str] = (),
) -> NodePrediction:
    """The prediction for this node. It changes nothing.

    Of a requested policy that cannot be followed, the trainer's stays in force. `present` are averages of the last five
    minutes by resource and class, as far as they are known. [cores, bytes] `exclusive` are the uids of pods that have
    CPUs for themselves: none of the CPU that they request is reclaimable. `held_back` are those of pods with a memory
    usage below their need: their memory counts as that of cold pods, and at least at m * their highest usage.
    """
    chosen = policy if isinstance(policy, Policy) else in_force(policy, trainer.policy)
    here = [pod for pod in listed_once(pods) if not pod.terminal]
    models = ModelRunner()
    result = {
        metric: _Resource(
            history,
            trainer,
            here,
            node,
            chosen,
            models,
            (present or {}).get(metric, {}),
            exclusive if metric == CPU else held_back,
        )
        for metric, history in trainer.histories.items()
    }
    terms = {metric: one.terms for metric, one in result.items() if one.terms is not None}
    warm = np.logical_and.reduce([result[metric].warm for metric in terms or (CPU,)])
    observed = np.logical_and.reduce([result[metric].observed for metric in terms or (CPU,)])
    by_history = _by_history(here, np.logical_or.reduce([part.by_history for part in result.values()]))
    return NodePrediction(
        time=now,
        policy=chosen.policy,
        classes={name: _numbers(row, name, result) for row, name in enumerate(FIXED)},
        warm=int(warm.sum()),
        cold=tuple(sorted(pod.title for pod, is_warm in zip(here, warm, strict=True) if not is_warm)),
        reclaimable={metric: math.floor(term.reclaimable + _ROUNDING) for metric, term in terms.items()},
        prod_peak={metric: result[metric].prod_peak for metric in terms},
        terms=terms,
        readiness=evaluate_readiness(
            trainer, here, observed, terms.keys(), chosen, models.failures, sum(by_history.values())
        ),
        problem=chosen.problem,
        window_days=chosen.window_days,
        risks={metric: model.risk for metric, model in chosen.models.items()},
        held_back=tuple(sorted(pod.title for pod in here if pod.uid in held_back)),
        by_history=by_history,
    )


def _by_history(pods: Sequence[PodRef], counted: BoolArray) -> dict[str, int]:
    """Return how many Prod pods of each workload count at its usage on other nodes."""
    prod = [pod for pod, is_it in zip(pods, counted, strict=True) if is_it and CLASS_NAMES[pod.band] == PROD]
    return dict(Counter(pod.workload for pod in prod if pod.workload))


def listed_once(pods: Sequence[PodRef]) -> list[PodRef]:
    return list({pod.uid: pod for pod in reversed(pods)}.values())[::-1]


class ModelRunner:
    """Calls models, third-party ones included, and remembers those that failed."""

    def __init__(self) -> None:
        self.failures: list[str] = []  # a sentence each

    def peak(self, model: ResourceModel, view: ClassView) -> float:
        """Return the model's peak; infinite when it fails or returns no amount."""
        return self._call(
            model, view.history, lambda: [float(np.asarray(model.model.peak(view, model.margin)).item())]
        )[0]

    def estimate_reclaimable(
        self, rule: ReclaimableModel, model: ResourceModel, prod: ProdView, ratio: float
    ) -> ReclaimableEstimate:
        """The estimate of the model's own rule; 0 reclaimable and an infinite peak when it fails."""

        def call() -> list[float]:
            result = rule.estimate_reclaimable(prod, model.margin, ratio)
            return [result.reclaimable, result.peak]

        reclaimable, peak = self._call(model, prod.history, call, failed=(0.0, math.inf))
        return ReclaimableEstimate(reclaimable, peak)

    def _call(
        self,
        model: ResourceModel,
        history: ResourceHistory,
        call: Callable[[], Sequence[float]],
        failed: Sequence[float] = (math.inf,),
    ) -> Sequence[float]:
        try:
            result = call()
            if all(0.0 <= peak < math.inf for peak in result):
                return result
            why = f"it returns {', '.join(f'{peak:g}' for peak in result)}"
        except MODEL_FAILURES as error:
            why = f"{type(error).__name__}: {error}"
        problem = f"Model {model.name} failed for {history.resource}: {' '.join(why.split())}"
        if problem not in self.failures:
            self.failures.append(problem)
        return failed


def class_peak(
    view: ClassView, cold: FloatArray, model: ResourceModel, capacity: float, models: ModelRunner | None = None
) -> float:
    """Peak[c] of one class, in the view's unit: its warm pods, and what each cold one counts with, shape (C,).

    Where nothing is known of the warm pods, they are expected to use all of the capacity.
    """
    warm = 0.0
    if view.pods.size:
        trained = view.history.moments.counts[view.series] > 0.0
        warm = (models or ModelRunner()).peak(model, view) if trained else math.inf
    return min(warm + float(cold.sum()), capacity)


class _Resource:
    """A resource of the node; pods have shape (P,), and amounts are in the history's unit: cores or bytes."""

    def __init__(
        self,
        history: ResourceHistory,
        trainer: Trainer,
        pods: Sequence[PodRef],
        node: NodeResources,
        policy: Policy,
        models: ModelRunner,
        present: Mapping[str, float],
        marked: Collection[str],
    ) -> None:
        metric, self.unit = history.resource, UNITS[history.resource]
        self.history, self._policy, self._model, self._models = history, policy, policy.models[metric], models
        rows = [trainer.row(pod.uid) for pod in pods]
        self._rows = np.array([-1 if row is None else row for row in rows], dtype=np.intp)
        self._classes = np.array([CLASS_NAMES[pod.band] for pod in pods], dtype=np.str_)
        self._requests = np.array([pod.requests.get(metric, 0) for pod in pods], dtype=np.float64) / self.unit
        limits = np.array([pod.limits.get(metric, 0) for pod in pods], dtype=np.float64) / self.unit
        highest = np.where(self._rows >= 0, history.moments.highest[self._rows], 0.0)
        pinned = np.array([pod.uid in marked for pod in pods], dtype=np.bool_)
        limited = pinned & (metric == MEMORY)
        highest = np.where(limited, self._model.margin, 1.0) * highest
        requested = np.where(self._requests > 0.0, self._requests, limits)
        self._floors = np.maximum(requested, highest)
        reduced = np.maximum(self._of_workloads(node, pods, pinned), highest)
        self._terminating = np.array([pod.terminating for pod in pods], dtype=np.bool_)
        self.observed: BoolArray = (self._rows >= 0) & history.warm(self._rows, policy.cold_start_seconds)
        self.warm: BoolArray = self.observed & ~limited
        self.by_history: BoolArray = ~self.observed & (reduced < self._floors)
        self._floors = np.minimum(self._floors, reduced)
        self._reclaimed = self.observed & (limited | ~pinned)  # the others count at their request
        self.means = self._means()
        self.peaks = self._peaks(node.capacity[metric] / self.unit, present) if metric in node.capacity else {}
        self.terms: ReclaimableTerms | None = None
        self.prod_peak = 0
        if metric in node.allocatable and SYS in self.peaks:
            allocatable = node.allocatable[metric] / self.unit
            estimate = self._own_estimate(allocatable, self.observed, present)
            self.terms = self._terms(node, self._own_estimate(allocatable, self._reclaimed, present))
            peak = self.peaks[PROD] + self.peaks[SYS] if estimate is None else max(estimate.peak, self.peaks[PROD])
            capacity = node.capacity[metric]
            self.prod_peak = min(_up(peak * self.unit), capacity) if peak < math.inf else capacity

    def _of_workloads(self, node: NodeResources, pods: Sequence[PodRef], pinned: BoolArray) -> FloatArray:
        """Return the usage of each pod's workload on other nodes, margin included; infinite where it does not count.

        At most `ratio` of a pod's request becomes reclaimable. An amount that is 0 or less, or above the
        capacity, does not count.
        """
        rule, metric = self._policy.workload_history, self.history.resource
        if rule is None or not node.workloads:
            return np.full(len(pods), np.inf)
        amounts = [node.workloads.get(workload_id(pod.workload or ""), {}).get(metric, 0) for pod in pods]
        most = node.capacity.get(metric, 0)
        used = (
            np.array([amount if 0 < amount <= most else math.inf for amount in amounts], dtype=np.float64) / self.unit
        )
        least = (1.0 - self._policy.reclaim_ratio) * self._requests
        return np.where(pinned, np.inf, np.maximum(rule.margin * used, least))

    def _members(self, name: str) -> BoolArray:
        """Return which pods belong to a class; all of them belong to the node, none to the system."""
        if name in (NODE, SYS):
            return np.full(len(self._rows), name == NODE)
        result: BoolArray = self._classes == name
        return result

    def _means(self) -> dict[str, float]:
        """Return decayed means of the pods behind the peaks: pods that have ended no longer count."""
        system, moments, result = FIXED.index(SYS), self.history.moments, {}
        for row, name in enumerate(FIXED):
            if moments.counts[row] > 0.0:
                rows = self._rows[self._members(name) & (self._rows >= 0)]
                members = np.append(rows, system) if name in (NODE, SYS) else rows
                recorded = moments.mean(np.array([row], dtype=np.intp))[0]
                result[name] = min(float(recorded), float(moments.mean(members[moments.counts[members] > 0.0]).sum()))
        return result

    def _peaks(self, capacity: float, present: Mapping[str, float]) -> dict[str, float]:
        """Return the peak of every class that can have one, at least its mean and its present usage."""
        peaks, history = {}, self.history
        system = np.array([FIXED.index(SYS)], dtype=np.intp)
        system_known = bool(history.moments.counts[system[0]] > 0.0)
        for name in FIXED:
            if name in (NODE, SYS) and not system_known:
                continue
            peaks[name] = self._peak(name, self.warm, capacity)
            if (self._members(name) & self.observed & ~self.warm).any():  # not below the model's own
                peaks[name] = max(peaks[name], self._peak(name, self.observed, capacity))
        if system_known and not history.warm(system, self._model.cold_start_seconds)[0]:
            peaks[SYS] = max(peaks[SYS], float(history.moments.highest[system[0]]))
        return raised(peaks, capacity, self.means, present)

    def _peak(self, name: str, warm: BoolArray, capacity: float) -> float:
        """Return Peak[c] of a class, of which the pods that are not `warm` count at their request."""
        own, model, row = self._members(name), self._model, FIXED.index(name)
        rows, requests = self._rows[own & warm], self._requests[own & warm]
        if name in (NODE, SYS):
            # What runs outside of pods is one more pod, of which nothing was requested.
            rows, requests = np.append(rows, FIXED.index(SYS)), np.append(requests, 0.0)
            model = model.for_system
        view = ClassView(self.history, row, rows, requests)
        return class_peak(view, self._floors[own & ~warm], model, capacity, self._models)

    def _own_estimate(
        self, allocatable: float, warm: BoolArray, present: Mapping[str, float]
    ) -> ReclaimableEstimate | None:
        """Return the result of the model's own rule, if it has one; pods that are not `warm` count at their request."""
        rule, prod = self._model.model, self._members(PROD)
        if not isinstance(rule, ReclaimableModel):
            return None
        view = ProdView(
            history=self.history,
            series=FIXED.index(PROD),
            system=FIXED.index(SYS),
            pods=self._rows[prod],
            requests=self._requests[prod],
            counted=self._floors[prod],
            cold=~warm[prod],
            terminating=self._terminating[prod],
            allocatable=allocatable,
        )
        estimate = self._models.estimate_reclaimable(rule, self._model, view, self._policy.reclaim_ratio)
        return lowered(estimate, present)

    def _terms(self, node: NodeResources, own: ReclaimableEstimate | None) -> ReclaimableTerms:
        metric, prod, warm = self.history.resource, self._members(PROD), self._reclaimed
        allocatable, capacity, peak = node.allocatable[metric], node.capacity[metric], self.peaks[PROD]
        if bool((prod & self.warm & ~warm).any()):
            peak = max(peak, self._peak(PROD, warm & self.warm, capacity / self.unit))
        result = reclaimable_terms(
            # Whole amounts, so that the reported terms add up.
            allocatable=allocatable,
            reserved=max(capacity - allocatable, node.reservation.get(metric, 0)),
            warm_requests=_near(self._requests[prod & warm].sum() * self.unit),
            cold_requests=_near(self._requests[prod & ~warm].sum() * self.unit),
            prod_peak=_up(peak * self.unit),
            system_peak=_up(self.peaks[SYS] * self.unit),
            ratio=self._policy.reclaim_ratio,
        )
        if own is None:
            return result
        held_back = bool((prod & self.observed & ~self.warm).any())
        most = result.reclaimable if held_back else float(allocatable)  # the model's own rule knows no such pods
        return replace(result, reclaimable=min(own.reclaimable * self.unit, most), by_model=True)


def _numbers(row: int, name: str, found: Mapping[str, _Resource]) -> ClassNumbers:
    rows = np.array([row], dtype=np.intp)
    trained = {metric: view for metric, view in found.items() if view.history.moments.counts[row] > 0.0}
    return ClassNumbers(
        mean={metric: _near(one.means[name] * one.unit) for metric, one in trained.items()},
        stdev={metric: _near(one.history.moments.stdev(rows)[0] * one.unit) for metric, one in trained.items()},
        peak={metric: _up(one.peaks[name] * one.unit) for metric, one in found.items() if name in one.peaks},
        samples=min((int(view.history.moments.counts[row]) for view in trained.values()), default=0),
        span_seconds=min((_near(view.history.observed[row]) for view in trained.values()), default=0),
    )


def _near(amount: float) -> int:
    return math.floor(amount + 0.5)


def _up(amount: float) -> int:
    return math.ceil(amount - _ROUNDING)
