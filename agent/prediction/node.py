"""From trained history to peaks by class and Reclaimable. No clocks, no I/O.

Per resource, with m = 1 + safety margin on what was measured (models apply it themselves):

    Peak[c]     = m * model(warm pods of c) + sum over its cold pods of max(request, else limit; highest seen),
                  at most the node's capacity
    sysExtra    = max(0, Peak[sys] - max(capacity - allocatable, annotation reservation))
    slack       = max(0, allocatable - requests of the Prod pods)
    Reclaimable = max(0, min(ratio * requests of warm Prod pods + requests of cold Prod pods
                               - Peak[Prod] - max(0, sysExtra - slack),
                             allocatable - Peak[Prod] - sysExtra))

where peaks are raised to what they have to agree with (`agent.prediction.reclaimable.raised`).
The margin is in Peak[sys] once. Amounts are milli-cores and bytes; a peak is rounded up, Reclaimable down.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from agent.numerics.arrays import BoolArray, FloatArray, IntArray
from agent.numerics.history import ResourceHistory
from agent.pods import PodRef, Resources
from agent.prediction.policy import Policy, ResourceModel, in_force
from agent.prediction.readiness import Readiness, evaluate_readiness
from agent.prediction.reclaimable import ReclaimableTerms, lowered, raised, reclaimable_terms
from agent.predictors.base import MODEL_FAILURES, ClassView, ProdView, ReclaimableEstimate, ReclaimableModel
from agent.samples import CPU, MEMORY, NODE, SYS
from agent.series_index import CLASS_NAMES, FIXED
from agent.trainer.trainer import Trainer
from crds.predict_policy import PredictPolicy

PROD: Final = "prod"
"""The class whose requests are reclaimed."""
UNITS: Final[Mapping[str, int]] = {CPU: 1000, MEMORY: 1}
"""What a history's unit has of the unit of amounts: milli-cores per core, bytes per byte."""
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True)
class NodeResources:
    """What the node has. A resource that is absent is unknown, and then nothing of it is reclaimable."""

    allocatable: Resources = field(default_factory=dict)
    """What pods may request: annotation raw-allocatable, else status.allocatable. [milli-cores, bytes]"""
    capacity: Resources = field(default_factory=dict)
    reservation: Resources = field(default_factory=dict)
    """What the reservation annotation keeps. [milli-cores, bytes]"""


@dataclass(frozen=True, slots=True)
class ClassNumbers:
    """What is known and expected of the node, the system, or a class of pods. What is unknown is absent."""

    mean: Resources
    """Decayed mean of those that are here now. [milli-cores, bytes]"""
    stdev: Resources
    """Decayed standard deviation. [milli-cores, bytes]"""
    peak: Resources
    """Predicted peak, margin and cold pods included. [milli-cores, bytes]"""
    samples: int
    """Training samples behind it, of the resource that has fewer."""
    span_seconds: int
    """Observed time behind it, of the resource that has less. [s]"""


@dataclass(frozen=True, slots=True)
class NodePrediction:
    """Everything that is reported of a prediction. A resource that cannot be judged is absent."""

    time: float
    """When it was made. [seconds since 1970]"""
    policy: PredictPolicy
    """The policy in force."""
    classes: Mapping[str, ClassNumbers]
    """By class: node, sys, prod, mid, batch, free."""
    warm: int
    """Pods predicted from history."""
    cold: tuple[str, ...]
    """Pods that count at their request, "namespace/name", sorted."""
    reclaimable: Resources
    """What the Prod pods requested and will not use."""
    prod_peak: Resources
    """Peak of Prod plus the system's, margin included."""
    terms: Mapping[str, ReclaimableTerms]
    """How Reclaimable came about, by resource."""
    readiness: Readiness
    problem: str = ""
    """Why the requested policy is not the one in force; empty when it is."""
    window_days: float = 0.0
    """How far back the models in force look at 5-minute averages. [days]"""


