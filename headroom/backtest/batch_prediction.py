"""Runs a model on all steps of a segment at once; step by step where the model supports a single moment only."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray
from agent.prediction.policy import ResourceModel
from agent.predictors.base import MODEL_FAILURES, Amount, View
from headroom.backtest.view import SegmentView

_SAME: Final = 1e-9
_TRIED: Final = 3


class ModelError(RuntimeError):
    """A model failed on a trace; the message names the policy and the failure."""


@dataclass(slots=True)
class BatchPredictor:
    """One policy for one resource."""

    name: str
    """The policy's name."""
    model: ResourceModel
    """Its model, margin and cold period."""
    _tries: int = field(default=0, repr=False)
    _one_by_one: bool = field(default=False, repr=False)

    def peaks(self, view: SegmentView) -> FloatArray:
        """The model's peak of the warm pods at each step, margin included, shape (N,).

        The first batch results are compared with results for single steps. A model that sums over whole arrays, pods
        and steps alike, differs there, and runs step by step from then on.

        Raises:
            ModelError: the model fails, or returns something that is not an amount.
        """
        count = view.end - view.start
        if not self._one_by_one:
            found = self._together(view, count)
            if found is not None:
                return self._checked(found)
            self._one_by_one = True
        return self._checked(np.array([float(self._peak(view.at(step))) for step in range(count)]))

    def _together(self, view: SegmentView, count: int) -> FloatArray | None:
        """The result for all steps; None when it differs from the results for single steps."""
        trying = self._tries < _TRIED
        try:
            answer = np.asarray(self._peak(view), dtype=np.float64)
            found: FloatArray = np.broadcast_to(answer, (count,))
        except (ModelError, TypeError, ValueError):
            return None
        if trying:
            self._tries += count > 1
            for step in {0, count // 2, count - 1}:
                single = float(self._peak(view.at(step)))
                if not np.isclose(found[step], single, rtol=_SAME, atol=0.0, equal_nan=True):
                    return None
        return found

    def _peak(self, view: View) -> Amount:
        try:
            return self.model.model.peak(view, self.model.margin)
        except MODEL_FAILURES as error:
            why = " ".join(str(error).split()) or type(error).__name__
            raise ModelError(
                f"policy {self.name}: model {self.model.name} failed for {view.resource}: {why}"
            ) from error

    def _checked(self, found: FloatArray) -> FloatArray:
        wrong = ~((found >= 0.0) & (found < np.inf))
        if wrong.any():
            value = f"{found[wrong][0]:g}"
            raise ModelError(f"policy {self.name}: model {self.model.name} returns {value}, which is not an amount")
        return found
