"""What models that lost would have saved: extreme-value tails, and groups of pods that move together.

`python -m tools.bench.candidates` prints Markdown: August 2013 of Bitbrains (40 machines, packings 0 and 1, 24 h ahead,
cold for a day), each candidate with its one free number set so that its mean violation is the one that the default
policy aims at; the savings are what compares. They are no models of the agent, as they are not worth it.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.sparse.csgraph import connected_components

from agent.numerics.arrays import FloatArray
from agent.numerics.peaks import SLOTS_PER_DAY
from headroom.backtest import sources
from headroom.backtest.placement import random_packing
from headroom.backtest.rolling_window import ahead_max, trailing_max
from headroom.backtest.score import score
from headroom.backtest.trace import Resource, Trace
from tools.bench import results
from tools.bench.machine import ROOT

FOLDER: Final = ROOT / "tools/bench" / "data" / "bitbrains-rnd-2013-08"
MACHINES: Final = 40
SEEDS: Final = (0, 1)
AIMS: Final[dict[Resource, float]] = {"cpu": 0.025, "memory": 0.03}  # mean violation that the default policy aims at
HOUR_STEPS: Final = SLOTS_PER_DAY // 24
TAIL: Final = 0.05  # share of the values that a generalised Pareto distribution is fitted to
NO_SHAPE: Final = 1e-6  # below this a generalised Pareto distribution is an exponential one
HALVINGS: Final = 14

Rule = Callable[[float], FloatArray]  # from a candidate's free number to what it predicts, shape (T,)
Candidate = Callable[[FloatArray], Rule]  # from what the pods of a machine used, shape (T, P), to its rule


@dataclass(frozen=True, slots=True)
class Sums:
    """C and S of a machine's pods over a window, shape (T,) each."""

    together: FloatArray  # C
    apart: FloatArray  # S

    @classmethod
    def of(cls, usage: FloatArray, days: int) -> "Sums":
        """Of the pods' usage, shape (T, P)."""
        steps = days * SLOTS_PER_DAY
        return cls(trailing_max(usage.sum(axis=1), steps), trailing_max(usage, steps).sum(axis=1))


def margin_on_c(days: int) -> Candidate:
    """C times a margin: what the others have to beat."""

    def made(usage: FloatArray) -> Rule:
        together = Sums.of(usage, days).together
        return lambda number: together * (1.0 + number)

    return made


def share_of_s(days: int) -> Candidate:
    """C and a share of the distance to S."""

    def made(usage: FloatArray) -> Rule:
        sums = Sums.of(usage, days)
        return lambda number: sums.together + min(number, 1.0) * (sums.apart - sums.together)

    return made


def gumbel(days: int) -> Candidate:
    """Mean and deviations of the last days' highest sums (a Gumbel distribution by its moments), not below C."""

    def made(usage: FloatArray) -> Rule:
        highest = trailing_max(usage.sum(axis=1), SLOTS_PER_DAY)
        known = np.array([_before(highest, day * SLOTS_PER_DAY) for day in range(days)])
        mean, deviation = np.nanmean(known, axis=0), np.nanstd(known, axis=0)
        together = Sums.of(usage, days).together
        return lambda number: np.maximum(together, mean + 10.0 * number * deviation)

    return made


def pareto(days: int) -> Candidate:
    """The level that a generalised Pareto tail on C's series exceeds once in a number of days, not below C.

    Method of moments (Hosking and Wallis, "Parameter and quantile estimation for the generalized Pareto distribution",
    Technometrics 1987) on the highest twentieth of the window, fitted anew each hour.
    """

    def made(usage: FloatArray) -> Rule:
        load, steps = usage.sum(axis=1), days * SLOTS_PER_DAY
        fits = [_tail(load[max(end - steps, 0) : end]) for end in range(HOUR_STEPS, len(load) + 1, HOUR_STEPS)]
        level, shape, scale = np.repeat(np.array(fits), HOUR_STEPS, axis=0).T
        together = Sums.of(usage, days).together[: len(level)]
        rest = len(load) - len(level)

        def rule(number: float) -> FloatArray:
            exceeded = TAIL * SLOTS_PER_DAY * 10.0 ** (4.0 * number)  # once in 1 to 10,000 days and more
            extra = np.where(
                np.abs(shape) < NO_SHAPE, np.log(exceeded), (exceeded**shape - 1.0) / np.where(shape == 0.0, 1.0, shape)
            )
            return np.pad(np.maximum(together, level + scale * extra), (0, rest), mode="edge")

        return rule

    return made


def groups_apart(days: int) -> Candidate:
    """C of each group of pods that move together, added up: the free number is below which correlation pods part."""

    def made(usage: FloatArray) -> Rule:
        return lambda number: _by_groups(usage, days, 2.0 * min(number, 1.0) - 1.0)[0]

    return made


def groups_meet(days: int, correlation: float) -> Candidate:
    """C, and a share of S - C within each group of pods that move together."""

    def made(usage: FloatArray) -> Rule:
        apart, spread = _by_groups(usage, days, correlation)
        together = Sums.of(usage, days).together
        return lambda number: np.minimum(together + number * spread, np.maximum(apart + spread, together))

    return made


