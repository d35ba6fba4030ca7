"""Settings of reclaiming."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from crds.codec import json_name
from scheduler_plugins.framework.plugin import Problem, ProblemKind
from scheduler_plugins.preemption.selection.context import BudgetsRule

_LONGEST_NAME: Final = 253


class OverMaxRule(StrEnum):
    """The policy for pods that were bound beyond max."""

    REPORT = "report"  # the pods stay; Events, a metric and an alert name them
    EVICT = "evict"  # they leave, the least important and last bound first, until the namespace is within its max


@dataclass(frozen=True, slots=True)
class PreemptionSettings:
    """The argument `reclaim` of CapacityScheduling; its keys are these fields' names in camelCase."""

    enabled: bool = True
    """True if pods are evicted so that others get what their quota guarantees them. Needs the right to create
    pods/eviction (or to delete pods, see `disruptionBudgets`) and to patch pods/status."""
    dry_run: bool = False
    """True to only report, in Events, the victims and their preemptors."""
    disruption_budgets: BudgetsRule = BudgetsRule.RESPECT
    """respect: PodDisruptionBudgets hold. count: they only make a node less likely, as upstream has it."""
    over_max: OverMaxRule = OverMaxRule.REPORT
    """report: pods that were bound beyond their quota's max while the extender was away are named in Events and a
    metric. evict: they also leave, the least important and last bound first; never for a max that was lowered."""
    scheduler_names: tuple[str, ...] = ()
    """The schedulers of the preempting pods; none: those of `--reclaim-for`."""
    hold_seconds: float = 120.0
    """Time for which the resources stay reserved, beyond the victims' longest grace period. [s]"""
    evictions_per_second: float = 10.0
    """Evictions a second in the long run. [1/s]"""
    eviction_burst: int = 50
    """The burst after a quiet time. [pods]"""
    back_off_seconds: float = 60.0
    """Time without evictions for a pod that did not use its reservation in time, and for a workload with a pod that
    ended soon after its reservation; doubles each time. [s]"""
    longest_back_off_seconds: float = 3600.0
    """Longest such time. [s]"""

    def problems(self) -> Sequence[Problem]:
        """Everything wrong with the values, in order."""
        result = [
            Problem(
                json_name(name), ProblemKind.INVALID, f"{getattr(self, name):g} is not in the range {low:g} to {high:g}"
            )
            for name, (low, high) in RANGES.items()
            if not low <= getattr(self, name) <= high
        ]
        if self.back_off_seconds > self.longest_back_off_seconds:
            message = f"{self.longest_back_off_seconds:g} is less than backOffSeconds, {self.back_off_seconds:g}"
            result.append(Problem("longestBackOffSeconds", ProblemKind.INVALID, message))
        result += [
            Problem(f"schedulerNames[{index}]", ProblemKind.INVALID, f"{name[:60]!r} is no name of a scheduler")
            for index, name in enumerate(self.scheduler_names)
            if not 0 < len(name) <= _LONGEST_NAME
        ]
        return tuple(result)


RANGES: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    {
        "hold_seconds": (5, 3600),
        "evictions_per_second": (0.01, 1000),
        "eviction_burst": (1, 10_000),
        "back_off_seconds": (1, 3600),
        "longest_back_off_seconds": (1, 86_400),
    }
)
"""The range of each number, both ends included."""
