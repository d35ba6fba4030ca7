"""Malformed objects are named, and all others are processed as before."""

import asyncio
import copy
import json
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from logging.handlers import BufferingHandler
from typing import Any, Final, cast

import msgspec
import numpy as np
import pytest
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from crds import names
from headroom.cluster.typed_pod import typed_pod
from headroom.kube import ApiServer
from headroom.kube.decoding import Decode
from headroom.kube.events import EventRecorder
from headroom.kube.lease import LeaseFollower
from headroom.runtime.clocks import Clocks
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.plugins.capacity_scheduling import NAME as QUOTAS
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling
from scheduler_plugins.plugins.load_aware import NAME as LOAD
from scheduler_plugins.plugins.load_aware import LoadAware
from scheduler_plugins.plugins.mid_resources import NAME as MID
from scheduler_plugins.plugins.mid_resources import MidResources
from scheduler_plugins.preemption.controller import Controller
from scheduler_plugins.preemption.evaluator import Evaluator
from scheduler_plugins.preemption.events import PreemptionEventRecorder
from scheduler_plugins.preemption.metrics import PreemptionMetrics
from scheduler_plugins.preemption.pending import Pending
from scheduler_plugins.preemption.settings import PreemptionSettings
from scheduler_plugins.quota.amounts import UNLIMITED
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.watch import ClusterWatch
from tests.fuzz.inputs import SCALARS, Json, altered, json_texts, kernel_texts
from tests.fuzz.originals import SOUND
from tests.fuzz.strength import are_lines, fuzz
from tests.support.api import FakeApi
from tests.support.objects import LEASE

CLUSTER, BOUND = SOUND["cluster"], SOUND["malformed"]["pods"]
WAITING = {**BOUND, "spec": {key: value for key, value in BOUND["spec"].items() if key != "nodeName"}}
MALFORMED = {**SOUND["malformed"], "waiting pods": WAITING}
OURS: Final = "headroom-scheduler"
NOW: Final = 1_735_689_600.0
KEPT: Final = frozenset(
    {(), ("metadata",), *(("metadata", key) for key in ("name", "namespace", "uid", "resourceVersion"))}
)
PYTHON: Final = re.compile("TypeError|AttributeError|KeyError|IndexError|UnboundLocalError|AssertionError")
THEIRS: Final = re.compile("malformed/x|n2|q-malformed|malformed/q")
HOLD: Final = {"node": "n1", "until": NOW + 60, "victims": ["u"], "attempt": 1}


class Scheduler:
    """A cache with all plugins, and a valid cluster beside the malformed objects."""

    def __init__(self) -> None:
        load = LoadAware(use_prediction=True, allow_customize_estimation=True, supported_resources=("gpu",)).defaulted()
        plugins = {LOAD: load, MID: MidResources(), QUOTAS: CapacityScheduling()}
        self.cache = ClusterCache(load.load_rules(), plugins)
        self.quotas = cast("QuotaCluster", self.cache.plugin_states[QUOTAS])
        self.quotas.present = lambda _: NOW
        self.cycle = Cycle([Enabled(name, 1.0, each) for name, each in plugins.items()])

    def put(self, kind: str, item: Json) -> None:
        cache, quotas = self.cache, self.quotas
        puts: dict[str, tuple[Callable[[Json], object], ...]] = {
            "nodes": (cache.put_node, quotas.put_node),
            "nodemetrics": (cache.put_node_metric,),
            "pods": (lambda pod: cache.put_pod(typed_pod(pod), now=NOW),),
            "elasticquotas": (quotas.put_quota,),
            "poddisruptionbudgets": (quotas.put_budget,),
        }
        for put in puts.get(kind, ()):
            put(item)

    def answers(self) -> list[str | None]:
        """Return why pods may not go to node n1, one of each namespace; each node has a finite score for each pod."""
        result = []
        for waits in (CLUSTER["pods"][2], {**CLUSTER["pods"][0], "spec": {"containers": [], "priority": 9500}}):
            request, nodes = self.cache.read(waits), self.cache.freeze(NOW)
            verdict, scores = self.cycle.filter(request, nodes), self.cycle.score(request, nodes)
            assert len(verdict.refused) == len(scores) == len(nodes.names)
            assert np.isfinite(scores).all()
            json.dumps(self.cycle.explain(request, nodes), allow_nan=False)
            refusal = verdict.refusal(list(nodes.names).index("n1"))
            result.append(None if refusal is None else str(refusal))
        are_lines(*(entry for entry in result if entry is not None))
        return result

    def charges_are_right(self) -> None:
        ledger = self.quotas.ledger
        due: dict[str, Counter[str]] = {namespace: Counter() for namespace in ledger.namespaces}
        for pod in self.quotas.pods.values():
            if pod.charged:
                due.setdefault(pod.namespace, Counter()).update(pod.charge)
        assert {namespace: Counter(ledger.bound(namespace)) for namespace in due} == due  # a 0 is as good as nothing
        for entry in ledger.in_force:
            entry.reported(ledger.bound(entry.namespace))
            assert all(type(item) is int and item <= UNLIMITED for item in (*entry.min.values(), *entry.max.values()))
        self.quotas.holding(NOW)


