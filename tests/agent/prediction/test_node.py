import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agent.numerics.history import cpu_history
from agent.pods import PodRef
from agent.prediction.node import NodePrediction, NodeResources, class_peak, predict
from agent.prediction.policy import ResourceModel
from agent.prediction.readiness import Readiness
from agent.predictors.base import ClassView, View
from agent.samples import CPU, MEMORY, NODE, SYS
from agent.trainer.trainer import Trainer
from crds.predict_policy import ModelChoice, PredictPolicy, ResourceOverride
from crds.priority import PriorityBand
from crds.workload_history import workload_id
from tests.agent.made import FACTS, GIB, Machine, machine, pod

SHORT = PredictPolicy(cold_start_period_seconds=60, model="nsigma-v2")
PERCENTILE, BORG = replace(SHORT, model="percentile"), replace(SHORT, model="borg-default")
A = pod("a", 4000, 4 * GIB)


def used(usage: dict[str, float], *pods: PodRef, rounds: int = 20, **more: Any) -> Machine:  # noqa: ANN401
    node = machine()
    node.rounds(rounds, usage, pods, **more)
    return node


def predicted(
    node: Machine, *pods: PodRef, policy: PredictPolicy = SHORT, facts: NodeResources = FACTS
) -> NodePrediction:
    return predict(node.now, node.trainer, pods, facts, policy)


def test_warm_pod_is_reclaimable_above_its_peak() -> None:
    """A pod that uses 1 of 4 cores has a peak of 1.1; listed twice, it is one pod; an ended one does not count."""
    node = used({"a": 1.0}, A)
    result = predicted(node, A, A, pod("done", 9000, terminal=True))
    assert result == predicted(node, A)
    assert result.reclaimable == {CPU: 2900, MEMORY: math.floor(2.9 * GIB)}
    prod = result.classes["prod"]
    assert prod.peak == {CPU: 1100, MEMORY: math.ceil(1.1 * GIB)}
    assert (result.warm, result.cold, prod.samples, prod.span_seconds) == (1, (), 20, 600)


@pytest.mark.parametrize("policy", [SHORT, PERCENTILE, BORG])
def test_no_exclusive_cpu_is_reclaimable(policy: PredictPolicy) -> None:
    """A pod with CPUs for itself leaves none of them to others: its request is not reclaimable, its memory is."""
    b = pod("b", 2000)
    node = used({"a": 1.0, "b": 0.5}, A, b)
    shared, alone = predicted(node, A, b, policy=policy), predicted(used({"b": 0.5}, b), b, policy=policy)
    pinned = predict(node.now, node.trainer, (A, b), FACTS, policy, None, {"a"})
    assert (
        alone.reclaimable[CPU] - 200 <= pinned.reclaimable[CPU] <= alone.reclaimable[CPU] + 30 < shared.reclaimable[CPU]
    )
    assert pinned.reclaimable[MEMORY] == shared.reclaimable[MEMORY]
    assert (pinned.prod_peak, pinned.classes, pinned.cold) == (shared.prod_peak, shared.classes, shared.cold)


MODELS = ("coincidence", "diversity", "nsigma-v1", "nsigma-v2", "recent-max", "sum-max", "percentile", "borg-default")
CART = "shop/Deployment/cart"
COLD = replace(pod("new", 4000, 4 * GIB), workload=CART)


def known(cpu: int = 1000, memory: int = GIB) -> NodeResources:
    """A node that knows the workload of COLD."""
    return replace(FACTS, workloads={workload_id(CART): {CPU: cpu, MEMORY: memory}})


def cold_and_warm(model: str = "coincidence", cores: float = 0.5, **fields: Any) -> tuple[Machine, PredictPolicy]:  # noqa: ANN401
    """A node with a warm pod, and with one that was observed for half a minute; it uses so many cores and GiB."""
    node = used({"a": 1.0}, A)
    node.rounds(1, {"a": 1.0, "new": cores}, [A, COLD])
    return node, replace(SHORT, model=model, parameters={}, safety_margin_percent=0, **fields)


