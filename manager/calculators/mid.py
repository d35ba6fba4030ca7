"""The Mid formula: what a node may publish of what Prod pods requested and are predicted not to use. In integers.

    reserved    = max(system usage + Prod host applications, capacity - allocatable, annotation reservation)
    usable      = capacity - reserved
    unallocated = max(usable - requests of pods above Mid, 0)
    midOwn      = min(usage of Mid pods, requests of Mid pods)
    unused      = max(usable - (node usage - system usage - midOwn), 0)
    mid         = min(Reclaimable + unallocated * midUnallocatedPercent, unused, allocatable * threshold)

Where containers have exclusive CPUs, Mid CPU is also at most the idle part of the shared pool:

    sharedIdle  = max(min(unused + usage of exclusive CPUs, usable) - exclusive CPUs, 0)

With 8 of 16 cores exclusive, of which 1 is in use, and 6 in use in the pool: unused 9, sharedIdle 9 + 1 - 8 = 2 cores.

What Mid pods use of their requests does not count against Mid (`midOwn`), usage beyond does; system usage is charged
once, in `reserved`. With 16 cores, 15 of them allocatable, 6 in use (1 by the system, 2 by Mid pods that requested 3),
9 requested by Prod and 4 reclaimable: reserved 1, usable 15, unallocated 6, midOwn 2, unused 15 - (6 - 1 - 2) = 12, and
with midUnallocatedPercent 50 mid = min(4 + 3, 12, 15) = 7 cores.

Usage of node, system and Mid is of the same ticks (`status.prediction.classes`); another agent's is as reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from crds.duration import short_age
from manager.calculators.base import Degraded, Result, Term
from manager.inputs import Amounts, NodeInputs, Resource
from manager.inputs.amounts import LARGEST

_FORMULAS: Final[Mapping[str, str]] = {
    "reserved": "max(system usage + Prod host applications, capacity - allocatable, annotation reservation)",
    "usable": "capacity - reserved",
    "unallocated": "max(usable - requests of pods above Mid, 0)",
    "midOwn": "min(usage of Mid pods, requests of Mid pods)",
    "unused": "max(usable - (node usage - system usage - midOwn), 0)",
    "sharedIdle": "max(min(unused + usage of exclusive CPUs, usable) - exclusive CPUs, 0)",
    "reclaimable": "Reclaimable[Prod] of the NodeMetric",
    "threshold": "allocatable * threshold percent",
    "notRequested": "max(allocatable - requests of pods above Mid, 0)",
}
_MID_OWN_BY_POD: Final = "sum of min(usage, request) over the Mid pods"
"""Inputs from another agent's report, which has no usage per class."""
_MID: Final[Mapping[str, str]] = {
    "reclaimable": "min(Reclaimable + unallocated * midUnallocatedPercent, unused, threshold)",
    "sharedIdle": "min(Reclaimable + unallocated * midUnallocatedPercent, sharedIdle, threshold)",
    "design": "min(Reclaimable, threshold)",
    "designMixed": "min(Reclaimable, threshold) + notRequested, at most allocatable",
    "static": "min(allocatable * static percent, threshold)",
}


def percent_of(amount: int, percent: int) -> int:
    """The share of an amount, truncated: 33 % of 7777 is 2566."""
    return amount * percent // 100


