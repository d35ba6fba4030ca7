"""A node of a replayed trace: which pods are on it, what they use, and the agent that measures them.

Its time goes in steps of five minutes, as the traces do. In each the agent ticks three times and learns once; what a
pod uses is the same in the whole step. Nothing runs on the node but these pods and a system that needs less than the
node reserves for it, so whatever Prod leaves of the allocatable amounts is free for Mid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from agent.collectors.base import Tick
from agent.metrics import Metrics
from agent.numerics.arrays import FloatArray
from agent.pipeline import Pipeline
from agent.pods import PodRef
from agent.prediction.node import NodeResources
from agent.samples import CPU, MEMORY, NODE, CollectionResult, Sample
from agent.settings import TrainSettings
from agent.store_failover import StoreFailover
from agent.training import CheckpointedTrainer
from agent.tsdb.tsdb import Tsdb
from crds.priority import PriorityBand, QoS
from headroom.backtest.trace import PodLifetime, Trace, TraceError

STEP_SECONDS: Final = 300.0  # time from one step to the next: the agent's own averages are of so long [s]
TICKS: Final = (99.0, 199.0, 299.0)
"""When the agent measures in a step. The last tick of one and the first of the next are as far apart. [s]"""
FIRST_TICKS: Final = (224.0, 299.0)
"""The same in an agent's first step: training begins a quarter of its interval later, and then follows the steps."""
SYSTEM: Final[Mapping[str, float]] = {CPU: 0.1, MEMORY: float(1 << 29)}  # what the system uses [cores, bytes]
RESERVED: Final[Mapping[str, int]] = {CPU: 250, MEMORY: 1 << 30}
"""What the node reserves for it: more than it needs, whatever the margin. [milli-cores, bytes]"""
UNITS: Final[Mapping[str, int]] = {CPU: 1000, MEMORY: 1}  # milli-cores in a core, bytes in a byte
_SAVE_SECONDS: Final = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class ReplayedNode:
    """One node and its pods over time."""

    name: str  # its name
    start: float  # when the trace begins [seconds since 1970]
    usage: Mapping[str, FloatArray]
    """By resource, what each pod uses in each step, shape (T, P); 0 while it is not there. [cores or bytes]"""
    here: Mapping[str, tuple[int, int]]
    """By pod uid, in the order of `usage`: its first step here, and the one after its last."""
    pods: Sequence[PodRef]  # the pods, in the same order

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return len(self.usage[CPU])

    @property
    def allocatable(self) -> dict[str, int]:
        """What the pods may request: exactly what they do when they request most. [milli-cores, bytes]"""
        ends = sorted({0, *(start for start, _ in self.here.values())})
        return {name: max(sum(pod.requests[name] for pod in self.at(step)) for step in ends) for name in UNITS}

    @property
    def facts(self) -> NodeResources:
        """The node as its agent knows it."""
        allocatable = self.allocatable
        capacity = {name: amount + RESERVED[name] for name, amount in allocatable.items()}
        return NodeResources(allocatable=allocatable, capacity=capacity)

    def at(self, step: int) -> list[PodRef]:
        """The pods of one step."""
        return [pod for pod in self.pods if self.here[pod.uid][0] <= step < self.here[pod.uid][1]]

    def used(self, resource: str) -> FloatArray:
        """What all pods use, shape (T,). [milli-cores or bytes]"""
        total: FloatArray = self.usage[resource].sum(axis=1) * UNITS[resource]
        return total


def nodes_of(cpu: Trace, memory: Trace, lifetimes: Sequence[PodLifetime]) -> list[ReplayedNode]:
    """The nodes of a placement.

    Args:
        cpu: CPU of the series.
        memory: memory of the same series at the same times.
        lifetimes: which series is where and when.

    Raises:
        TraceError: the two traces are not of the same series and times, or not of five minutes.
    """
    if cpu.names != memory.names or not np.array_equal(cpu.times, memory.times):
        raise TraceError(f"{cpu.source} and {memory.source} are not of the same series and times: choose those in both")
    if cpu.step_seconds != STEP_SECONDS:
        raise TraceError(f"{cpu.source} has a value every {cpu.step_seconds:g} s: give one of {STEP_SECONDS:g} s")
    by_machine: dict[int, list[PodLifetime]] = {}
    for lifetime in lifetimes:
        by_machine.setdefault(lifetime.machine, []).append(lifetime)
    return [_node(cpu, memory, machine, by_machine[machine]) for machine in sorted(by_machine)]


