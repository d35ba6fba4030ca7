"""What a metric provider says of one node: the reading that LowRiskOverCommitment and its kin work from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Statistic:
    """Moments of the usage of one resource."""

    average: float  # mean usage. [% of what the node has to give]
    stdev: float = 0.0
    """Standard deviation of the usage; 0 where the provider knows none. [% of what the node has to give]"""


@dataclass(frozen=True, slots=True)
class Utilisation:
    """The usage of one node, as a provider reports it."""

    cpu: Statistic | None  # of the CPU; None: the provider says nothing of it
    memory: Statistic | None  # of the memory
    measured_at: float  # end of the window that the numbers are of. [unix s]
    smoothed: bool
    """Whether each sample is itself a mean over a smoothing window, so that the deviation is too small for it."""