@dataclass(frozen=True)
class _ResourceFormula:
    """The calculation for one resource; every line is computed once, at first use."""

    inputs: NodeInputs
    resource: Resource

    @cached_property
    def allocatable(self) -> int:
        return self.inputs.allocatable[self.resource] or 0

    @cached_property
    def capacity(self) -> int:
        stated = self.inputs.capacity[self.resource]
        return self.allocatable if stated is None else stated

    @cached_property
    def system(self) -> int:
        return (self.inputs.report.system_usage[self.resource] if self.inputs.report else None) or 0

    @cached_property
    def reserved(self) -> Term:
        inputs = {
            "system usage": self.system,
            "Prod host applications": self.inputs.report.prod_host_usage[self.resource] if self.inputs.report else 0,
            "capacity": self.capacity,
            "allocatable": self.allocatable,
            "annotation reservation": self.inputs.reservation[self.resource],
        }
        used = inputs["system usage"] + inputs["Prod host applications"]
        return self._term(
            "reserved", max(used, self.capacity - self.allocatable, inputs["annotation reservation"]), inputs
        )

    @cached_property
    def usable(self) -> Term:
        reserved = self.reserved.value
        return self._term("usable", self.capacity - reserved, {"capacity": self.capacity, "reserved": reserved})

    @cached_property
    def unallocated(self) -> Term:
        requests = self.inputs.requests_above_mid[self.resource]
        inputs = {"usable": self.usable.value, "requests of pods above Mid": requests}
        unknown = self._unknown_system
        if unknown:
            return self._term("unallocated", 0, inputs, f"{unknown}, so nothing counts as unallocated")
        return self._term("unallocated", max(self.usable.value - requests, 0), inputs)

    @cached_property
    def _unknown_system(self) -> str:
        report = self.inputs.report
        if (
            report is None
            or not report.own_agent
            or all(report.system_usage[resource] is not None for resource in Resource)
        ):
            return ""
        missing = " and ".join(resource for resource in Resource if report.system_usage[resource] is None)
        return f"the NodeMetric reports no system usage of {missing}"

    @cached_property
    def mid_own(self) -> Term:
        inputs, report = {"requests of Mid pods": self.inputs.mid_requests[self.resource]}, self.inputs.report
        value = self.inputs.mid_own[self.resource]
        if report is None or not report.own_agent:
            return Term("midOwn", self.resource, _MID_OWN_BY_POD, value, inputs)
        return self._term("midOwn", value, {"usage of Mid pods": report.mid_usage[self.resource] or 0, **inputs})

    @cached_property
    def unused(self) -> Term:
        report = self.inputs.report
        # Both resources or none: a node without memory samples must not be filled because its CPU is idle.
        if report is None or any(report.node_usage[resource] is None for resource in Resource):
            missing = " and ".join(
                resource for resource in Resource if report is None or report.node_usage[resource] is None
            )
            return self._term(
                "unused", 0, {}, f"the NodeMetric reports no node usage of {missing}, so nothing counts as unused"
            )
        if self._unknown_system:
            return self._term("unused", 0, {}, f"{self._unknown_system}, so nothing counts as unused")
        usage = report.node_usage[self.resource] or 0
        by_pods = usage - self.system - self.mid_own.value
        inputs = {
            "usable": self.usable.value,
            "node usage": usage,
            "system usage": self.system,
            "midOwn": self.mid_own.value,
        }
        return self._term("unused", max(self.usable.value - by_pods, 0), inputs)

    @cached_property
    def shared_idle(self) -> Term | None:
        """The idle part of the CPUs that Mid pods can use; None where they can use all."""
        report = self.inputs.report
        if self.resource is not Resource.CPU or report is None or not report.exclusive_cpu:
            return None
        inputs = {
            "unused": self.unused.value,
            "usage of exclusive CPUs": report.exclusive_cpu_usage,
            "usable": self.usable.value,
            "exclusive CPUs": min(report.exclusive_cpu, self.capacity),
        }
        return self._term("sharedIdle", report.shared_idle(self.unused.value, self.usable.value), inputs)

    @cached_property
    def reclaimable(self) -> Term:
        stated = self.inputs.report.reclaimable[self.resource] if self.inputs.report else None
        note = "the NodeMetric has no prediction, so nothing counts as reclaimable" if stated is None else ""
        return self._term("reclaimable", stated or 0, {}, note)

    @cached_property
    def threshold(self) -> Term:
        percent = self.inputs.strategy.threshold_percent[self.resource]
        inputs = {"allocatable": self.allocatable, "threshold percent": percent}
        return self._term("threshold", percent_of(self.allocatable, percent), inputs)

    @cached_property
    def not_requested(self) -> Term:
        requests = self.inputs.requests_above_mid[self.resource]
        inputs = {"allocatable": self.allocatable, "requests of pods above Mid": requests}
        return self._term("notRequested", max(self.allocatable - requests, 0), inputs)

    def _term(self, name: str, value: int, inputs: Mapping[str, int], note: str = "") -> Term:
        return Term(name, self.resource, _FORMULAS[name], value, inputs, note)

    def terms(self) -> tuple[Term, ...]:
        """Every line that the policy in force uses; the last one is `mid`."""
        strategy = self.inputs.strategy
        if strategy.static:
            return (self.threshold, self._static())
        if strategy.mid_policy == "design":
            return (self.reclaimable, self.threshold, self._design())
        if strategy.mid_policy == "designMixed":
            return (self.reclaimable, self.threshold, self.not_requested, self._design_mixed())
        lines = (
            self.reserved,
            self.usable,
            self.unallocated,
            self.mid_own,
            self.unused,
            *([self.shared_idle] if self.shared_idle else []),
            self.reclaimable,
            self.threshold,
        )
        return (*lines, self._mid())

    def _mid(self) -> Term:
        """Min(4000 + 50 % of 6000, 12000, 15000) = 7000, limited by Reclaimable and the unallocated amount."""
        percent = self.inputs.strategy.unallocated_percent
        supply = self.reclaimable.value + percent_of(self.unallocated.value, percent)
        idle = self.shared_idle or self.unused
        value = min(supply, idle.value, self.threshold.value)
        inputs = {
            "Reclaimable": self.reclaimable.value,
            "unallocated": self.unallocated.value,
            "midUnallocatedPercent": percent,
            idle.name: idle.value,
            "threshold": self.threshold.value,
        }
        formula = _MID["sharedIdle" if self.shared_idle else "reclaimable"]
        return Term("mid", self.resource, formula, value, inputs, self._limit(supply, value, idle))

    def _limit(self, supply: int, value: int, idle: Term) -> str:
        if value < supply:
            name = idle.name if idle.value == value else "threshold"
            return f"limited by {name}"
        if value == 0 and self.inputs.strategy.unallocated_percent == 0:
            return "0 because nothing is reclaimable and midUnallocatedPercent is 0"
        return "0 because nothing is reclaimable or unallocated" if value == 0 else ""

    def _design(self) -> Term:
        """The design text's first formula: min(4000, 15000) = 4000."""
        inputs = {"Reclaimable": self.reclaimable.value, "threshold": self.threshold.value}
        return Term("mid", self.resource, _MID["design"], min(inputs.values()), inputs)

    def _design_mixed(self) -> Term:
        """The design text's second formula: min(4000, 15000) + (15000 - 9000) = 10000."""
        inputs = {
            "Reclaimable": self.reclaimable.value,
            "threshold": self.threshold.value,
            "notRequested": self.not_requested.value,
            "allocatable": self.allocatable,
        }
        value = min(min(inputs["Reclaimable"], inputs["threshold"]) + inputs["notRequested"], self.allocatable)
        return Term("mid", self.resource, _MID["designMixed"], value, inputs)

    def _static(self) -> Term:
        """A fixed share: min(25 % of 14000, 100 % of 14000) = 3500."""
        percent = self.inputs.strategy.static_percent[self.resource]
        inputs = {"allocatable": self.allocatable, "static percent": percent, "threshold": self.threshold.value}
        value = min(percent_of(self.allocatable, percent), self.threshold.value)
        return Term("mid", self.resource, _MID["static"], value, inputs)