def _node(cpu: Trace, memory: Trace, machine: int, lifetimes: Sequence[PodLifetime]) -> ReplayedNode:
    uids = [f"{machine:04d}-{lifetime.series:04d}-{lifetime.start:06d}" for lifetime in lifetimes]
    return ReplayedNode(
        name=f"node-{machine}",
        start=float(cpu.times[0]),
        usage={trace.resource: _usage(trace, lifetimes) for trace in (cpu, memory)},
        here={uid: (lifetime.start, lifetime.end) for uid, lifetime in zip(uids, lifetimes, strict=True)},
        pods=[_pod(uid, cpu, memory, lifetime.series) for uid, lifetime in zip(uids, lifetimes, strict=True)],
    )


def _usage(trace: Trace, lifetimes: Sequence[PodLifetime]) -> FloatArray:
    steps = np.arange(trace.steps)
    columns = [np.where((steps >= one.start) & (steps < one.end), trace.usage[:, one.series], 0.0) for one in lifetimes]
    filled: FloatArray = np.nan_to_num(np.stack(columns, axis=1))
    return filled


def _pod(uid: str, cpu: Trace, memory: Trace, series: int) -> PodRef:
    requests: dict[str, int] = {
        trace.resource: round(float(trace.limits[series]) * UNITS[trace.resource]) for trace in (cpu, memory)
    }
    name = cpu.names[series]
    workload = cpu.workloads[series] if cpu.workloads is not None else f"replayed/StatefulSet/{name}"
    return PodRef(uid, "replayed", name, PriorityBand.PROD, QoS.LS, requests, requests, workload=workload)


@dataclass(slots=True)
class OnNode:
    """The pods of the moment: a source of pods, and a collector that measures them."""

    node: ReplayedNode  # whose pods
    synced: bool = True  # the list is complete
    problem: str = ""  # the list is current
    present: list[PodRef] = field(default_factory=list)  # the pods of the moment
    _used: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def pods(self) -> Sequence[PodRef]:
        """As any source of pods answers."""
        return self.present

    async def run(self) -> None:
        """Nothing to follow."""

    def go_to(self, step: int) -> None:
        """Show what there is in a step."""
        before = {pod.uid for pod in self.present}
        places = {pod.uid: place for place, pod in enumerate(self.node.pods)}
        now = self.node.at(step)
        if {pod.uid for pod in now} != before:
            self.present = now
        self._used = {
            name: {pod.uid: float(usage[step, places[pod.uid]]) for pod in self.present}
            for name, usage in self.node.usage.items()
        }

    def collect(self, tick: Tick) -> CollectionResult:
        """What is used at one moment."""
        samples = []
        for name, used in self._used.items():
            samples.append(Sample(name, NODE, tick.now, sum(used.values()) + SYSTEM[name]))
            samples += [Sample(name, uid, tick.now, value) for uid, value in used.items()]
        return CollectionResult(samples, pods_listed=True)


class Agent:
    """The agent of one node, as far as its last training round."""

    def __init__(self, node: ReplayedNode, database: Path) -> None:
        """Start it; it takes over what an earlier one left in the database."""
        self.pods = OnNode(node)  # what is on the node now
        self._start, self._database = node.start, database
        self._pipeline: Pipeline | None = None

    @property
    def pipeline(self) -> Pipeline:
        """Collecting, storing and learning; started when it is first needed."""
        if self._pipeline is None:
            self._pipeline = Pipeline(
                {"replayed": self.pods},
                self.pods,
                StoreFailover(lambda: Tsdb.open(self._database)),
                lambda store: CheckpointedTrainer(store, TrainSettings(STEP_SECONDS, checkpoint_seconds=_SAVE_SECONDS)),
                Metrics(),
            )
        return self._pipeline

    def step(self, step: int, window_days: float) -> float:
        """Measure and learn one step; the time at its end.

        Args:
            step: which one.
            window_days: how far back the policies in force look. [days]

        Raises:
            RuntimeError: a step of the pipeline failed, so what follows would not be what an agent does.
        """
        self.pods.go_to(step)
        pipeline, begin = self.pipeline, self._start + step * STEP_SECONDS
        pipeline.training.trainer.resize_windows(window_days)
        pipeline.store.set_minute_retention(window_days)
        begins_anew = pipeline.training.trainer.trained_until is None
        for offset in FIRST_TICKS if begins_anew else TICKS:
            pipeline.run_once(begin + offset)
        if pipeline.failing:
            raise RuntimeError(f"the agent failed in step {step}: {pipeline.failing}")
        return begin + TICKS[-1]

    def stop(self, now: float) -> None:
        """End it as a rolling update does; the next step starts another one on the same database."""
        if self._pipeline is not None:
            self._pipeline.close(now)
            self._pipeline = None
