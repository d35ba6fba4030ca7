"""The risk that a policy states, and the measured rate of violations over up to 14 days. No I/O."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from agent.numerics.arrays import BoolArray, FloatArray, IntArray
from agent.numerics.peaks import SLOT_SECONDS, SLOTS_PER_DAY
from crds.duration import format_span, short_age

DAYS: Final = 14  # for how long violations are counted
_HOUR_SECONDS: Final = 3600.0
_LONGEST_HOURS: Final = 24.0


@dataclass(frozen=True, slots=True)
class StatedRisk:
    """The time for which a prediction has to hold, and the share that may be too low."""

    horizon_hours: float = _LONGEST_HOURS
    target_percent: float | None = None  # None: the policy states no target
    policy: str = ""  # the policy of the resource as text: another policy counts its violations from scratch

    @property
    def slots(self) -> int:
        """Return the horizon in slots of five minutes, 1 to 288."""
        return max(1, math.ceil(min(self.horizon_hours, _LONGEST_HOURS) * _HOUR_SECONDS / SLOT_SECONDS))


@dataclass(frozen=True, slots=True)
class ViolationRate:
    """The share of the predictions of the policy in force that usage exceeded within its horizon."""

    risk: StatedRisk
    evaluated: int  # predictions of the last 14 days with a horizon that is over
    exceeded: int  # the number of exceeded ones

    @property
    def percent(self) -> float:
        return 100.0 * self.exceeded / self.evaluated

    @property
    def seconds(self) -> int:
        """Return the time of the evaluated predictions: one every five minutes. [s]"""
        return round(self.evaluated * SLOT_SECONDS)

    @property
    def horizon(self) -> str:
        return format_span(self.risk.slots * SLOT_SECONDS)

    @property
    def text(self) -> str:
        """Return the target and the rate: "target 1.5 %, measured 1.2 % over 14d within 24h"."""
        target = self.risk.target_percent
        stated = "" if target is None else f"target {target:g} %, "
        return f"{stated}measured {self.percent:.1f} % over {short_age(self.seconds)} within {self.horizon}"


class ViolationCounts:
    """Counts the violations of one resource by days, for the policy in force."""

    def __init__(self) -> None:
        self.risk = StatedRisk()
        self.since = 0  # the number of the first slot with a prediction of this policy
        self.days: FloatArray = np.zeros((DAYS, 3))  # day, evaluated, exceeded; in rows by day modulo 14

    def put_in_force(self, risk: StatedRisk, number: int) -> None:
        """Count for this policy: predictions of slots before the number were made by another one."""
        if risk.policy != self.risk.policy:
            self.since, self.days = number, np.zeros((DAYS, 3))
        self.risk = risk

    def add(self, number: int, labels: IntArray, exceeded: BoolArray) -> None:
        """Count predictions, made in the slots `labels`, with a horizon that ended with the slot `number`."""
        counted = labels >= self.since
        day = number // SLOTS_PER_DAY
        row = self.days[day % DAYS]
        if row[0] != day:
            row[:] = (day, 0.0, 0.0)
        row[1:] += (counted.sum(), (counted & exceeded).sum())

    def rate(self, number: int) -> ViolationRate | None:
        """Return the rate of the last 14 days up to the slot; None without an evaluated prediction."""
        recent = self.days[:, 0] > number // SLOTS_PER_DAY - DAYS
        evaluated, exceeded = self.days[recent, 1:].sum(axis=0)
        return ViolationRate(self.risk, int(evaluated), int(exceeded)) if evaluated else None

    def facts(self) -> Mapping[str, Any]:
        """Return everything but the array, for a checkpoint."""
        return {
            "horizonHours": self.risk.horizon_hours,
            "targetPercent": self.risk.target_percent,
            "policy": self.risk.policy,
            "since": self.since,
        }

    def restore(self, facts: Mapping[str, Any], days: FloatArray) -> None:
        """Take over what `facts` and `days` were. Raises TypeError, ValueError or LookupError for anything else."""
        target = facts["targetPercent"]
        self.risk = StatedRisk(
            float(facts["horizonHours"]), None if target is None else float(target), str(facts["policy"])
        )
        self.since, self.days = int(facts["since"]), days


def risk_of(model: object, policy: str) -> StatedRisk:
    """Return the risk that a model states; `max` has the longest horizon of its models, and no target."""
    hours = max(_stated_hours(model), default=_LONGEST_HOURS)
    target = getattr(model, "target_violation_percent", None)
    return StatedRisk(hours, float(target) if isinstance(target, int | float) else None, policy)


def _stated_hours(model: object) -> Iterator[float]:
    hours, parts = getattr(model, "horizon_hours", None), getattr(model, "of", ())
    if isinstance(hours, int | float) and hours > 0.0:
        yield float(hours)
    for part in parts if isinstance(parts, tuple) else ():
        yield from _stated_hours(part)
