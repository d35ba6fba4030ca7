"""A small cluster for the tests of requeuing, with a plugin that rejects full nodes and a clock that is set."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from prometheus_client import CollectorRegistry

from headroom.kube import ApiError, ApiServer, ApiUnavailable
from headroom.runtime.clocks import Clocks
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.framework.plugin import LoadAccounting
from scheduler_plugins.framework.verdict import PASSES, Refusal, Verdict
from scheduler_plugins.requeue.metrics import RequeueMetrics
from scheduler_plugins.requeue.requeuer import Requeuer
from scheduler_plugins.requeue.settings import RequeueSettings
from scheduler_plugins.requeue.unschedulable import UnschedulablePods
from scheduler_plugins.snapshot.arrays import FloatArray, Nodes, NodeState
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.pod import PodRequest
from tests.scheduler_plugins.objects import NOW, Json, at, node, pod

HOT = "node(s) hot"


@dataclass(frozen=True)
class FreeCpu:
    """Rejects nodes if load, pods in flight and the pod exceed the CPU in the annotation `free`."""

    by_time: bool = False
    """True if the annotation is the time from which on the node admits every pod."""

    def dtype(self) -> np.dtype[Any]:
        return np.dtype([("free", np.float64)])

    def record(self, node: NodeState) -> tuple[Any, ...]:
        return (float(node.annotations.get("free", "0")),)

    def filter(self, pod: PodRequest, nodes: Nodes) -> Verdict:
        free = nodes.tables["FreeCpu"]["free"]
        fits = nodes.now >= free if self.by_time else nodes.in_flight[:, 0] + pod.estimate[0] <= free
        return Verdict(np.where(fits, PASSES, 0), [Refusal(HOT)])

    def score(self, _pod: PodRequest, nodes: Nodes) -> FloatArray:
        return np.clip(nodes.tables["FreeCpu"]["free"] / 100, 0, 100)

    def explain(self, _pod: PodRequest, nodes: Nodes) -> Sequence[Mapping[str, Any]]:
        return [{"binding": f"{free:g} milli-cores are free"} for free in nodes.tables["FreeCpu"]["free"]]


@dataclass
class FakeApi:
    patches: list[tuple[str, Any]] = field(default_factory=list)
    failures: dict[str, Exception] = field(default_factory=dict)
    """Errors by the end of the pod's path; "" for all."""

    async def patch(self, path: str, body: dict[str, Any], content_type: str = "") -> Any:  # noqa: ANN401 - JSON
        await asyncio.sleep(0)
        assert content_type == "application/merge-patch+json"
        self.patches.append((path, body))
        pod, _, subresource = path.rpartition("/")
        assert subresource == "status"  # a right that excludes the pod's spec
        for end, error in self.failures.items():
            if pod.endswith(end):
                raise error
        return body

    @property
    def names(self) -> list[str]:
        return [path.removesuffix("/status").rpartition("/")[2] for path, _ in self.patches]


def forbidden() -> ApiError:
    said = 'pods "p" is forbidden: User "x" cannot patch resource "pods/status" in API group ""'
    return ApiError(403, "Forbidden", said)


def overloaded(retry_after: float | None = None) -> ApiUnavailable:
    return ApiUnavailable("too many requests", status=429, retry_after=retry_after)


class Site:
    def __init__(
        self, settings: RequeueSettings | None = None, plugin: object | None = None, name: str = "FreeCpu"
    ) -> None:
        self.now = NOW
        self.set_back = 0.0
        plugin = plugin or FreeCpu()
        rules = LoadRules(factors={"cpu": 100, "memory": 100})
        if isinstance(plugin, LoadAccounting):
            rules = plugin.load_rules()
        self.cache = ClusterCache(rules, {name: plugin})
        self.cycle = Cycle([Enabled(name, 1.0, plugin)])
        self.settings = settings or RequeueSettings()
        self.unschedulable = UnschedulablePods(self.settings.most_pods, self.cache, self.cycle, self.monotonic)
        self.api = FakeApi()
        self.metrics = RequeueMetrics(CollectorRegistry())
        api, clocks = cast("ApiServer", self.api), Clocks(self.clock, self.monotonic)
        self.requeuer = Requeuer(self.unschedulable, self.cache, self.cycle, api, self.settings, self.metrics, clocks)
        self.pods: dict[str, Json] = {}

    @classmethod
    def refusing(cls, *names: str, settings: RequeueSettings | None = None, cpu: str = "1") -> "Site":
        """Return a site with the full node `a`, and pods that were rejected there."""
        site = cls(settings)
        site.set_free(a=0)
        site.refuse(*names, cpu=cpu)
        return site

    def clock(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now + self.set_back

    def set_clock_back(self, seconds: float) -> None:
        self.now -= seconds
        self.set_back += seconds

    def set_free(self, **milli: float) -> None:
        for name, amount in milli.items():
            self.cache.put_node(node(name.replace("_", "-"), annotations={"free": str(amount)}))

    def admits(self, item: Json, *names: str) -> bool:
        """Send a pod and some nodes, as kube-scheduler does. Return True if a node admits it."""
        self.pods[item["metadata"]["name"]] = item
        request = self.cache.read(item)
        self.cache.release(request.uid)
        nodes = self.cache.freeze(self.now).select(names or tuple(self.cache.nodes))[0]
        verdict = self.cycle.filter(request, nodes)
        passing = np.flatnonzero(verdict.passes)
        if len(passing):
            self.cache.charge(request, [nodes.names[int(passing[0])]], self.now)
            return True
        self.refused(request, item, nodes.names, verdict)
        return False

    def refused(self, pod: PodRequest, item: Json, names: Sequence[str], _: Verdict) -> None:
        self.unschedulable.refused(pod, item, names)

    def refuse(self, *names: str, on: Sequence[str] = (), cpu: str = "1", created: float = 0, **spec: Any) -> None:  # noqa: ANN401
        for name in names:
            assert not self.admits(new_pod(name, cpu, created, **spec), *on)

    def retry(self, *names: str) -> list[bool]:
        return [self.admits(self.pods[name]) for name in names]

    async def reconcile(self, after: float = 1.0) -> list[str]:
        """Let time pass and run one round of the requeuer; return the names of the requeued pods."""
        self.now += after
        return [key.partition("/")[2] for key in await self.requeuer.reconcile()]

    async def story(self, rounds: int = 60) -> list[str]:
        """Run rounds in which kube-scheduler sends each requeued pod; return the names of those, in order."""
        result = []
        for _ in range(rounds):
            names = await self.reconcile()
            self.retry(*names)
            result += names
        return result

    def counted(self, name: str, **labels: str) -> float:
        return _sample(self.metrics, name, labels)


def _sample(metrics: RequeueMetrics, name: str, labels: Mapping[str, str]) -> float:
    families = [family for metric in vars(metrics).values() for family in metric.collect()]
    wanted = f"headroom_scheduler_{name}"
    samples = [sample for family in families for sample in family.samples if sample.name == wanted]
    return sum(float(sample.value) for sample in samples if sample.labels == dict(labels))


def new_pod(name: str, cpu: str = "1", created: float = 0, **spec: Any) -> Json:  # noqa: ANN401 - any field of a PodSpec
    item = pod(name, {"cpu": cpu}, **spec)
    item["metadata"]["creationTimestamp"] = at(created)
    return item
