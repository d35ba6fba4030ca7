"""The user stories of capacity scheduling on the real kube-scheduler, step by step, each step with all that it names.

After the design text: story 1 and story 2, its cross-namespace example, and its known limitation.
After each step: who runs, who is pending, who was evicted, and what each quota has used, both by the pods
and by the quotas' status.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.scheduler_plugins.extenders import until
from tests.scheduler_plugins.teams import GPU, Teams, standing
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

NAME: Final = "quota-stories"
LOW, HIGH = {"priorityClassName": "teams-low"}, {"priorityClassName": "teams-high"}

APART: Final = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "nginx"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
"""Keeps the replicas of `nginx` on nodes of their own, where the example supposes them."""


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Teams]:
    with Teams.open(cluster, NAME) as teams:
        yield teams


@pytest.fixture
def gpus(stage: Teams) -> Iterator[Teams]:
    stage.resource = GPU
    yield stage
    stage.clear()


@pytest.fixture
def cpus(stage: Teams) -> Iterator[Teams]:
    stage.resource = "cpu"
    yield stage
    stage.clear()


def test_first_story(gpus: Teams) -> None:
    """Story 1: user A borrows two GPUs of B's, B takes them back from one pod, and nothing above min is to be had."""
    gpus.nodes(10)
    gpus.add("a", 4, 6)
    gpus.add("b", 6, 8)

    gpus.submit("a", "a-1", 2)
    gpus.submit("b", "b-1", 3)
    gpus.reach(a=standing(2, "a-1"), b=standing(3, "b-1"))  # 1: both within min

    gpus.next_second()
    gpus.submit("a", "a-2", 2)
    gpus.reach(a=standing(4, "a-1 a-2"), b=standing(3, "b-1"))  # 2: A reaches its min

    gpus.next_second()
    gpus.submit("a", "a-3", 2)  # A wants the three GPUs that are free, and gets two of them
    gpus.reach(a=standing(6, "a-1 a-2 a-3"), b=standing(3, "b-1"))
    gpus.submit("a", "a-4", 1)
    gpus.told("a", "a-4", "FailedScheduling", "used 6", "max 6")
    gpus.stay(a=standing(6, "a-1 a-2 a-3", "a-4"), b=standing(3, "b-1"))  # 3: A at its max, two borrowed
    assert gpus.evicted() == []

    gpus.submit("b", "b-2", 3)  # one GPU is free, and B's min is 6
    gpus.reach(a=standing(4, "a-1 a-2", "a-4"), b=standing(6, "b-1 b-2"))  # 4: from 6/3 to 4/6
    gpus.lost("a-3")
    numbers = ("uses 6 of min 4 (nvidia.com/gpu)", "needs 3 of its min 6")
    gpus.told("a", "a-3", "Preempted", "/b-2", *numbers)
    gpus.told("b", "b-2", "Reclaiming", "/a-3", *numbers)

    gpus.submit("b", "b-3", 1)
    gpus.submit("b", "b-4", 2)
    for name in ("b-3", "b-4"):  # within B's max of 8, and all of A's GPUs are guaranteed by now
        gpus.told("b", name, "FailedScheduling", "Insufficient nvidia.com/gpu")
        gpus.told("b", name, "ReclaimImpossible")
    gpus.stay(a=standing(4, "a-1 a-2", "a-4"), b=standing(6, "b-1 b-2", "b-3 b-4"))
    gpus.lost("a-3")


def test_second_story(gpus: Teams) -> None:
    """Story 2: within its min B takes from A, which borrows; above it the victim is B's own pod of low priority."""
    gpus.nodes(10)
    gpus.add("a", 3, 4)
    gpus.add("b", 4, 6)
    gpus.add("c", 3, 4)

    for team, amount in (("a", 2), ("b", 2), ("c", 3)):
        gpus.submit(team, f"{team}-1", amount, **LOW)
    gpus.reach(a=standing(2, "a-1"), b=standing(2, "b-1"), c=standing(3, "c-1"))  # 5: all within min

    gpus.next_second()
    gpus.submit("a", "a-2", 2, **LOW)
    gpus.submit("b", "b-2", 1, **LOW)
    gpus.reach(a=standing(4, "a-1 a-2"), b=standing(3, "b-1 b-2"), c=standing(3, "c-1"))  # 6: A at its max, all in use

    gpus.submit("b", "b-3", 1, **LOW)  # B used 3 + 1 <= min 4: of quotas above min, which is A's alone
    gpus.reach(a=standing(2, "a-1"), b=standing(4, "b-1 b-2 b-3"), c=standing(3, "c-1"))  # 7
    gpus.lost("a-2")

    gpus.finish("b", "b-1", "b-2", "b-3")
    gpus.submit("b", "pod-a", 2, **LOW)
    gpus.submit("b", "pod-b", 3, **HIGH)
    gpus.reach(a=standing(2, "a-1"), b=standing(5, "pod-a pod-b"), c=standing(3, "c-1"))  # 8: B's two pods have 5

    gpus.submit("b", "pod-0", 1, **LOW)  # B used 5 + 1 > min 4: of its own, and only of lower priority, which is none
    gpus.stay(a=standing(2, "a-1"), b=standing(5, "pod-a pod-b", "pod-0"), c=standing(3, "c-1"))
    gpus.lost("a-2")
    gpus.finish("b", "pod-0")

    gpus.submit("b", "pod-c", 1, **HIGH)
    gpus.stay(a=standing(2, "a-1"), b=standing(4, "pod-b pod-c"), c=standing(3, "c-1"))  # 9: PodA is the victim
    gpus.lost("a-2", "pod-a")
    gpus.told("b", "pod-a", "Preempted", "/pod-c", "uses 5 of min 4 (nvidia.com/gpu)", "needs 1 more")


@pytest.mark.long
def test_no_wild_preemption(cpus: Teams) -> None:
    cpus.nodes(32)
    cpus.add("quota1", 0, 2)
    cpus.add("quota2", 0, 2)
    cpus.add("quota3", 1, 2)
    cpus.deploy("quota1", "nginx", 1, 1)  # borrows the CPU of quota3
    cpus.reach(quota1=standing(1, "nginx-1"), quota2=standing(0), quota3=standing(0))
    cpus.deploy("quota2", "nginx", 1, 1, **HIGH)
    name = cpus.only("quota2")
    cpus.told("quota2", name, "FailedScheduling", "sum of min 1")
    cpus.stay(quota1=standing(1, "nginx-1"), quota2=standing(0, "", "nginx-1"), quota3=standing(0))
    assert cpus.evicted() == []

    cpus.submit("quota3", "owner", 1)  # the counterfactual: within its min quota3 gets its CPU back, at no priority
    cpus.stay(quota1=standing(0, "", "nginx-1"), quota2=standing(0, "", "nginx-1"), quota3=standing(1, "owner"))
    until(lambda: len(cpus.evicted()) == 1, lambda: f"1 evicted: {cpus.evicted()}")


@pytest.mark.long
def test_borrowed_on_two_nodes(cpus: Teams) -> None:
    cpus.nodes(2, 2)
    cpus.add("quota1", 0, 2)
    cpus.add("quota2", 2, 2)
    cpus.deploy("quota1", "nginx", 2, 1, affinity=APART)
    cpus.reach(quota1=standing(2, "nginx-1 nginx-2"), quota2=standing(0))
    assert len(set(cpus.where("quota1"))) == 2
    cpus.deploy("quota2", "nginx", 1, 2)
    cpus.stay(quota1=standing(2, "nginx-1 nginx-2"), quota2=standing(0, "", "nginx-1"))
    assert cpus.evicted() == []
