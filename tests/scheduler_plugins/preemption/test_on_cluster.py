"""What keeps resources from being given back, and what a crash leaves behind, on the real kube-scheduler."""

import json
import time
from collections.abc import Iterator
from typing import Final

import pytest

from scheduler_plugins.quota.hold import Hold
from tests.scheduler_plugins import priorities
from tests.scheduler_plugins.extenders import Json, until
from tests.scheduler_plugins.requeue.quiet import metric
from tests.scheduler_plugins.teams import Teams, standing
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

HOLD: Final = "headroom.sh/reclaim-hold"
QUICK: Final = {"terminationGracePeriodSeconds": 0}


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Teams]:
    """An extender with the quota plugin, and its kube-scheduler."""
    with Teams.open(cluster, "reclaim") as teams:
        yield teams


@pytest.fixture
def teams(stage: Teams) -> Iterator[Teams]:
    """A borrower, who is guaranteed nothing, and a lender, to whom two GPUs belong."""
    stage.add("borrower", 0, 4)
    stage.add("lender", 2, 4)
    yield stage
    stage.clear()


def hold(teams: Teams, team: str, name: str) -> Json:
    """The hold of a pod; nothing where it has none."""
    pod = teams.stage.cluster.api.get(teams.pods(team, name))
    text = (pod["metadata"].get("annotations") or {}).get(HOLD)
    return dict(json.loads(text)) if text else {}


def uid(teams: Teams, team: str, name: str) -> str:
    """Of a pod."""
    return str(teams.stage.cluster.api.get(teams.pods(team, name))["metadata"]["uid"])


def protect(teams: Teams, team: str, name: str) -> str:
    """A budget that allows nobody with that label to be disrupted, once it is in force; its path."""
    path = f"/apis/policy/v1/namespaces/{teams.namespace(team)}/poddisruptionbudgets"
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": name}}}
    teams.stage.cluster.api.request("POST", path, {"metadata": {"name": name}, "spec": spec})
    until(lambda: teams.stage.cluster.api.get(f"{path}/{name}").get("status", {}).get("expectedPods"), "the budget")
    return f"{path}/{name}"


def test_budget_is_respected(teams: Teams) -> None:
    """A budget that allows nothing keeps its pods, and the owner is told so; with `count` it does not."""
    teams.nodes(2)
    teams.deploy("borrower", "kept", 1, 2, **QUICK)
    teams.reach(borrower=standing(2, "kept-1"))
    path = protect(teams, "borrower", "kept")
    teams.submit("lender", "owner", 2)
    told = teams.told("lender", "owner", "ReclaimImpossible", "PodDisruptionBudgets protect", "kept-")
    assert teams.namespace("borrower") in told
    teams.stay(borrower=standing(2, "kept-1"), lender=standing(0, "", "owner"))
    assert teams.evicted() == []
    assert hold(teams, "lender", "owner") == {}

    teams.configure(disruptionBudgets="count")
    teams.reach(borrower=standing(0, "", "kept-1"), lender=standing(2, "owner"))
    until(lambda: len(teams.evicted()) == 1, lambda: f"1 evicted: {teams.evicted()}")
    teams.stage.cluster.api.request("DELETE", path)
    teams.configure()


def test_polite_pod_evicts_nobody(teams: Teams) -> None:
    """A pod with preemptionPolicy Never waits; one without takes what is guaranteed, at the same priority."""
    teams.nodes(2)
    teams.submit("borrower", "b-1", 2, **QUICK)
    teams.reach(borrower=standing(2, "b-1"))
    priorities.make(teams.stage.cluster, "teams-never", 0, preemptionPolicy="Never")
    teams.submit("lender", "polite", 2, priorityClassName="teams-never")
    priorities.remove(teams.stage.cluster, "teams-never")
    teams.told("lender", "polite", "ReclaimImpossible", "preemptionPolicy=Never")
    teams.stay(borrower=standing(2, "b-1"), lender=standing(0, "", "polite"))
    teams.finish("lender", "polite")
    teams.submit("lender", "owner", 2)
    teams.reach(borrower=standing(0), lender=standing(2, "owner"))
    teams.lost("b-1")


