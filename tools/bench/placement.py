"""Hot node-hours by scheduler: a simulated week of recorded usage, placed in five ways.

Nodes have 32 cores; a pod follows the CPU of a virtual machine of the trace from a random time on, and requests 1.5
times the mean of that series. Pods live for a day on average, and new ones come while less than a share of all cores
is requested. Each step is five minutes: nodes report the mean of the last step, taints change, and pods are placed one
by one on the node that fits and has the smallest requested share, as NodeResourcesFit scores it. Memory is left out.

- hotNodes: the manager's own decision (`manager.hot_nodes`); an untainted node is preferred, or required.
- extender: the extender's own code (`scheduler_plugins.extender`), mode shortlist, with LoadAwareScheduling.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headroom.cluster.typed_pod import typed_pod
from kubectl_headroom.backtest import sources
from manager.hot_nodes.decision import Hold, Places, decide
from manager.hot_nodes.load import HotSettings, Load
from manager.inputs import Amounts, Resource
from scheduler_plugins.extender.service import Answering, Extender
from scheduler_plugins.extender.wire import Arguments
from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.profile.load import parse_profile
from scheduler_plugins.snapshot.cache import ClusterCache
from tools.bench import data
from tools.bench.objects import moment
from tools.bench.rows import Table

CORES: Final = 32.0
NODES, DAYS, SEEDS = 24, 7, (0, 1, 2)
QUICK_NODES, QUICK_DAYS = 6, 1
FILLS: Final = (0.6, 0.8)  # requested share of all cores
REQUEST: Final = 1.5  # request over mean usage
LARGEST: Final = 4.0  # largest mean usage of a pod [cores]
SMALLEST: Final = 0.05
LIFE_SECONDS: Final = 86_400.0
STEP: Final = 300.0
THRESHOLD: Final = 0.65
STOCK, EXTENDER = "default scheduler", "extender"
HOT_NODES: Final = {
    "hotNodes prefer": HotSettings(mode="prefer"),
    "hotNodes noSchedule": HotSettings(mode="noSchedule"),
    "hotNodes prefer, above 50 %, half of the nodes": HotSettings(
        mode="prefer", thresholds=Amounts(50, 95), max_nodes_percent=50
    ),
}
ARMS: Final = (STOCK, *HOT_NODES, EXTENDER)
_START: Final = 1_800_000_000.0
_PROFILE: Final = (
    "{apiVersion: headroom.dev/v1alpha1, kind: HeadroomSchedulerConfiguration, plugins: [{name: LoadAwareScheduling}]}"
)
HEAD: Final = (
    "nodes",
    "requested",
    "scheduler",
    "node-hours above 65 % [%]",
    "node usage, p99 [%]",
    "wait [pod-hours]",
)

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Pod:
    """A pod, which uses what its series has."""

    number: int
    usage: Floats  # in each step of the simulation [cores]
    request: float  # [cores]
    end: int  # the step before which it ends, once it is placed

    @property
    def uid(self) -> str:
        return f"{self.number:08d}"


@dataclass(slots=True)
class Fleet:
    """Nodes and their pods."""

    nodes: int
    pods: dict[int, dict[int, Pod]] = field(default_factory=dict)
    requested: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        self.pods = {node: {} for node in range(self.nodes)}
        self.requested = np.zeros(self.nodes)

    def usage(self, step: int) -> Floats:
        """The usage of every node, at most all of it, shape (N,). [cores]"""
        total = [sum(pod.usage[step] for pod in pods.values()) for pods in self.pods.values()]
        return np.minimum(np.array(total, np.float64), CORES)

    def put(self, pod: Pod, node: int) -> None:
        self.pods[node][pod.number] = pod
        self.requested[node] += pod.request

    def end(self, step: int) -> list[Pod]:
        """Remove the pods that end before a step."""
        ended = [(node, pod) for node, pods in self.pods.items() for pod in pods.values() if pod.end <= step]
        for node, pod in ended:
            del self.pods[node][pod.number]
            self.requested[node] -= pod.request
        return [pod for _, pod in ended]


class DefaultScheduler:
    """The node that fits and has the smallest requested share; equal ones by lot."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self.fleet = fleet
        self.lot = np.random.default_rng(seed)

    def report(self, step: int, usage: Floats) -> None:
        """Take the usage of all nodes."""

    def ended(self, pods: Sequence[Pod]) -> None:
        """Forget pods."""

    def choose(self, pod: Pod, step: int) -> int | None:
        """The node of a pod; None where none may have it."""
        rows = self.allowed(pod, step, np.flatnonzero(self.fleet.requested + pod.request <= CORES))
        if not len(rows):
            return None
        score = np.floor(100.0 * (CORES - self.fleet.requested[rows] - pod.request) / CORES)
        return int(self.lot.choice(rows[score == score.max()]))

    def allowed(self, pod: Pod, step: int, rows: NDArray[np.intp]) -> NDArray[np.intp]:  # noqa: ARG002 - for others
        """The nodes among which the scores decide."""
        return rows


