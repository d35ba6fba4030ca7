"""Maxima and percentiles over windows that trail along with time."""

import numpy as np

from agent.api import FloatArray, IntArray


def trailing_max(values: FloatArray, count: int) -> FloatArray:
    """The largest of each value and the count - 1 before it; fewer at the beginning. Shape (T, ...), no NaN.

    The windows double in length: of 1, 2, 4 … values, so a window of any length costs its logarithm.
    """
    result, done = values.copy(), 1
    while done < min(count, len(values)):
        shift = min(done, count - done)
        result[shift:] = np.maximum(result[shift:], result[:-shift])
        done += shift
    return result


def ahead_max(values: FloatArray, count: int) -> FloatArray:
    """The largest of each value and the count - 1 after it; fewer at the end. shape (T,)."""
    return trailing_max(values[::-1], count)[::-1]


def trailing_percentiles(values: FloatArray, steps: int, percent: float) -> FloatArray:
    """Return of each value and the steps - 1 before it the quantile at that share.

    A wavelet matrix (Claude, Navarro, Ordonez 2015) over the ranks of the values finds the k-th smallest of any window
    in as many steps as a rank has bits, for all windows at once. shape (T,); NaN counts for nothing, and is the answer
    where a window holds nothing.
    """
    there = ~np.isnan(values)
    if not there.any():
        return np.full(len(values), np.nan)
    sums = np.append(0, np.cumsum(there))
    high = sums[1:]
    low = sums[np.maximum(np.arange(len(values)) + 1 - steps, 0)]
    counts = high - low
    places = np.maximum(np.ceil(counts * (percent / 100)).astype(np.intp) - 1, 0)
    distinct, ranks = np.unique(values[there], return_inverse=True)
    result = distinct[np.minimum(_kth(ranks, low, high, places), len(distinct) - 1)]
    return np.where(counts > 0, result, np.nan)


def _kth(ranks: IntArray, low: IntArray, high: IntArray, places: IntArray) -> IntArray:
    """The rank at a place among the sorted ranks low <= i < high, for many windows at once; all shape (T,)."""
    result = np.zeros(len(low), dtype=np.intp)
    for bit in range(max(int(ranks.max()).bit_length(), 1) - 1, -1, -1):
        ones = (ranks >> bit) & 1 == 1
        zeros_before = np.append(0, np.cumsum(~ones))
        zero_low, zero_high = zeros_before[low], zeros_before[high]
        zeros = zero_high - zero_low
        up = places >= zeros
        result[up] += 1 << bit
        places = np.where(up, places - zeros, places)
        low = np.where(up, zeros_before[-1] + low - zero_low, zero_low)
        high = np.where(up, zeros_before[-1] + high - zero_high, zero_high)
        ranks = np.concatenate([ranks[~ones], ranks[ones]])
    return result
