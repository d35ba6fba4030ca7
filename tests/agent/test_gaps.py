"""A gap publishes less, never more: Reclaimable is at most that of a quiet node in the unmeasured time.

The usage in a gap is unknown: a burst that was never measured is in no number. So the comparison is with the
least that can have happened, nothing used; and, where the gap hides no peak, the very same usage measured.

A pod that a gap makes cold counts at its request, or at the highest it was seen to use: without margin and ratio, and
without the share of others' peaks that `coincidence` and `diversity` charge warm pods with. So requests here are twice
what a pod uses at most, and margins no larger than twice the ratio: pods with reclaimable amounts, and these amounts.
"""

import copy
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.numerics.arrays import BoolArray, FloatArray
from agent.pods import PodRef
from agent.prediction.node import PROD, NodeResources, predict
from agent.prediction.reclaimable import PRESENT_SECONDS
from agent.predictors import PREDICTORS
from agent.reporter.usage import present
from agent.samples import CPU, MEMORY, NODE, SYS
from agent.trainer.trainer import Trainer
from crds.predict_policy import ModelChoice, PredictPolicy
from tests.agent.made import GIB, INTERVAL, LongRun, machine, pod

FACTS = NodeResources({CPU: 60_000, MEMORY: 60 * GIB}, {CPU: 64_000, MEMORY: 64 * GIB}, {CPU: 1_000, MEMORY: GIB})
WINDOWED = [
    PredictPolicy(),
    PredictPolicy(model="diversity"),
    PredictPolicy(model="diversity", parameters={"windowDays": 0.02, "lambdaMin": 0.1}),
    PredictPolicy(model="coincidence", parameters={"targetViolationPercent": 5, "windowDays": 0.02}),
    PredictPolicy(model="coincidence", parameters={"targetViolationPercent": 7, "horizonHours": 22}),
    PredictPolicy(model="recent-max", parameters={"windowDays": 0.02}),
    PredictPolicy(model="resource-central", parameters={"percentile": 100}),
    PredictPolicy(model="max", of=(ModelChoice("borg-default"), ModelChoice("diversity"))),
]
"""Models of peaks. A mean, deviation or percentile below 100 of fewer samples may be higher or lower."""
Terms = tuple[int, int, int]  # cold period [s], safety margin [%] and reclaim ratio [%]


def learned(usage: FloatArray, there: BoolArray, pods: Sequence[PodRef]) -> Trainer:
    node, names = LongRun(), [SYS, *(pod.uid for pod in pods)]
    for values, cached in zip(usage.T, there.T, strict=True):
        measured = {name: value for name, value, is_it in zip(names, values, cached, strict=True) if is_it}
        node.measured({**measured, NODE: float(values.sum())}, pods)
    return node.trainer


def reclaimable(
    trainer: Trainer, pods: Sequence[PodRef], policy: PredictPolicy, facts: NodeResources = FACTS
) -> Mapping[str, int]:
    """The published amount; nothing for an unknown resource."""
    return {CPU: 0, MEMORY: 0, **predict(0.0, trainer, pods, facts, policy).reclaimable}


def at_most(less: Mapping[str, int], more: Mapping[str, int]) -> bool:
    """Return whether no resource has more, but for the last bits of 4-byte averages of what a whole node may use."""
    return all(less[metric] <= more[metric] + 1 + FACTS.capacity[metric] * 1e-6 for metric in more)


