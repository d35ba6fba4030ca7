"""A machine at a glance: what is used, the predicted peak, what is reclaimable, and why something is cold."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray
from agent.numerics.history import MINIMUM_EFFECTIVE_SAMPLES, ResourceHistory
from agent.pods import PodRef
from agent.prediction.node import PROD, UNITS, NodePrediction, NodeResources, class_peak
from agent.prediction.policy import Policy, in_force
from agent.prediction.reclaimable import raised
from agent.predictors.base import ClassView
from agent.reporter.usage import UsageStore
from agent.samples import CPU, MEMORY, NODE, SYS
from agent.series_index import CLASS_ENTITIES, CLASS_NAMES
from agent.standalone.text import span
from agent.trainer.trainer import Trainer

Amounts = Mapping[str, float]  # by resource: cpu in cores, memory in bytes. What is unknown is absent.
NO_REQUESTS: Final = "RequestsUnknown"  # reason of the condition PredictionReady without a cluster
NOTHING_RECLAIMABLE: Final = (
    "Without a cluster the pods' requests are unknown, and only requested resources can be reclaimed: reclaimable is 0."
)
"""Why nothing is reclaimable without a cluster."""


@dataclass(frozen=True, slots=True)
class Row:
    """The node, the system, a class, or a pod."""

    name: str  # what it is called
    used: Amounts  # mean of the last seconds
    peak: Amounts  # predicted peak, margin included; of a cold pod what it counts with
    reclaimable: Amounts  # what of its requests is reclaimable
    history: str  # how much is known: `warm`, or how far it is from it


@dataclass(frozen=True, slots=True)
class Overview:
    """One look at a machine."""

    time: float  # when. [seconds since 1970]
    classes: tuple[Row, ...]  # the node, the system, and each class that has pods
    pods: tuple[Row, ...]  # every pod, the largest peak of CPU first
    free: Amounts  # what of the machine stays free at the predicted peak of everything
    capacity: Amounts  # what the machine has
    model: str  # the model in force, and its margin


@dataclass(frozen=True, slots=True)
class Sources:
    """Where an overview comes from."""

    store: UsageStore  # the samples
    trainer: Trainer  # what was learned
    pods: Sequence[PodRef]  # the pods on this node
    node: NodeResources  # what the node has


def build_overview(now: float, sources: Sources, prediction: NodePrediction, *, window_seconds: float) -> Overview:
    """One look. Usage is the mean of `window_seconds` before now."""
    policy = in_force(prediction.policy, None)
    used = _used(sources.store, now - window_seconds, now)
    present = [pod for pod in sources.pods if not pod.terminal]
    for name in CLASS_ENTITIES:
        used[name] = _sum(used.get(pod.uid) for pod in present if CLASS_NAMES[pod.band] == name)
    node = _cores(sources.node.capacity)
    peaks = _peaks(prediction, used, node)
    pods = [_pod(pod, sources, policy, used.get(pod.uid, {}), peaks.get(CLASS_NAMES[pod.band], {})) for pod in present]
    by_peak = sorted(pods, key=lambda row: (-row.peak.get(CPU, 0.0), -row.peak.get(MEMORY, 0.0), row.name))
    peak = peaks.get(NODE, {})
    chosen = prediction.policy
    return Overview(
        time=now,
        classes=tuple(_classes(sources, prediction, policy, (used, peaks), present)),
        pods=tuple(by_peak),
        free={metric: max(node[metric] - peak[metric], 0.0) for metric in node if metric in peak},
        capacity=node,
        model=f"{chosen.model} + {chosen.safety_margin_percent or 0} %",
    )


def _used(store: UsageStore, start: float, end: float) -> dict[str, dict[str, float]]:
    """Mean of each entity by resource."""
    found: dict[str, dict[str, float]] = {}
    for metric in UNITS:
        for entity, series in store.windows(metric, start, end).items():
            if series.values.size:
                found.setdefault(entity, {})[metric] = float(np.mean(series.values))
    return found


def _peaks(prediction: NodePrediction, used: Mapping[str, Amounts], capacity: Amounts) -> dict[str, dict[str, float]]:
    """The predicted peak of the node, the system and each class; what is shown as used just now is never above it."""
    found: dict[str, dict[str, float]] = {}
    for metric in capacity:
        known = {name: _cores(one.peak) for name, one in prediction.classes.items()}
        peaks = {name: peak[metric] for name, peak in known.items() if metric in peak}
        shown = {name: amounts[metric] for name, amounts in used.items() if metric in amounts}
        for name, peak in raised(peaks, capacity[metric], shown).items():
            found.setdefault(name, {})[metric] = peak
    return found


def _classes(
    sources: Sources,
    prediction: NodePrediction,
    policy: Policy,
    numbers: tuple[Mapping[str, Amounts], Mapping[str, Amounts]],
    present: Sequence[PodRef],
) -> Iterator[Row]:
    used, peaks = numbers
    for name in (NODE, SYS, *CLASS_ENTITIES):
        own = [pod for pod in present if CLASS_NAMES[pod.band] == name]
        if name in CLASS_ENTITIES and not own:
            continue
        label = {NODE: "node", SYS: "  system"}.get(name, f"  {name}, {_count(len(own), 'pod')}")
        yield Row(
            name=label,
            used=used.get(name, {}),
            peak=peaks.get(name, {}),
            reclaimable=_cores(prediction.reclaimable) if name == PROD else {},
            history=_members(sources.trainer, policy, own) if own else _evidence(sources.trainer, policy, name)[1],
        )


def _pod(pod: PodRef, sources: Sources, policy: Policy, used: Amounts, whole: Amounts) -> Row:
    """One pod; its peak is neither below what it uses just now nor above that of its class."""
    warm, history = _evidence(sources.trainer, policy, pod.uid)
    peak = {}
    for metric, known in sources.trainer.histories.items():
        amount = _peak(pod, metric, known, sources, policy, warm=warm)
        if amount is not None:
            peak[metric] = min(max(amount, used.get(metric, 0.0)), whole.get(metric, math.inf))
    requests = {metric: pod.requests[metric] / UNITS[metric] for metric in UNITS if metric in pod.requests}
    requests_of_prod = requests if CLASS_NAMES[pod.band] == PROD else {}
    return Row(
        name=pod.title,
        used=used,
        peak=peak,
        reclaimable={
            metric: max(requests_of_prod[metric] - peak[metric], 0.0) for metric in requests_of_prod if metric in peak
        },
        history=history,
    )


def _peak(
    pod: PodRef, metric: str, history: ResourceHistory, sources: Sources, policy: Policy, *, warm: bool
) -> float | None:
    """Peak of one pod: what the model in force says of it alone; of a cold pod what it counts with. None: unknown."""
    row, unit = sources.trainer.row(pod.uid), UNITS[metric]
    capacity = sources.node.capacity.get(metric)
    requested = pod.requests.get(metric, 0) or pod.limits.get(metric, 0)
    if row is None or capacity is None:
        return requested / unit if requested else None
    rows = np.array([row], dtype=np.intp)
    nothing: FloatArray = np.zeros(0)
    if warm:
        view = ClassView(history, row, rows, np.array([pod.requests.get(metric, 0) / unit]))
        return class_peak(view, nothing, policy.models[metric], capacity / unit)
    highest = float(history.moments.highest[row])
    known = requested or history.moments.counts[row] > 0.0
    return max(requested / unit, highest) if known and math.isfinite(highest) else None


def _evidence(trainer: Trainer, policy: Policy, entity: str) -> tuple[bool, str]:
    """Whether an entity is warm in every resource, and the words for it."""
    row = trainer.row(entity)
    if row is None:
        return False, "cold: nothing learned yet"
    rows, period = np.array([row], dtype=np.intp), policy.cold_start_seconds
    histories = trainer.histories.values()
    if all(bool(history.warm(rows, period)[0]) for history in histories):
        return True, "warm"
    samples = min(float(history.moments.effective_samples(rows)[0]) for history in histories)
    observed = min(float(history.observed[row]) for history in histories)
    if observed >= period and samples < MINIMUM_EFFECTIVE_SAMPLES:
        return False, "cold: too few samples"
    return False, f"cold: {span(observed)} of {span(period)}"


def _members(trainer: Trainer, policy: Policy, pods: Sequence[PodRef]) -> str:
    warm = sum(_evidence(trainer, policy, pod.uid)[0] for pod in pods)
    parts = [f"{number} {word}" for number, word in ((warm, "warm"), (len(pods) - warm, "cold")) if number]
    return ", ".join(parts)


def _sum(amounts: Iterator[Amounts | None]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in amounts:
        for metric, value in (one or {}).items():
            found[metric] = found.get(metric, 0.0) + value
    return found


def _cores(amounts: Mapping[str, int]) -> dict[str, float]:
    return {metric: amount / UNITS[metric] for metric, amount in amounts.items() if metric in UNITS}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
