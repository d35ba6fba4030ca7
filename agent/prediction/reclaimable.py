"""The reclaimable amount of one resource (the common formula), and its consistency. No clocks, no I/O.

The numbers of a prediction agree with each other and with the present usage:

        Peak[c]     at least its mean, and at least the last five-minute average of the same pods
    Peak[node]  at least Peak[c] of every part c, and at least Peak[prod] + Peak[sys], which are reported together
        Mean[c]     over the pods of Peak[c]: for the recorded class, at most the sum of its present members' means

A model reads the highest averages of the present pods. A class that has just risen beyond them, a system
without enough history, or samples of seconds (the mean) beside averages of five minutes (the peak) may exceed it.
A value is raised before others are derived from it, and never above the node's capacity.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agent.predictors.base import ReclaimableEstimate
from agent.samples import NODE, SYS

PRESENT_SECONDS: Final = 300.0
"""Models predict averages of this much time, so the present usage is the average of as much. [s]"""
_PROD: Final = "prod"


@dataclass(frozen=True, slots=True)
class ReclaimableTerms:
    """Reclaimable with its terms, in milli-cores or bytes."""

    requested: float  # ratio * requests of the warm Prod pods + requests of the cold ones
    prod_peak: float  # peak of the Prod pods, without the system
    system_extra: float  # usage of the system beyond the node's reservation
    slack: float  # what no Prod pod requested; it pays for the system's extra first
    reclaimable: float
    by_model: bool = False
    """True for the result of the model's own rule; the two terms are then informational only."""


def reclaimable_terms(
    *,
    allocatable: float,
    reserved: float,
    warm_requests: float,
    cold_requests: float,
    prod_peak: float,
    system_peak: float,
    ratio: float,
) -> ReclaimableTerms:
    """Reclaimable of one resource, all amounts in the same unit.

    Capacity 16 and allocatable 15.5 cores (0.5 reserved), warm Prod requests 10, cold 1, Peak[Prod] 4.5 and
    Peak[sys] 0.9 cores, ratio 1: sysExtra = 0.4, slack = 4.5, min(10 + 1 - 4.5 - 0, 15.5 - 4.5 - 0.4) = 6.5 cores.

    `reserved` is max(capacity - allocatable, annotation reservation); `system_peak` includes the margin; `ratio` is
    0..1.
    """
    requested = ratio * warm_requests + cold_requests
    extra = max(0.0, system_peak - reserved)
    slack = max(0.0, allocatable - warm_requests - cold_requests)
    unused = requested - prod_peak - max(0.0, extra - slack)
    return ReclaimableTerms(requested, prod_peak, extra, slack, max(0.0, min(unused, allocatable - prod_peak - extra)))


def raised(peaks: Mapping[str, float], capacity: float, *floors: Mapping[str, float]) -> dict[str, float]:
    """Return the peaks, each raised to its floors. All amounts in one unit.

    prod 0.06, sys 0.05, node 0.09, of which prod has a mean of 0.107 and uses 0.08: prod 0.107, sys 0.05, node 0.157.
    Floors by class: means and present usage; unknown ones are absent.
    """
    result = {
        name: min(max(peak, *(floor.get(name, 0.0) for floor in floors)), capacity) for name, peak in peaks.items()
    }
    if NODE in result:
        result[NODE] = min(max(*result.values(), result.get(_PROD, 0.0) + result.get(SYS, 0.0)), capacity)
    return result


def lowered(estimate: ReclaimableEstimate, present: Mapping[str, float]) -> ReclaimableEstimate:
    """The result of a model's own rule: its peak raised to what Prod and the system use, its reclaimable lowered by it.

    Present are averages of the last five minutes by class.
    """
    lift = max(present.get(_PROD, 0.0) + present.get(SYS, 0.0) - estimate.peak, 0.0)
    return ReclaimableEstimate(max(estimate.reclaimable - lift, 0.0), estimate.peak + lift) if lift else estimate
