"""Scores of predictions: violation, severity, savings; machine by machine.

The definitions are those of Bashir et al., "Take it to the limit: peak prediction-driven resource overcommitment in
datacenters", EuroSys 2021, and of its simulator. At each step that counts:

    oracle    = the highest summed usage, from now to the end of the horizon, of the series that are there now
    violation = predicted < oracle * (1 - 1e-9)
    severity  = max(0, oracle - predicted) / oracle
    savings   = (limits - predicted) / limits

Predicted and oracle are at most the sum of the limits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from agent.api import FloatArray
from kubectl_headroom.backtest.trace import Resource

ROUNDING: Final = 1e-9  # a prediction below the oracle by at most this share is no violation


class MachineScore(NamedTuple):
    """A machine, over all steps that count: shares 0..1, and the mean sum of its limits. [cores or bytes]"""

    violation: float
    severity: float
    savings: float
    limits: float


class Spread(NamedTuple):
    """Mean, median and 90th percentile over machines. [percent]"""

    mean: float
    p50: float
    p90: float


@dataclass(frozen=True, slots=True)
class Result:
    """The scores of a policy for a resource, by machine: those of the first seed, then of the next, shape (N,)."""

    policy: str  # the policy's name; "oracle" for the one that knows the future
    resource: Resource
    horizon_seconds: int
    machines: int  # how many machines each seed packs
    seeds: tuple[int, ...]  # seeds of the placements; none for the real one
    violation: FloatArray  # share of the steps at which the prediction was too low
    severity: FloatArray  # mean of how much too low it was, as a share of the oracle
    savings: FloatArray  # the saved part of the machine's limits
    limits: FloatArray  # mean sum of the machine's limits [cores or bytes]

    @property
    def violation_percent(self) -> Spread:
        """Violation over the machines. [percent]"""
        shares = 100.0 * self.violation
        return Spread(float(shares.mean()), float(np.percentile(shares, 50)), float(np.percentile(shares, 90)))

    @property
    def severity_percent(self) -> float:
        """Severity, the mean over machines and steps. [percent]"""
        return 100.0 * float(self.severity.mean())

    @property
    def savings_percent(self) -> float:
        """Return the saved part of all limits together. [percent]"""
        return 100.0 * float((self.savings * self.limits).sum() / self.limits.sum())


def score(predicted: FloatArray, oracle: FloatArray, limits: FloatArray) -> MachineScore:
    """The score of one machine; all shape (T,), the steps that count, with limits above 0 at some. [cores or bytes]"""
    predicted, oracle = np.minimum(predicted, limits), np.minimum(oracle, limits)
    missing = np.maximum(oracle - predicted, 0.0) / np.where(oracle > 0.0, oracle, 1.0)
    return MachineScore(
        violation=float((predicted < oracle * (1.0 - ROUNDING)).mean()),
        severity=float(missing.mean()),
        savings=float((limits - predicted).sum() / limits.sum()),
        limits=float(limits.mean()),
    )


def result(
    policy: str, resource: Resource, horizon_seconds: int, seeds: Sequence[int], scores: Sequence[MachineScore]
) -> Result:
    """The scores of all machines of all seeds as one result; as many machines for each seed."""
    machines = len(scores) // max(len(seeds), 1)
    columns = (np.array(column) for column in zip(*scores, strict=True))
    return Result(policy, resource, horizon_seconds, machines, tuple(seeds), *columns)
