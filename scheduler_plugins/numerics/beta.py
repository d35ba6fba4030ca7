"""Beta distributions with a given mean and deviation, many at once or one. scipy.special alone, never scipy.stats.

The formulas and the order of their operations are those of Trimaran's LowRiskOverCommitment.
"""

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]

TINY: Final = 1e-8
"""A deviation below this is none: from some 5e-9 down the variance vanishes beside the squared mean, and what would be
fitted then is nonsense on both sides of it."""
SHARE_OF_LARGEST_VARIANCE: Final = 0.99
"""How much of the largest variance that its mean allows a distribution is given at most."""

_SMALLEST: Final = float(np.nextafter(0.0, 1.0))


class Beta(NamedTuple):
    """Beta distributions; both parameters are NaN where there is none."""

    alpha: FloatArray
    """First parameter."""
    beta: FloatArray
    """Second parameter."""

    @property
    def valid(self) -> BoolArray:
        """Where the parameters make a distribution."""
        return np.greater(self.alpha, 0) & np.greater(self.beta, 0)

    def moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The means of x, x^2 and x^3: E[x^k] = E[x^(k-1)] (alpha + k - 1) / (alpha + beta + k - 1)."""
        total = self.alpha + self.beta
        first = self.alpha / total
        second = first * (self.alpha + 1) / (total + 1)
        return first, second, second * (self.alpha + 2) / (total + 2)

    def density(self, x: ArrayLike) -> FloatArray:
        """The density at x, within 0 and 1: x^(alpha-1) (1-x)^(beta-1) / B(alpha, beta)."""
        at = np.asarray(x, np.float64)
        logarithm = special.xlogy(self.alpha - 1, at) + special.xlog1py(self.beta - 1, -at)
        return np.asarray(np.exp(logarithm - special.betaln(self.alpha, self.beta)), np.float64)

    def below(self, x: ArrayLike) -> FloatArray:
        """The probability of at most x: 0 at 0, 1 at 1, and 0 where that is nothing (no distribution, x outside)."""
        at = np.asarray(x, np.float64)
        inside = special.betainc(self.alpha, self.beta, at)
        known = self.valid & ~np.isnan(inside)
        return np.where(at == 0, 0.0, np.where(at == 1, 1.0, np.where(known, inside, 0.0)))


def largest_variance(mean: float) -> float:
    """The variance that no distribution of this mean on 0..1 exceeds: mean (1 - mean), and 0 outside of 0..1."""
    return mean * (1 - mean) if 0 < mean < 1 else 0.0


def with_moments(first: ArrayLike, second: ArrayLike) -> Beta:
    """The distributions whose means of x and x^2 are these.

    k = m1 (1 - m1) / (m2 - m1^2) - 1, alpha = m1 k, beta = (1 - m1) k. Mean 0.5 and deviation 0.1 (m2 = 0.26) give
    k = 24, alpha = beta = 12. There is none where m1 is outside of 0..1, or the variance of 0..m1 (1 - m1).
    """
    m1, m2 = np.asarray(first, np.float64), np.asarray(second, np.float64)
    variance, largest = m2 - m1 * m1, m1 * (1 - m1)
    fits = (m1 >= 0) & (m1 <= 1) & (variance >= 0) & (variance < largest)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        k = np.where(fits, np.maximum(largest / variance - 1, _SMALLEST), np.nan)
        return Beta(m1 * k, (1 - m1) * k)


def with_deviation(mean: ArrayLike, deviation: ArrayLike) -> Beta:
    """The distributions of this mean and standard deviation; none where either leaves no room for one.

    None for a mean of 0 and a deviation of 0 (see `TINY`), where everything is in one place.
    """
    mean, deviation = np.asarray(mean, np.float64), np.asarray(deviation, np.float64)
    fit = with_moments(mean, deviation * deviation + mean * mean)
    spread = (mean != 0) & (np.abs(deviation) >= TINY)
    return Beta(np.where(spread, fit.alpha, np.nan), np.where(spread, fit.beta, np.nan))


def probability_below(mean: ArrayLike, deviation: ArrayLike, threshold: ArrayLike) -> tuple[FloatArray, Beta]:
    """The probability of at most a threshold, and the distributions that it is of.

    1 for a mean of 0; without a deviation 1 or 0, as the mean is at most the threshold or not; 0 where no distribution
    has these moments.
    """
    mean, deviation = np.asarray(mean, np.float64), np.asarray(deviation, np.float64)
    fit = with_deviation(mean, deviation)
    step = np.where(mean <= threshold, 1.0, 0.0)
    probability = np.where(np.abs(deviation) < TINY, step, np.where(fit.valid, fit.below(threshold), 0.0))
    return np.where(mean == 0, 1.0, probability), fit


def fitted(mean: float, deviation: float) -> tuple[float, float] | None:
    """The alpha and beta of the one distribution of this mean and deviation (`with_moments`); None: there is none."""
    variance, largest = deviation * deviation + mean * mean - mean * mean, mean * (1 - mean)
    if not (0 <= mean <= 1 and 0 < variance < largest):
        return None
    k = max(largest / variance - 1, _SMALLEST)
    return mean * k, (1 - mean) * k


def below(alpha: float, beta: float, x: float) -> float:
    """The probability of at most x under one distribution (`Beta.below`)."""
    if x in (0, 1):
        return float(x)
    if not (alpha > 0 and beta > 0):
        return 0.0
    inside = float(special.betainc(alpha, beta, x))
    return 0.0 if inside != inside else inside  # noqa: PLR0124 - NaN
