"""The risk that a node's limits exceed its capacity, and that its load exceeds its requests.

Amounts are in any one unit. What depends on the pod in question is made for all nodes at once, what a node keeps until
its next change for it alone. Formulas and the order of their operations are Trimaran's, and so are
the numbers then: where a deviation is 0 a last digit decides between all and nothing.
"""

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler_plugins.numerics.beta import SHARE_OF_LARGEST_VARIANCE, largest_variance, probability_below, with_moments

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]


def used(percent: float, capacity: float) -> float:
    return percent * capacity / 100


def shares(average: float, stdev: float, capacity: float, request: float = 0.0) -> tuple[float, float]:
    """Mean and deviation of the usage as shares of the capacity, each within 0 and 1; (0, 0) without a capacity."""
    if capacity <= 0:
        return 0.0, 0.0
    return min(max((average + request) / capacity, 0.0), 1.0), min(max(stdev / capacity, 0.0), 1.0)


def widened(mean: float, deviation: float, window: int = 1) -> float:
    """The deviation before smoothing, at most what a beta distribution of this mean can have.

    sigma' = min(sigma sqrt(window), sqrt(0.99 mean (1 - mean))): mean 0.5, deviation 0.1, window 4 give 0.2. And 0 for
    a mean so close to 1 that its last digit allows no distribution.
    """
    wide = min(deviation * math.sqrt(window), math.sqrt(largest_variance(mean) * SHARE_OF_LARGEST_VARIANCE))
    fit = with_moments(mean, wide * wide + mean * mean)
    return 0.0 if fit is None or math.isinf(fit.alpha + fit.beta) else wide


def limit_risks(
    request: NDArray[np.int64], limit: NDArray[np.int64], capacity: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The part of what pods may use beyond their requests that the nodes do not have, within 0 and 1.

    (limit - capacity) / (limit - request) where the limit exceeds the capacity, else 0. Requests of 2, limits of 6 on a
    node of 4: (6 - 4) / (6 - 2) = 0.5.
    """
    over, risk = limit - capacity, np.zeros(limit.shape)
    exceeds = over > 0
    return np.divide(over, limit - request, out=risk, where=exceeds) if np.count_nonzero(exceeds) else risk


def load_risk(mean: float, deviation: float, request: int, limit: int, capacity: int) -> float:
    """Return the probability that a node's usage exceeds its requests, within 0 and 1.

    1 - P(usage <= request), by a beta distribution of this mean and deviation. Where the limits leave a part of the
    node to no pod, on the condition that the usage is at most the limits. Mean 0.5, deviation 0.1, half of the node
    requested and limits beyond the node: 0.5.
    """
    threshold = min(float(request) / float(capacity), 1.0) if capacity > 0 else 0.0
    within, fit = probability_below(mean, deviation, threshold)
    if limit < capacity and request <= limit:
        if not limit:
            return 0.0
        reachable = fit.below(float(limit) / float(capacity)) if fit is not None else 0.0
        if reachable > 0:
            within = min(within / reachable, 1.0)
    return 1 - within
