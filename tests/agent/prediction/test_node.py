import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.numerics.history import cpu_history
from agent.pods import PodRef
from agent.prediction.node import NodePrediction, NodeResources, class_peak, predict
from agent.prediction.policy import ResourceModel
from agent.predictors import PREDICTORS
from agent.predictors.base import ClassView, Model, View
from agent.samples import CPU, MEMORY, NODE, SYS
from agent.trainer.trainer import Trainer
from crds.predict_policy import ModelChoice, PredictPolicy, ResourceOverride
from crds.priority import PriorityBand
from tests.agent.made import FACTS, GIB, Machine, machine, pod

SHORT = PredictPolicy(cold_start_period_seconds=60, model="nsigma-v2")


def predicted(
    node: Machine, pods: Sequence[PodRef], policy: PredictPolicy = SHORT, facts: NodeResources = FACTS
) -> NodePrediction:
    """The prediction for what the machine has learned."""
    return predict(node.now, node.trainer, pods, facts, policy)


def test_warm_pod_is_reclaimable() -> None:
    """A pod that uses 1 of 4 cores: peak 1.1, so 4 - 1.1 = 2.9 cores are reclaimable."""
    node, pods = machine(), [pod("a", 4000, 4 * GIB)]
    node.rounds(20, {"a": 1.0}, pods)
    found = predicted(node, pods)
    assert found.reclaimable == {CPU: 2900, MEMORY: math.floor(2.9 * GIB)}
    assert found.classes["prod"].peak == {CPU: 1100, MEMORY: math.ceil(1.1 * GIB)}
    assert (found.warm, found.cold) == (1, ())
    assert found.classes["prod"].samples == 20
    assert found.classes["prod"].span_seconds == 600


def test_unseen_pod_is_cold() -> None:
    """A pod that was bound a moment ago and never measured counts at its request."""
    node = machine()
    node.rounds(20, {"a": 1.0}, [pod("a", 4000)])
    found = predicted(node, [pod("a", 4000), pod("new", 2000)])
    assert found.classes["prod"].peak[CPU] == 3100
    assert found.cold == ("shop/new",)


def test_terminal_pod_does_not_count() -> None:
    """A pod that has ended has no request and no peak."""
    node = machine()
    node.rounds(20, {"a": 1.0}, [pod("a", 4000)])
    found = predicted(node, [pod("a", 4000), pod("done", 9000, terminal=True)])
    assert found.reclaimable[CPU] == 2900
    assert found.warm == 1


def test_other_bands_are_not_reclaimable() -> None:
    """Requests of Mid and Batch pods are not reclaimable, and their peaks are separate."""
    pods = [pod("a", 4000), pod("m", 2000, band=PriorityBand.MID), pod("b", 1000, band=PriorityBand.BATCH)]
    node = machine()
    node.rounds(20, {"a": 1.0, "m": 0.5, "b": 0.2}, pods)
    found = predicted(node, pods)
    assert found.reclaimable[CPU] == 2900
    assert [found.classes[name].peak[CPU] for name in ("mid", "batch", "free")] == [550, 220, 0]


def test_reservation_annotation_counts() -> None:
    """The larger of kubelet's and the annotation's reservation covers the system."""
    node, pods = machine(), [pod("a", 15_500)]
    node.rounds(20, {"a": 1.0}, pods, system=1.0)
    facts = NodeResources(FACTS.allocatable, FACTS.capacity, {CPU: 2000})
    assert predicted(node, pods, facts=facts).terms[CPU].system_extra == 0.0


def test_node_peak_holds_everything() -> None:
    """The node's peak is that of all pods and the system together."""
    pods = [pod("a", 4000), pod("m", 2000, band=PriorityBand.MID)]
    node = machine()
    node.rounds(20, {"a": 1.0, "m": 0.5}, pods, system=0.2)
    found = predicted(node, pods)
    assert found.classes[NODE].peak[CPU] == 1870
    assert found.classes[SYS].peak[CPU] in {220, 221}  # averages of 5 minutes are kept in single precision
    assert found.classes[NODE].mean[CPU] == 1700


def test_margin_is_per_resource() -> None:
    """The margin of one resource's part holds for that resource."""
    node, pods = machine(), [pod("a", 4000, 4 * GIB)]
    node.rounds(20, {"a": 1.0}, pods)
    policy = PredictPolicy(
        cold_start_period_seconds=60, safety_margin_percent=50, memory=ResourceOverride(safety_margin_percent=0)
    )
    assert predicted(node, pods, policy).classes["prod"].peak == {CPU: 1500, MEMORY: GIB}


