"""Updates of the cache from watches, also with objects that Kubernetes rejects; the rest: tests/headroom/kube."""

import json
from typing import Any

import pytest

from crds import quantity
from headroom.cluster import pod as crds_pod
from headroom.cluster.typed_pod import MalformedPod, typed_pod
from headroom.kube import Changed, Relisted, paths
from headroom.runtime.http import Request
from scheduler_plugins.extender.debug import NodePage
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling
from scheduler_plugins.preemption.controller import Controller
from scheduler_plugins.preemption.evaluator import Evaluator
from scheduler_plugins.preemption.hold_reconciler import HoldReconciler
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.watch import NODE_METRICS
from tests.scheduler_plugins.following import Change, follow, watched
from tests.scheduler_plugins.objects import NOW, Json, World, node, node_metric, pod, pod_metric
from tests.scheduler_plugins.preemption.plays import Play


@pytest.mark.parametrize(("nodes", "seconds"), [(999, 0.0), (1000, 0.05)])
def test_changes_wait_in_large_clusters(nodes: int, seconds: float) -> None:
    world = World()
    for number in range(nodes):
        world.cache.put_node(node(f"n{number}"))
    assert watched(world.cache)._gather() == seconds


async def test_changes_reach_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    await follow(
        world.cache,
        monkeypatch,
        {
            paths.NODES: [
                Relisted([node("old")]),
                Relisted([node("a"), node("b")]),
                Changed("ADDED", node("c")),
                Changed("DELETED", node("b")),
            ],
            NODE_METRICS: [Relisted([node_metric("a", cpu="1")]), Changed("MODIFIED", node_metric("a", cpu="90"))],
            paths.PODS: [
                Relisted([pod("p", {"cpu": "1"}, node="c"), pod("q", {"cpu": "2"}, node="c")]),
                Changed("DELETED", pod("p", node="c")),
            ],
        },
    )
    assert sorted(world.cache.nodes) == ["a", "c"]
    ledgers = world.cache.ledger("a"), world.cache.ledger("c")
    assert ledgers[0] is not None
    assert ledgers[1] is not None
    assert (ledgers[0].load()[0], ledgers[1].sums.node_delta[0]) == (90_000, 2000)


