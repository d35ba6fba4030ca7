"""One object of a shape that Kubernetes does not allow, among sound ones: it is named, and all others go on as ever."""

import asyncio
import copy
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, cast

from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from crds import names
from headroom.kube import ApiServer, paths
from headroom.kube.events import EventRecorder
from headroom.kube.lease import LeaderElector, LeaderSettings, LeaseFollower
from headroom.runtime.clocks import Clocks
from manager.context import Context, Run
from manager.handlers import node_metric as node_metrics
from manager.handlers import nodes, pods
from manager.metrics import ManagerMetrics
from manager.reconcile.queue import NodeQueue
from manager.settings import Settings
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.plugins.capacity_scheduling import NAME, CapacityScheduling
from scheduler_plugins.plugins.load_aware import NAME as LOAD
from scheduler_plugins.plugins.load_aware import LoadAware
from scheduler_plugins.preemption.controller import Controller
from scheduler_plugins.preemption.evaluator import Evaluator
from scheduler_plugins.preemption.events import PreemptionEventRecorder
from scheduler_plugins.preemption.metrics import PreemptionMetrics
from scheduler_plugins.preemption.pending import Pending
from scheduler_plugins.preemption.settings import PreemptionSettings
from scheduler_plugins.quota.cluster import BUDGETS, ELASTIC_QUOTAS, QuotaCluster
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.watch import NODE_METRICS, ClusterWatch
from tests.fuzz.strength import fuzz
from tests.fuzz.test_scheduler_objects import VALUES, _paths, _with
from tests.scheduler_plugins import objects
from tests.scheduler_plugins.objects import node_metric, pod_metric
from tests.scheduler_plugins.preemption.plays import OURS, QUOTAS, Server
from tests.scheduler_plugins.preemption.worlds import GPU, NOW
from tests.support.objects import LEASE

Json = Any

_PYTHON: Final = ("TypeError", "AttributeError", "KeyError", "IndexError", "UnboundLocalError", "AssertionError")
_WAITS: Final = {
    "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}  # fmt: skip
_SELECTOR: Final = {"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}


def _pod(namespace: str, name: str, gpus: int, spec: Json, status: Json) -> Json:
    metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "resourceVersion": "1"}
    requests = {GPU: str(gpus), "cpu": "1"}
    containers = [{"name": "main", "resources": {"requests": requests}}]
    return {"metadata": metadata, "spec": {"containers": containers, **spec}, "status": status}


def _node(name: str, gpus: int) -> Json:
    has = {GPU: str(gpus), "cpu": "64", "memory": "64Gi", "pods": "110"}
    metadata = {"name": name, "uid": name, "labels": {"host": name}, "annotations": {}, "resourceVersion": "1"}
    taints = [{"key": "odd", "value": "1", "effect": "NoSchedule"}] if name != "n1" else []
    return {"metadata": metadata, "spec": {"taints": taints}, "status": {"allocatable": has, "capacity": has}}


def _quota(namespace: str, least: int) -> Json:
    spec = {"min": {GPU: str(least), "cpu": "8"}, "max": {GPU: "3", "cpu": "64"}}
    return {"metadata": {"name": "q", "namespace": namespace, "uid": f"q-{namespace}"}, "spec": spec}


_SOUND: Final = {
    paths.NODES: [_node("n1", 3)],
    NODE_METRICS: [],
    ELASTIC_QUOTAS: [_quota("a", 1), _quota("b", 2)],
    BUDGETS: [],
    "/api/v1/namespaces": [{"metadata": {"name": each, "labels": {"team": each}}} for each in ("a", "b", "odd")],
    paths.PODS: [
        _pod("a", "a1", 1, {"nodeName": "n1"}, {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}),
        _pod("a", "a2", 1, {"nodeName": "n1"}, {"phase": "Running", "startTime": "2026-01-01T00:00:01Z"}),
        _pod("b", "b1", 2, {"schedulerName": OURS}, {"conditions": [_WAITS]}),
    ],
}
_TERMS: Final = [
    {"topologyKey": "host", "namespaces": ["a", "b"], "namespaceSelector": _SELECTOR, "labelSelector": _SELECTOR}
]
_CONSTRAINED: Final = {
    "schedulerName": OURS,
    "priority": 5,
    "affinity": {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _TERMS},
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _TERMS},
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "host", "operator": "In", "values": ["n2"]}]}]
            }
        },
    },
    "tolerations": [{"key": "odd", "operator": "Exists", "effect": "NoSchedule"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _SELECTOR}
    ],
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    "nodeSelector": {"host": "n2"},
}
_ODD: Final = {
    "bound": (paths.PODS, _pod("odd", "x", 1, {"nodeName": "n2", **_CONSTRAINED}, {"phase": "Running"})),
    "waiting": (paths.PODS, _pod("odd", "x", 1, _CONSTRAINED, {"conditions": [_WAITS], "nominatedNodeName": "n2"})),
    "node": (paths.NODES, _node("n2", 0)),
    "quota": (ELASTIC_QUOTAS, _quota("odd", 0)),
    "budget": (
        BUDGETS,
        {
            "metadata": {"name": "x", "namespace": "odd", "uid": "x"},
            "spec": {"selector": _SELECTOR},
            "status": {"disruptionsAllowed": 1, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}},
        },
    ),
    "metric": (NODE_METRICS, node_metric("n2", pods=[pod_metric()], system={"cpu": "1"})),
}