def test_request_model_has_no_margin() -> None:
    """Borg's peak is requests / 1.1 without a margin, while the system is still measured."""
    node, pods = machine(), [pod("a", 4400)]
    node.rounds(20, {"a": 1.0}, pods, system=0.2)
    found = predicted(node, pods, PredictPolicy(cold_start_period_seconds=60, model="borg-default"))
    assert found.classes["prod"].peak[CPU] == 4000
    assert found.classes[SYS].peak[CPU] in {220, 221}  # averages of 5 minutes are kept in single precision


def test_unknown_model_keeps_last_policy() -> None:
    """A policy with an unknown model changes nothing but the condition, which names it."""
    node, pods = machine(), [pod("a", 4000)]
    node.rounds(20, {"a": 1.0}, pods)
    before = predicted(node, pods)
    node.trainer.policy = before.policy
    after = predict(node.now, node.trainer, pods, FACTS, PredictPolicy(model="oracle"))
    assert (after.reclaimable, after.policy) == (before.reclaimable, before.policy)
    assert (after.readiness.ready, after.readiness.reason) == (True, "PolicyRejected")
    assert "'oracle'" in after.readiness.message


def test_restart_keeps_last_policy() -> None:
    """While the spec cannot be followed, a restart does not fall back to the default policy either."""
    node, pods = machine(), [pod("a", 4400)]
    node.rounds(20, {"a": 1.0}, pods)
    node.trainer.policy = predicted(
        node, pods, PredictPolicy(cold_start_period_seconds=60, model="borg-default")
    ).policy
    again = Trainer()
    again.restore(node.trainer.checkpoints())
    found = predict(node.now, again, pods, FACTS, PredictPolicy(model="oracle"))
    assert (found.policy.model, found.classes["prod"].peak[CPU]) == ("borg-default", 4000)
    assert found.readiness.reason == "PolicyRejected"


def test_unknown_capacity_predicts_nothing() -> None:
    """Without the Node object there is no peak and nothing to reclaim, and the reason says so."""
    node, pods = machine(), [pod("a", 4000)]
    node.rounds(20, {"a": 1.0}, pods)
    found = predicted(node, pods, facts=NodeResources())
    assert (found.reclaimable, found.prod_peak, found.classes["prod"].peak) == ({}, {}, {})
    assert found.readiness.reason == "NodeUnknown"


def test_nothing_learned_predicts_nothing() -> None:
    """A moment after the first start nothing is known, and nothing is reclaimable."""
    found = predicted(machine(), [pod("a")])
    assert found.reclaimable == {}
    assert (found.readiness.ready, found.readiness.reason) == (False, "NoMeasurements")


class _Broken:
    """A third party's model that answers nonsense."""

    measured = True

    def __init__(self, answer: float) -> None:
        self.answer = answer

    def peak(self, view: View, margin: float) -> float:
        """Nonsense."""
        del view, margin
        return self.answer


def test_percentile_brings_own_rule() -> None:
    """Koordinator's rule: the docstring's pods, per pod 2 - p95 * 1.1, per class less than allocatable; the smaller.

    A warm pod requests 2 cores and uses 0.5 (bucket end 0.539, with margin 592m), a cold one requests 1: per pod
    2000 - 592 = 1408m; per class, system 0.3 (0.316) and Prod 0.5: 3000 - int(855 * 1.1) = 2060m.
    """
    node, pods = machine(), [pod("a", 2000), pod("b", 1000)]
    node.rounds(20, {"a": 0.5}, pods[:1], system=0.3)
    found = predicted(node, pods, PredictPolicy(cold_start_period_seconds=60, model="percentile"))
    assert found.reclaimable[CPU] == 1408
    assert found.terms[CPU].by_model
    assert found.prod_peak[CPU] == 592 + 1000
    assert found.classes["prod"].peak[CPU] == 592 + 1000
    half = PredictPolicy(cold_start_period_seconds=60, model="percentile", reclaim_ratio_percent=50)
    assert predicted(node, pods, half).reclaimable[CPU] == 1000 - 592


def test_percentile_is_bounded_by_class() -> None:
    """Where the class used more together than its pods say now, the class decides; in `max` only the peak counts."""
    node, pods = machine(), [pod("a", 2000), pod("gone", 4000)]
    node.rounds(20, {"a": 0.5, "gone": 1.0}, pods)
    node.rounds(1, {"a": 0.5}, pods[:1])
    found = predicted(node, pods[:1], PredictPolicy(cold_start_period_seconds=60, model="percentile"))
    assert found.reclaimable[CPU] == 2000 - math.floor((1558 + 25) * 1.1)
    joint = PredictPolicy(cold_start_period_seconds=60, model="max", of=(ModelChoice("percentile"),))
    assert not predicted(node, pods[:1], joint).terms[CPU].by_model