async def test_unreadable_object_is_skipped(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    bad = node_metric("a", cpu="lots")
    following = await follow(
        world.cache,
        monkeypatch,
        {
            NODE_METRICS: [
                Relisted([node_metric("a", cpu="7")]),
                *[Changed("MODIFIED", bad)] * 3,
                Changed("ADDED", node_metric("b")),
            ]
        },
    )
    assert [record.getMessage().partition(" is malformed")[0] for record in caplog.records] == ["NodeMetric a"]
    assert following.unreadable == {"NodeMetric a"}
    ledger = world.cache.ledger("a")
    assert ledger is not None
    assert ledger.load()[0] == 7000
    assert world.cache.ledger("b") is not None


@pytest.mark.parametrize("end", [Changed("DELETED", pod("p")), Relisted([])])
async def test_deleted_unreadable_object_is_removed(monkeypatch: pytest.MonkeyPatch, end: Change) -> None:
    bad, other = pod("p", {"cpu": "lots"}), pod("p", {"cpu": "lots"})
    other["metadata"] |= {"namespace": "elsewhere", "uid": "other"}
    changes = [Changed("ADDED", bad), Changed("ADDED", other), Changed("DELETED", other)]
    assert (await follow(World().cache, monkeypatch, {paths.PODS: [*changes]})).unreadable == {"Pod default/p"}
    assert (await follow(World().cache, monkeypatch, {paths.PODS: [*changes, end]})).unreadable == set()


@pytest.mark.parametrize(
    "bad",
    [
        {"metadata": {"name": "a"}, "status": {"updateTime": "yesterday"}},
        {"metadata": {"name": "a"}, "status": {"nodeMetric": {"nodeUsage": {"resources": {"cpu": None}}}}},
        {"metadata": {"name": "a"}, "status": {"podsMetric": [5]}},
        {"metadata": {"name": "a"}, "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 10**400}}},
    ],
)
async def test_malformed_objects_are_skipped(monkeypatch: pytest.MonkeyPatch, bad: Json) -> None:
    following = await follow(World().cache, monkeypatch, {NODE_METRICS: [Changed("ADDED", bad)]})
    assert following.unreadable == {"NodeMetric a"}


async def test_large_pod_counts_usual_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {f"a.b/{index}": "1" for index in range(5000)}
    large = pod("p", {**many, "cpu": "2", "memory": "1Gi"}, {**many, "cpu": "3"}, node="a", overhead={"cpu": "1"})
    looked_at = []

    def counting(amount: str) -> object:
        looked_at.append(amount)
        return quantity.parse_quantity(amount)

    monkeypatch.setattr(crds_pod, "parse_quantity", counting)
    world = World()
    world.cache = ClusterCache(world.rules, {"LoadAware": world.plugin, "CapacityScheduling": CapacityScheduling()})
    relisted = Relisted([large, pod("q", many)])
    following = await follow(world.cache, monkeypatch, {paths.NODES: [Relisted([node("a")])], paths.PODS: [relisted]})
    result = world.cache.ledger("a")
    assert result is not None
    assert result.sums.estimated[0] == 4000  # limit and overhead
    assert following.unreadable == {"Pod default/q"}
    assert len(looked_at) < 10_000


async def test_large_report_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = [{"duration": f"{index}s", "usage": {"avg": {"resources": {"cpu": "1"}}}} for index in range(1001)]
    kinds = [{"duration": "5m", "usage": {f"p{element}": {"resources": {"cpu": "1"}} for element in range(1001)}}]
    larger = [node_metric("a", cpu="2") for _ in range(5)]
    larger[0]["status"]["podsMetric"] = [pod_metric(f"p{number}") for number in range(1001)]
    larger[1]["status"]["nodeMetric"]["aggregatedNodeUsages"] = windows
    larger[2]["status"]["nodeMetric"]["aggregatedNodeUsages"] = kinds
    larger[3]["status"]["conditions"] = [{"type": str(entry), "status": "True"} for entry in range(1001)]
    larger[4]["status"]["prediction"] = {"classes": [{"name": str(item)} for item in range(1001)]}
    for large in larger:
        listed = Relisted([node_metric("a", cpu="1"), node_metric("b", cpu="1")])
        reports: list[Change] = [listed, Changed("MODIFIED", large)]
        world = World().put(node("a"), node("b"))
        following = await follow(world.cache, monkeypatch, {NODE_METRICS: reports})
        result = world.cache.ledger("a")
        assert result is not None
        assert (result.load()[0], following.unreadable) == (1000, {"NodeMetric a"})


async def test_large_node_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    resources, taints = node("a", cpu="9"), node("a", cpu="9")
    resources["status"]["allocatable"] |= {f"a.b/{index}": "1" for index in range(1001)}
    taints["spec"] = {"taints": [{"key": str(number), "effect": "NoSchedule"} for number in range(1001)]}
    for large in (resources, taints):
        world = World()
        changes: list[Change] = [Relisted([node("a", cpu="1"), node("b")]), Changed("MODIFIED", large)]
        following = await follow(world.cache, monkeypatch, {paths.NODES: changes})
        assert (world.cache.own_allocatable("a") or {})["cpu"] == 1000
        assert following.unreadable == {"Node a"}


async def test_problems_name_the_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = watched(World().cache)
    assert not fresh.synced
    assert [line.split(" ")[0] for line in fresh.problems(180)] == ["Nodes", "NodeMetrics", "Pods"]
    assert "nodemetrics.slo.koordinator.sh" in fresh.problems(180)[1]
    following = await follow(World().cache, monkeypatch, {})
    assert following.synced
    assert following.problems(180) == []
    for source in following.sources:
        source.health.last_contact = (source.health.last_contact or 0.0) - 200
    assert following.problems(180)[0] == "Nodes: no contact with the API server for 200 s"


def test_lone_surrogates_are_shown() -> None:
    world = World().put(node(), pod("a\ud800b", {"cpu": "1"}, node="n"))
    reply = NodePage(world.cache, lambda: NOW).answer(Request("GET", "/debug/nodes/n"))
    assert "default/a\\ud800b" in json.loads(reply.body)["pods"]


@pytest.mark.parametrize(
    ("metadata", "spec", "field"),
    [
        ({"labels": 5}, {}, "metadata.labels"),
        ({"annotations": ["a"]}, {}, "metadata.annotations"),
        ({}, {"containers": "none"}, "spec.containers"),
        ({}, {"overhead": 7}, "spec.overhead"),
    ],
)
def test_malformed_pod_is_rejected_by_its_field(metadata: dict[str, Any], spec: dict[str, Any], field: str) -> None:
    item = pod()
    item = {**item, "metadata": {**item["metadata"], **metadata}, "spec": {**item["spec"], **spec}}
    with pytest.raises(MalformedPod, match=f"^{field}: must be "):
        typed_pod(item)


@pytest.mark.parametrize(
    ("part", "step"),
    [
        (Evaluator, "__call__"),
        (Controller, "_blocked_nodes"),
        (Controller, "_like"),
        (HoldReconciler, "backoff_seconds"),
        (HoldReconciler, "hold"),
    ],
)
async def test_failing_pod_does_not_stop_reclaim(part: type, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiting pod of higher priority cannot be evaluated, whatever its error."""
    play, texts = Play(), list[str]()
    play.wait("b", "b0", 2, priority=100)
    play.watch()
    sound = getattr(part, step)

    def broken(self: Any, incoming: Any, *rest: Any) -> Any:  # noqa: ANN401
        if incoming.name == "b0":
            raise TypeError("unhashable type: 'dict'")
        return sound(self, incoming, *rest)

    monkeypatch.setattr(part, step, broken)
    monkeypatch.setattr(play.controller._recorder, "explain", lambda pod, *said: texts.append(f"{pod.name} {said[-1]}"))
    await play.live(3)
    assert play.server.evicted == ["a2"]
    assert part is Evaluator or "b0 No victims: TypeError: unhashable type: 'dict'" in texts
