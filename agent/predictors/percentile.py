"""Koordinator's rule: percentiles of decaying histograms, per pod and per class, the more cautious of the two.

    per pod      Peak = sum of int(p * m) over the pods + what the pods without a usable history count with
                 Reclaimable = min(allocatable - sum of int(p * m), sum of max(0, request - int(p * m)))
    per class    Peak = int((p of system + p of Prod) * m)
                 Reclaimable = min(allocatable - Peak, requests - Peak)
    together     the larger Peak, the smaller Reclaimable; never below 0

p is the end of the histogram bucket in which the percentile lies, as a whole number of milli-cores or bytes, cut off;
m is 1 + the safety margin. Source: koordlet's peak_predictor.go, with which the arithmetic agrees to the last unit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from agent.numerics.arrays import BoolArray, FloatArray
from agent.predictors.base import Amount, ProdView, ReclaimableEstimate, View, require, whole_percentiles

USUAL: Final = {"cpu": 95.0, "memory": 98.0}
"""The percentile of each resource when the policy names none. [percent]"""


@dataclass(frozen=True, slots=True)
class PercentileEstimate:
    """The estimate of one method, in whole milli-cores or bytes; None where it has none."""

    reclaimable: float | None
    peak: float | None


@dataclass(frozen=True, slots=True)
class ProdPods:
    """Prod pods for the rule, in whole milli-cores or bytes; shape (P,) each."""

    requests: FloatArray
    """The reclaimable share of each one's request."""
    counted: FloatArray
    """The substitute for the usage of each pod without a usable history."""
    percentiles: FloatArray
    """Each one's percentile without margin; NaN where this resource was not measured, which then adds nothing."""
    cold: BoolArray
    terminating: BoolArray
    """Which have ended or are being deleted."""
    known: BoolArray
    """Which have a history at all."""

    @property
    def refused(self) -> BoolArray:
        """Return the pods that should have a history and have none: their whole requests count as used."""
        return ~self.cold & ~self.terminating & ~self.known


def by_pods(pods: ProdPods, margin: float, allocatable: float | None) -> PercentileEstimate:
    """Each pod by itself; allocatable is None when it is unknown."""
    evaluated = ~pods.cold & ~pods.terminating & pods.known
    peaks = np.trunc(pods.percentiles[evaluated] * margin)
    measured = ~np.isnan(peaks)
    used = float(peaks[measured].sum())
    unused = float(np.maximum(pods.requests[evaluated][measured] - peaks[measured], 0.0).sum())
    spare = np.where(pods.cold & ~pods.terminating, np.maximum(pods.requests - pods.counted, 0.0), 0.0)
    used_cold = float(pods.counted[spare > 0.0].sum())  # of known workloads; koordlet knows none
    free = None if allocatable is None else min(max(allocatable - used - used_cold, 0.0), unused + float(spare.sum()))
    return PercentileEstimate(free, used + float(pods.counted[pods.cold | pods.refused].sum()))


def by_class(
    pods: ProdPods, classes: Sequence[float | None], margin: float, allocatable: float | None
) -> PercentileEstimate:
    """All Prod pods together, and the system with them: classes are its percentile and those of Prod's bands.

    Those and allocatable are None where they are unknown.
    """
    peaks = [peak_of_class for peak_of_class in classes if peak_of_class is not None]
    if len(peaks) < len(classes):
        return PercentileEstimate(None, None)
    peak = float(np.trunc(sum(peaks) * margin))
    if allocatable is None:
        return PercentileEstimate(None, peak)
    requests = float(pods.requests[~pods.terminating & ~pods.refused].sum())
    return PercentileEstimate(min(max(allocatable - peak, 0.0), max(requests - peak, 0.0)), peak)


def tightest(parts: Sequence[PercentileEstimate]) -> PercentileEstimate:
    """The smallest Reclaimable and the largest Peak; unknown where one of them is, 0 of nothing."""
    reclaimable = [part.reclaimable for part in parts]
    peaks = [part.peak for part in parts]
    return PercentileEstimate(
        None if None in reclaimable else min((amount for amount in reclaimable if amount is not None), default=0.0),
        None if None in peaks else max((peak for peak in peaks if peak is not None), default=0.0),
    )


@dataclass(frozen=True, slots=True)
class Percentile:
    """Koordinator's rule, which brings its own Reclaimable.

    Allocatable 3 cores; a warm pod requests 2 and has p95 0.5, a cold one requests 1; p95 of the system 0.3, of Prod 1.
    Per pod: 2 - 0.55 = 1.45 cores; per class: 3 - 1.43 = 1.57; so 1.45 cores are reclaimable.
    """

    percentile: float | None = None
    """Which percentile; none is 95 for CPU and 98 for memory. [percent]"""
    measured: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.percentile is not None:
            require("percentile", self.percentile, 1.0, 100.0)

    def peak(self, view: View, margin: float) -> Amount:
        """The larger of the class's percentile and the sum of its pods' percentiles, times the margin."""
        percent = self._percent(view.resource)
        together = np.trunc(view.class_percentile(percent) * margin)
        apart = np.nansum(np.trunc(view.pod_percentiles(percent) * margin), axis=-1)
        peak: FloatArray = np.fmax(together, apart) / view.units
        return peak

    def estimate_reclaimable(self, prod: ProdView, margin: float, ratio: float) -> ReclaimableEstimate:
        """The rule; at a ratio of 1 exactly Koordinator's."""
        history = prod.history
        percent, known = self._percent(history.resource), prod.pods >= 0
        pods = ProdPods(
            requests=ratio * np.rint(prod.requests * history.units),
            counted=np.rint(prod.counted * history.units),
            percentiles=np.where(known, whole_percentiles(history, prod.pods, percent), np.nan),
            cold=prod.cold,
            terminating=prod.terminating,
            known=known,
        )
        rows = np.array([prod.system, prod.series], dtype=np.intp)
        classes = np.nan_to_num(whole_percentiles(history, rows, percent)).tolist()
        bound = prod.allocatable * history.units
        result = tightest([by_pods(pods, margin, bound), by_class(pods, classes, margin, bound)])
        return ReclaimableEstimate((result.reclaimable or 0.0) / history.units, (result.peak or 0.0) / history.units)

    def _percent(self, resource: str) -> float:
        return USUAL[resource] if self.percentile is None else self.percentile