@dataclass(frozen=True, slots=True)
class _Pods:
    """The pods on the node as arrays for one resource, shape (P,) each; amounts in the history's unit."""

    rows: IntArray
    classes: tuple[str, ...]
    requests: FloatArray
    floors: FloatArray
    warm: BoolArray
    terminating: BoolArray

    @classmethod
    def of(cls, metric: str, trainer: Trainer, pods: Sequence[PodRef], period: float) -> "_Pods":
        """The pods, and which of them were observed for that long."""
        history, unit = trainer.histories[metric], UNITS[metric]
        known = [trainer.row(pod.uid) for pod in pods]
        rows = np.array([-1 if row is None else row for row in known], dtype=np.intp)
        requests = np.array([pod.requests.get(metric, 0) for pod in pods], dtype=np.float64) / unit
        limits = np.array([pod.limits.get(metric, 0) for pod in pods], dtype=np.float64) / unit
        highest = np.where(rows >= 0, history.moments.highest[rows], 0.0)
        return cls(
            rows=rows,
            classes=tuple(CLASS_NAMES[pod.band] for pod in pods),
            requests=requests,
            floors=np.maximum(np.where(requests > 0.0, requests, limits), highest),
            warm=(rows >= 0) & history.warm(rows, period),
            terminating=np.array([pod.terminating for pod in pods], dtype=np.bool_),
        )

    def belong_to(self, name: str) -> BoolArray:
        """Which pods belong to a class; all of them belong to the node, none to the system."""
        if name in (NODE, SYS):
            return np.full(len(self.rows), name == NODE)
        return np.array([own == name for own in self.classes], dtype=np.bool_)


def predict(
    now: float,
    trainer: Trainer,
    pods: Sequence[PodRef],
    node: NodeResources,
    policy: Policy | PredictPolicy | None,
    present: Mapping[str, Mapping[str, float]] | None = None,
) -> NodePrediction:
    """The prediction for this node. It changes nothing.

    Args:
        now: the time. [seconds since 1970]
        trainer: what was learned.
        pods: the pods on this node; terminal ones are left out.
        node: what the node has.
        policy: the policy in force; of a requested one, the trainer's stays in force when it cannot be followed.
        present: averages of the last five minutes by resource and class, as far as they are known. [cores, bytes]
    """
    chosen = policy if isinstance(policy, Policy) else in_force(policy, trainer.policy)
    here = [pod for pod in listed_once(pods) if not pod.terminal]
    models = ModelRunner()
    tables, means, terms = dict[str, _Pods](), dict[str, dict[str, float]](), dict[str, ReclaimableTerms]()
    peaks, prod_peaks = dict[str, dict[str, float]](), dict[str, int]()
    for metric, history in trainer.histories.items():
        used = (present or {}).get(metric, {})
        table = tables[metric] = _Pods.of(metric, trainer, here, chosen.cold_start_seconds)
        means[metric] = _means(history, table)
        if metric not in node.capacity:
            continue
        found = peaks[metric] = _peaks(history, table, chosen.models[metric], node, models, means[metric], used)
        if metric in node.allocatable and SYS in found:
            own = _model_estimate(history, table, chosen, node, models)
            own = None if own is None else lowered(own, used)
            terms[metric] = _terms(metric, table, found, node, chosen.reclaim_ratio, own)
            prod_peaks[metric] = _prod_peak(metric, found, node, own)
    warm = np.logical_and.reduce([tables[metric].warm for metric in terms or (CPU,)])
    return NodePrediction(
        time=now,
        policy=chosen.policy,
        classes={name: _numbers(name, trainer, means, peaks) for name in FIXED},
        warm=int(warm.sum()),
        cold=tuple(sorted(pod.title for pod, is_warm in zip(here, warm, strict=True) if not is_warm)),
        reclaimable={metric: math.floor(term.reclaimable + _ROUNDING) for metric, term in terms.items()},
        prod_peak=prod_peaks,
        terms=terms,
        readiness=evaluate_readiness(trainer, here, warm, terms.keys(), chosen, models.failures),
        problem=chosen.problem,
        window_days=chosen.window_days,
    )