@pytest.mark.parametrize("model", MODELS)
def test_cold_pod_of_known_workload_is_reclaimable(model: str) -> None:
    """It counts at the usage of its workload with the margin of the history, instead of its request."""
    node, policy = cold_and_warm(model, workload_history_margin_percent=50)
    without = predicted(node, A, COLD, policy=policy)
    result = predicted(node, A, COLD, policy=policy, facts=known())
    assert without.cold == result.cold == ("shop/new",)
    assert (without.by_history, result.by_history) == ({}, {CART: 1})
    assert without.classes["prod"].peak[CPU] - result.classes["prod"].peak[CPU] == 2500
    assert without.prod_peak[CPU] - result.prod_peak[CPU] == 2500
    if model != "percentile":  # the class's percentile is the smaller bound
        assert result.reclaimable[CPU] - without.reclaimable[CPU] == 2500
    assert result.reclaimable[CPU] > without.reclaimable[CPU]
    assert result.reclaimable[MEMORY] > without.reclaimable[MEMORY]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("facts", "fields"),
    [
        (known(), {"use_workload_history": False}),
        (known(), {"reclaim_ratio_percent": 0}),
        (known(4000, 4 * GIB), {}),  # as much as its request
        (known(10**501, 10**501), {}),  # more than the node has
        (known(0, 0), {}),
        (known(-5, -5), {}),
        (replace(FACTS, workloads={"x": {CPU: 1, MEMORY: 1}}), {}),  # another workload's
    ],
)
def test_history_that_does_not_count(model: str, facts: NodeResources, fields: dict[str, Any]) -> None:
    """Without a usable history, nothing that is published changes."""
    node, policy = cold_and_warm(model, **fields)
    without, result = (predicted(node, A, COLD, policy=policy, facts=of_node) for of_node in (FACTS, facts))
    assert (result.reclaimable, result.prod_peak) == (without.reclaimable, without.prod_peak)
    if not fields:
        assert result == without


def test_node_with_known_workloads_alone_is_ready() -> None:
    """A new node publishes from its first report on, when cold pods count at the usage of their workload."""
    node, policy = cold_and_warm()
    other = pod("b")
    without = predicted(node, COLD, policy=policy).readiness
    assert (without.ready, without.reason) == (False, "CollectingHistory")
    known_alone = predicted(node, COLD, policy=policy, facts=known()).readiness
    with_other = predicted(node, COLD, other, policy=policy, facts=known()).readiness
    message = "of {} Prod pods are predicted from history, 1 count at the usage of their workload on other nodes"
    assert known_alone == Readiness(True, "Ready", f"0 {message.format(1)}.")
    assert with_other == Readiness(True, "Ready", f"0 {message.format(2)}, the others count at their request.")


def test_warm_pod_does_not_need_history() -> None:
    """A pod with enough history of its own is predicted from it, whatever its workload needs elsewhere."""
    pods = (replace(A, workload=CART),)
    node = used({"a": 1.0}, *pods)
    assert predicted(node, *pods, facts=known(10, 10)) == predicted(node, *pods)


def test_own_usage_is_the_least() -> None:
    """A cold pod that uses more than its workload does elsewhere counts at its own usage."""
    node, policy = cold_and_warm(cores=3.0)
    result = predicted(node, A, COLD, policy=policy, facts=known())
    assert result.classes["prod"].peak[CPU] == predicted(node, A, policy=policy).classes["prod"].peak[CPU] + 3000


def test_ratio_limits_the_cold_pods_part() -> None:
    """At most reclaimRatioPercent of the request of a cold pod becomes reclaimable."""
    node, policy = cold_and_warm(reclaim_ratio_percent=10)
    without = predicted(node, COLD, policy=policy)
    result = predicted(node, COLD, policy=policy, facts=known())
    assert (without.reclaimable[CPU], result.reclaimable[CPU]) == (0, 400)


def test_exclusive_and_held_back_pods_keep_their_request() -> None:
    """A cold pod with CPUs for itself keeps them, and one below its need keeps its memory."""
    node, policy = cold_and_warm()
    without = predicted(node, A, COLD, policy=policy)
    result = predict(node.now, node.trainer, (A, COLD), known(), policy, None, {"new"}, {"new"})
    assert (result.reclaimable, result.by_history) == (without.reclaimable, {})