def test_leaving_pod_under_percentile() -> None:
    """Koordinator's rule reclaims nothing of a pod that is being deleted, the common formula until it has gone."""
    node, pods = machine(), [pod("a", 2000)]
    node.rounds(20, {"a": 0.5}, pods)
    terminating = [replace(pods[0], terminating=True)]
    assert (
        predicted(node, terminating, PredictPolicy(cold_start_period_seconds=60, model="percentile")).reclaimable[CPU]
        == 0
    )
    assert predicted(node, terminating).reclaimable[CPU] == 2000 - 550


def test_pod_listed_twice_counts_once() -> None:
    """A pod that the list holds twice is one pod."""
    node, pods = machine(), [pod("a", 4000)]
    node.rounds(20, {"a": 1.0}, pods)
    assert predicted(node, pods * 2) == predicted(node, pods)


def test_policy_change_keeps_history() -> None:
    """Another model, another resource part, another window: each answers at once from all that was learned."""
    node, pods = machine(), [pod("a", 4000)]
    node.rounds(20, {"a": 1.0}, pods)
    for number, (model, parameters) in enumerate(
        [("sum-max", {"windowDays": 1}), ("recent-max", {"windowDays": 14}), ("nsigma-v1", {"n": 2})]
    ):
        policy = PredictPolicy(cold_start_period_seconds=60, model=model, parameters=parameters)
        found = predicted(node, pods, policy)
        node.trainer.resize_windows(found.window_days)
        assert (found.policy.model, found.classes["prod"].peak[CPU], found.problem) == (model, 1100, "")
        node.rounds(1, {"a": 1.0}, pods)
        assert node.cores("a", "counts") == 21 + number


class _Raising:
    """A third party's model that fails."""

    measured = True

    def peak(self, view: View, margin: float) -> float:
        """Fails."""
        del view, margin
        raise ZeroDivisionError("by\nzero")


def test_failing_model_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that raises expects the whole machine: nothing is reclaimable, and the condition names it and why."""
    node, pods = machine(), [pod("a", 4000)]
    node.rounds(20, {"a": 1.0}, pods)
    monkeypatch.setattr("agent.prediction.policy.build", lambda *_: _Raising())
    found = predicted(node, pods)
    assert found.reclaimable == {CPU: 0, MEMORY: 0}
    assert found.classes["prod"].peak[CPU] == 16_000
    assert (found.readiness.ready, found.readiness.reason) == (False, "ModelFailed")
    assert "Model nsigma-v2 failed for cpu: ZeroDivisionError: by zero" in found.readiness.message


@pytest.mark.parametrize("answer", [math.nan, math.inf, -1.0])
def test_nonsense_counts_as_capacity(answer: float) -> None:
    """A model that answers no amount is taken to expect the whole machine."""
    model: Model = _Broken(answer)
    history = cpu_history()
    history.grow(2)
    history.learn(np.array([0, 1]), np.ones(2), 0.0, np.ones(2))
    view = ClassView(history, 0, np.array([1]), np.ones(1))
    assert class_peak(view, np.zeros(0), ResourceModel("theirs", model, 1.1, model, 60.0), 16.0) == 16.0


usage = st.lists(st.floats(0.0, 20.0), min_size=0, max_size=5)


@settings(max_examples=40, deadline=None)
@given(
    used=usage,
    requested=st.lists(st.integers(0, 20_000), min_size=5, max_size=5),
    system=st.floats(0.0, 20.0),
    rounds=st.integers(0, 4),
    model=st.sampled_from(sorted(PREDICTORS.keys() - {"max"})),
)
def test_prediction_is_always_sane(
    used: list[float], requested: list[int], system: float, rounds: int, model: str
) -> None:
    """Whatever is used and asked for, every number is a whole one between 0 and the node's capacity."""
    bands = list(PriorityBand)
    pods = [
        pod(str(number), requested[number], requested[number] << 20, band=bands[number % len(bands)])
        for number in range(len(used))
    ]
    node = machine()
    node.rounds(rounds, {str(number): cores for number, cores in enumerate(used)}, pods, system=system)
    found = predicted(node, pods, PredictPolicy(cold_start_period_seconds=60, model=model))
    shown = [found.reclaimable, found.prod_peak, *(numbers.peak for numbers in found.classes.values())]
    for amounts_by_resource in shown:
        for resource, amount in amounts_by_resource.items():
            assert 0 <= amount <= FACTS.capacity[resource]
    for resource, amount in found.reclaimable.items():
        requests = sum(one.requests.get(resource, 0) for one in pods)
        assert amount <= min(FACTS.allocatable[resource], requests)
    assert found.warm + len(found.cold) == len(pods)
