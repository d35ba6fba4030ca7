"""Every number of a report agrees with the next, whatever was measured and whichever model is in force."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.pods import PodRef
from agent.prediction.node import PROD, UNITS, NodePrediction, NodeResources, predict
from agent.prediction.reclaimable import PRESENT_SECONDS
from agent.predictors import PREDICTORS
from agent.reporter.node_metric import build_status
from agent.reporter.usage import measure, present
from agent.samples import CPU, MEMORY, NODE, SYS
from agent.standalone.overview import Row, Sources, build_overview
from agent.trainer.trainer import Trainer
from crds.node_metric import NodeMetricStatus
from crds.predict_policy import ModelChoice, PredictPolicy
from crds.priority import PriorityBand
from crds.quantity import milli_value, value
from tests.agent.made import FACTS, GIB, INTERVAL, START, MadeStore, machine, pod

SLACK = {CPU: 1e-3, MEMORY: 64.0}  # a unit of rounding, and averages that are kept in single precision
BANDS = (PriorityBand.PROD, PriorityBand.MID, PriorityBand.BATCH, PriorityBand.FREE)


@dataclass(frozen=True)
class Phase:
    """Some training rounds: who is here, and cores at rest, cores at work, and seconds of work in each 30."""

    rounds: int
    system: tuple[float, float, int]
    pods: Mapping[str, tuple[float, float, int]]
    hidden: bool  # whether one of the pods cannot be measured


_load = st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 4.0), st.integers(0, 30))
_phase = st.builds(
    Phase, st.integers(1, 6), _load, st.dictionaries(st.sampled_from("abcd"), _load, max_size=4), st.booleans()
)
_policy = st.builds(
    lambda model, cold, margin: PredictPolicy(
        model=model,
        of=(ModelChoice("borg-default"), ModelChoice("recent-max")) if model == "max" else None,
        cold_start_period_seconds=cold,
        safety_margin_percent=margin,
    ),
    st.sampled_from(sorted(PREDICTORS)),
    st.sampled_from([0, 60, 600, 86400]),
    st.sampled_from([0, 10, 100]),
)


def _seconds(load: tuple[float, float, int]) -> list[float]:
    rest, work, seconds = load
    return [work] * seconds + [rest] * (int(INTERVAL) - seconds)


def _lived(phases: Sequence[Phase], all_pods: Mapping[str, PodRef]) -> tuple[float, Trainer, MadeStore, list[PodRef]]:
    """A node that went through these phases; memory is as many GiB as cores."""
    trainer, store, now, here = Trainer(), MadeStore(), START, list[PodRef]()
    for phase in phases:
        here = [all_pods[uid] for uid in phase.pods]
        loads = {uid: _seconds(load) for uid, load in phase.pods.items()} | {SYS: _seconds(phase.system)}
        loads[NODE] = [sum(cores) for cores in zip(*loads.values(), strict=True)]
        if phase.hidden and phase.pods:
            del loads[next(iter(phase.pods))], loads[SYS]
        for _ in range(phase.rounds):
            for entity, cores in loads.items():
                store.put(CPU, entity, now, cores)
                store.put(MEMORY, entity, now, [GIB * core for core in cores])
            now += INTERVAL
            trainer.train(now, store, here)
    return now, trainer, store, here


def _amount(amounts: Mapping[str, str] | None, resource: str) -> float | None:
    text = (amounts or {}).get(resource)
    return None if text is None else milli_value(text) / 1000 if resource == CPU else float(value(text))


def _check(status: NodeMetricStatus, found: NodePrediction, facts: NodeResources) -> None:
    assert status.prediction is not None
    classes = {cls_.name: cls_ for cls_ in status.prediction.classes or ()}
    for resource in (CPU, MEMORY):
        most, slack = facts.capacity[resource] / UNITS[resource], SLACK[resource]
        peaks = {name: _amount(one.peak, resource) for name, one in classes.items()}
        for name, one in classes.items():
            peak = peaks[name]
            if peak is None:
                continue
            assert peak <= most + slack, name
            for lower in (_amount(one.mean, resource), _amount(one.usage, resource)):
                assert peak + slack >= min(lower or 0.0, most), name
            whole = peaks[NODE]  # unknown while the system is
            assert whole is None or peak <= whole + slack, name
        together = found.prod_peak.get(resource)
        if together is not None:
            prod = (peaks[PROD] or 0.0) + (peaks[SYS] or 0.0)
            both = sum(_amount(classes[name].usage, resource) or 0.0 for name in (PROD, SYS))
            assert together / UNITS[resource] + slack >= min(both, most)
            assert together / UNITS[resource] + slack >= (peaks[PROD] or 0.0)
            if not found.terms[resource].by_model:
                assert together / UNITS[resource] <= (peaks[NODE] or 0.0) + 2 * slack
                assert together / UNITS[resource] == pytest.approx(min(prod, most), abs=2 * slack)


def _check_table(classes: Sequence[Row], pods: Sequence[Row], most: Mapping[str, int]) -> None:
    by_name = {row.name.strip().partition(",")[0]: row for row in classes}
    for resource in (CPU, MEMORY):
        limit, slack = most[resource] / UNITS[resource], SLACK[resource]
        whole = by_name["node"].peak.get(resource)
        for row in (*classes, *pods):
            peak = row.peak.get(resource)
            if peak is None or whole is None:
                continue
            assert peak + slack >= min(row.used.get(resource, 0.0), limit), row.name
            assert peak <= whole + slack, row.name


@given(
    st.lists(_phase, min_size=1, max_size=3),
    st.lists(st.tuples(st.sampled_from(BANDS), st.integers(0, 4000)), min_size=4, max_size=4),
    _policy,
    st.integers(1, 24),
)
@settings(max_examples=60, deadline=None)
def test_numbers_agree(
    phases: list[Phase], kinds: list[tuple[PriorityBand, int]], policy: PredictPolicy, cores: int
) -> None:
    """A part's peak is at most the whole's; no peak is below the present usage, and no mean above its peak."""
    all_pods = {uid: pod(uid, cpu, cpu << 20, band=band) for uid, (band, cpu) in zip("abcd", kinds, strict=True)}
    now, trainer, store, here = _lived(phases, all_pods)
    amounts = {CPU: cores * 1000, MEMORY: cores * GIB}
    facts = NodeResources({name: amount * 9 // 10 for name, amount in amounts.items()}, amounts)

    def class_of(uid: str) -> str:
        return trainer.class_of(uid) or PROD

    used = present(now, store, class_of, PRESENT_SECONDS)
    result = predict(now, trainer, here, facts, policy, present=used)
    windows: dict[str, Any] = {"window_seconds": 300.0, "durations_seconds": [300.0]}
    usages = measure(now, store, here, class_of, **windows, memory_policy="usageWithoutPageCache")
    _check(build_status(usages, result, here, as_of=now, predicted_as_of=now), result, facts)
    assert result.warm + len(result.cold) == len(here)
    for numbers in (result.reclaimable, result.prod_peak, *(cls_.peak for cls_ in result.classes.values())):
        assert all(0 <= amount <= facts.capacity[resource] for resource, amount in numbers.items())
    for resource, term in result.terms.items():
        assert result.reclaimable[resource] <= min(
            facts.allocatable[resource], sum(item.requests.get(resource, 0) for item in here)
        )
        if not term.by_model:
            requested = sum(entry.requests.get(resource, 0) for entry in here if entry.band is PriorityBand.PROD)
            left = requested - (result.classes[PROD].peak[resource] - 1)
            assert result.reclaimable[resource] <= max(left, 0)
    view = build_overview(now, Sources(store, trainer, here, facts), result, window_seconds=10.0)
    _check_table(view.classes, view.pods, amounts)


def test_class_that_uses_more_than_ever_is_expected_to() -> None:
    node, pods = machine(), [pod("a", 4000, 4 * GIB)]
    node.rounds(20, {"a": 1.0}, pods)
    policy = PredictPolicy(cold_start_period_seconds=60, model="recent-max", safety_margin_percent=0)
    used = {CPU: {PROD: 3.0, NODE: 3.25, SYS: 0.25}}
    result = predict(node.now, node.trainer, pods, FACTS, policy, present=used)
    assert {name: result.classes[name].peak[CPU] for name in (PROD, SYS, NODE)} == {PROD: 3000, SYS: 250, NODE: 3250}
    assert (result.reclaimable[CPU], result.prod_peak[CPU]) == (1000, 3250)
    own_rule = predict(node.now, node.trainer, pods, FACTS, replace(policy, model="percentile"), present=used)
    assert own_rule.prod_peak[CPU] == 3250
    assert own_rule.reclaimable[CPU] <= 4000 - 3000


def test_rule_of_its_own_expects_no_less_than_prod() -> None:
    """Koordinator's rule, which leaves cold pods out of one of its sums: Prod and the system are no less than Prod."""
    node, pods = machine(), [pod("old", 4000, 4 * GIB), pod("new", 3000, 3 * GIB)]
    node.rounds(40, {"old": 0.5}, pods[:1])
    node.rounds(10, {"old": 0.5, "new": 2.5}, pods)
    policy = PredictPolicy(cold_start_period_seconds=600, model="percentile", safety_margin_percent=0)
    result = predict(node.now, node.trainer, pods, FACTS, policy)
    assert result.cold == ("shop/new",)
    assert result.prod_peak[CPU] >= result.classes[PROD].peak[CPU]
