"""Load profile: pods that peak at the same time of day count together, the others the less the longer they are known.

Three sums stand for how badly the peaks of the pods may meet, in the 5-minute averages of a window:

    C    what they used together at the worst moment
    E    what they would have used, had each one repeated its worst day at every time of day: a load profile
    S    what they would have used, had all of them peaked at once                             C <= E <= S

Nightly jobs that begin at the same hour but ran long on different days are far apart in C and together in E. Peaks at
different hours are together in S alone; whether they ever meet is told by how far the pods stayed below S so far (C/S,
the coincidence factor of power engineering), and by for how many days they were watched.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from agent.numerics.arrays import FloatArray
from agent.predictors.base import DAY_SECONDS, LONGEST_WINDOW_DAYS, Amount, View, require, require_window

USUAL: Final = {
    "cpu": {"window_days": 10.0, "profile_share": 0.6, "spread_share": 1.4, "spread_fall": 0.67},
    "memory": {"window_days": 7.0, "profile_share": 0.4, "spread_share": 1.9, "spread_fall": 0.5},
}
"""The parameters of each resource where the policy names none: chosen by backtests."""
_COINCIDENCE: Final = 0.75
_LONGEST_EVIDENCE_DAYS: Final = LONGEST_WINDOW_DAYS


@dataclass(frozen=True, slots=True)
class LoadProfile:
    """B + lambda * (S - B), where B = C + profileShare * (E - C).

    lambda is the mean over the pods, weighted by their own highest usage, of spreadShare * (C / S)^0.75 *
    days^-spreadFall, at most 1; days is how long the pod was observed, at most 30. Two pods that alternate between
    1.3 and 0.7 cores at the same times of every day have C = E = 2 and S = 2.6. With the parameters of CPU, seen for
    one day, lambda is 1 (2.6 cores); seen for ten, 1.4 * 0.769^0.75 * 10^-0.67 = 0.246 (2.15 cores).
    """

    window_days: float | None = None
    """How far back to look; none is 10 for CPU and 7 for memory. [days]"""
    profile_share: float | None = None
    """How much of the distance from C to E is charged, 0..1; none is 0.6 for CPU and 0.4 for memory."""
    spread_share: float | None = None
    """How much of the distance to S is charged after one day of pods that peak together; none is 1.4 and 1.9."""
    spread_fall: float | None = None
    """How fast that falls with the days of evidence: their power; none is 0.67 and 0.5."""
    measured: ClassVar[bool] = True
    usual_window_days: ClassVar[float] = max(usual["window_days"] for usual in USUAL.values())
    """How far back it looks at most where the policy does not say. [days]"""

    def __post_init__(self) -> None:
        if self.window_days is not None:
            require_window(self.window_days)
        for name, value, high in (
            ("profileShare", self.profile_share, 1.0),
            ("spreadShare", self.spread_share, 10.0),
            ("spreadFall", self.spread_fall, 2.0),
        ):
            if value is not None:
                require(name, value, 0.0, high)

    def window_days_of(self, resource: str) -> float:
        """How far back it looks at a resource. [days]"""
        return USUAL[resource]["window_days"] if self.window_days is None else self.window_days

    def peak(self, view: View, margin: float) -> Amount:
        """B + lambda * (S - B), times the margin."""
        usual = USUAL[view.resource]
        profile_share = usual["profile_share"] if self.profile_share is None else self.profile_share
        windows = view.windows(self.window_days_of(view.resource))
        together, apart = windows.coincident, windows.total
        base = together + profile_share * np.maximum(windows.profile() - together, 0.0)
        share = self._lambda(view, windows.highest, together, apart)
        return margin * (base + share * np.maximum(apart - base, 0.0))

    def _lambda(self, view: View, highest: FloatArray, together: Amount, apart: Amount) -> FloatArray:
        usual = USUAL[view.resource]
        at_first = usual["spread_share"] if self.spread_share is None else self.spread_share
        fall = usual["spread_fall"] if self.spread_fall is None else self.spread_fall
        whole = np.where(np.asarray(apart) > 0.0, apart, 1.0)  # of idle pods S is 0, and so is C
        coincidence = np.minimum(np.asarray(together) / whole, 1.0) ** _COINCIDENCE
        days = np.clip(view.observed_seconds / DAY_SECONDS, 1.0, _LONGEST_EVIDENCE_DAYS)
        own = np.minimum(at_first * coincidence[..., None] * days**-fall, 1.0)
        weighted: FloatArray = (own * highest).sum(axis=-1)
        return weighted / whole
