"""peak_predictor: Koordinator's rule for Reclaimable, and the training round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from agent import derived
from agent.numerics.aggregate import whole
from agent.numerics.arrays import BoolArray
from agent.numerics.histogram import CPU_BUCKETS, MEMORY_BUCKETS, HistogramBank
from agent.numerics.history import CPU_HALF_LIFE_SECONDS, MEMORY_HALF_LIFE_SECONDS
from agent.pods import PodRef, pod_ref
from agent.prediction.node import PROD, UNITS, listed_once
from agent.predictors import PolicyError, build
from agent.predictors.percentile import USUAL, PercentileEstimate, ProdPods, by_class, by_pods, tightest
from agent.samples import CPU, INPUT_MISSING, MEMORY, NODE, SYS, CollectionResult, Missing, Sample
from agent.series_index import CLASS_NAMES, FIXED
from agent.sources.node import read_node
from agent.trainer.trainer import Trainer, TrainingSettings
from crds.predict_policy import ResourcePolicy
from crds.quantity import milli_value, value
from tests.agent.made import MadeStore
from tests.golden.adapters import Adapter
from tests.golden.adapters.pods import kubernetes_node, kubernetes_pod
from tests.golden.results import Amount

INTERVAL_SECONDS: Final = 60  # time from one training round of the reference to the next [s]
MODELS: Final[Mapping[str, str]] = {
    NODE: "__node__",
    SYS: "__node-sys__",
    **{name: f"__node-koord-{name}__" for name in FIXED if name not in (NODE, SYS)},
}
"""Our entity -> the reference's model; its model of pods without a class is part of our class prod."""
_CLASSES: Final = (MODELS[SYS], MODELS[PROD], "__node-__")


@dataclass(frozen=True, slots=True)
class _Given:
    pods: Sequence[PodRef]
    ages: Mapping[str, float]
    predictions: Mapping[str, Any]
    cold_seconds: float
    margin: float
    allocatable: Mapping[str, int] | None

    @classmethod
    def read(cls, vector: Mapping[str, Any]) -> "_Given":
        listed = [(pod_ref(kubernetes_pod(short) or {}), short.get("ageSeconds", 0)) for short in vector["pods"]]
        listed = [(pod, age) for pod, age in listed if CLASS_NAMES[pod.band] == PROD]
        node = kubernetes_node(vector.get("node"))
        facts = read_node(node)[0].allocatable if node is not None else {}
        return cls(
            pods=[pod for pod, _ in listed],
            ages={pod.uid: age for pod, age in reversed(listed)},
            predictions=vector["predictions"],
            cold_seconds=vector.get("coldStartSeconds", -1),
            margin=(100 + vector["safetyMarginPercent"]) / 100,
            allocatable=facts or None,
        )

    def allocatable_of(self, metric: str) -> float | None:
        """The allocatable amount of a resource; None without a node, 0 where the node does not say."""
        return None if self.allocatable is None else float(self.allocatable.get(metric, 0))

    def model(self, uid: str) -> Mapping[str, Any] | None:
        """A prediction of the vector; None for none."""
        by_uid = self.predictions.get("byUID") or {}
        if uid in by_uid:
            return by_uid[uid] or {}
        return None if self.predictions.get("defaultIsError") else self.predictions.get("default") or {}

    def percentile(self, uid: str, metric: str) -> float:
        """The percentile of the rule, in milli-cores or bytes; NaN where the prediction has none."""
        amounts = (self.model(uid) or {}).get(f"p{USUAL[metric]:g}") or {}
        return _whole(metric, amounts[metric]) if metric in amounts else float("nan")

    def prod_pods(self, metric: str, pods: Sequence[PodRef]) -> ProdPods:
        requests = np.array([pod.requests.get(metric, 0) for pod in pods], dtype=np.float64)
        return ProdPods(
            requests=requests,
            counted=requests,
            percentiles=np.array([self.percentile(pod.uid, metric) for pod in pods], dtype=np.float64),
            cold=_mask(self.ages[pod.uid] <= self.cold_seconds for pod in pods),
            terminating=_mask(pod.terminating or pod.terminal for pod in pods),
            known=_mask(self.model(pod.uid) is not None for pod in pods),
        )

    def classes(self, metric: str) -> list[float | None]:
        """The percentiles of the system and of the classes that count as Prod."""
        return [
            None if self.model(uid) is None else float(np.nan_to_num(self.percentile(uid, metric))) for uid in _CLASSES
        ]


def _prod_reclaimable(vector: dict[str, Any]) -> dict[str, Any]:
    given = _Given.read(vector)
    once = listed_once(given.pods)
    parts: dict[str, dict[str, PercentileEstimate]] = {}
    for metric in UNITS:
        pods, bound = given.prod_pods(metric, once), given.allocatable_of(metric)
        by_pod = by_pods(pods, given.margin, bound)
        together = by_class(pods, given.classes(metric), given.margin, bound)
        parts[metric] = {"pod": by_pod, "priority": together, "": tightest([by_pod, together])}
    return {
        "addPodErrorUIDs": _refused(given, once),
        **{_key(name, "reclaimable"): _amounts(parts, name, "reclaimable") for name in ("pod", "priority", "")},
        **{_key(name, "peak"): _amounts(parts, name, "peak") for name in ("pod", "priority", "")},
    }


