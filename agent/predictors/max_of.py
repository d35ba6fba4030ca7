"""Max: the most cautious of several models."""

from dataclasses import dataclass
from functools import reduce

import numpy as np

from agent.predictors.base import Amount, Model, View, window_days


@dataclass(frozen=True, slots=True)
class MaxOf:
    """The largest of the listed models' peaks; each applies the margin to its own measured usage."""

    of: tuple[Model, ...] = ()
    """The models."""

    def __post_init__(self) -> None:
        if not self.of:
            raise ValueError("of: model max needs at least one model to take the largest of")

    @property
    def measured(self) -> bool:
        return any(model.measured for model in self.of)

    @property
    def window_days(self) -> float:
        """Return the longest window of the listed models. [days]"""
        return max(window_days(model) for model in self.of)

    def peak(self, view: View, margin: float) -> Amount:
        return reduce(np.maximum, [model.peak(view, margin) for model in self.of])