def sound_scheduler() -> Scheduler:
    scheduler = Scheduler()
    for kind, items in CLUSTER.items():
        for item in items:
            scheduler.put(kind, item)
    return scheduler


def malformed_object(data: st.DataObject, malformed: str) -> tuple[str, Json]:
    """Its kind and itself, with anything in some places; it stays who it is, as the API server sees to that."""
    return malformed.rsplit(maxsplit=1)[-1], data.draw(altered(MALFORMED[malformed], kept=KEPT))


@pytest.mark.parametrize("malformed", MALFORMED)
@fuzz(data=st.data())
def test_cache_takes_an_object_or_keeps_the_last_good_one(malformed: str, data: st.DataObject) -> None:
    """Whatever an object changes to, pods are evaluated and charged rightly; nothing is left when it is gone."""
    kind, item = malformed_object(data, malformed)
    scheduler = sound_scheduler()
    answers, charged = scheduler.answers(), dict(scheduler.quotas.pods)
    scheduler.put(kind, MALFORMED[malformed])
    quota, before = scheduler.quotas.ledger.quota("malformed"), dict(scheduler.quotas.pods)
    ledger = scheduler.cache.ledger("n2")
    load = None if ledger is None else ledger.load()
    try:
        scheduler.put(kind, item)
    except Exception:  # noqa: BLE001 - the watch isolates it, whatever it is
        ledger = scheduler.cache.ledger("n2")
        assert (None if ledger is None else ledger.load()) == load
        assert (scheduler.quotas.ledger.quota("malformed"), scheduler.quotas.pods) == (quota, before)
    assert scheduler.answers() == answers
    scheduler.charges_are_right()
    scheduler.cache.delete_pod("malformed/x")
    assert scheduler.quotas.pods == charged
    ledger = scheduler.cache.ledger("n2")
    sums = None if ledger is None else ledger.sums
    assert sums is None or not any(sums.node_delta + sums.estimated + sums.prod_delta + sums.unreported)


@fuzz(
    text=json_texts(HOLD)
    | kernel_texts(json.dumps(HOLD))
    | SCALARS.map(lambda until: json.dumps(HOLD | {"until": until})),
    placed=st.booleans(),
)
def test_hold_lasts_for_some_time_at_most(text: str, *, placed: bool) -> None:
    """Any content of the annotation, and of its condition, leaves the pod's charge unchanged."""
    item = copy.deepcopy(CLUSTER["pods"][0])
    item["metadata"] |= {"uid": "a/h", "annotations": {names.ANNOTATION_RECLAIM_HOLD: text}}
    item["status"] = {"conditions": [{"type": names.CONDITION_RESERVED, "status": "True", "message": text}]}
    if not placed:
        del item["spec"]["nodeName"]
        item["status"]["nominatedNodeName"] = "n1"
    scheduler = sound_scheduler()
    scheduler.put("pods", item)
    assert scheduler.quotas.ledger.bound("a")["cpu"] == (3000 if placed else 2000)
    assert len(scheduler.quotas.nominations(NOW)) == (0 if placed else 1)
    hold = Hold.of_pod(item)
    assert hold is None or not hold.lasts(hold.until)
    scheduler.charges_are_right()


