"""How risky it is that a node's limits exceed what it has, and that its load exceeds what was requested.

Arrays of any one shape; amounts in any one unit. Formulas and the order of their operations are Trimaran's, and so are
the numbers then: where a deviation is 0 a last digit decides between all and nothing.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scheduler_plugins.numerics.beta import (
    SHARE_OF_LARGEST_VARIANCE,
    BoolArray,
    FloatArray,
    largest_variance,
    probability_below,
)


def used(percent: ArrayLike, capacity: ArrayLike) -> FloatArray:
    """A percentage of the capacity as an amount."""
    return np.asarray(percent, np.float64) * np.asarray(capacity, np.float64) / 100


def shares(
    average: ArrayLike, stdev: ArrayLike, capacity: ArrayLike, request: ArrayLike = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Mean and deviation of the usage as shares of the capacity, each within 0 and 1; (0, 0) without a capacity.

    Args:
        average: mean usage.
        stdev: its standard deviation.
        capacity: what there is.
        request: what is expected on top of the average.
    """
    capacity = np.asarray(capacity, np.float64)
    some = capacity > 0
    whole = np.where(some, capacity, 1.0)
    mean = np.clip((np.asarray(average, np.float64) + np.asarray(request, np.float64)) / whole, 0.0, 1.0)
    deviation = np.clip(np.asarray(stdev, np.float64) / whole, 0.0, 1.0)
    return np.where(some, mean, 0.0), np.where(some, deviation, 0.0)


def widened(mean: FloatArray, deviation: ArrayLike, window: ArrayLike = 1) -> FloatArray:
    """The deviation before smoothing, at most what a beta distribution of this mean can have.

    sigma' = min(sigma sqrt(window), sqrt(0.99 mean (1 - mean))): mean 0.5, deviation 0.1, window 4 give 0.2.

    Args:
        mean: as a share.
        deviation: of the smoothed samples, as a share.
        window: how many samples were averaged into one.
    """
    most = np.sqrt(largest_variance(mean) * SHARE_OF_LARGEST_VARIANCE)
    return np.minimum(np.asarray(deviation, np.float64) * np.sqrt(window), most)


def limit_risk(request: NDArray[np.int64], limit: NDArray[np.int64], capacity: NDArray[np.int64]) -> FloatArray:
    """The part of what pods may use beyond their requests that the node does not have, within 0 and 1.

    (limit - capacity) / (limit - request) where the limit exceeds the capacity, else 0. Requests of 2, limits of 6 on a
    node of 4: (6 - 4) / (6 - 2) = 0.5.

    Args:
        request: what is requested in all, at most the capacity.
        limit: what may be used in all.
        capacity: what the node has.
    """
    exceeds = limit > capacity
    excess = np.where(exceeds, limit - request, 1)
    return np.where(exceeds, (limit - capacity) / excess, 0.0)


def load_risk(
    mean: FloatArray,
    deviation: FloatArray,
    request: NDArray[np.int64],
    limit: NDArray[np.int64],
    capacity: NDArray[np.int64],
) -> FloatArray:
    """The probability that the usage exceeds what is requested, within 0 and 1.

    1 - P(usage <= request), by a beta distribution of this mean and deviation. Where the limits leave a part of the
    node to nobody, on the condition that the usage is at most the limits. Mean 0.5, deviation 0.1, half of the node
    requested and limits beyond the node: 0.5.

    Args:
        mean: usage as a share of the capacity.
        deviation: the same, see `widened`.
        request: what the pods that are there request in all, at most the capacity.
        limit: what they may use in all.
        capacity: what the node has.
    """
    whole = np.where(capacity > 0, capacity, 1).astype(np.float64)
    within, fit = probability_below(mean, deviation, np.clip(np.where(capacity > 0, request / whole, 0.0), 0.0, 1.0))
    conditional: BoolArray = (limit < capacity) & (request <= limit)
    if conditional.any():
        share = limit / whole
        reachable = np.where(conditional & (share > 0), fit.below(np.where(conditional, share, 0.0)), 0.0)
        divisor = np.where(reachable > 0, reachable, 1.0)
        within = np.where(reachable > 0, np.clip(within / divisor, 0.0, 1.0), within)
        within = np.where(conditional & (share == 0), 1.0, within)
    risk: FloatArray = 1 - within
    return risk
