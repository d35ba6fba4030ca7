"""A beta distribution with a given mean and deviation. scipy.special alone, never scipy.stats.

The formulas and the order of their operations are those of Trimaran's LowRiskOverCommitment.
"""

import math
from functools import lru_cache
from typing import Final, NamedTuple

from scipy import special
from scipy.special.cython_special import betainc  # the same function, called in a fifth of the time

TINY: Final = 1e-8
"""A deviation below this is none: from some 5e-9 down the variance vanishes beside the squared mean, and what would be
fitted then is nonsense on both sides of it."""
SHARE_OF_LARGEST_VARIANCE: Final = 0.99
"""The largest variance of a distribution, as a share of the one that its mean allows."""

_SMALLEST: Final = math.ulp(0.0)


class Beta(NamedTuple):
    """A beta distribution, if both parameters are positive."""

    alpha: float  # first parameter
    beta: float  # second parameter

    @property
    def valid(self) -> bool:
        return self.alpha > 0 and self.beta > 0

    def moments(self) -> tuple[float, float, float]:
        """The means of x, x^2 and x^3: E[x^k] = E[x^(k-1)] (alpha + k - 1) / (alpha + beta + k - 1)."""
        total = self.alpha + self.beta
        first = self.alpha / total
        second = first * (self.alpha + 1) / (total + 1)
        return first, second, second * (self.alpha + 2) / (total + 2)

    def density(self, x: float) -> float:
        logarithm = special.xlogy(self.alpha - 1, x) + special.xlog1py(self.beta - 1, -x)
        return math.exp(logarithm - special.betaln(self.alpha, self.beta))

    def below(self, x: float) -> float:
        """The probability of at most x: 0 at 0, 1 at 1, and 0 where that is nothing (no distribution, x outside)."""
        if x in (0, 1):
            return float(x)
        if not self.valid:
            return 0.0
        inside = betainc(self.alpha, self.beta, x)
        return 0.0 if math.isnan(inside) else float(inside)


def largest_variance(mean: float) -> float:
    """The variance that no distribution of this mean on 0..1 exceeds: mean (1 - mean), and 0 outside of 0..1."""
    return mean * (1 - mean) if 0 < mean < 1 else 0.0


def with_moments(first: float, second: float) -> Beta | None:
    """Return the distribution with these means of x and x^2.

    k = m1 (1 - m1) / (m2 - m1^2) - 1, alpha = m1 k, beta = (1 - m1) k. Mean 0.5 and deviation 0.1 (m2 = 0.26) give
    k = 24, alpha = beta = 12. There is none where m1 is outside of 0..1, or the variance of 0..m1 (1 - m1). Without a
    variance both parameters are infinite.
    """
    variance, largest = second - first * first, first * (1 - first)
    if not (0 <= first <= 1 and 0 <= variance < largest):
        return None
    k = max(largest / variance - 1, _SMALLEST) if variance else math.inf
    return Beta(first * k, (1 - first) * k)


@lru_cache(maxsize=16_384)  # two of each of 5,000 nodes: they stay while pods come and go
def with_deviation(mean: float, deviation: float) -> Beta | None:
    """Return the distribution of this mean and standard deviation; None where none exists.

    None for a mean of 0 and a deviation of 0 (see `TINY`), where everything is in one place.
    """
    if mean == 0 or abs(deviation) < TINY:
        return None
    fit = with_moments(mean, deviation * deviation + mean * mean)
    return fit if fit is not None and math.isfinite(fit.alpha) else None


def probability_below(mean: float, deviation: float, threshold: float) -> tuple[float, Beta | None]:
    """The probability of at most a threshold, and the distribution that it is of.

    1 for a mean of 0; without a deviation 1 or 0, as the mean is at most the threshold or not; 0 where no distribution
    has these moments.
    """
    if mean == 0:
        return 1.0, None
    if abs(deviation) < TINY:
        return float(mean <= threshold), None
    fit = with_deviation(mean, deviation)
    return (0.0 if fit is None else fit.below(threshold)), fit