class Api(FakeApi):
    """Lists fixed objects; then nothing changes."""

    def __init__(self, *malformed: tuple[str, Json]) -> None:
        super().__init__()
        for kind, item in (*((kind, item) for kind, items in CLUSTER.items() for item in items), *malformed):
            group = {
                "elasticquotas": "apis/scheduling.x-k8s.io/v1alpha1", "nodemetrics": "apis/slo.koordinator.sh/v1alpha1",
                "poddisruptionbudgets": "apis/policy/v1",
            }.get(kind, "api/v1")  # fmt: skip
            namespace = item["metadata"].get("namespace")
            where = f"namespaces/{namespace}/{kind}" if namespace else kind
            self.objects[f"/{group}/{where}/{item['metadata']['name']}"] = copy.deepcopy(item)

    async def list(
        self,
        path: str,
        _params: Any = None,  # noqa: ANN401 - JSON
        keep: Any = None,  # noqa: ANN401 - JSON
        decode: Decode | None = None,
    ) -> tuple[list[Any], str]:
        folders = {where: where.rpartition("/")[0] for where in self.objects}
        result = [
            copy.deepcopy(self.objects[where])
            for where, folder in folders.items()
            if path in (folder, re.sub("/namespaces/[^/]+", "", folder))
        ]
        objects = result if decode is None else [decode(msgspec.Raw(msgspec.json.encode(entry))) for entry in result]
        return objects if keep is None else [keep(item) for item in objects], "5"

    @asynccontextmanager
    async def stream(self, *_: object) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield None


@contextmanager
def only_the_malformed_object_is_named() -> Iterator[None]:
    """No line of the log is an error, or for Python's eyes alone."""
    warned = BufferingHandler(10**6)
    warned.setLevel(logging.WARNING)
    logging.getLogger().addHandler(warned)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(warned)
    for record in warned.buffer:
        assert record.levelno < logging.ERROR, record
        assert THEIRS.search(record.getMessage()), record
        assert not PYTHON.search(record.getMessage()), record


async def run_until(task: "asyncio.Task[Any]", done: Any) -> None:  # noqa: ANN401 - a callable
    while not done() and not task.done():  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def reclaimed(*malformed: tuple[str, Json]) -> tuple[Any, ...]:
    """The outcome of the valid objects: victims, charges, and verdicts."""
    scheduler, api = Scheduler(), Api(*malformed)
    typed, settings, metrics = cast("ApiServer", api), PreemptionSettings(), PreemptionMetrics(CollectorRegistry())
    pending, leader = Pending(frozenset({OURS}), lambda _: None), LeaseFollower(typed, LEASE, "me")
    leader.leads = lambda: True  # type: ignore[method-assign]
    evaluator = Evaluator(scheduler.quotas, scheduler.cache, Cycle([]), settings, metrics)
    steady = NOW
    clocks, events = Clocks(lambda: NOW, lambda: steady), PreemptionEventRecorder(EventRecorder(typed, OURS))
    controller = Controller(settings, evaluator, pending, typed, leader, events, metrics, clocks)
    for _ in range(3):
        watch = ClusterWatch(typed, scheduler.cache, lambda: NOW, [pending])
        await run_until(asyncio.create_task(watch.run()), lambda: watch.synced)  # noqa: B023 - done before the next
        await controller.reconcile()
        steady += 6
    evicted = [request["metadata"]["name"] for request in api.written("POST", "/eviction")]
    bound = scheduler.quotas.ledger.bound
    return evicted, dict(bound("a")), dict(bound("b")), scheduler.answers()


@pytest.mark.parametrize("malformed", MALFORMED)
@fuzz(data=st.data())
def test_reclaim_goes_on(malformed: str, data: st.DataObject) -> None:
    with only_the_malformed_object_is_named():
        result = asyncio.run(reclaimed(malformed_object(data, malformed)))
    assert result == asyncio.run(reclaimed())
    assert result[0] == ["a2"]