def listed_once(pods: Sequence[PodRef]) -> list[PodRef]:
    """The pods without those that are listed a second time."""
    return list({pod.uid: pod for pod in reversed(pods)}.values())[::-1]


class ModelRunner:
    """Calls models, third-party ones included, and remembers those that failed."""

    def __init__(self) -> None:
        self.failures: list[str] = []  # a sentence each

    def peak(self, model: ResourceModel, view: ClassView) -> float:
        """The model's peak; infinite when it fails or answers what is no amount."""
        try:
            found = float(np.asarray(model.model.peak(view, model.margin), dtype=np.float64).item())
        except MODEL_FAILURES as error:
            self._failed(model, view.history, f"{type(error).__name__}: {error}")
            return math.inf
        if not 0.0 <= found < math.inf:
            self._failed(model, view.history, f"it answers {found:g}")
            return math.inf
        return found

    def estimate_reclaimable(
        self, rule: ReclaimableModel, model: ResourceModel, prod: ProdView, ratio: float
    ) -> ReclaimableEstimate:
        """The estimate of the model's own rule; 0 reclaimable and an infinite peak when it fails."""
        try:
            found = rule.estimate_reclaimable(prod, model.margin, ratio)
            if 0.0 <= found.reclaimable < math.inf and 0.0 <= found.peak < math.inf:
                return found
            self._failed(model, prod.history, f"it answers {found}")
        except MODEL_FAILURES as error:
            self._failed(model, prod.history, f"{type(error).__name__}: {error}")
        return ReclaimableEstimate(0.0, math.inf)

    def _failed(self, model: ResourceModel, history: ResourceHistory, why: str) -> None:
        problem = f"Model {model.name} failed for {history.resource}: {' '.join(why.split())}"
        if problem not in self.failures:
            self.failures.append(problem)


def class_peak(
    view: ClassView, cold: FloatArray, model: ResourceModel, capacity: float, models: ModelRunner | None = None
) -> float:
    """Peak[c] of one class, in the view's unit: its warm pods, and what each cold one counts with, shape (C,).

    Where nothing is known of the warm pods, they are expected to use all of the capacity.
    """
    warm = 0.0
    if view.pods.size:
        known = view.history.moments.counts[view.series] > 0.0
        warm = (models or ModelRunner()).peak(model, view) if known else math.inf
    return min(warm + float(cold.sum()), capacity)


def _peaks(
    history: ResourceHistory,
    pods: _Pods,
    model: ResourceModel,
    node: NodeResources,
    models: ModelRunner,
    *floors: Mapping[str, float],
) -> dict[str, float]:
    """Peak of every class that can have one, none below the floors, in cores or bytes."""
    peaks, capacity = {}, node.capacity[history.resource] / UNITS[history.resource]
    system = np.array([FIXED.index(SYS)], dtype=np.intp)
    system_known = bool(history.moments.counts[system[0]] > 0.0)
    for row, name in enumerate(FIXED):
        if name in (NODE, SYS) and not system_known:
            continue
        own = pods.belong_to(name)
        rows, requests, chosen = pods.rows[own & pods.warm], pods.requests[own & pods.warm], model
        if name in (NODE, SYS):
            # What runs outside of pods is one more pod, of which nothing was requested.
            rows, requests = np.append(rows, system), np.append(requests, 0.0)
            chosen = model.for_system
        view = ClassView(history, row, rows, requests)
        peaks[name] = class_peak(view, pods.floors[own & ~pods.warm], chosen, capacity, models)
    if system_known and not history.warm(system, model.cold_start_seconds)[0]:
        peaks[SYS] = max(peaks[SYS], float(history.moments.highest[system[0]]))
    return raised(peaks, capacity, *floors)


