"""How good predictions were: violation, severity, savings; machine by machine.

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
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray
from headroom.backtest.trace import Resource

ROUNDING: Final = 1e-9
"""A prediction that is below the oracle by no more than this share is no violation."""


@dataclass(frozen=True, slots=True)
class MachineScore:
    """One machine, over all steps that count."""

    violation: float
    """Share of the steps at which the prediction was too low, 0..1."""
    severity: float
    """Mean of how much too low it was, as a share of the oracle, 0..1."""
    savings: float
    """What was saved of the limits, 0..1."""
    limits: float
    """Mean sum of the limits. [cores or bytes]"""


@dataclass(frozen=True, slots=True)
class Spread:
    """Over machines. [percent]"""

    mean: float
    """Mean."""
    p50: float
    """Median."""
    p90: float
    """90th percentile, between two machines where it falls there."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one policy did for one resource, by machine: those of the first seed, then those of the next, shape (N,)."""

    policy: str
    """The policy's name; "oracle" for the one that knows the future."""
    resource: Resource
    """Which resource."""
    horizon_seconds: int
    """How long a prediction has to hold. [s]"""
    machines: int
    """How many machines each seed packs."""
    seeds: tuple[int, ...]
    """Seeds of the placements; none for the real one."""
    violation: FloatArray
    """Share of the steps at which the prediction was too low, shape (N,)."""
    severity: FloatArray
    """Mean of how much too low it was, as a share of the oracle, shape (N,)."""
    savings: FloatArray
    """What was saved of the machine's limits, shape (N,)."""
    limits: FloatArray
    """Mean sum of the machine's limits, shape (N,). [cores or bytes]"""

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
        """What was saved of all limits together. [percent]"""
        return 100.0 * float((self.savings * self.limits).sum() / self.limits.sum())


def score(predicted: FloatArray, oracle: FloatArray, limits: FloatArray) -> MachineScore:
    """The score of one machine.

    Args:
        predicted: shape (T,), the steps that count. [cores or bytes]
        oracle: shape (T,). [cores or bytes]
        limits: sum of the limits of what is there, shape (T,), above 0 at some step. [cores or bytes]
    """
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
    return Result(
        policy=policy,
        resource=resource,
        horizon_seconds=horizon_seconds,
        machines=len(scores) // max(len(seeds), 1),
        seeds=tuple(seeds),
        violation=np.array([one.violation for one in scores]),
        severity=np.array([one.severity for one in scores]),
        savings=np.array([one.savings for one in scores]),
        limits=np.array([one.limits for one in scores]),
    )