class WithHotNodes(DefaultScheduler):
    """The same beside the manager, which taints hot nodes."""

    def __init__(self, fleet: Fleet, seed: int, settings: HotSettings) -> None:
        super().__init__(fleet, seed)
        self.settings = settings
        self.holds = [Hold() for _ in range(fleet.nodes)]
        self.places, self.tainted = Places(), set[str]()

    def report(self, step: int, usage: Floats) -> None:
        """Decide about every node, in random order."""
        now = step * STEP
        for node in self.lot.permutation(self.fleet.nodes).tolist():
            load = Load(self.settings, {Resource.CPU: int(usage[node] / CORES * 100 + 0.5)}, expires_in=900.0)
            self.holds[node].observe(load, now)
            name = str(node)
            verdict = decide(name, load, self.holds[node], self.places, self.tainted, self.fleet.nodes, now)
            (self.tainted.add if verdict.marked else self.tainted.discard)(name)

    def allowed(self, pod: Pod, step: int, rows: NDArray[np.intp]) -> NDArray[np.intp]:  # noqa: ARG002
        """Untainted nodes; under prefer any node where no untainted one fits."""
        free = np.array([row for row in rows if str(row) not in self.tainted], np.intp)
        return rows if self.settings.mode == "prefer" and not len(free) else free


class WithExtender(DefaultScheduler):
    """The same with the extender's shortlist."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        super().__init__(fleet, seed)
        profile = parse_profile(_PROFILE, "placement")
        self.now = _START
        plugins = {part.name: part.plugin for part in profile.enabled}
        self.cache = ClusterCache(profile.load_rules, plugins, steady=lambda: self.now)
        cycle = Cycle(profile.enabled)
        self.extender = Extender(self.cache, cycle, Answering(), lambda: self.now, self.lot)
        for node in range(fleet.nodes):
            allocatable = {"cpu": str(int(CORES)), "memory": "1024Gi", "pods": "1000"}
            self.cache.put_node({"metadata": {"name": str(node)}, "status": {"allocatable": allocatable}})

    def report(self, step: int, usage: Floats) -> None:
        """Give the extender the NodeMetrics of the last step."""
        self.now = _START + step * STEP
        for node in range(self.fleet.nodes):
            pods = [
                {"namespace": "shop", "name": pod.uid, "podUsage": _resources(pod.usage[max(step - 1, 0)])}
                for pod in self.fleet.pods[node].values()
            ]
            status = {"updateTime": moment(self.now), "nodeMetric": {"nodeUsage": _resources(usage[node])}}
            self.cache.put_node_metric({"metadata": {"name": str(node)}, "status": {**status, "podsMetric": pods}})

    def ended(self, pods: Sequence[Pod]) -> None:
        """Have the extender forget pods."""
        for pod in pods:
            self.cache.delete_pod(pod.uid)

    def choose(self, pod: Pod, step: int) -> int | None:
        """The node of a pod, which is then bound to it."""
        node = super().choose(pod, step)
        if node is not None:
            self.cache.put_pod(typed_pod(_manifest(pod, self.now, str(node))), self.now)
        return node

    def allowed(self, pod: Pod, step: int, rows: NDArray[np.intp]) -> NDArray[np.intp]:  # noqa: ARG002
        """The nodes of the extender's answer."""
        answer = self.extender.filter(Arguments(typed_pod(_manifest(pod, self.now)), [str(row) for row in rows]))
        return np.array([int(name) for name in answer.names], np.intp)


def _resources(cores: float) -> dict[str, Any]:
    return {"resources": {"cpu": f"{cores * 1000:.0f}m", "memory": "1Mi"}}


