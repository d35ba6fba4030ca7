"""Fifty pods at once that others have to leave for, on a hundred nodes of the real kube-scheduler: who leaves."""

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, cycle, islice

import pytest

from scheduler_plugins.plugins.capacity_scheduling import NAME
from scheduler_plugins.preemption.fit import FitModel
from scheduler_plugins.preemption.selection.decide import Decision, decide
from scheduler_plugins.quota.cluster import ELASTIC_QUOTAS, QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing
from tests.scheduler_plugins.extenders import Json, configuration, profile, until
from tests.scheduler_plugins.quota_teams import CAPACITY_SCHEDULING, Observed, Team, give_gpus, teams
from tests.scheduler_plugins.stage import Stage
from tools.devcluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.long]

NODES, GPUS = 100, 4
PREEMPTORS = 50
SCHEDULER = "fifty"
PLUGIN = {**CAPACITY_SCHEDULING, "args": {"maxMissing": "infinite", "reclaim": {"schedulerNames": [SCHEDULER]}}}
QUOTAS = {"fifty-lender": (130, 130), "fifty-one": (130, 400), "fifty-two": (140, 400)}
"""Min and max. What is guaranteed is all that there is. [GPUs]"""
NODE_KINDS = ((1, 1, 2), (2, 2), (1, 1, 1, 1), (1, 1, 1, 1))  # GPUs of the pods on a node
SIZES = (1, 2, 1, 3)  # GPUs of the pods that others have to leave for


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """A hundred nodes of four GPUs, an extender and its kube-scheduler."""
    with Stage.open(cluster, "fifty", NODES) as stage:
        give_gpus(stage, GPUS)
        extender = stage.add_extender("extender-fifty", profile(plugins=[PLUGIN]))
        asking = configuration("shortlist", SCHEDULER, extender.url)
        asking["extenders"][0]["ignorable"] = False
        stage.add_scheduler(SCHEDULER, asking)
        stage.wait()
        yield stage


def filling(borrowers: list[Team], nodes: list[str]) -> Iterator[tuple[Team, Json]]:
    """Pods that use all GPUs, of two namespaces in turn, so that every kind of node has those of both."""
    turn = 0
    for node, kind in zip(nodes, cycle(NODE_KINDS), strict=False):
        for gpus in kind:
            team = borrowers[turn % len(borrowers)]
            yield team, team.pod(f"there-{turn}", SCHEDULER, gpus, node=node)
            turn += 1


def known(stage: Stage) -> QuotaCluster:
    """The cluster as it is, as the controller sees it."""
    found, api = QuotaCluster(NAME, MaxMissing.INFINITE), stage.cluster.api
    for node in api.get("/api/v1/nodes")["items"]:
        found.put_node(node)
    for quota in api.get(ELASTIC_QUOTAS)["items"]:
        found.put_quota(quota)
    for pod in api.get("/api/v1/pods")["items"]:
        found.put_pod(pod)
    return found


def one_by_one(cluster: QuotaCluster, pods: list[Json], now: float) -> int:
    """How many have to leave by the rules when the pods are served one after the other, each bound before the next."""
    victims = 0
    for each in pods:
        node = each["spec"]["nodeName"]
        spec = {key: value for key, value in each["spec"].items() if key != "nodeName"}
        fresh = {**each, "metadata": {**each["metadata"], "annotations": {}}, "spec": spec, "status": {}}
        pod = QuotaPod.from_json(fresh)
        cluster.place(pod)
        misfit = FitModel(pod, cluster, cluster.nominations(now)).misfit
        decision = decide(pod, cluster, now, misfit)
        if isinstance(decision, Decision):
            node = decision.node
            for victim in decision.victims:
                cluster.delete_pod(victim.uid)
            victims += len(decision.victims)
        else:
            node = next(name for name in (node, *cluster.nodes) if misfit(name, frozenset()) is None)
        cluster.place(replace(pod, node=node, own=b""))
    return victims


def test_fifty_take_no_more_than_one_by_one(stage: Stage) -> None:
    """Fifty pods at once have no more pods leave than the rules choose for one after the other in the same order."""
    with teams(stage, QUOTAS) as made:
        lender, *borrowers = made.values()
        by_team: dict[str, list[Json]] = {team.name: [] for team in borrowers}
        for team, pod in filling(borrowers, stage.nodes):
            by_team[team.name].append(pod)
        for team in borrowers:
            team.create(*by_team[team.name])
        until(
            lambda: all(map(running, (pod for team in borrowers for pod in team.read().values()))), "all pods running"
        )
        before = known(stage)
        with Observed.watching(stage, *made.values()) as seen:
            sizes = islice(cycle(SIZES), PREEMPTORS)
            lender.create(*(lender.pod(f"wants-{each}", SCHEDULER, gpus) for each, gpus in enumerate(sizes)))
            until(lambda: len(lender.bound()) == PREEMPTORS, lambda: f"all being bound: {sorted(lender.bound())}")
        pods = {pod["metadata"]["uid"]: pod for pod in lender.read().values()}
    assert not seen.broken
    order = [pods[uid] for uid in seen.served if uid in pods]
    assert len(order) == PREEMPTORS
    # Others leave nodes with more room than was asked for: a pod may be bound there before anybody leaves for it.
    used = [hold for uid, hold in seen.holds.items() if pods[uid]["spec"]["nodeName"] == hold["node"]]
    chosen = list(chain.from_iterable(hold["victims"] for hold in used))
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(seen.deleted)
    assert set(seen.deleted) <= set(chain.from_iterable(hold["victims"] for hold in seen.holds.values()))
    assert len(seen.deleted) <= one_by_one(before, order, time.time())
    assert seen.most_together <= NODES * GPUS


def running(pod: Json) -> bool:
    """Whether a pod runs."""
    return str(pod["status"].get("phase")) == "Running"
