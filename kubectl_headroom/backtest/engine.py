"""Replays policies on a trace: what each would have predicted for every machine, against the actual usage.

    Peak = min(margin * model(warm pods) + limits of the cold pods, limits of all pods)

where a cold pod of a workload that the cluster knows counts at min(limit, history * (1 + margin)).

A pod is cold until it was observed for the policy's cold period, as in the agent; a machine is a node without system
usage. Machines are evaluated a group at a time, so that memory does not grow with the number of machines: a group holds
a few times `GROUP_VALUES` numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.api import SLOT_SECONDS, FloatArray, resolve
from crds.duration import format_span
from crds.predict_policy import PredictPolicy
from kubectl_headroom.backtest.batch_prediction import BatchPredictor, ModelError
from kubectl_headroom.backtest.group import GROUP_VALUES, Machine, WorkloadHistory, machines
from kubectl_headroom.backtest.placement import Churn, Placement, check_churn, churned, packed, real
from kubectl_headroom.backtest.score import MachineScore, Result, result, score
from kubectl_headroom.backtest.trace import Trace, TraceError

__all__ = ["GROUP_VALUES", "Churn", "ModelError", "Result", "TraceError"]

ORACLE: Final = "oracle"  # name of the policy that knows the future
Progress = Callable[[float, str], None]  # called with the share that is done, 0..1, and the current work


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A policy to evaluate, and its name in results."""

    name: str
    policy: PredictPolicy
    horizon_seconds: int | None = None  # the only horizon that it is evaluated for; None for all [s]


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of an evaluation."""

    machines: int | None = None  # pack the series on so many machines; None for the placement in the trace
    seeds: tuple[int, ...] = (0, 1)
    """Seeds of the random packing, or of pods that start and end; each is a separate placement."""
    horizons_seconds: tuple[int, ...] = (86_400,)  # how long a prediction has to hold [s]
    warm_up_seconds: float = 86_400.0  # steps before this are not counted [s]
    churn: Churn | None = None  # let pods come and go; None for series that stay where they are
    workload_history: WorkloadHistory = "cluster"
    """Where the workload's history that a new pod knows comes from; `cluster` is that of agents with a manager."""


def run(
    trace: Trace, choices: Sequence[NamedPolicy], plan: Plan, progress: Progress = lambda _share, _what: None
) -> list[Result]:
    """Evaluate policies on one trace: for each horizon a result of the oracle, then of each of its policies as given.

    Raises:
        TraceError: it cannot be evaluated as planned; the message has the way out.
        PolicyError: a policy cannot be followed.
        ModelError: a model failed.
    """
    if trace.step_seconds != SLOT_SECONDS:
        raise TraceError(
            f"{trace.title}: has a value every {trace.step_seconds:g} s, but models use averages "
            f"of {SLOT_SECONDS:g} s; average it over that time"
        )
    horizons = {seconds: max(int(np.ceil(seconds / trace.step_seconds)), 1) for seconds in plan.horizons_seconds}
    start = _first_counted(trace, plan, horizons)
    policies = [resolve(choice.policy) for choice in choices]
    predictors = [
        BatchPredictor(choice.name, policy.models[trace.resource], policy.workload_history)
        for choice, policy in zip(choices, policies, strict=True)
    ]
    names = (ORACLE, *(choice.name for choice in choices))
    only = (None, *(choice.horizon_seconds for choice in choices))
    placements = _placements(trace, plan)
    total = sum(len(placement.machines) for placement in placements)
    scores: dict[int, list[list[MachineScore]]] = {seconds: [[] for _ in names] for seconds in horizons}
    done = 0

    def learning(share: float) -> None:
        progress(done / total, f"learning, {share:.0%}")

    for machine in machines(trace, placements, workload_history=plan.workload_history, learning=learning):
        progress(done / total, machine.name)
        done += 1
        _evaluate(machine, predictors, start, horizons, scores)
    progress(1.0, "")
    if not all(found[0] for found in scores.values()):
        raise TraceError(
            f"{trace.title}: no series is on a machine after the first "
            f"{format_span(plan.warm_up_seconds)} and before the horizon; choose a shorter --warm-up or --horizon"
        )
    seeds = [placement.seed for placement in placements if placement.seed is not None]
    return [
        result(name, trace.resource, seconds, seeds, found)
        for seconds, of_policies in scores.items()
        for name, horizon, found in zip(names, only, of_policies, strict=True)
        if horizon in (None, seconds)
    ]


def _evaluate(
    machine: Machine,
    predictors: Sequence[BatchPredictor],
    start: int,
    horizons: Mapping[int, int],
    scores: Mapping[int, Sequence[list[MachineScore]]],
) -> None:
    """Add one machine's scores, unless nothing is on it at any step that counts for a horizon."""
    steps = machine.trace.steps
    predicted = predictions(machine, predictors, start, steps - min(horizons.values()))
    for seconds, horizon in horizons.items():
        limits = machine.limits(start, steps - horizon)
        if not limits.any():
            continue
        oracle = machine.oracle(start, steps - horizon, horizon)
        for found, peaks in zip(scores[seconds], [oracle, *predicted], strict=True):
            found.append(score(peaks[: len(limits)], oracle, limits))


def predictions(machine: Machine, predictors: Sequence[BatchPredictor], start: int, end: int) -> list[FloatArray]:
    """Return the predictions of each policy for a machine at the steps start <= t < end, shape (N,). [cores or bytes]

    It may be above the sum of the limits.
    """
    predictions = [np.zeros(end - start) for _ in predictors]
    periods = {predictor.model.cold_start_seconds for predictor in predictors}
    for period in periods:
        for segment in machine.segments(period, start, end):
            part = slice(segment.start - start, segment.end - start)
            for predictor, peaks in zip(predictors, predictions, strict=True):
                if predictor.model.cold_start_seconds == period:
                    warm = 0.0 if segment.view is None else predictor.peaks(segment.view)
                    peaks[part] = warm + machine.cold(segment, predictor.rule)
            segment.forget()
    return predictions


def _first_counted(trace: Trace, plan: Plan, horizons: Mapping[int, int]) -> int:
    """The first step that counts; raises TraceError if none would be left for a horizon."""
    start = int(np.ceil(plan.warm_up_seconds / trace.step_seconds))
    longest = max(horizons.values())
    if trace.steps - longest > start:
        return start
    length, step = trace.steps * trace.step_seconds, trace.step_seconds
    rest = trace.steps - 1 - start
    way_out = "choose a shorter --warm-up and a shorter --horizon"
    if rest > 0:
        way_out = f"choose a --horizon of at most {format_span(rest * step)}"
    elif trace.steps - 1 > longest:
        way_out = f"choose a --warm-up of at most {format_span((trace.steps - 1 - longest) * step)} with this horizon"
    raise TraceError(
        f"{trace.title}: it lasts {format_span(length)}; the first {format_span(plan.warm_up_seconds)} "
        f"and the last {format_span(longest * step)} (the horizon) do not count, so no time is left; {way_out}"
    )


def _placements(trace: Trace, plan: Plan) -> list[Placement]:
    if plan.churn is not None:
        if plan.machines is None:
            raise TraceError("pods that come and go need a number of machines: --machines")
        check_churn(trace, plan.machines, plan.churn, len(plan.seeds))
        return [churned(trace, plan.machines, plan.churn, seed) for seed in plan.seeds]
    if plan.machines is not None:
        return [packed(trace, plan.machines, seed) for seed in plan.seeds]
    return [real(trace)]
