"""Runs a model on all steps of a segment at once; step by step where the model is right for a single one only."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from agent.api import MODEL_FAILURES, FloatArray, ResourceModel, WorkloadHistoryRule
from kubectl_headroom.backtest.view import SegmentView

_SAME: Final = 1e-9
_TRIED: Final = 3


class ModelError(RuntimeError):
    """A model failed on a trace; the message names the policy and the failure."""


@dataclass(slots=True)
class BatchPredictor:
    """A policy for one resource."""

    name: str
    model: ResourceModel
    rule: WorkloadHistoryRule | None = None  # for cold pods of known workloads
    _tries: int = field(default=0, repr=False)
    _one_by_one: bool = field(default=False, repr=False)

    def peaks(self, view: SegmentView) -> FloatArray:
        """The model's peak of the warm pods at each step, margin included, shape (N,).

        The first batch results are compared with results for single steps. A model that sums over whole arrays, pods
        and steps alike, differs there, and runs step by step from then on. Raises ModelError when the model fails, or
        returns something that is not an amount.
        """
        result = None if self._one_by_one else self._together(view)
        if result is None:
            self._one_by_one = True
            result = np.array([self._single(view, step) for step in range(view.end - view.start)])
        wrong = ~((result >= 0.0) & (result < np.inf))
        if wrong.any():
            value = f"{result[wrong][0]:g}"
            raise ModelError(f"policy {self.name}: model {self.model.name} returns {value}, which is not an amount")
        return result

    def _together(self, view: SegmentView) -> FloatArray | None:
        """The result for all steps; None when it differs from the results for single steps."""
        count = view.end - view.start
        try:
            result: FloatArray = np.broadcast_to(self._peak(view), (count,))
        except (ModelError, TypeError, ValueError):
            return None
        if self._tries < _TRIED:
            self._tries += count > 1
            for step in {0, count // 2, count - 1}:
                if not np.isclose(result[step], self._single(view, step), rtol=_SAME, atol=0.0, equal_nan=True):
                    return None
        return result

    def _single(self, view: SegmentView, step: int) -> float:
        answer = self._peak(view.at(step))
        if answer.size != 1:
            raise ModelError(
                f"policy {self.name}: model {self.model.name} returns {answer.size} numbers for one moment"
            )
        return float(answer.item())

    def _peak(self, view: SegmentView) -> FloatArray:
        try:
            return np.asarray(self.model.model.peak(view, self.model.margin), dtype=np.float64)
        except MODEL_FAILURES as error:
            why = " ".join(str(error).split()) or type(error).__name__
            raise ModelError(
                f"policy {self.name}: model {self.model.name} failed for {view.resource}: {why}"
            ) from error
