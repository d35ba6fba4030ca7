"""What is lost when a policy looks at coarser values than those that have to be right: the table of docs/adr/0020.

`python -m tools.bench.granularity` prints Markdown. Peaks are judged at the trace's own step. The policy looks at that,
at averages of several steps (`--factor`), or at the highest value of each several, pod by pod. The trace is August 2013
of Bitbrains, packed as for the choice of the default policy.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray
from agent.prediction.policy import resolve
from headroom.backtest.batch_prediction import BatchPredictor
from headroom.backtest.engine import NamedPolicy, Plan, predictions
from headroom.backtest.group import Machine, machines
from headroom.backtest.placement import packed
from headroom.backtest.policies import parse
from headroom.backtest.score import MachineScore, score
from headroom.backtest.trace import Trace, TraceError
from tools.bench import results
from tools.bench.policies import DATA, MACHINES, PACKINGS, read

LOOKS: Final = ("as fine as what is judged", "averages", "the highest")  # what a policy looks at


@dataclass(frozen=True, slots=True)
class Moments:
    """When it is judged: at the end of each coarse step, when all looks know the same time."""

    first: int  # the first coarse step that counts
    after: int  # the coarse step after the last one that counts
    factor: int  # so many steps are a coarse one

    @property
    def fine(self) -> tuple[int, int]:
        """The first such step of the trace, and the step after the last."""
        return (self.first + 1) * self.factor - 1, self.after * self.factor


def coarser(trace: Trace, factor: int, look: str) -> Trace:
    """The trace with longer steps; one of which something is missing is missing."""
    steps = trace.steps // factor * factor
    blocks = trace.usage[:steps].reshape(-1, factor, trace.series)
    usage = blocks.mean(axis=1) if look == LOOKS[1] else blocks.max(axis=1)
    return replace(trace, times=trace.times[:steps:factor], usage=usage, step_seconds=trace.step_seconds * factor)


def cases(trace: Trace, choice: NamedPolicy, plan: Plan, factor: int) -> dict[str, FloatArray]:
    """Violation and savings by look and packing, shape (packings, 2). [percent]

    Args:
        trace: one resource.
        choice: the policy.
        plan: how, on packings; its first horizon counts.
        factor: so many steps are a coarse one.

    Raises:
        TraceError: the trace is too short.
    """
    horizon = round(plan.horizons_seconds[0] / trace.step_seconds)
    first = round(plan.warm_up_seconds / trace.step_seconds) // factor
    moments = Moments(first, (trace.steps - horizon) // factor, factor)
    if moments.after <= moments.first:
        raise TraceError(f"{trace.source or 'the trace'}: nothing is left between warm-up and horizon")
    begin, end = moments.fine
    predictor = BatchPredictor(choice.name, resolve(choice.policy).models[trace.resource])
    scores: dict[str, list[MachineScore]] = {look: [] for look in LOOKS}
    oracles = [machine.oracle(begin, end, horizon)[::factor] for machine in _machines(trace, plan)]
    for look in LOOKS:
        seen = trace if look == LOOKS[0] else coarser(trace, factor, look)
        for machine, oracle in zip(_machines(seen, plan), oracles, strict=True):
            span = (begin, end, factor) if seen is trace else (moments.first, moments.after, 1)
            limits = machine.limits(*span[:2])[:: span[2]]
            predicted = predictions(machine, [predictor], *span[:2])[0][:: span[2]]
            scores[look].append(score(predicted, oracle, limits))
    return {look: _by_packing(found, len(plan.seeds)) for look, found in scores.items()}


def _machines(trace: Trace, plan: Plan) -> Iterator[Machine]:
    placements = [packed(trace, plan.machines or trace.series, seed) for seed in plan.seeds]
    return machines(trace, placements, workload_history=plan.workload_history)


def _by_packing(scores: Sequence[MachineScore], packings: int) -> FloatArray:
    found = np.array([(one.violation, one.savings, one.limits) for one in scores]).reshape(packings, -1, 3)
    savings = (found[:, :, 1] * found[:, :, 2]).sum(axis=1) / found[:, :, 2].sum(axis=1)
    return 100.0 * np.stack([found[:, :, 0].mean(axis=1), savings], axis=1)


def _row(name: str, found: Mapping[str, FloatArray]) -> tuple[str, ...]:
    shown = (f"{one[:, 0].mean():.2f} ({one[:, 0].max():.2f}) @ {one[:, 1].mean():.2f}" for one in found.values())
    return (name, *shown)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.granularity", description=__doc__)
    parser.add_argument("--factor", type=int, default=5, help="so many steps are a coarse one")
    parser.add_argument("--policy", default="default", help="which, as in `kubectl headroom backtest`")
    parser.add_argument("--resource", choices=("cpu", "memory"), action="append", help="this resource alone")
    asked = parser.parse_args(arguments)
    (choice,) = parse([asked.policy])
    plan = Plan(machines=MACHINES, seeds=PACKINGS)
    rows: list[Sequence[str]] = [("resource", *LOOKS)]
    for resource in asked.resource or ("cpu", "memory"):
        trace = read(str(DATA / "bitbrains-rnd-2013-08"), resource)[0]
        rows.append(_row(resource, cases(trace, choice, plan, asked.factor)))
    what = f"peaks of {trace.step_seconds:g} s; coarse steps of {trace.step_seconds * asked.factor:g} s"
    sys.stdout.write(f"{what}: violation, mean of the packings (worst of them) @ savings; percent\n\n")
    sys.stdout.write(f"{results.markdown(rows)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