def _priority_reclaimable(vector: dict[str, Any]) -> dict[str, Any]:
    """The class alone: no pod is evaluated by itself, so none is cold, rejected, or counted twice."""
    given = _Given.read(vector)
    parts = {}
    for metric in UNITS:
        requests = np.array([pod.requests.get(metric, 0) for pod in given.pods], dtype=np.float64)
        terminating, none = (
            _mask(pod.terminating or pod.terminal for pod in given.pods),
            np.zeros(len(requests), np.bool_),
        )
        pods = ProdPods(requests, requests, requests, cold=none, terminating=terminating, known=~none)
        parts[metric] = {"priority": by_class(pods, given.classes(metric), given.margin, given.allocatable_of(metric))}
    return {
        "priorityReclaimable": _amounts(parts, "priority", "reclaimable"),
        "priorityPeak": _amounts(parts, "priority", "peak"),
    }


def _refused(given: _Given, once: Sequence[PodRef]) -> list[str]:
    """Pods listed a second time, and those that should have a model and have none; in the order of the list."""
    first = {id(pod) for pod in once}
    unknown = {
        pod.uid for pod, refused in zip(once, given.prod_pods(CPU, once).refused.tolist(), strict=True) if refused
    }
    return [pod.uid for pod in given.pods if id(pod) not in first or pod.uid in unknown]


def _min_predictor_empty(_vector: dict[str, Any]) -> dict[str, Any]:
    parts = {metric: {"": tightest([])} for metric in UNITS}
    return {"reclaimable": _amounts(parts, "", "reclaimable"), "peak": _amounts(parts, "", "peak")}


def _empty_predictor(_vector: dict[str, Any]) -> dict[str, Any]:
    try:
        build(ResourcePolicy("", {}, (), 0))
    except PolicyError:
        return {"peakError": True, "resultError": True}
    return {"peakError": False, "resultError": False}


def _default_histogram(vector: dict[str, Any]) -> dict[str, Any]:
    cpu = vector["resource"] == CPU
    buckets = CPU_BUCKETS if cpu else MEMORY_BUCKETS
    bank, row = (
        HistogramBank(buckets, CPU_HALF_LIFE_SECONDS if cpu else MEMORY_HALF_LIFE_SECONDS, rows=1),
        np.zeros(1, int),
    )
    for sample in vector["samples"]:
        bank.add(row, np.array([sample]), np.zeros(1))
    return {
        "values": [float(bank.percentiles(row, share)[0]) for share in vector["percentiles"]],
        "maxRelativeError": float(buckets.starts[2] / buckets.starts[1]) - 2.0,
    }


def _training(vector: dict[str, Any]) -> dict[str, Any]:
    pods = [pod_ref(kubernetes_pod(short) or {}) for short in vector["pods"]]
    trainer, store = Trainer(TrainingSettings(interval_seconds=INTERVAL_SECONDS)), MadeStore()
    for entry in vector["rounds"]:
        for sample in _tick(entry, pods):
            values = [sample.value] * INTERVAL_SECONDS
            store.put(sample.metric, sample.entity, sample.time - INTERVAL_SECONDS, values)
        trainer.train(float(entry["atUnix"]), store, pods)
    entities = {**{uid: entity for entity, uid in MODELS.items()}, **{pod.uid: pod.uid for pod in pods}}
    learned = {uid: entity for uid, entity in entities.items() if _has_learned(trainer, entity)}
    return {
        "modelUIDs": sorted(learned),
        "predictions": {uid: _percentiles(trainer, entity) for uid, entity in learned.items()},
    }


def _tick(one: Mapping[str, Any], pods: Sequence[PodRef]) -> list[Sample]:
    """The measured values of a round, with the system derived from them as in every tick."""
    now, usage = float(one["atUnix"]), one.get("podUsage") or {}
    collected = CollectionResult(pods_listed=True)
    if not one.get("nodeMetricError"):
        collected.samples += [Sample(CPU, NODE, now, one["nodeCPU"]), Sample(MEMORY, NODE, now, one["nodeMemory"])]
    for pod in pods:
        measured = usage.get(pod.uid)
        for place, metric in enumerate((CPU, MEMORY)):
            if measured is None:
                collected.missing.append(Missing(metric, pod.uid, INPUT_MISSING))
            else:
                collected.samples.append(Sample(metric, pod.uid, now, measured[place]))
    return collected.samples + derived.system(collected, now).samples


def _has_learned(trainer: Trainer, entity: str) -> bool:
    row = trainer.row(entity)
    return row is not None and all(history.moments.counts[row] > 0.0 for history in trainer.histories.values())


def _percentiles(trainer: Trainer, entity: str) -> dict[str, Any]:
    rows = np.array([trainer.row(entity)], dtype=np.intp)
    shares = {"p60": 0.6, "p90": 0.9, "p95": 0.95, "p98": 0.98, "max": 1.0}
    return {
        name: {
            metric: _amount(metric, whole(float(history.histograms.percentiles(rows, share)[0]), UNITS[metric]))
            for metric, history in trainer.histories.items()
        }
        for name, share in shares.items()
    }


def _amounts(parts: Mapping[str, Mapping[str, PercentileEstimate]], name: str, what: str) -> dict[str, Any]:
    result = {metric: getattr(by_name[name], what) for metric, by_name in parts.items()}
    if any(amount is None for amount in result.values()):
        return {"error": True}
    return {metric: _amount(metric, amount) for metric, amount in result.items()}


def _amount(metric: str, amount: float) -> Amount:
    return Amount(int(amount), UNITS[metric])


def _whole(metric: str, quantity: str) -> float:
    return float(milli_value(quantity) if metric == CPU else value(quantity))


def _key(name: str, what: str) -> str:
    return name + what.capitalize() if name else what


def _mask(values: Any) -> BoolArray:  # noqa: ANN401 - anything that gives truths
    result: BoolArray = np.fromiter(values, dtype=np.bool_)
    return result


OPERATIONS: Final[Mapping[str, Adapter]] = {
    "pod_reclaimable": _prod_reclaimable,
    "pod_peak": _prod_reclaimable,
}