def _damaged(kind: str) -> st.SearchStrategy[tuple[str, Json]]:
    """The odd object of a kind, with anything in up to three places; it stays who it is."""
    path, original = _ODD[kind]
    kept = [("metadata",), (), *(("metadata", each) for each in ("name", "namespace", "uid", "resourceVersion"))]
    places = st.sampled_from([place for place in _paths(original) if place not in kept])

    def put(edits: list[tuple[tuple[Any, ...], Json]]) -> tuple[str, Json]:
        found = original
        for place, value in edits:
            with suppress(KeyError, IndexError, TypeError):  # an edit before took this place away
                found = _with(found, place, value)
        return path, found

    return st.lists(st.tuples(places, VALUES), min_size=1, max_size=3).map(put)


ODD: Final = st.sampled_from(sorted(_ODD)).flatmap(_damaged)


class _Api(Server):
    """Lists what it is given, and then nothing changes."""

    def __init__(self, listed: dict[str, list[Json]]) -> None:
        super().__init__()
        self.listed = listed
        for each in listed[paths.PODS]:
            metadata = each["metadata"]
            self.pods[f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"] = each
        for each in listed[ELASTIC_QUOTAS]:
            self.quotas.setdefault(each["metadata"]["namespace"], []).append(each)

    async def list(
        self, path: str, _: object = None, keep: Callable[[Json], Any] | None = None
    ) -> tuple[list[Any], str]:
        """All objects of a kind."""
        if path in {QUOTAS.format(namespace) for namespace in ("a", "b", "odd")}:
            return await super().list(path)  # type: ignore[return-value]
        return [keep(each) if keep else each for each in self.listed.get(path, [])], "5"

    @asynccontextmanager
    async def stream(self, *_: object) -> AsyncIterator[Any]:
        """Never says anything."""
        await asyncio.Event().wait()
        yield None


class _Said(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")


@contextmanager
def _listening() -> Iterator[list[str]]:
    """What the log is told; no line of it is for Python's eyes alone."""
    said = _Said()
    logging.getLogger().addHandler(said)
    try:
        yield said.lines
    finally:
        logging.getLogger().removeHandler(said)
    for line in said.lines:
        assert not line.startswith("ERROR"), line
        assert not any(word in line for word in _PYTHON), line
        assert "odd/x" in line or "n2" in line or "q-odd" in line or "odd/q" in line, line


async def _synced(watch: ClusterWatch) -> None:
    task = asyncio.create_task(watch.run())
    while not watch.synced and not task.done():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _reclaimed(listed: dict[str, list[Json]]) -> tuple[Any, ...]:
    """What becomes of the sound objects: verdicts, charges, and who is evicted."""
    plugins = {NAME: CapacityScheduling(), LOAD: LoadAware(allow_customize_estimation=True)}
    cache = ClusterCache(plugins[LOAD].load_rules(), plugins)  # type: ignore[attr-defined]
    cluster = cast("QuotaCluster", cache.plugin_states[NAME])
    cluster.present = lambda _: NOW
    api, settings, metrics = _Api(listed), PreemptionSettings(), PreemptionMetrics(CollectorRegistry())
    typed = cast("ApiServer", api)
    pending, leader = Pending(frozenset({OURS}), lambda _: None), LeaseFollower(typed, LEASE, "me")
    leader.leads = lambda: True  # type: ignore[method-assign]
    cycle = Cycle([Enabled(LOAD, 1.0, plugins[LOAD])])
    judge = Evaluator(cluster, cache, cycle, settings, metrics)
    steady = NOW
    clocks = Clocks(lambda: NOW, lambda: steady)
    teller = PreemptionEventRecorder(EventRecorder(typed, OURS))
    controller = Controller(settings, judge, pending, typed, leader, teller, metrics, clocks)
    for _ in range(3):
        await _synced(ClusterWatch(typed, cache, lambda: NOW, [pending]))
        await controller.reconcile()
        steady += 6
    whole = Cycle([Enabled(name, 1.0, each) for name, each in plugins.items()])
    answers = []
    for asked in (objects.pod("q", {"cpu": "1"}, namespace="a"), _SOUND[paths.PODS][2]):
        request, found = cache.read(asked), cache.freeze(NOW)
        verdict = whole.filter(request, found)
        answers.append(verdict.refusal(list(found.names).index("n1")))
    return api.evicted, cluster.ledger.bound("a"), cluster.ledger.bound("b"), answers


@fuzz(odd=ODD)
def test_reclaim_goes_on(odd: tuple[str, Json]) -> None:
    """Verdicts, charges and evictions of sound pods are the same whatever the odd object holds."""
    path, item = odd
    listed = copy.deepcopy(_SOUND)
    listed[path].append(item)
    with _listening():
        found = asyncio.run(_reclaimed(listed))
    assert found == asyncio.run(_reclaimed(copy.deepcopy(_SOUND)))
    assert found[0] == ["a2"]


async def _managed(listed: dict[str, list[Json]]) -> Context:
    context, api = Context(Settings(), ManagerMetrics()), cast("ApiServer", _Api(listed))
    leader = LeaderElector(api, LEASE, "a", LeaderSettings(enabled=False), lambda: 0.0, lambda: None)
    run = Run(context, api, NodeQueue(0.0, lambda: 0.0), leader, EventRecorder(api, "headroom-manager"))
    for each in listed[paths.NODES]:
        nodes.observe(run, "ADDED", each)
    await node_metrics.read(run)
    task = asyncio.create_task(pods.follow(run))
    while not context.cluster.pods_synced and not task.done():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return context


@fuzz(odd=ODD)
def test_manager_goes_on(odd: tuple[str, Json]) -> None:
    """The manager knows the sound Nodes, NodeMetrics and pods as ever."""
    path, item = odd
    listed = copy.deepcopy(_SOUND)
    listed[NODE_METRICS].append(node_metric("n1", cpu="1"))
    listed[path].append(item)
    with _listening():
        cluster = asyncio.run(_managed(listed)).cluster
    assert {"n1"} <= cluster.nodes.keys()
    assert "n1" in cluster.node_metrics
    assert sorted(pod.key for pod in cluster.pods_on("n1")) == ["a/a1", "a/a2"]
    assert names.MID_CPU not in cluster.nodes["n1"]["status"]["allocatable"]