def test_seconds_of_high_memory_count() -> None:
    """A peak of 3 s counts with a cold pod, and in the sum of the pods' own highest; not in coincident usage."""
    node = used({"a": 1.0}, A)
    node.store.put(CPU, "a", node.now, [1.0] * 30)
    node.store.put(MEMORY, "a", node.now, [GIB] * 27 + [8 * GIB] * 3)
    for entity in (NODE, SYS):
        for metric in (CPU, MEMORY):
            node.store.put(metric, entity, node.now, [0.0] * 30)
    node.now += 30.0
    node.trainer.train(node.now, node.store, [A])
    cold = replace(SHORT, cold_start_period_seconds=86400)
    assert predicted(node, A, policy=cold).classes["prod"].peak[MEMORY] == 8 * GIB
    for model, most in (("sum-max", 8.0), ("coincidence", 8.0), ("diversity", 8.0), ("recent-max", 1.2)):
        policy = replace(SHORT, model=model, parameters={}, safety_margin_percent=0)
        peak = predicted(node, A, policy=policy).classes["prod"].peak
        assert peak[MEMORY] / GIB == pytest.approx(most, rel=0.2)
        assert peak[CPU] == 1000
    short = replace(SHORT, model="sum-max", parameters={"windowDays": 0.5}, safety_margin_percent=0)
    assert predicted(node, A, policy=short).classes["prod"].peak[MEMORY] < 2 * GIB  # known by days


def test_held_back_pod_keeps_its_peak() -> None:
    """A pod that memory.high or swap limits counts in memory at its request or highest usage; its CPU is predicted."""
    pods = [A, pod("b", 4000, 4 * GIB)]
    for model in ("coincidence", "diversity", "nsigma-v2", "recent-max", "percentile", "borg-default"):
        policy = replace(SHORT, model=model, parameters={}, safety_margin_percent=20)
        node = used({"a": 3.0, "b": 1.0}, *pods)
        before = predicted(node, *pods, policy=policy)
        node.rounds(2880, {"a": 0.5, "b": 1.0}, pods)
        free = predicted(node, *pods, policy=policy)
        result = predict(node.now, node.trainer, pods, FACTS, policy, held_back=["a", "gone"])
        assert result.classes["prod"].peak[MEMORY] >= max(before.classes["prod"].peak[MEMORY], 4 * GIB)
        assert result.classes["prod"].peak[CPU] == free.classes["prod"].peak[CPU]
        assert result.reclaimable[MEMORY] <= min(before.reclaimable[MEMORY], free.reclaimable[MEMORY])
        assert result.reclaimable[CPU] == free.reclaimable[CPU]
        assert (result.held_back, result.cold, result.warm) == (("shop/a",), ("shop/a",), 1)
        assert free.held_back == ()
        assert (result.readiness.reason, result.readiness.ready) == ("Ready", True)


@pytest.mark.parametrize("model", ["coincidence", "diversity", "percentile", "recent-max"])
@pytest.mark.parametrize("ratio", [10, 100])
def test_held_back_never_publishes_more(model: str, ratio: int) -> None:
    """Whatever its request, a pod that is held back leaves at most as much to reclaim."""
    pods = [pod("a", 1000, GIB), pod("b", 4000, 12 * GIB), pod("c", 500, GIB)]
    node = used({"a": 2.0, "b": 10.0, "c": 0.2}, *pods)
    policy = replace(SHORT, model=model, parameters={}, reclaim_ratio_percent=ratio)
    free = predicted(node, *pods, policy=policy)
    for names in (["a"], ["b"], ["c"], ["a", "b"], ["a", "b", "c"]):
        result = predict(node.now, node.trainer, pods, FACTS, policy, held_back=names)
        assert result.reclaimable[MEMORY] <= free.reclaimable[MEMORY], names
        assert result.classes["prod"].peak[MEMORY] >= free.classes["prod"].peak[MEMORY], names


def test_every_class_has_a_peak_and_prod_alone_is_reclaimable() -> None:
    pods = [A, pod("m", 2000, band=PriorityBand.MID), pod("b", 1000, band=PriorityBand.BATCH)]
    result = predicted(used({"a": 1.0, "m": 0.5, "b": 0.2}, *pods, system=0.2), *pods)
    peaks = {name: result.classes[name].peak[CPU] for name in ("prod", "mid", "batch", "free", NODE)}
    assert peaks == {"prod": 1100, "mid": 550, "batch": 220, "free": 0, NODE: 2090}
    assert result.classes[SYS].peak[CPU] in {220, 221}  # averages of 5 minutes are kept in single precision
    assert (result.classes[NODE].mean[CPU], result.reclaimable[CPU]) == (1900, 2900)


