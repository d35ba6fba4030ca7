"""Nodes that reject a pod for load that is caused by their borrowers."""

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from scheduler_plugins.extender.service import Answering, Extender
from scheduler_plugins.extender.wire import Arguments
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.plugins.capacity_scheduling import NAME as QUOTAS
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling, quota_cluster
from scheduler_plugins.plugins.load_aware import NAME as LOAD
from scheduler_plugins.plugins.load_aware import LoadAware
from scheduler_plugins.preemption.evaluator import Evaluator, as_requested
from scheduler_plugins.preemption.metrics import PreemptionMetrics
from scheduler_plugins.preemption.selection.decide import Decision, Undecided
from scheduler_plugins.preemption.settings import PreemptionSettings
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.snapshot.cache import ClusterCache
from tests.scheduler_plugins.objects import NOW, Json, node_metric
from tests.scheduler_plugins.quota.objects import pod, quota

CORES = 10


class Site:
    """Nodes of ten cores, full of pods of `a` that use a share of their core, and with other load."""

    def __init__(self, share: float, *nodes: str, other_load: float = 0.0, **arguments: object) -> None:
        self.load = LoadAware(**arguments).defaulted()  # type: ignore[arg-type]
        quotas = CapacityScheduling(MaxMissing.INFINITE)
        self.cache = ClusterCache(self.load.load_rules(), {LOAD: self.load, QUOTAS: quotas})
        self.cluster = quota_cluster(self.cache.freeze(NOW))
        count = CORES * len(nodes)
        self.cluster.put_quota(quota("a", {"cpu": 0, "memory": "1Ti"}, {"cpu": count}))
        self.cluster.put_quota(quota("b", {"cpu": count, "memory": "1Ti"}, {"cpu": count}))
        self.nodes = nodes
        for name in nodes:
            item = {
                "metadata": {"name": name},
                "status": {"allocatable": {"cpu": str(CORES), "memory": "100Gi", "pods": "110"}},
            }
            self.cache.put_node(item)
            for number in range(CORES):
                self.put(pod(f"{name}-{number}", "a", node=name))
            self.report(name, share, other_load)
        enabled = [Enabled(LOAD, 1.0, self.load), Enabled(QUOTAS, 1.0, quotas)]
        metrics = PreemptionMetrics(CollectorRegistry())
        self.evaluator = Evaluator(self.cluster, self.cache, Cycle(enabled[:1]), PreemptionSettings(), metrics)
        lots = np.random.default_rng(1)
        self.extender = Extender(self.cache, Cycle(enabled), Answering(), lambda: NOW, lots)

    def put(self, item: Json) -> None:
        self.cache.put_pod(item, NOW - 3600)

    def report(self, name: str, share: float, other_load: float) -> None:
        there = [f"{name}-{number}" for number in range(CORES)]
        used = [
            {
                "namespace": "a",
                "name": entry,
                "priority": "koord-prod",
                "podUsage": {"resources": {"cpu": f"{round(share * 1000)}m", "memory": "1Gi"}},
            }
            for entry in there
        ]
        total = f"{round((share * len(there) + other_load) * 1000)}m"
        self.cache.put_node_metric(node_metric(name, total, "10Gi", pods=used))

    def decide(self, item: Json, held: Hold | None = None) -> Decision | Undecided:
        self.put(item)
        quota_pod = self.cluster.pods[item["metadata"]["uid"]]
        return self.evaluator(as_requested(quota_pod), NOW, None if held is None else [held.node], held)

    def decision(self, item: Json, held: Hold | None = None) -> tuple[Decision, Hold]:
        result = self.decide(item, held)
        assert isinstance(result, Decision), result
        victims = tuple(victim.uid for victim in result.victims)
        return result, Hold(result.node, NOW + 60, victims, 1, self.evaluator.relief(result))

    def why_not(self, item: Json, held: Hold | None = None) -> str:
        result = self.decide(item, held)
        assert isinstance(result, Undecided), result
        return result.reason

    def passes(self, item: Json) -> bool:
        return bool(self.extender.filter(Arguments(item, list(self.nodes))).names)