def degraded(inputs: NodeInputs) -> Degraded | None:
    """Return why nothing may be published, whatever the formula; `None` when the formula decides.

    A report that is exactly `degradeTimeMinutes` old still counts.
    """
    if not inputs.strategy.enabled:
        return Degraded(
            "ColocationDisabled", "colocation is disabled for this node: set enable to true to publish Mid resources"
        )
    missing = [resource.value for resource in Resource if inputs.allocatable[resource] is None]
    if missing:
        return Degraded("NodeNotReady", f"the Node states no allocatable {' and '.join(missing)} yet")
    if inputs.report is None or inputs.report_age is None:
        return Degraded("NoReport", "no NodeMetric report yet: is the agent running on this node?")
    expired = _expired("Report", inputs.report_age, inputs.strategy.degrade_seconds)
    if expired is None and not inputs.strategy.static:
        expired = _expired("Prediction", inputs.prediction_age, inputs.strategy.degrade_seconds)
    return expired


def _expired(what: str, age: float | None, limit: int) -> Degraded | None:
    if age is not None and age <= limit:
        return None
    stated = "has no time" if age is None else f"is {short_age(age)} old"
    allowed = f"more than degradeTimeMinutes ({limit // 60}) allows"
    return Degraded(
        f"{what}Expired", f"the NodeMetric's {what.lower()} {stated}, {allowed}: check the agent on this node"
    )


