"""The built-in peak models and the ranges of their parameters, so that a policy is checked before any agent sees it.

The agents have the models themselves; a test compares the two.
"""

from collections.abc import Mapping
from typing import Final

from crds.ranges import Allowed, Flag, Range

_WINDOW_DAYS: Final = Range(0.01, 30)
_PERCENT: Final = Range(1, 100)
_N: Final = Range(0, 10)

MODELS: Final[Mapping[str, Mapping[str, Allowed]]] = {
    "borg-default": {"a": Range(1, 10)},
    "coincidence": {
        "targetViolationPercent": Range(0.1, 7),
        "horizonHours": Range(1, 24),
        "windowDays": _WINDOW_DAYS,
    },
    "diversity": {"windowDays": _WINDOW_DAYS, "lambdaMin": Range(0, 1)},
    "max": {},
    "nsigma-v1": {"n": _N, "capAtHighest": Flag()},
    "nsigma-v2": {"n": _N, "capAtHighest": Flag()},
    "percentile": {"percentile": _PERCENT},
    "recent-max": {"windowDays": _WINDOW_DAYS},
    "resource-central": {"percentile": _PERCENT, "windowHours": Range(0.25, 720)},
    "sum-max": {"windowDays": _WINDOW_DAYS},
}
"""The models that every agent has -> their parameters -> the range of each. An agent may have more models."""

COMBINING: Final = frozenset({"max"})
"""Models that combine others, listed in `of`."""

DEEPEST: Final = 4
"""So many times a model may combine models that combine others."""
