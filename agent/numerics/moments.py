"""Decayed mean and standard deviation of many entities at once.

A sample's weight halves with every half-life of time that passes: ``w_i = 2^(-(T - t_i) / half_life)``.

    W = sum w_i     W2 = sum w_i^2     mean = sum w_i x_i / W
    variance = sum w_i (x_i - mean)^2 / (W - W2 / W)          bias-corrected; with equal weights the usual n - 1
    n_eff    = W^2 / W2                                       number of equal samples with as much information
"""

from typing import ClassVar

import numpy as np

from agent.numerics.arrays import FloatArray, IntArray, RowTables


class MomentsBank(RowTables):
    """Moments of many entities, updated in place (West's method: no difference of large sums). shape (R,) each."""

    FILLS: ClassVar = dict.fromkeys(("weights", "squares", "means", "deviations", "highest", "counts"), 0.0)

    def __init__(self, half_life_seconds: float, rows: int = 0) -> None:
        self.half_life_seconds = half_life_seconds
        self.weights: FloatArray = np.zeros(rows)
        self.squares: FloatArray = np.zeros(rows)
        self.means: FloatArray = np.zeros(rows)
        self.deviations: FloatArray = np.zeros(rows)
        self.highest: FloatArray = np.zeros(rows)
        self.counts: FloatArray = np.zeros(rows)

    def add(self, rows: IntArray, values: FloatArray, elapsed_seconds: FloatArray) -> None:
        """Add one sample of weight 1 to each of the rows.

        Args:
            rows: shape (N,), each row at most once.
            values: shape (N,), finite.
            elapsed_seconds: time by which the row's state has aged since its last sample, shape (N,). [s]
        """
        decay = np.exp2(-elapsed_seconds / self.half_life_seconds)
        weights = self.weights[rows] * decay + 1.0
        differences = values - self.means[rows]
        means = self.means[rows] + differences / weights
        self.weights[rows] = weights
        self.squares[rows] = self.squares[rows] * decay * decay + 1.0
        self.deviations[rows] = self.deviations[rows] * decay + differences * (values - means)
        self.means[rows] = means
        self.highest[rows] = np.maximum(self.highest[rows], values)
        self.counts[rows] += 1.0

    def mean(self, rows: IntArray) -> FloatArray:
        """Decayed mean; 0 for a row without samples. shape (N,)."""
        return self.means[rows]

    def stdev(self, rows: IntArray) -> FloatArray:
        """Decayed, bias-corrected standard deviation; 0 for a row with fewer than two samples. shape (N,)."""
        weights = self.weights[rows]
        divisors = weights - self.squares[rows] / np.where(weights > 0.0, weights, 1.0)
        enough = (self.counts[rows] > 1.0) & (divisors > 0.0)
        variances = self.deviations[rows] / np.where(enough, divisors, 1.0)
        return np.where(enough, np.sqrt(np.maximum(variances, 0.0)), 0.0)

    def effective_samples(self, rows: IntArray) -> FloatArray:
        """n_eff, between 1 and the number of samples; 0 for a row without samples. shape (N,)."""
        squares = self.squares[rows]
        return np.where(squares > 0.0, self.weights[rows] ** 2 / np.where(squares > 0.0, squares, 1.0), 0.0)