def deadline(inputs: NodeInputs) -> float | None:
    """In how many seconds the facts degrade if nothing new arrives; `None` when they already have, or never will."""
    if degraded(inputs) is not None:
        return None
    ages = [inputs.report_age] if inputs.strategy.static else [inputs.report_age, inputs.prediction_age]
    return inputs.strategy.degrade_seconds - max(age for age in ages if age is not None)


@dataclass(frozen=True, slots=True)
class MidCalculator:
    """Mid CPU and Mid memory of a node."""

    def calculate(self, inputs: NodeInputs) -> Result:
        """The Mid amounts that the node may publish, and those that its Node object should have.

        Running Mid pods keep their requests: a kubelet that restarts fails pods that no longer fit, so under
        `midShrinkPolicy: floor` the Node never has less than they request, whatever was calculated.
        """
        why = degraded(inputs)
        terms: tuple[Term, ...] = ()
        notes = list(inputs.problems)
        outcome: Amounts | Degraded
        if why is None:
            formulas = {resource: _ResourceFormula(inputs, resource).terms() for resource in Resource}
            terms = tuple(term for resource in Resource for term in formulas[resource])
            outcome = Amounts(
                *(_within(formulas[resource][-1].value, inputs.allocatable[resource] or 0) for resource in Resource)
            )
        else:
            outcome = why
            notes.insert(0, why.message)
        calculated = outcome if isinstance(outcome, Amounts) else Amounts()
        allocated = inputs.mid_requests
        if inputs.strategy.shadow:
            notes.append("mode is shadow: calculated, but not published")
        return Result(
            outcome=outcome,
            requested=allocated,
            desired=_desired(inputs, None if why or inputs.strategy.shadow else calculated),
            deficit=Amounts(*(max(allocated[resource] - calculated[resource], 0) for resource in Resource)),
            terms=terms,
            notes=tuple(notes),
        )


def _within(value: int, allocatable: int) -> int:
    """The value, whatever the percentages: never negative, never more than allocatable."""
    return min(max(value, 0), allocatable)


def _desired(inputs: NodeInputs, calculated: Amounts | None) -> Amounts | None:
    """The amounts that the Node should have: the calculated ones, at least the requests of running Mid pods."""
    allocated = inputs.mid_requests
    if not inputs.strategy.floor or not allocated:
        return calculated
    calculated = calculated or Amounts()
    return Amounts(
        *(max(calculated[resource], min(allocated[resource], _available(inputs, resource))) for resource in Resource)
    )


def _available(inputs: NodeInputs, resource: Resource) -> int:
    """The capacity of the Node; no bound while it is unknown."""
    stated = inputs.capacity[resource]
    whole = inputs.allocatable[resource] if stated is None else stated
    return LARGEST if whole is None else whole


def calculate(inputs: NodeInputs) -> Result:
    return MidCalculator().calculate(inputs)


MidResult = Result
