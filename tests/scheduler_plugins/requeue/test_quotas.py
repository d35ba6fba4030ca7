"""Pods that wait for a quota: woken is whom it helps that quotas, or what they are charged, changed; nobody else."""

from collections.abc import Callable
from typing import Any

import pytest

from scheduler_plugins.framework.verdict import Refusal, Verdict
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling, kept
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.requeue.candidates import Trial
from scheduler_plugins.requeue.groups import group_key
from scheduler_plugins.requeue.recovery import Recovery
from scheduler_plugins.snapshot.arrays import Nodes
from scheduler_plugins.snapshot.pod import PodRequest
from tests.scheduler_plugins.requeue.site import Site, made
from tests.scheduler_plugins.requeue.teams import ADMISSION, Teams, bounds


def _raised(teams: Teams) -> None:
    teams.cluster.put_quota(bounds("a", 5, 5))


def _gone(teams: Teams) -> None:
    for number in range(3):
        teams.cluster.delete_pod(f"uid-r{number}")


@pytest.mark.parametrize("help_", [_raised, _gone], ids=["quota raised", "pods deleted"])
async def test_as_many_are_woken_as_fit(help_: Callable[[Teams], None]) -> None:
    """Of 200 pods that wait for a quota three are woken at the next look when three fit; further looks add none."""
    teams = Teams(a=(2, 2) if help_ is _raised else (3, 3))
    for number in range(2 if help_ is _raised else 3):
        teams.run(f"r{number}", "a")
    teams.wait(200, "a")
    assert len(teams.unschedulable.groups) == 1
    await teams.settled()
    help_(teams)
    assert await teams.reconcile() == ["p0", "p1", "p10"]
    await teams.settled()
    assert len(teams.api.patches) == 3


async def test_answer_taken_back_wakes() -> None:
    """An allowance of a pod that was admitted and then not bound goes to one that waits."""
    teams = Teams(a=(1, 1))
    assert teams.ask(teams.of("t0", "a"))
    teams.wait(2, "a")
    await teams.settled()
    teams.cache.release("uid-t0")
    assert await teams.reconcile() == ["p0"]


async def test_deleted_quota_wakes_all() -> None:
    """Without a quota nothing limits its namespace."""
    teams = Teams(a=(1, 1))
    teams.run("r0", "a")
    teams.wait(3, "a")
    teams.cluster.ledger.delete_quota("quota-a")
    assert sorted(await teams.reconcile()) == ["p0", "p1", "p2"]


async def test_other_namespace_frees_the_sum() -> None:
    """A pod that waits for the sum of all min is woken when another namespace uses less."""
    teams = Teams(a=(1, 4), b=(1, 4))
    teams.run("r0", "a")
    teams.run("r1", "a")
    teams.wait(1, "b")
    await teams.settled()
    teams.cluster.delete_pod("uid-r1")
    assert await teams.reconcile() == ["p0"]


async def test_woken_pods_count_in_the_sum() -> None:
    """Pods of two namespaces that wait for the same allowance are not both woken; the more important one is."""
    teams = Teams(a=(1, 4), b=(1, 4))
    teams.run("r0", "a", "2")
    teams.wait(2, "a")
    assert not teams.ask(teams.of("important", "b", priority=100))
    teams.cluster.put_pod(teams.of("r0", "a", "1", nodeName="n1"))
    assert await teams.reconcile() == ["important"]
    await teams.settled()


async def test_smaller_pod_takes_what_is_left() -> None:
    """Where a large pod does not fit its quota yet, a smaller one does."""
    teams = Teams(a=(2, 2))
    teams.run("r0", "a", "2")
    teams.wait(1, "a", "2", "large")
    teams.wait(2, "a", "1", "small")
    teams.cluster.put_pod(teams.of("r0", "a", "1", nodeName="n1"))
    assert await teams.reconcile() == ["small0"]


async def test_unanswered_pod_makes_way() -> None:
    """When a woken pod does not come back its allowance goes to the next at once, whichever node that needs."""
    teams = Teams(a=(1, 1))
    teams.run("r0", "a")
    for name, fits in (("p0", "n1"), ("p1", "n2")):
        assert not teams.ask(teams.of(name, "a", nodeSelector={"kubernetes.io/hostname": fits}), fits)
    teams.cluster.delete_pod("uid-r0")
    assert await teams.reconcile() == ["p0"]
    assert await teams.reconcile(after=29.5) == []
    assert await teams.reconcile() == ["p1"]


