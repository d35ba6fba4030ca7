"""The agents of simulated nodes: what each reports of its pods, with predictions by the models that we ship."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agent.pods import PodRef
from agent.prediction.node import NodeResources, predict
from agent.trainer.trainer import Trainer, TrainingSettings
from agent.tsdb.series import Series
from crds.predict_policy import PredictPolicy
from crds.priority import PriorityBand, QoS
from tools.bench.manager_report import moment
from tools.bench.placement_pods import CORES, GIB, FloatArray, Pod

STEP_SECONDS = 300
PREDICT_STEPS = 2  # a prediction is made every so many steps: it counts for a quarter of an hour
BYTES = 1 << 30
SYSTEM_CORES, SYSTEM_GIB = 0.2, 1.0  # what runs outside of pods
POLICY = PredictPolicy(model="recent-max", parameters={"windowDays": 7}, cold_start_period_seconds=3600)
"""The highest coincident 5-minute average of the last seven days: what remembers one hour a night. A pod counts at its
request, or what it has used if that is more, for its first hour only: many pods here are gone after half a day."""

Json = dict[str, Any]


@dataclass(slots=True)
class _Store:
    """Holds the last step."""

    content: Mapping[str, Mapping[str, Series]] = field(default_factory=dict)

    def windows(self, metric: str, start: float, end: float) -> Mapping[str, Series]:
        """The last step, whatever is asked."""
        del start, end
        return self.content[metric]

    def averages(self, metric: str, start: float, end: float, entities: Collection[str]) -> Mapping[str, Series]:
        """Nothing from before."""
        del metric, start, end, entities
        return {}


@dataclass(slots=True)
class Agent:
    """One node's agent."""

    node: str  # name of the node
    predicts: bool  # whether it learns and predicts
    _store: _Store = field(default_factory=_Store)
    _learner: Trainer = field(default_factory=lambda: Trainer(TrainingSettings(interval_seconds=STEP_SECONDS)))
    _prediction: Json = field(default_factory=dict)

    def report(self, step: int, now: float, pods: Sequence[Pod]) -> Json:
        """The NodeMetric at the end of a step.

        Args:
            step: the step that ends now.
            now: the time. [unix s]
            pods: the pods that ran here in it.
        """
        cpu, memory = np.array([(pod.cpu[step], pod.memory[step]) for pod in pods]).reshape(-1, 2).T
        if self.predicts:
            self._learn(step, now, pods, cpu, memory)
        whole = _amounts(cpu.sum() + SYSTEM_CORES, memory.sum() + SYSTEM_GIB)
        measured = {"nodeUsage": {"resources": whole}, "systemUsage": _resources(SYSTEM_CORES, SYSTEM_GIB)}
        reported = [
            {"namespace": "default", "name": pod.name, "priority": "koord-prod", "podUsage": _resources(*used)}
            for pod, *used in zip(pods, cpu, memory, strict=True)
        ]
        status = {"updateTime": moment(now), "nodeMetric": measured, "podsMetric": reported}
        return {
            "metadata": {"name": self.node},
            "spec": {"metricCollectPolicy": {"reportIntervalSeconds": STEP_SECONDS}},
            "status": status | ({"prediction": self._prediction} if self._prediction else {}),
        }

    def _learn(self, step: int, now: float, pods: Sequence[Pod], cpu: FloatArray, memory: FloatArray) -> None:
        names = ["node", "sys", *(pod.uid for pod in pods)]
        used = {
            "cpu": [cpu.sum() + SYSTEM_CORES, SYSTEM_CORES, *cpu],
            "memory": [(memory.sum() + SYSTEM_GIB) * BYTES, SYSTEM_GIB * BYTES, *(memory * BYTES)],
        }
        # Two samples a step, both alike, tell the learner how much time a sample stands for.
        times = np.array([now - STEP_SECONDS / 2, now])
        self._store.content = {
            metric: {name: Series(times, np.full(2, value)) for name, value in zip(names, values, strict=True)}
            for metric, values in used.items()
        }
        present = [_ref(pod) for pod in pods]
        self._learner.train(now, self._store, present)
        if step % PREDICT_STEPS == 0:
            amounts = {"cpu": CORES * 1000, "memory": GIB * BYTES}
            found = predict(now, self._learner, present, NodeResources(allocatable=amounts, capacity=amounts), POLICY)
            peaks = {name: numbers.peak for name, numbers in found.classes.items() if numbers.peak}
            classes = [
                {"name": name, "peak": {"cpu": f"{peak['cpu']}m", "memory": str(peak["memory"])}}
                for name, peak in peaks.items()
            ]
            self._prediction = {"time": moment(now), "classes": classes}


def _ref(pod: Pod) -> PodRef:
    requests = {"cpu": int(pod.cpu_request * 1000), "memory": int(pod.memory_request * BYTES)}
    return PodRef(pod.uid, "default", pod.name, PriorityBand.PROD, QoS.LS, requests)


def _resources(cores: float, gib: float) -> Json:
    return {"resources": _amounts(cores, gib)}


def _amounts(cores: float, gib: float) -> Json:
    return {"cpu": f"{cores * 1000:.0f}m", "memory": str(int(gib * BYTES))}
