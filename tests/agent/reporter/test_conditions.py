from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from agent.pods import PodRef
from agent.prediction.readiness import Readiness
from agent.reporter.conditions import CollectionStatus, ConditionState, condition, conditions, timestamp
from agent.reporter.usage import Usages
from agent.samples import CPU, MEMORY, Missing
from crds.meta import Condition
from tests.agent.made import START, pod

READY = Readiness(ready=True, reason="Ready", message="fine")
BOTH = {CPU: 1.0, MEMORY: 1.0}
PODS = [pod("a"), pod("b"), pod("c")]
ALL = {entry.uid: BOTH for entry in PODS}
FULL_DISK = "cannot write agent.db: database or disk is full"
GHOST, NEW = (replace(pod(name), listed=False, created=START - age) for name, age in (("ghost", 60), ("new", 0)))
WAITING = replace(pod("w"), running=False)
FAILING = {"store": FULL_DISK, "node": "/proc/meminfo has no MemFree"}
NO_CONTROLLER = [Missing(MEMORY, item.uid, "no-memory-controller") for item in PODS]


def collecting(
    node: Mapping[str, float] | None = None,
    pods: Mapping[str, Mapping[str, float]] | None = None,
    collection: CollectionStatus | None = None,
    present: Sequence[PodRef] = tuple(PODS),
) -> tuple[str, str | None, str]:
    """Status, reason and message of Collecting; all is well where nothing else is said."""
    usages = Usages(BOTH if node is None else node, {}, {}, ALL if pods is None else pods, (), (), START)
    result = conditions(START, usages, READY, present, collection or CollectionStatus())[0]
    return result.status, result.reason, result.message or ""


def test_whole_messages() -> None:
    """The condition names measured pods, missing pods with reasons, unknown pods, and harmless failures."""
    well = ("True", "Measuring", "The node and all of its 3 running pods are measured.")
    assert collecting() == well
    missing = [Missing(CPU, "b", "no-cgroup"), Missing(MEMORY, "b", "unreadable")]
    lacking = {"a": BOTH, "c": BOTH}
    message = "1 of 3 pods have no CPU or no memory measured lately: shop/b (no-cgroup)."
    result = collecting(pods=lacking, collection=CollectionStatus(missing=missing), present=[*PODS, WAITING])
    assert result == ("True", "PodsNotMeasured", message)  # one that does not run need not be measured
    unknown = CollectionStatus(pods_unknown="the kubelet refuses")
    message = "The kubelet refuses. Until then nothing is reclaimable."
    assert collecting(present=[], collection=unknown) == ("False", "PodsUnknown", message)
    failing = CollectionStatus({"pressure": "cannot read cpu"}, problems=["The spec is malformed."])
    message = "pressure fails: cannot read cpu. The spec is malformed."
    assert collecting(collection=failing) == ("True", "StepFailing", message)


def test_held_back_pods_are_named() -> None:
    """Ten of the pods with a usage below their need are named; they are measured, so the node is."""
    names = [f"shop/p{number:02}" for number in range(12)]
    status, reason, message = collecting(collection=CollectionStatus(held_back=names))
    assert (status, reason) == ("True", "MemoryHeldBack")
    assert "Memory usage of 12 pods" in message
    assert "shop/p08, shop/p09 …" in message


UNLISTED = "1 pods have a cgroup and are not listed on this node (uid ghost): "
WITH_GHOSTS = {**ALL, "ghost": BOTH, "new": BOTH}
TWELVE = [pod(f"p{number:02}") for number in range(12)]


@pytest.mark.parametrize(
    ("given", "status", "reason", "parts"),
    [
        # pods on no list are counted, once they are no longer on their way onto it
        ({"pods": WITH_GHOSTS, "present": [*PODS, GHOST, NEW]}, "True", "PodsUnlisted", [UNLISTED]),
        ({"pods": WITH_GHOSTS, "present": [*PODS, NEW]}, "True", "Measuring", []),
        # where not one pod can be measured, nothing can be published; of many, ten are named
        ({"pods": {}}, "False", "PodsNotMeasured", []),
        ({"pods": {}, "present": []}, "True", "Measuring", []),
        # without a cgroup of any pod, the tree is named; without a running pod, nothing is wrong
        (
            {"pods": {}, "collection": CollectionStatus(cgroups_seen="init.scope, k8s.io, k8s.io/0a1b")},
            "False",
            "PodCgroupsNotFound",
            ["The tree begins with init.scope, k8s.io, k8s.io/0a1b."],
        ),
        (
            {"pods": {}, "present": [GHOST, WAITING], "collection": CollectionStatus(cgroups_seen="init.scope")},
            "False",
            "PodsNotMeasured",
            [],
        ),
        ({"present": [WAITING], "collection": CollectionStatus(cgroups_seen="init.scope")}, "True", "Measuring", []),
        ({"present": TWELVE}, "False", "PodsNotMeasured", ["12 of 12 pods", "shop/p08, shop/p09 …."]),
        # a node that cannot be measured is named first, whatever else is wrong
        (
            {"node": {CPU: 1.0}, "pods": {}, "collection": CollectionStatus(FAILING)},
            "False",
            "NodeNotMeasured",
            ["The node's memory could not be measured", "node fails: /proc/meminfo has no MemFree.", "disk is full"],
        ),
        (
            {"pods": {}, "collection": CollectionStatus(missing=NO_CONTROLLER)},
            "False",
            "MemoryControllerMissing",
            ["cgroup_enable=memory"],
        ),
        *(
            (
                {"collection": CollectionStatus({step: FULL_DISK})},
                "False",
                "StoreFailing",
                [FULL_DISK, f"keeps {held} in memory only", "when it restarts", "Free space"],
            )
            for step, held in (
                ("store", "new samples and histories"),
                ("database", "new samples and histories"),
                ("save", "histories"),
                ("maintain", "histories"),
            )
        ),
    ],
)
def test_worst_gives_the_reason(given: dict[str, object], status: str, reason: str, parts: list[str]) -> None:
    result = collecting(**given)  # type: ignore[arg-type]
    assert result[:2] == (status, reason)
    assert [part for part in parts if part not in result[2]] == []


def test_prediction_ready_is_readiness() -> None:
    readiness = Readiness(ready=False, reason="CollectingHistory", message="wait")
    usages = Usages({}, {}, {}, {}, (), (), None)
    result = conditions(START, usages, readiness, [], CollectionStatus(), generation=7)[1]
    assert result == Condition("PredictionReady", "False", "CollectingHistory", "wait", timestamp(START), 7)


def test_time_of_a_condition_moves_with_its_own_status_alone() -> None:
    def at(seconds: float, reason: str, *before: Condition, ok: bool = False) -> str | None:
        state = ConditionState(ok=ok, reason=reason, message="…")
        return condition(START + seconds, "PredictionReady", state, before).last_transition_time

    before = Condition("PredictionReady", "False", last_transition_time=timestamp(START))
    assert at(0, "CollectingHistory") == timestamp(START)
    assert at(60, "Other", before) == timestamp(START)
    assert at(120, "Ready", before, ok=True) == timestamp(START + 120)
    assert at(60, "Other", replace(before, type="Collecting")) == timestamp(START + 60)
