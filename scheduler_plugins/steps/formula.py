"""The filter and the score of a plugin for an ordinary node, as numbers of the node's record."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from numpy.typing import NDArray

NO_GROUP: Final = -1  # in the field of `Formula.group`: the node passes, whatever the slack


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """Names of fields of a plugin's records, "" for none, and numbers; a node is ordinary unless they say otherwise.

    The A amounts are of load (A is R), or some of the plugin's sums. The plugin states them of a pod, and the snapshot
    has them of the pods in flight on a node.
    """

    first: int | None = None  # the first of the amounts in the plugin's sums; None: they are of load
    time: str = ""  # time of a reading: float64; a node is not ordinary if it is `seconds` old [unix s]
    seconds: float = math.inf  # from which age on
    slack: str = ""  # the amounts that pods in flight and the pod may add: int64, shape (A,)
    group: str = ""
    """The filter, by a number of the node (int8). Above the slack, a node is refused if the number is 0 or more, and
    passes if it is `NO_GROUP`. The node is not ordinary if the number is less, if the result depends on where pods in
    flight land, or if it is 1 above the slack. Without such a field all pass, and none above the slack is ordinary."""
    spare: str = ""
    """The score, by the amounts that are left: int64, shape (A,). Each less the pod's, in percent of the `divisor` and
    truncated, has a mean by `weights`, in which the least of these percents weighs `dominant`."""
    divisor: str = ""  # int64, shape (A,)
    weights: tuple[int, ...] = ()  # shape (A,)
    dominant: int = 0  # the weight of the least
    score: str = ""  # the score: int64
    position: str = ""
    """The score, by a number of the node (int64): its position between the least (0) and the largest (100) of all nodes
    that pass, truncated."""


class Part(NamedTuple):
    """A formula with its columns."""

    formula: Formula  # the formula
    columns: Mapping[str, NDArray[Any]]  # by the name of a field; the last axis is that of all nodes
    first: int  # the column of the common numbers with the first of the amounts
    weight: float  # of the score beside the others'


Parts = Sequence[Part]