def test_equals_keep_their_own(teams: Teams) -> None:
    """Above its min a team can only take from itself, and only from pods of lower priority."""
    teams.nodes(3)
    teams.promise("lender", 1, 2)
    teams.promise("borrower", 2, 3)
    teams.submit("lender", "low", 1, priorityClassName="teams-low", **QUICK)
    teams.submit("borrower", "b-1", 2, **QUICK)
    teams.reach(borrower=standing(2, "b-1"), lender=standing(1, "low"))
    teams.submit("lender", "equal", 1, priorityClassName="teams-low")
    teams.told("lender", "equal", "ReclaimImpossible")
    teams.stay(borrower=standing(2, "b-1"), lender=standing(1, "low", "equal"))
    assert teams.evicted() == []
    teams.finish("lender", "equal")
    teams.submit("lender", "high", 1, priorityClassName="teams-high")
    teams.reach(borrower=standing(2, "b-1"), lender=standing(1, "high"))
    teams.lost("low")
    numbers = "uses 1 of min 1", "needs 1 more"  # kube-scheduler's own preemption, with our numbers
    teams.told("lender", "high", "Reclaiming", "kube-scheduler evicts 1 pod", "/low on", *numbers)
    teams.told("lender", "low", "Preempted", "Evicted by kube-scheduler for pod", "/high", *numbers)


def test_deleted_pod_frees_its_room(teams: Teams) -> None:
    """While a victim ends its room is held. When the pod that it was for is deleted, anybody may have it."""
    teams.nodes(2)
    teams.submit("borrower", "b-1", 2, **QUICK)
    teams.reach(borrower=standing(2, "b-1"))
    teams.keep("borrower", "b-1")
    teams.submit("lender", "owner", 2)
    teams.lost("b-1")
    assert hold(teams, "lender", "owner")["victims"] == [uid(teams, "borrower", "b-1")]
    teams.submit("borrower", "b-2", 2)
    teams.free("borrower")
    teams.reach(borrower=standing(0, "", "b-2"), lender=standing(2, "owner"))  # it was held

    teams.keep("lender", "owner")
    teams.finish("lender", "owner")  # it ends, and is there still
    teams.submit("lender", "next", 2)
    teams.told("lender", "next", "FailedScheduling")
    teams.rest()
    teams.lost("b-1")  # nobody to evict
    teams.finish("lender", "next")
    teams.free("lender")
    teams.reach(borrower=standing(2, "b-2"), lender=standing(0))


def left_behind(teams: Teams, name: str, *victims: str) -> None:
    """What a leader leaves that dies between its two steps: a hold, and everybody is there still."""
    content = Hold(teams.stage.nodes[-1], time.time() + 60, victims)
    api, path = teams.stage.cluster.api, f"{teams.pods('lender', name)}/status"
    api.merge(path, {"metadata": {"annotations": content.annotations}})
    found = api.get(teams.pods("lender", name))["status"].get("conditions", [])
    api.merge(path, {"status": {"conditions": [*found, content.condition]}})


def test_hold_is_taken_over(teams: Teams) -> None:
    """Whoever starts finds a hold for which nobody was evicted yet, evicts just its victims, and nobody else."""
    teams.nodes(3)
    teams.promise("borrower", 1, 4)
    for count, name in enumerate(("b-1", "b-2", "b-3"), 1):
        teams.submit("borrower", name, 1, **QUICK)
        teams.reach(borrower=standing(count, " ".join(("b-1", "b-2", "b-3")[:count])))
        teams.next_second()
    teams.extender.kill()
    teams.submit("lender", "owner", 2)
    teams.told("lender", "owner", "FailedScheduling", "Insufficient")
    left_behind(teams, "owner", uid(teams, "borrower", "b-3"), uid(teams, "borrower", "b-2"))
    teams.extender.restart()
    teams.reach(borrower=standing(1, "b-1"), lender=standing(2, "owner"))
    until(lambda: sorted(teams.evicted()) == ["b-2", "b-3"], lambda: f"evicted: {teams.evicted()}")


def test_hand_made_hold_is_none(teams: Teams) -> None:
    """Whoever may create pods may write the annotation: without the condition in the status no room is held."""
    teams.nodes(2)
    content = Hold(teams.stage.nodes[-1], time.time() + 3600)
    forger = teams.pod("borrower", "forger", 4)  # it fits nowhere, and waits
    forger["metadata"]["annotations"] = content.annotations
    teams.stage.cluster.api.request("POST", teams.pods("borrower"), forger)
    teams.told("borrower", "forger", "FailedScheduling")
    teams.submit("lender", "owner", 2)
    teams.reach(lender=standing(2, "owner"))
    assert metric(teams.extender, "reclaim_holds") == 0