@pytest.mark.parametrize(
    "arguments", [{}, {"prod_usage_thresholds": {"cpu": 60}}, {"use_prediction": True}], ids=["usage", "prod", "peak"]
)
@pytest.mark.parametrize(
    ("share", "other_load", "victim_count"),
    [
        (0.6, 0.0, 1),  # 6.0 - 0.6 + 0.85 of 10 cores are 63 %
        (0.64, 0.0, 2),  # one more than the requests need: 6.4 - 0.64 + 0.85 are 66 %
        (0.5, 2.0, 3),  # 7.0 - 1.5 + 0.85
    ],
)
def test_hot_by_borrowers(share: float, other_load: float, victim_count: int, arguments: dict[str, object]) -> None:
    site = Site(share, "n1", other_load=other_load, **arguments)
    pending = pod("wants", "b")
    assert not site.passes(pending)
    result, hold = site.decision(pending)
    by_prod = "prod_usage_thresholds" in arguments  # which counts only pods that exist, whatever is measured
    assert by_prod or len(result.victims) == victim_count
    for victim in result.victims:
        site.cluster.delete_pod(victim.uid)
        site.cache.delete_pod(victim.uid)
    assert by_prod or not site.passes(pod("other", "b")), "usage of evicted pods still counts for other pods"
    held = pod("wants", "b", hold=hold)
    site.put(held)
    assert site.passes(held), "the usage of its victims does not reject the preemptor"


def test_hot_by_others() -> None:
    site = Site(0.1, "n1", "n2", other_load=7.0)
    result = site.decide(pod("wants", "b"))
    assert isinstance(result, Undecided)
    assert "2 node(s) cpu usage exceed threshold" in result.reason
    assert result.rejected.keys() == {"n1", "n2"}


def test_old_report_stays_refused() -> None:
    site = Site(0.6, "n1")
    site.cache.put_node_metric(node_metric("n1", "6", "10Gi", updated=-3600))
    assert "nodeMetric expired" in site.why_not(pod("wants", "b"))


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_decision_is_repeatable(gone: int) -> None:
    """While the chosen victims terminate, the decision stays the same: it subtracts their usage exactly once."""
    site = Site(0.64, "n1")
    first, hold = site.decision(pod("wants", "b"))
    left = {victim.uid for victim in first.victims[:gone]}
    for uid in left:
        site.cluster.delete_pod(uid)
        site.cache.delete_pod(uid)
    pending = pod("wants", "b", hold=hold)
    if gone == 2:
        assert "fits it without" in site.why_not(pending, hold)
    else:
        assert set(site.decision(pending, hold)[1].victims) == set(hold.victims) - left


def test_freed_usage_is_not_counted_twice() -> None:
    """The usage of another pod's victims is not available to a second pod: the first pod uses some of it."""
    site = Site(0.6, "n1")
    _, first = site.decision(pod("first", "b"))
    site.put(pod("first", "b", hold=first))
    _, second = site.decision(pod("second", "b"))
    # 6.0 - 0.6 + 0.85 for the first; - n * 0.6 + 0.85 for the second: at most 6.549
    assert len(second.victims) == 1
    assert not set(first.victims) & set(second.victims)
    site.decision(pod("third", "b"))


def test_pod_with_thousands_of_terms_is_undecided() -> None:
    selector = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["far"]}]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [selector] * 200}}
    assert "8192 are the most" in Site(0.6, "n1").why_not(pod("wants", "b", affinity={"nodeAffinity": terms}))


def test_inter_pod_constraints_prevent_evictions() -> None:
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
    pending = pod("wants", "b", affinity=affinity)
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "2 Insufficient cpu."}
    pending["status"] = {"conditions": [refused]}
    assert Site(0.6, "n1").why_not(pending) == "only kube-scheduler can place it: it has required podAntiAffinity"