CANDIDATES: Final[dict[str, Candidate]] = {
    "C of 7 days times a margin": margin_on_c(7),
    "C of 7 days and a share of S - C": share_of_s(7),
    "Gumbel distribution of the daily maxima of 7 days, not below C": gumbel(7),
    "Gumbel distribution of the daily maxima of 14 days, not below C": gumbel(14),
    "generalised Pareto tail of 7 days, not below C": pareto(7),
    "generalised Pareto tail of 14 days, not below C": pareto(14),
    "sum of C over groups of pods with correlation above a limit": groups_apart(7),
    "C and a share of S - C within groups of pods, correlation above 0.2": groups_meet(7, 0.2),
    "C and a share of S - C within groups of pods, correlation above 0.5": groups_meet(7, 0.5),
}
"""By what they are."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.candidates", description=__doc__)
    parser.add_argument("--resource", choices=tuple(AIMS), action="append", help="of this resource alone")
    asked = parser.parse_args(arguments)
    for resource in asked.resource or AIMS:
        aim = AIMS[resource]
        rows = [("candidate", f"{resource}: savings at {100.0 * aim:g} % violation")]
        trace = sources.read("trace", [str(FOLDER)], sources.Options(resources=(resource,)), lambda _share, _what: None)
        rows += [(name, at(trace[0], candidate, aim)) for name, candidate in CANDIDATES.items()]
        sys.stdout.write(f"\n{results.markdown(rows)}\n")
    return 0


def at(trace: Trace, candidate: Candidate, aim: float) -> str:
    """Savings where the free number makes the violation what it should be, as text. [percent]"""
    machines = list(_machines(trace))
    rules = [(candidate(usage), usage.sum(axis=1), limit) for usage, limit in machines]
    low, high = 0.0, 1.0
    violation, savings = _judged(rules, high)
    if violation > aim:
        return f"never so few: {100.0 * violation:.1f} @ {100.0 * savings:.1f}"
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if _judged(rules, middle)[0] <= aim else (middle, high)
    return f"{100.0 * _judged(rules, high)[1]:.1f}"


def _judged(rules: Sequence[tuple[Rule, FloatArray, float]], number: float) -> tuple[float, float]:
    """Mean violation over the machines, and savings of all limits, as shares."""
    scores = []
    for rule, load, limit in rules:
        counted = slice(SLOTS_PER_DAY, len(load) - SLOTS_PER_DAY)
        predicted = np.minimum(rule(number), limit)[counted]
        oracle = np.minimum(ahead_max(load, SLOTS_PER_DAY + 1), limit)[counted]
        scores.append(score(predicted, oracle, np.full(len(predicted), limit)))
    limits = sum(each.limits for each in scores)
    saved = sum(each.savings * each.limits for each in scores) / limits
    return float(np.mean([each.violation for each in scores])), float(saved)


def _machines(trace: Trace) -> Iterator[tuple[FloatArray, float]]:
    """Usage of the pods of each machine, shape (T, P), and the sum of their limits."""
    for seed in SEEDS:
        places = random_packing(len(trace.names), MACHINES, seed)
        for machine in range(MACHINES):
            own = places == machine
            yield trace.usage[:, own], float(trace.limits[own].sum())


def _before(values: FloatArray, steps: int) -> FloatArray:
    """The values of that many steps ago, NaN before the first. shape (T,)."""
    return np.concatenate([np.full(min(steps, len(values)), np.nan), values[: max(len(values) - steps, 0)]])


def _tail(values: FloatArray) -> tuple[float, float, float]:
    """Threshold, shape and scale of the generalised Pareto distribution of the highest values."""
    threshold = float(np.quantile(values, 1.0 - TAIL))
    excess = values[values > threshold] - threshold
    variance = float(excess.var()) if excess.size else 0.0
    if variance <= 0.0:
        return threshold, 0.0, 0.0
    ratio = float(excess.mean()) ** 2 / variance
    return threshold, 0.5 * (1.0 - ratio), 0.5 * float(excess.mean()) * (ratio + 1.0)


def _by_groups(usage: FloatArray, days: int, correlation: float) -> tuple[FloatArray, FloatArray]:
    """Over groups of pods that move together, anew each day: sum of C, and sum of S - C. shape (T,) each."""
    steps, window = len(usage), days * SLOTS_PER_DAY
    apart = trailing_max(usage, window).sum(axis=1)
    together = np.zeros(steps)
    for start in range(0, steps, SLOTS_PER_DAY):
        end, begin = min(start + SLOTS_PER_DAY, steps), max(start - window, 0)
        seen = usage[begin : max(start, SLOTS_PER_DAY)]
        moving = seen.std(axis=0) > 0.0
        alike = np.eye(usage.shape[1], dtype=np.bool_)
        alike[np.ix_(moving, moving)] |= np.corrcoef(seen[:, moving], rowvar=False) > correlation
        count, groups = connected_components(alike, directed=False)
        sums = usage[begin:end] @ np.eye(count)[groups]
        together[start:end] = trailing_max(sums, window)[start - begin :].sum(axis=1)
    return together, np.maximum(apart - together, 0.0)


if __name__ == "__main__":
    sys.exit(main())