def _model_estimate(
    history: ResourceHistory, pods: _Pods, chosen: Policy, node: NodeResources, models: ModelRunner
) -> ReclaimableEstimate | None:
    """What the model's own rule says, if it has one; in cores or bytes."""
    metric = history.resource
    model, prod = chosen.models[metric], pods.belong_to(PROD)
    if not isinstance(model.model, ReclaimableModel):
        return None
    view = ProdView(
        history=history,
        series=FIXED.index(PROD),
        system=FIXED.index(SYS),
        pods=pods.rows[prod],
        requests=pods.requests[prod],
        counted=pods.floors[prod],
        cold=~pods.warm[prod],
        terminating=pods.terminating[prod],
        allocatable=node.allocatable[metric] / UNITS[metric],
    )
    return models.estimate_reclaimable(model.model, model, view, chosen.reclaim_ratio)


def _terms(
    metric: str,
    pods: _Pods,
    peaks: Mapping[str, float],
    node: NodeResources,
    ratio: float,
    own: ReclaimableEstimate | None,
) -> ReclaimableTerms:
    unit, prod = UNITS[metric], pods.belong_to(PROD)
    allocatable, capacity = node.allocatable[metric], node.capacity[metric]
    found = reclaimable_terms(
        allocatable=float(allocatable),
        reserved=float(max(capacity - allocatable, node.reservation.get(metric, 0))),
        warm_requests=float(pods.requests[prod & pods.warm].sum()) * unit,
        cold_requests=float(pods.requests[prod & ~pods.warm].sum()) * unit,
        prod_peak=peaks[PROD] * unit,
        system_peak=peaks[SYS] * unit,
        ratio=ratio,
    )
    if own is None:
        return found
    return replace(found, reclaimable=min(own.reclaimable * unit, float(allocatable)), by_model=True)


def _prod_peak(metric: str, peaks: Mapping[str, float], node: NodeResources, own: ReclaimableEstimate | None) -> int:
    peak = peaks[PROD] + peaks[SYS] if own is None else max(own.peak, peaks[PROD])
    capacity = node.capacity[metric]
    return min(_up(peak * UNITS[metric]), capacity) if peak < math.inf else capacity


def _means(history: ResourceHistory, pods: _Pods) -> dict[str, float]:
    """Decayed means of what the peaks are about, in cores or bytes: pods that have left count no longer."""
    system = FIXED.index(SYS)
    found = {}
    for row, name in enumerate(FIXED):
        if history.moments.counts[row] > 0.0:
            rows = pods.rows[pods.belong_to(name) & (pods.rows >= 0)]
            members = np.append(rows, system) if name in (NODE, SYS) else rows
            known = members[history.moments.counts[members] > 0.0]
            recorded = history.moments.mean(np.array([row], dtype=np.intp))[0]
            found[name] = min(float(recorded), float(history.moments.mean(known).sum()))
    return found


def _numbers(
    name: str, trainer: Trainer, means: Mapping[str, Mapping[str, float]], peaks: Mapping[str, Mapping[str, float]]
) -> ClassNumbers:
    row = np.array([FIXED.index(name)], dtype=np.intp)
    seen = {metric: h for metric, h in trainer.histories.items() if h.moments.counts[row[0]] > 0.0}
    return ClassNumbers(
        mean={metric: _near(means[metric][name] * UNITS[metric]) for metric in seen},
        stdev={metric: _near(h.moments.stdev(row)[0] * UNITS[metric]) for metric, h in seen.items()},
        peak={metric: _up(by_class[name] * UNITS[metric]) for metric, by_class in peaks.items() if name in by_class},
        samples=min((int(h.moments.counts[row[0]]) for h in seen.values()), default=0),
        span_seconds=min((_near(h.observed[row[0]]) for h in seen.values()), default=0),
    )


def _near(amount: float) -> int:
    return math.floor(amount + 0.5)


def _up(amount: float) -> int:
    return math.ceil(amount - _ROUNDING)