@st.composite
def _nodes(draw: st.DrawFn) -> tuple[FloatArray, BoolArray, list[PodRef], Terms]:
    """Usage, its measured part, the pods, and the policy's terms."""
    count, slots = draw(st.integers(1, 3)), draw(st.integers(2, 9))
    cores = st.sampled_from([0.0, 0.5, 4.0]) | st.floats(0.0, 6.0)
    row = st.lists(cores, min_size=slots, max_size=slots)
    usage = np.array([draw(row) for _ in range(1 + count)])
    flags = st.lists(st.booleans(), min_size=slots, max_size=slots)
    there = np.array([draw(flags | st.just([True] * slots) | st.just([False] * slots)) for _ in range(1 + count)])
    most = usage[1:].max(axis=1)
    pods = [pod(f"p{n}", int(2000 * most[n]) + 10, int(2 * most[n] * GIB) + GIB // 64) for n in range(count)]
    cold, terms = st.sampled_from([0, 300, 900, 1800, 86400]), st.sampled_from([(0, 100), (10, 80), (50, 75)])
    return usage, there, pods, (draw(cold), *draw(terms))


@pytest.mark.parametrize("policy", WINDOWED, ids=lambda policy: policy.model or "default")
@given(made=_nodes())
def test_gap_is_never_quieter_than_quiet(
    policy: PredictPolicy, made: tuple[FloatArray, BoolArray, list[PodRef], Terms]
) -> None:
    """Any slots of the system and of any pods, all of them included, that were not measured: as if nothing was used."""
    usage, there, pods, terms = made
    policy = _under(policy, terms)
    with_gap = learned(usage, there, pods)
    quiet = learned(np.where(there, usage, 0.0), np.ones_like(there), pods)
    assert at_most(reclaimable(with_gap, pods, policy), reclaimable(quiet, pods, policy))


@pytest.mark.parametrize("policy", WINDOWED, ids=lambda policy: policy.model or "default")
@given(made=_nodes())
def test_gap_without_peak_never_publishes_more(
    policy: PredictPolicy, made: tuple[FloatArray, BoolArray, list[PodRef], Terms]
) -> None:
    """Where all highest values were measured, the gap publishes at most the true amount."""
    usage, there, pods, terms = made
    policy = _under(policy, terms)
    last = usage.shape[1] - 6  # the shortest window has the last 6 slots
    for values, cached in zip(usage, there, strict=True):
        cached[[values.argmax(), max(last, 0) + values[max(last, 0) :].argmax()]] = True
    together = usage[1:].sum(axis=0)
    there[:, [together.argmax(), max(last, 0) + together[max(last, 0) :].argmax()]] = True
    there[:, -1] = True  # and the window ends where it would
    with_gap, without = (learned(usage, cached, pods) for cached in (there, np.ones_like(there)))
    assert at_most(reclaimable(with_gap, pods, policy), reclaimable(without, pods, policy))


@pytest.mark.parametrize("policy", WINDOWED, ids=lambda policy: policy.model or "default")
@given(made=_nodes(), data=st.data())
def test_lost_averages_never_sell_more(
    policy: PredictPolicy, made: tuple[FloatArray, BoolArray, list[PodRef], Terms], data: st.DataObject
) -> None:
    """Lost averages of a whole window (a damaged file): the highest sample replaces them."""
    usage, _, pods, terms = made
    trainer = learned(usage, np.ones_like(usage, dtype=np.bool_), pods)
    policy = _under(policy, terms)
    before = reclaimable(trainer, pods, policy)
    lost = data.draw(st.sets(st.sampled_from([SYS, *(pod.uid for pod in pods)]), min_size=1))
    rows = np.array([row for name in lost if (row := trainer.row(name)) is not None])
    for history in trainer.histories.values():
        history.windows.averages[rows] = np.nan
    assert at_most(reclaimable(trainer, pods, policy), before)


@given(made=_nodes(), data=st.data())
def test_unknown_facts_never_sell_more(
    made: tuple[FloatArray, BoolArray, list[PodRef], Terms], data: st.DataObject
) -> None:
    """Amounts missing from the Node, and missing requests, never count as free resources."""
    usage, there, pods, terms = made
    trainer, policy = learned(usage, there, pods), _under(PredictPolicy(), terms)
    facts = copy.deepcopy(FACTS)
    for amounts in (facts.allocatable, facts.capacity, facts.reservation):
        for metric in data.draw(st.sets(st.sampled_from([CPU, MEMORY]))):
            del amounts[metric]  # type: ignore[attr-defined]
    assert at_most(reclaimable(trainer, pods, policy, facts), reclaimable(trainer, pods, policy))


@pytest.mark.parametrize("model", sorted(PREDICTORS.keys() - {"max", "nsigma-v1", "percentile"}))
@pytest.mark.parametrize("rounds", [2, 8])
@pytest.mark.parametrize("hidden", ["idle", NODE])
def test_rise_counts_next_to_a_gap(model: str, rounds: int, hidden: str) -> None:
    """A pod that has just risen is expected to go on, whether or not the node, or an idle pod, can be measured."""
    reclaimed = []
    for gone in ((), (hidden, SYS)):  # the system's usage is known while all usage is
        node, pods = machine(), [pod("busy", 8000, 8 * GIB), pod("idle", 1000, GIB)]
        node.rounds(40, {"busy": 1.0, "idle": 0.0}, pods)
        for _ in range(rounds):
            cores = {"busy": 5.0, "idle": 0.0, SYS: 0.0, NODE: 5.0}
            for entity in cores.keys() - set(gone):
                node.store.put(CPU, entity, node.now, [cores[entity]] * int(INTERVAL))
                node.store.put(MEMORY, entity, node.now, [cores[entity] * GIB] * int(INTERVAL))
            node.now += INTERVAL
            node.trainer.train(node.now, node.store, pods)
        used = present(node.now, node.store, node.trainer.class_of, PRESENT_SECONDS)
        policy = PredictPolicy(model=model, cold_start_period_seconds=60, safety_margin_percent=0)
        reclaimed.append(predict(node.now, node.trainer, pods, FACTS, policy, present=used).reclaimable)
        assert used[CPU][PROD] == pytest.approx((5.0 * rounds + 1.0 * (10 - rounds)) / 10)
    assert at_most(reclaimed[1], reclaimed[0])


def _under(policy: PredictPolicy, terms: Terms) -> PredictPolicy:
    cold, margin, ratio = terms
    return PredictPolicy(
        model=policy.model,
        parameters=policy.parameters,
        of=policy.of,
        cold_start_period_seconds=cold,
        safety_margin_percent=margin,
        reclaim_ratio_percent=ratio,
    )