def test_larger_reservation_covers_the_system() -> None:
    node = used({"a": 1.0}, A, system=1.0)
    reserved = NodeResources(FACTS.allocatable, FACTS.capacity, {CPU: 2000})
    assert predicted(node, A).terms[CPU].system_extra > 0.5
    assert predicted(node, A, facts=reserved).terms[CPU].system_extra == 0.0


def test_margin_is_of_each_resource_and_none_of_requests() -> None:
    """Borg's peak is requests / 1.1 without a margin, while the system is still measured."""
    node = used({"a": 1.0}, A, system=0.2)
    policy_by_resource = PredictPolicy(
        cold_start_period_seconds=60, safety_margin_percent=50, memory=ResourceOverride(safety_margin_percent=0)
    )
    assert predicted(node, A, policy=policy_by_resource).classes["prod"].peak == {CPU: 1500, MEMORY: GIB}
    result = predicted(node, pod("a", 4400), policy=BORG).classes
    assert result["prod"].peak[CPU] == 4000
    assert result[SYS].peak[CPU] in {220, 221}


def test_policy_that_cannot_be_followed_keeps_the_last_one() -> None:
    """Also after a restart; the condition names the error."""
    node = used({"a": 1.0}, pod("a", 4400))
    before = predicted(node, pod("a", 4400), policy=BORG)
    node.trainer.policy = before.policy
    again = Trainer()
    again.restore(node.trainer.checkpoints())
    for trainer in (node.trainer, again):
        result = predict(node.now, trainer, [pod("a", 4400)], FACTS, PredictPolicy(model="oracle"))
        assert (result.reclaimable, result.policy, result.classes["prod"].peak[CPU]) == (
            before.reclaimable,
            before.policy,
            4000,
        )
        assert (result.readiness.ready, result.readiness.reason) == (True, "PolicyRejected")
        assert "'oracle'" in result.readiness.message


def test_percentile_reclaims_by_koordinators_rule() -> None:
    """The smaller of a sum over pods, 2 - p95 * 1.1, and the allocatable amount that the class leaves.

    A warm pod requests 2 cores and uses 0.5 (bucket end 0.539, with margin 592m), a cold one requests 1: per pod
    2000 - 592 = 1408m; per class, system 0.3 (0.316) and Prod 0.5: 3000 - int(855 * 1.1) = 2060m.
    """
    warm, cold = pod("a", 2000), pod("b", 1000)
    node = used({"a": 0.5}, warm, system=0.3)
    result = predicted(node, warm, cold, policy=PERCENTILE)
    assert (result.reclaimable[CPU], result.prod_peak[CPU], result.classes["prod"].peak[CPU]) == (1408, 1592, 1592)
    assert result.terms[CPU].by_model
    half = replace(PERCENTILE, reclaim_ratio_percent=50)
    assert predicted(node, warm, cold, policy=half).reclaimable[CPU] == 1000 - 592
    terminating = replace(warm, terminating=True)  # nothing of it, in the common formula until it has gone
    assert predicted(node, terminating, policy=PERCENTILE).reclaimable[CPU] == 0
    assert predicted(node, terminating).reclaimable[CPU] == 2000 - 550


def test_percentile_is_bounded_by_the_class_peak() -> None:
    """In `max` only the peak counts."""
    pods = [pod("a", 2000), pod("gone", 4000)]
    node = used({"a": 0.5, "gone": 1.0}, *pods)
    node.rounds(1, {"a": 0.5}, pods[:1])
    assert predicted(node, pods[0], policy=PERCENTILE).reclaimable[CPU] == 2000 - math.floor((1558 + 25) * 1.1)
    joint = replace(SHORT, model="max", of=(ModelChoice("percentile"),))
    assert not predicted(node, pods[0], policy=joint).terms[CPU].by_model


def test_another_policy_answers_at_once_from_all_history() -> None:
    node = used({"a": 1.0}, A)
    choices = [("sum-max", {"windowDays": 1}), ("recent-max", {"windowDays": 14}), ("nsigma-v1", {"n": 2})]
    for number, (model, parameters) in enumerate(choices):
        result = predicted(node, A, policy=replace(SHORT, model=model, parameters=parameters))
        node.trainer.resize_windows(result.window_days)
        assert (result.policy.model, result.classes["prod"].peak[CPU], result.problem) == (model, 1100, "")
        node.rounds(1, {"a": 1.0}, [A])
        assert node.cores("a", "counts") == 21 + number


