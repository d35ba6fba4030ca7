"""What the conditions say, and when."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from agent.pods import PodRef
from agent.prediction.readiness import Readiness
from agent.reporter.conditions import (
    CollectionStatus,
    ConditionState,
    condition,
    conditions,
    timestamp,
)
from agent.reporter.usage import Usages
from agent.samples import CPU, MEMORY, Missing
from crds.meta import Condition
from tests.agent.made import START, pod

READY = Readiness(ready=True, reason="Ready", message="fine")
PODS = [pod("a"), pod("b"), pod("c")]
ALL = {one.uid: {CPU: 1.0, MEMORY: 1.0} for one in PODS}
FULL_DISK = "cannot write agent.db: database or disk is full"


def collecting(
    node: Mapping[str, float] | None = None,
    pods: Mapping[str, Mapping[str, float]] | None = None,
    collection: CollectionStatus | None = None,
    present: Sequence[PodRef] = tuple(PODS),
) -> Condition:
    """The condition Collecting; all is well where nothing else is said."""
    node = {CPU: 1.0, MEMORY: 1.0} if node is None else node
    usages = Usages(node, {}, {}, ALL if pods is None else pods, (), (), START)
    return conditions(START, usages, READY, present, collection or CollectionStatus())[0]


def outcome(found: Condition) -> tuple[str, str | None]:
    """Status and reason."""
    return found.status, found.reason


def test_all_is_measured() -> None:
    """Everything measured: true, with how much that is."""
    found = collecting()
    assert outcome(found) == ("True", "Measuring")
    assert found.message == "The node and all of its 3 running pods are measured."


def test_unmeasured_pods_are_named() -> None:
    """A running pod that is not measured is named with the reason; one that does not run need not be."""
    waiting = replace(pod("w"), running=False)
    missing = [Missing(CPU, "b", "no-cgroup"), Missing(MEMORY, "b", "unreadable")]
    found = collecting(
        pods={"a": ALL["a"], "c": ALL["c"]}, collection=CollectionStatus(missing=missing), present=[*PODS, waiting]
    )
    assert outcome(found) == ("True", "PodsNotMeasured")
    assert found.message == "1 of 3 pods have no CPU or no memory measured lately: shop/b (no-cgroup)."


def test_unlisted_pods_are_counted() -> None:
    """Pods on no list are counted, once they are no longer on their way onto it."""
    late, new = (
        replace(pod("ghost"), listed=False, created=START - 60),
        replace(pod("new"), listed=False, created=START),
    )
    usage = {**ALL, "ghost": ALL["a"], "new": ALL["a"]}
    found = collecting(pods=usage, present=[*PODS, late, new])
    assert outcome(found) == ("True", "PodsUnlisted")
    assert (found.message or "").startswith("1 pods have a cgroup and are not listed on this node (uid ghost): ")
    assert outcome(collecting(pods=usage, present=[*PODS, new])) == ("True", "Measuring")


def test_no_pod_measured_is_false() -> None:
    """Where not one pod can be measured, nothing can be published."""
    assert outcome(collecting(pods={})) == ("False", "PodsNotMeasured")
    assert outcome(collecting(pods={}, present=[])) == ("True", "Measuring")


def test_many_unmeasured_pods() -> None:
    """Of many, ten are named."""
    pods = [pod(f"p{number:02}") for number in range(12)]
    message = collecting(present=pods).message or ""
    assert message.endswith("shop/p08, shop/p09 ….")
    assert message.startswith("12 of 12 pods")


def test_unmeasured_node_is_false() -> None:
    """A node that cannot be measured is said first, whatever else is wrong."""
    found = collecting({CPU: 1.0}, {}, CollectionStatus({"store": FULL_DISK, "node": "/proc/meminfo has no MemFree"}))
    assert outcome(found) == ("False", "NodeNotMeasured")
    assert "The node's memory could not be measured" in (found.message or "")
    assert "node fails: /proc/meminfo has no MemFree." in (found.message or "")
    assert "disk is full" in (found.message or "")


@pytest.mark.parametrize("step", ["store", "database", "save", "maintain"])
def test_failing_store_says_way_out(step: str) -> None:
    """A full disk is in the condition, with what goes on, what is lost, and what to do."""
    found = collecting(collection=CollectionStatus({step: FULL_DISK}))
    assert outcome(found) == ("False", "StoreFailing")
    for words in (FULL_DISK, "go on from memory", "lost when the agent restarts", "Free space"):
        assert words in (found.message or "")


def test_memory_controller_is_named() -> None:
    """A kernel without the memory controller is said as such, and how to boot it."""
    missing = [Missing(MEMORY, one.uid, "no-memory-controller") for one in PODS]
    found = collecting(pods={}, collection=CollectionStatus(missing=missing))
    assert outcome(found) == ("False", "MemoryControllerMissing")
    assert "cgroup_enable=memory" in (found.message or "")


def test_unknown_pods_are_false() -> None:
    """Where it is unknown which pods run, nothing can be published, and the reason is reported."""
    found = collecting(present=[], collection=CollectionStatus(pods_unknown="the kubelet refuses"))
    assert outcome(found) == ("False", "PodsUnknown")
    assert found.message == "The kubelet refuses. Until then nothing is reclaimable."


def test_failing_step_is_told() -> None:
    """A part that fails without harm to measuring is reported, and so is what is wrong with reporting."""
    found = collecting(collection=CollectionStatus({"pressure": "cannot read cpu"}, problems=["The spec is odd."]))
    assert outcome(found) == ("True", "StepFailing")
    assert found.message == "pressure fails: cannot read cpu. The spec is odd."


def test_prediction_ready_is_readiness() -> None:
    """PredictionReady says what the prediction says of itself, of which generation of the spec."""
    readiness = Readiness(ready=False, reason="CollectingHistory", message="wait")
    usages = Usages({}, {}, {}, {}, (), (), None)
    found = conditions(START, usages, readiness, [], CollectionStatus(), generation=7)[1]
    assert (found.type, *outcome(found)) == ("PredictionReady", "False", "CollectingHistory")
    assert (found.message, found.observed_generation) == ("wait", 7)


def test_condition_keeps_its_time() -> None:
    """The time of a condition moves only when its status does, not with its reason or message."""
    first = condition(START, "PredictionReady", ConditionState(ok=False, reason="CollectingHistory", message="…"))
    second = condition(START + 60, "PredictionReady", ConditionState(ok=False, reason="Other", message="…"), [first])
    third = condition(START + 120, "PredictionReady", ConditionState(ok=True, reason="Ready", message="…"), [second])
    assert second.last_transition_time == first.last_transition_time == timestamp(START)
    assert (third.status, third.last_transition_time) == ("True", timestamp(START + 120))


def test_other_conditions_lend_no_time() -> None:
    """A condition of another type with the same status lends no time."""
    other = Condition("Collecting", "True", last_transition_time=timestamp(START))
    found = condition(START + 60, "PredictionReady", ConditionState(ok=True, reason="Ready", message="…"), [other])
    assert found.last_transition_time == timestamp(START + 60)
