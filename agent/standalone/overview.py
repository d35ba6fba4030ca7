"""An overview of a machine: usage, predicted peak, reclaimable amount, and the cold pods."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray
from agent.numerics.history import MINIMUM_EFFECTIVE_SAMPLES, ResourceHistory
from agent.pods import PodRef
from agent.prediction.node import PROD, UNITS, NodePrediction, NodeResources, class_peak
from agent.prediction.policy import in_force
from agent.prediction.reclaimable import raised
from agent.predictors.base import ClassView
from agent.reporter.usage import UsageStore
from agent.samples import CPU, MEMORY, NODE, SYS
from agent.series_index import CLASS_ENTITIES, CLASS_NAMES
from agent.trainer.trainer import Trainer

Amounts = Mapping[str, float]  # by resource: cpu in cores, memory in bytes. An unknown amount is absent.
NO_REQUESTS: Final = "RequestsUnknown"  # reason of the condition PredictionReady without a cluster
NOTHING_RECLAIMABLE: Final = (
    "Without a cluster the pods' requests are unknown, and only requested resources can be reclaimed: reclaimable is 0."
)
_SPANS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


@dataclass(frozen=True, slots=True)
class Row:
    """The node, the system, a class, or a pod."""

    name: str
    used: Amounts  # mean of the last seconds
    peak: Amounts  # predicted peak, margin included; of a cold pod its substitute
    reclaimable: Amounts  # the reclaimable part of its requests
    history: str  # how much is known: `warm`, or how far it is from it


@dataclass(frozen=True, slots=True)
class Overview:
    """An overview of a machine."""

    time: float  # [seconds since 1970]
    classes: tuple[Row, ...]  # the node, the system, and each class that has pods
    pods: tuple[Row, ...]  # every pod, the largest peak of CPU first
    free: Amounts  # the capacity beyond the predicted peak of the node
    capacity: Amounts  # of the machine
    model: str  # the model in force, and its margin


@dataclass(frozen=True, slots=True)
class Sources:
    """Where an overview comes from."""

    store: UsageStore
    trainer: Trainer
    pods: Sequence[PodRef]
    node: NodeResources


def build_overview(now: float, sources: Sources, prediction: NodePrediction, *, window_seconds: float) -> Overview:
    """A look. Usage is the mean of `window_seconds` before now."""
    result = _Numbers(now, sources, prediction, window_seconds)
    node, peak, chosen = result.capacity, result.peaks.get(NODE, {}), prediction.policy
    rows = sorted(
        map(result.pod, result.present), key=lambda row: (-row.peak.get(CPU, 0.0), -row.peak.get(MEMORY, 0.0), row.name)
    )
    names = (NODE, SYS, *(name for name in CLASS_ENTITIES if result.members(name)))
    return Overview(
        time=now,
        classes=tuple(map(result.class_, names)),
        pods=tuple(rows),
        free={metric: max(node[metric] - peak[metric], 0.0) for metric in node if metric in peak},
        capacity=node,
        model=f"{chosen.model} + {chosen.safety_margin_percent or 0} %",
    )


class _Numbers:
    """The inputs of the rows; every peak is at least the present usage in the row."""

    def __init__(self, now: float, sources: Sources, prediction: NodePrediction, window_seconds: float) -> None:
        self.prediction, self.trainer = prediction, sources.trainer
        self.policy = in_force(prediction.policy, None)
        self.capacity = _in_units(sources.node.capacity)
        self.present = [pod for pod in sources.pods if not pod.terminal]
        self.used: dict[str, dict[str, float]] = {}
        for metric in UNITS:
            for entity, series in sources.store.windows(metric, now - window_seconds, now).items():
                if series.values.size:
                    self.used.setdefault(entity, {})[metric] = float(np.mean(series.values))
        for name in CLASS_ENTITIES:
            of_pods = [self.used.get(pod.uid, {}) for pod in self.members(name)]
            self.used[name] = {
                metric: sum(pod.get(metric, 0.0) for pod in of_pods)
                for metric in UNITS
                if any(metric in pod for pod in of_pods)
            }
        self.peaks: dict[str, dict[str, float]] = {}
        for metric, capacity in self.capacity.items():
            class_peaks = {name: _in_units(class_.peak) for name, class_ in prediction.classes.items()}
            peaks = {name: peak[metric] for name, peak in class_peaks.items() if metric in peak}
            shown = {name: amounts[metric] for name, amounts in self.used.items() if metric in amounts}
            for name, amount in raised(peaks, capacity, shown).items():
                self.peaks.setdefault(name, {})[metric] = amount

    def members(self, name: str) -> list[PodRef]:
        return [pod for pod in self.present if CLASS_NAMES[pod.band] == name]

    def class_(self, name: str) -> Row:
        members = self.members(name)
        noun = "pod" if len(members) == 1 else "pods"
        warm = sum(self.evidence(pod.uid)[0] for pod in members)
        counts = [f"{number} {word}" for number, word in ((warm, "warm"), (len(members) - warm, "cold")) if number]
        return Row(
            name={NODE: "node", SYS: "  system"}.get(name, f"  {name}, {len(members)} {noun}"),
            used=self.used.get(name, {}),
            peak=self.peaks.get(name, {}),
            reclaimable=_in_units(self.prediction.reclaimable) if name == PROD else {},
            history=", ".join(counts) or self.evidence(name)[1],
        )

    def pod(self, pod: PodRef) -> Row:
        """A pod; its peak is between its present usage and the peak of its class."""
        warm, history = self.evidence(pod.uid)
        used, of_class = self.used.get(pod.uid, {}), self.peaks.get(CLASS_NAMES[pod.band], {})
        amounts = {metric: self.peak(pod, known, warm=warm) for metric, known in self.trainer.histories.items()}
        peak = {
            metric: min(max(amount, used.get(metric, 0.0)), of_class.get(metric, math.inf))
            for metric, amount in amounts.items()
            if amount is not None
        }
        requests = _in_units(pod.requests) if CLASS_NAMES[pod.band] == PROD else {}
        reclaimable = {metric: max(requests[metric] - peak[metric], 0.0) for metric in requests if metric in peak}
        return Row(pod.title, used, peak, reclaimable, history)

    def peak(self, pod: PodRef, history: ResourceHistory, *, warm: bool) -> float | None:
        """Return the peak of one pod by the model in force; of a cold pod its substitute. None: unknown."""
        metric = history.resource
        row, unit = self.trainer.row(pod.uid), UNITS[metric]
        requested = (pod.requests.get(metric, 0) or pod.limits.get(metric, 0)) / unit
        if row is None or metric not in self.capacity:
            return requested or None
        if warm:
            nothing: FloatArray = np.zeros(0)
            requests = np.array([pod.requests.get(metric, 0) / unit])
            view = ClassView(history, row, np.array([row], dtype=np.intp), requests)
            return class_peak(view, nothing, self.policy.models[metric], self.capacity[metric])
        highest = float(history.moments.highest[row])
        has_peak = requested or history.moments.counts[row] > 0.0
        return max(requested, highest) if has_peak and math.isfinite(highest) else None

    def evidence(self, entity: str) -> tuple[bool, str]:
        """Return whether an entity is warm in every resource, and the words for it."""
        row = self.trainer.row(entity)
        if row is None:
            return False, "cold: nothing learned yet"
        rows, period = np.array([row], dtype=np.intp), self.policy.cold_start_seconds
        histories = self.trainer.histories.values()
        if all(bool(history.warm(rows, period)[0]) for history in histories):
            return True, "warm"
        samples = min(float(history.moments.effective_samples(rows)[0]) for history in histories)
        observed = min(float(history.observed[row]) for history in histories)
        if observed >= period and samples < MINIMUM_EFFECTIVE_SAMPLES:
            return False, "cold: too few samples"
        return False, f"cold: {span(observed)} of {span(period)}"


def _in_units(amounts: Mapping[str, int]) -> dict[str, float]:
    return {metric: amount / UNITS[metric] for metric, amount in amounts.items() if metric in UNITS}


def span(seconds: float) -> str:
    """A time in its two largest units: 90061 -> "1d1h", 75 -> "1m15s"."""
    rest, parts = int(seconds), []
    for name, unit in _SPANS:
        if rest >= unit:
            parts.append(f"{rest // unit}{name}")
            rest %= unit
    return "".join(parts[:2]) or "0s"
