"""The steps in Python and numpy. `compiled.pyx` has the same in Cython."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler_plugins.steps.formula import Parts

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]

MAX_SCORE: Final = 100.0  # the best score; the worst is 0
AVOIDED: Final = 2 * MAX_SCORE  # how much worse a node is that a pod avoids: more than scores differ by
LARGEST_SPAN: Final = (2**63 - 1) // 100  # the largest difference of which a hundredfold has 64 bits

_NAMES: Final = msgspec.json.Decoder(list[str])


class NodeIndex:
    """The rows of nodes by their names.

    Args:
        names: the names, each once; the row of each is its place.
    """

    def __init__(self, names: Sequence[str]) -> None:
        # Copies that follow one another in memory: a look-up then takes half the time.
        self._rows = {(name + " ")[:-1]: row for row, name in enumerate(names)}

    def rows(self, text: bytes | msgspec.Raw) -> NDArray[np.intp] | None:
        """The rows of the nodes of a JSON array of names.

        None where the text is anything else, or names an unknown node, or one of them twice.
        """
        try:
            names = _NAMES.decode(text)
            rows = np.fromiter(map(self._rows.__getitem__, names), np.intp, len(names))
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
            return None
        return rows if len(set(names)) == len(names) else None


def best_of_groups(
    scores: FloatArray,
    groups: NDArray[np.int32],
    avoided: NDArray[np.bool_] | None,
    count: Callable[[int], int],
    generator: np.random.Generator,
) -> NDArray[np.intp]:
    """The rows of the best nodes of each group, by group, the best of each first; equal ones by lot.

    Args:
        scores: by which a node is better, within 0 and 100, shape (N,).
        groups: the group of each node, from 0, shape (N,).
        avoided: which nodes come last in their group, shape (N,); None: none does.
        count: how many of a group of so many nodes are wanted; at least 1.
        generator: draws the lots.
    """
    costs = groups * (2 * AVOIDED) - scores
    if avoided is not None:
        costs += avoided * AVOIDED
    # All are shuffled before the sort, so equal ones are in random order.
    shuffled = generator.permutation(len(costs))
    ranked = shuffled[costs[shuffled].argsort()]
    chosen, first = [], 0
    for size in np.bincount(groups).tolist():
        if size:
            chosen.append(ranked[first : first + count(size)])
            first += size
    return np.concatenate(chosen) if chosen else ranked


def groups_of(table: NDArray[np.int32], ids: IntArray) -> NDArray[np.int32] | None:
    """The first numbers of rows of a table, shape (M, C), by the ids of nodes, shape (N,); None: one is negative."""
    groups = table[:, 0].take(ids)
    return None if np.minimum.reduce(groups, initial=0) < 0 else groups


def weighted_mean(scores: Sequence[FloatArray | IntArray], weights: Sequence[float], count: int) -> FloatArray:
    """Return the mean of some scores of `count` nodes, each of shape (N,).

    Raises ValueError: their shape is another, or one is outside of 0 to 100, or is NaN.
    """
    matrix = np.array(scores, np.float64)
    if matrix.shape != (len(scores), count):
        raise ValueError(f"there are not {count} scores")
    least, most = np.minimum.reduce(matrix, axis=None, initial=0.0), np.maximum.reduce(matrix, axis=None, initial=0.0)
    if not (least >= 0.0 and most <= MAX_SCORE):  # true for NaN
        raise ValueError("a score is outside of 0 to 100")
    matrix *= np.array(weights)[:, None]
    total: FloatArray = np.add.reduce(matrix, axis=0)
    return total / sum(weights)


def any_exceeds(amounts: IntArray, limits: IntArray, more: IntArray) -> bool:
    """Return whether an amount is above its limit with `more`; shapes (N, R), (N, R) and (R,)."""
    return bool(np.logical_or.reduce(amounts > limits - more, axis=None))


def change_rows(
    amounts: IntArray,
    variance: FloatArray,
    rows: NDArray[np.intp],
    more: IntArray,
    more_variance: FloatArray,
    sign: int,
) -> None:
    """Add to some rows of two matrices (sign 1), or subtract from them (-1).

    Args:
        amounts: the first matrix, shape (M, A).
        variance: the second matrix, shape (M, B).
        rows: which rows change, each at most once, shape (K,).
        more: by how much in the first, shape (K, A).
        more_variance: by how much in the second, shape (K, B).
        sign: 1 or -1.
    """
    operation = np.add if sign > 0 else np.subtract
    matrix: NDArray[Any]
    for matrix, parts in ((amounts, more), (variance, more_variance)):
        block = matrix.take(rows, 0)
        operation(block, parts, out=block)
        matrix[rows] = block


class Evaluator:
    """Filters and scores ordinary nodes in one pass. The form in Python finds no node ordinary.

    Args:
        common: the numbers of all nodes that are no plugin's, shape (M, C); see `CommonColumns`.
        parts: the formulas of the plugins.
        amounts: how many columns after the mean of an amount its whole is.
        pods: the column with the number of pods in flight.
    """

    def __init__(self, common: IntArray, parts: Parts, amounts: int, pods: int) -> None:
        pass

    def evaluate(
        self, rows: NDArray[np.intp], amounts: Sequence[Sequence[int] | None], now: float
    ) -> tuple[NDArray[np.intp], IntArray, FloatArray, int] | None:
        """Return the nodes that pass; None: a node is not ordinary, or none passes.

        Their rows, their numbers in the first common column, their scores, and the sum of their pods in flight.

        Args:
            rows: the nodes, shape (N,).
            amounts: those of the pod for each formula; None: it passes without the formula, with score 0.
            now: the present time. [unix s]

        Raises:
            IndexError: there is no such row.
            ValueError: a formula is for another number of amounts.
        """