def _manifest(pod: Pod, now: float, node: str = "") -> dict[str, Any]:
    resources = {"requests": {"cpu": f"{pod.request * 1000:.0f}m", "memory": "1Mi"}}
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment(now)}
    return {
        "metadata": {"name": pod.uid, "namespace": "shop", "uid": pod.uid, "resourceVersion": pod.uid + node},
        "spec": {"containers": [{"name": "c", "resources": resources}], **({"nodeName": node} if node else {})},
        "status": {"phase": "Running" if node else "Pending", "conditions": [bound] if node else []},
    }


class Population:
    """Pods without end, the same for every scheduler."""

    def __init__(self, usage: Floats, steps: int, seed: int) -> None:
        self._usage, self._steps = usage, steps
        self._lot = np.random.default_rng(seed)
        self._count = 0

    def pod(self, step: int, *, first: bool) -> Pod:
        """The next pod; one of the first has lived for a while."""
        series = int(self._lot.integers(self._usage.shape[1]))
        shift = int(self._lot.integers(len(self._usage)))
        life = self._lot.exponential(LIFE_SECONDS) * (self._lot.random() if first else 1.0)
        self._count += 1
        usage = np.roll(self._usage[:, series], -shift)[: self._steps + 1]
        request = REQUEST * float(self._usage[:, series].mean())
        return Pod(self._count, usage, request, step + max(round(life / STEP), 1))


@dataclass(slots=True)
class Outcome:
    """The week of one scheduler."""

    shares: list[Floats] = field(default_factory=list)  # usage of the nodes in each step, as a share of all cores
    waited_steps: int = 0  # pods that waited, summed over the steps


def run(arm: str, usage: Floats, fill: float, nodes: int, days: int, seed: int) -> Outcome:
    """Simulate a number of days with one scheduler."""
    steps, fleet, outcome = round(days * 86_400 / STEP), Fleet(nodes), Outcome()
    population, waiting = Population(usage, steps, seed), list[Pod]()
    scheduler = _scheduler(arm, fleet, seed)
    for step in range(steps):
        scheduler.ended(fleet.end(step))
        scheduler.report(step, fleet.usage(max(step - 1, 0)))
        wanted = fleet.requested.sum() + sum(pod.request for pod in waiting)
        while wanted < fill * nodes * CORES:
            pod = population.pod(step, first=step == 0)
            waiting.append(pod)
            wanted += pod.request
        waiting = [pod for pod in waiting if not _placed(scheduler, fleet, pod, step)]
        outcome.waited_steps += len(waiting)
        outcome.shares.append(fleet.usage(step) / CORES)
    return outcome


def _scheduler(arm: str, fleet: Fleet, seed: int) -> DefaultScheduler:
    if arm == EXTENDER:
        return WithExtender(fleet, seed)
    return WithHotNodes(fleet, seed, HOT_NODES[arm]) if arm in HOT_NODES else DefaultScheduler(fleet, seed)


def _placed(scheduler: DefaultScheduler, fleet: Fleet, pod: Pod, step: int) -> bool:
    """Place a pod, if a node may have it; a pod that waited lives as long as the others."""
    node = scheduler.choose(pod, step)
    if node is not None:
        fleet.put(pod, node)
    else:
        pod.end += 1
    return node is not None


def measure(*, quick: bool = False) -> Iterator[Table]:
    """Simulate each scheduler with the same pods."""
    (trace,) = sources.read("trace", [str(data.BITBRAINS)], sources.Options(resources=("cpu",)), lambda *_: None)
    usage = np.nan_to_num(trace.usage)
    means = usage.mean(axis=0)
    usage = usage[:, (means >= SMALLEST) & (means <= LARGEST)]
    nodes, days, seeds = (QUICK_NODES, QUICK_DAYS, SEEDS[:1]) if quick else (NODES, DAYS, SEEDS)
    rows = [HEAD]
    for fill in FILLS[:1] if quick else FILLS:
        for arm in ARMS:
            results = [run(arm, usage, fill, nodes, days, seed) for seed in seeds]
            rows.append((str(nodes), f"{fill:.0%}", arm, *_figures(results)))
    title = f"{days} days of {usage.shape[1]} series, {len(seeds)} populations of pods, mean ± deviation over these:"
    yield Table(title, rows)


def _figures(results: Sequence[Outcome]) -> tuple[str, str, str]:
    shares = [np.concatenate(result.shares) for result in results]
    hot = [float((share > THRESHOLD).mean() * 100) for share in shares]
    high = [float(np.percentile(share, 99) * 100) for share in shares]
    waits = [result.waited_steps * STEP / 3600 for result in results]
    return _spread(hot), _spread(high), _spread(waits)


def _spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.1f} ± {np.std(values):.1f}"