class Theirs:
    """A third party's model that answers nonsense, or fails."""

    measured = True

    def __init__(self, answer: float | None = None) -> None:
        self.answer = answer

    def peak(self, view: View, margin: float) -> float:
        del view, margin
        if self.answer is None:
            raise ZeroDivisionError("by\nzero")
        return self.answer


def test_model_that_fails_expects_the_whole_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.prediction.policy.build", lambda *_: Theirs())
    result = predicted(used({"a": 1.0}, A), A)
    assert (result.reclaimable, result.classes["prod"].peak[CPU]) == ({CPU: 0, MEMORY: 0}, 16_000)
    assert (result.readiness.ready, result.readiness.reason) == (False, "ModelFailed")
    assert "Model nsigma-v2 failed for cpu: ZeroDivisionError: by zero" in result.readiness.message


@pytest.mark.parametrize("answer", [math.nan, math.inf, -1.0])
def test_non_finite_prediction_is_the_whole_machine(answer: float) -> None:
    history = cpu_history()
    history.grow(2)
    history.learn(np.array([0, 1]), np.ones(2), 0.0, np.ones(2))
    view, model = ClassView(history, 0, np.array([1]), np.ones(1)), Theirs(answer)
    assert class_peak(view, np.zeros(0), ResourceModel("theirs", model, 1.1, model, 60.0), 16.0) == 16.0


B = pod("b", 2000)
BOTH = {"a": 1.0, "b": 0.5}
MID = pod("m", band=PriorityBand.MID)
NO_MEMORY = NodeResources({CPU: 1000}, {CPU: 1000, MEMORY: GIB})
OF_2 = "of 2 Prod pods are predicted from history"


@pytest.mark.parametrize(
    ("usage", "rounds", "pods", "facts", "ready", "reason", "parts"),
    [
        (BOTH, 10, [A, B], FACTS, True, "Ready", [f"2 {OF_2}."]),
        ({"a": 1.0}, 10, [A, B], FACTS, True, "Ready", [f"1 {OF_2}, the others count at their request."]),
        ({"a": 1.0}, 10, [A, MID], FACTS, True, "Ready", ["1 of 1 Prod pods are predicted from history."]),
        (BOTH, 4, [A, B], FACTS, False, "CollectingHistory", ["5m0s (coldStartPeriodSeconds)", "2m0s"]),
        (BOTH, 10, [A, B], NodeResources(), False, "NodeUnknown", ["memory"]),
        (BOTH, 10, [A, B], NO_MEMORY, False, "NodeUnknown", ["memory"]),
        ({}, 0, [A], FACTS, False, "NoMeasurements", []),
    ],
)
def test_readiness(
    usage: dict[str, float],
    rounds: int,
    pods: Sequence[PodRef],
    facts: NodeResources,
    *,
    ready: bool,
    reason: str,
    parts: list[str],
) -> None:
    result = predicted(
        used(usage, A, B, rounds=rounds), *pods, facts=facts, policy=replace(SHORT, cold_start_period_seconds=300)
    )
    assert (result.readiness.ready, result.readiness.reason) == (ready, reason)
    assert [part for part in parts if part not in result.readiness.message] == []
    if reason in ("NodeUnknown", "NoMeasurements"):
        assert (result.reclaimable.get(MEMORY), result.prod_peak.get(MEMORY)) == (None, None)


def test_rejected_policy_and_cold_history_are_reported() -> None:
    result = predicted(used(BOTH, A, B, rounds=1), A, B, policy=PredictPolicy(model="oracle")).readiness
    assert isinstance(result, Readiness)
    assert result.reason == "CollectingHistory"
    assert "'oracle'" in result.message


def test_memory_controller_that_is_missing_is_reported() -> None:
    node = used(BOTH, A, B, rounds=10, memory=False)
    node.store.put(MEMORY, NODE, node.now, [GIB] * 30)
    node.rounds(1, BOTH, [A, B], memory=False)
    result = predicted(node, A, B)
    assert (result.readiness.ready, result.readiness.reason) == (False, "MemoryControllerMissing")
    assert "cgroup_enable=memory" in result.readiness.message
    assert (set(result.reclaimable), result.warm) == ({CPU}, 2)