async def test_claimant_is_woken_first() -> None:
    """Of pods that are alike the one that has a claim to the freed room is woken, though it is in the others' way."""
    teams = Teams(a=(1, 1))
    teams.run("r0", "a")
    teams.wait(3, "a")
    claimant = teams.of("p2", "a")
    claimant["status"]["nominatedNodeName"] = "n1"
    teams.cluster.put_pod(claimant)
    teams.unschedulable.put_pod(claimant)
    assert sorted(len(group.entries) for group in teams.unschedulable.groups) == [1, 2]
    await teams.settled()
    teams.cluster.delete_pod("uid-r0")
    assert await teams.reconcile() == ["p2"]
    await teams.settled()
    plain = teams.of("p2", "a")
    teams.cluster.put_pod(plain)
    teams.unschedulable.put_pod(plain)
    assert len(teams.unschedulable.groups) == 1


async def test_change_while_behind_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota that is raised while groups are still left to judge is looked at once they are done."""
    teams = Teams(a=(1, 1))
    teams.run("r0", "a")
    for number in range(4):
        assert not teams.ask(teams.of(f"p{number}", "a", nodeSelector={"n": str(number)}))
    monkeypatch.setattr("scheduler_plugins.requeue.requeuer._SLICE_SECONDS", 0.0)
    monkeypatch.setattr("scheduler_plugins.requeue.requeuer._ROUND_SECONDS", 0.0)
    assert await teams.reconcile() == []
    teams.cluster.put_quota(bounds("a", 3, 3))
    requeued = [name for _ in range(9) for name in await teams.reconcile(after=0.1)]
    assert len(requeued) == 2


def test_trial_leaves_the_ledger_alone() -> None:
    """What is charged in a trial is charged there alone, each pod of a group once, and counts for the next."""
    teams = Teams(a=(2, 2))
    first = teams.cache.read(teams.of("p", "a"))
    trial = Trial.of(teams.cache.freeze(teams.now))
    fork = kept(trial.nodes)
    for number in range(2):
        assert ADMISSION.pre_filter(first, trial.nodes) is None
        trial.charge(number, _twin(first, number))
    assert ADMISSION.pre_filter(first, trial.nodes) is not None
    assert fork.ledger.used("a") == {"cpu": 2000}
    assert [pod.uid for pod in fork.answered("n2")] == ["twin-1"]
    assert not teams.cluster.ledger.used("a")
    assert not list(teams.cluster.answered("n2"))
    assert ADMISSION.pre_filter(first, teams.cache.freeze(teams.now)) is None


def _twin(pod: PodRequest, number: int) -> PodRequest:
    """A pod that is judged alike."""
    read = {field: getattr(pod, field) for field in pod.__dataclass_fields__}
    return PodRequest(**{**read, "uid": f"twin-{number}", "key": f"a/twin-{number}"})


class _Counting(CapacityScheduling):
    """Counts what it is asked."""

    __slots__ = ()
    asked = 0

    def filter(self, pod: PodRequest, nodes: Nodes) -> Verdict:
        """Count it."""
        type(self).asked += 1
        return super().filter(pod, nodes)


async def test_refused_group_costs_no_filter() -> None:
    """While a quota refuses pods as such no node is judged for them, however often the ledger changes."""
    teams = Teams(_Counting(MaxMissing.INFINITE), a=(1, 1))
    teams.run("r0", "a")
    teams.wait(50, "a")
    before = _Counting.asked
    for number in range(20):
        teams.run(f"r{number}", "a")
        assert await teams.reconcile() == []
    assert _Counting.asked == before


@pytest.mark.parametrize("bound", ["max", "sum of min"])
def test_refusals_are_recognised(bound: str) -> None:
    """A pod that an earlier run refused for its quota is known by kube-scheduler's condition, whatever the numbers."""
    teams = Teams(a=(1, 1) if bound == "max" else (1, 9))
    teams.run("r0", "a")
    refusal = ADMISSION.pre_filter(teams.cache.read(teams.of("p", "a")), teams.cache.freeze(teams.now))
    assert isinstance(refusal, Refusal)
    assert bound in refusal.reason
    message = f"0/2 nodes are available: 2 {refusal.reason}. preemption: 0/2 nodes are available: 2 Preemption is ..."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    item = teams.of("p", "a")
    item["status"]["conditions"] = [condition]
    fresh = Teams()
    adopt = Recovery(fresh.cache, fresh.cycle)
    assert adopt(item) is not None
    condition["message"] = "0/2 nodes are available: 2 Insufficient cpu."
    assert adopt(item) is None


@pytest.mark.parametrize(
    "other",
    [
        {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "3"}}}]},
        {"initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}]},
        {"resources": {"requests": {"cpu": "3"}}},
        {"overhead": {"cpu": "250m"}},
    ],
    ids=["init container", "sidecar", "pod-level", "overhead"],
)
def test_what_nodes_must_have_tells_groups_apart(other: dict[str, Any]) -> None:
    """Pods that ask for the same in their containers and for more beside them fit other nodes."""
    site = Site()
    plain, more = made("p"), made("q", **other)
    keys = [group_key(site.cache.read(item), item) for item in (plain, more)]
    assert keys[0] != keys[1]
    assert group_key(site.cache.read(made("r")), made("r")) == keys[0]
