from collections.abc import Sequence

import pytest

from agent.pods import PodRef
from agent.prediction.node import NodeResources, predict
from agent.prediction.readiness import Readiness
from agent.samples import CPU, MEMORY
from crds.predict_policy import PredictPolicy
from crds.priority import PriorityBand
from tests.agent.made import FACTS, GIB, Machine, machine, pod

PODS = [pod("a", 4000), pod("b", 2000)]


def judged(node: Machine, pods: Sequence[PodRef], model: str = "nsigma-v2", facts: NodeResources = FACTS) -> Readiness:
    """The condition for what the machine has learned."""
    policy = PredictPolicy(cold_start_period_seconds=300, model=model)
    return predict(node.now, node.trainer, pods, facts, policy).readiness


def test_all_warm_is_ready() -> None:
    """Prod pods observed for long enough: ready, and how many."""
    node = machine()
    node.rounds(10, {"a": 1.0, "b": 0.5}, PODS)
    assert judged(node, PODS) == Readiness(
        ready=True, reason="Ready", message="2 of 2 Prod pods are predicted from history."
    )


def test_some_cold_is_ready() -> None:
    """One of two Prod pods is cold: ready, and what the other counts at is said."""
    node = machine()
    node.rounds(10, {"a": 1.0}, PODS[:1])
    found = judged(node, PODS)
    assert (found.ready, found.reason) == (True, "Ready")
    assert found.message == "1 of 2 Prod pods are predicted from history, the others count at their request."


def test_all_cold_collects() -> None:
    """No Prod pod was observed for long enough: how long it takes, and who is closest."""
    node = machine()
    node.rounds(4, {"a": 1.0, "b": 0.5}, PODS)
    found = judged(node, PODS)
    assert (found.ready, found.reason) == (False, "CollectingHistory")
    assert "5m0s (coldStartPeriodSeconds)" in found.message
    assert "2m0s" in found.message


def test_cold_pods_of_other_bands_do_not_matter() -> None:
    """Only Prod pods are reclaimable, so only they must be warm."""
    node, mid = machine(), pod("m", band=PriorityBand.MID)
    node.rounds(10, {"a": 1.0}, PODS[:1])
    assert judged(node, [PODS[0], mid]).message == "1 of 1 Prod pods are predicted from history."


def test_missing_memory_controller_is_named() -> None:
    """Pods' CPU is measured and their memory is not: the memory controller is missing, and how to get it is said."""
    node = machine()
    node.rounds(10, {"a": 1.0, "b": 0.5}, PODS, memory=False)
    node.store.put(MEMORY, "node", node.now, [GIB] * 30)
    node.rounds(1, {"a": 1.0, "b": 0.5}, PODS, memory=False)
    found = predict(node.now, node.trainer, PODS, FACTS, PredictPolicy(cold_start_period_seconds=60))
    assert (found.readiness.ready, found.readiness.reason) == (False, "MemoryControllerMissing")
    assert "cgroup_enable=memory" in found.readiness.message
    assert found.reclaimable.keys() == {CPU}
    assert found.warm == 2


@pytest.mark.parametrize("facts", [NodeResources(), NodeResources({CPU: 1000}, {CPU: 1000, MEMORY: GIB})])
def test_unknown_node_is_said(facts: NodeResources) -> None:
    """Without allocatable CPU or memory nothing can be judged."""
    node = machine()
    node.rounds(10, {"a": 1.0, "b": 0.5}, PODS)
    found = judged(node, PODS, facts=facts)
    assert (found.ready, found.reason) == (False, "NodeUnknown")
    assert "memory" in found.message


def test_rejected_policy_while_collecting() -> None:
    """While history is collected a rejected policy is said beside it."""
    node = machine()
    node.rounds(1, {"a": 1.0, "b": 0.5}, PODS)
    found = judged(node, PODS, model="oracle")
    assert found.reason == "CollectingHistory"
    assert "'oracle'" in found.message
