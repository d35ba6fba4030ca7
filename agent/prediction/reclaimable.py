"""What is reclaimable of one resource: the common formula, or a model's own rule. No clocks, no I/O."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReclaimableTerms:
    """Reclaimable with its terms, in milli-cores or bytes."""

    system_extra: float
    """What the system uses beyond what the node reserves for it."""
    slack: float
    """What no Prod pod requested; it pays for the system's extra first."""
    reclaimable: float
    """What is reclaimable."""
    by_model: bool = False
    """Whether it is the answer of the model's own rule; the two terms are then only for those who look."""


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

    Args:
        allocatable: what pods may request.
        reserved: max(capacity - allocatable, annotation reservation).
        warm_requests: requests of the warm Prod pods.
        cold_requests: requests of the cold Prod pods.
        prod_peak: Peak[Prod].
        system_peak: Peak[sys], margin included.
        ratio: share of the warm requests that is reclaimable, 0..1.
    """
    extra = max(0.0, system_peak - reserved)
    slack = max(0.0, allocatable - warm_requests - cold_requests)
    unused = ratio * warm_requests + cold_requests - prod_peak - max(0.0, extra - slack)
    return ReclaimableTerms(extra, slack, max(0.0, min(unused, allocatable - prod_peak - extra)))
