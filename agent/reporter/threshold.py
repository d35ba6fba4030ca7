"""Whether a prediction has changed enough to be reported before the next full report. Pure."""

from collections.abc import Mapping
from typing import Final

from agent.pods import Resources
from agent.prediction.node import NodePrediction
from crds.predict_policy import with_defaults

SMALLEST_CHANGE: Final[Mapping[str, int]] = {"cpu": 10, "memory": 16 << 20}
"""A smaller difference is never worth a report. [milli-cores, bytes]"""


def is_due(sent: NodePrediction, sent_seconds_ago: float, now: NodePrediction) -> bool:
    """Whether a prediction must be reported before the next full report.

    Args:
        sent: the prediction last sent.
        sent_seconds_ago: how long ago that was. [s]
        now: the prediction of the moment; its policy says what counts.
    """
    policy = with_defaults(now.policy)
    threshold = policy.resource_diff_threshold_percent or 0
    return (
        has_moved(sent.reclaimable, now.reclaimable, threshold)
        or has_moved(sent.prod_peak, now.prod_peak, threshold)
        or (sent.policy, sent.problem) != (now.policy, now.problem)
        or (sent.readiness.ready, sent.readiness.reason) != (now.readiness.ready, now.readiness.reason)
        or sent_seconds_ago >= (policy.force_update_interval_seconds or 0)
    )


def has_moved(sent: Resources, now: Resources, threshold_percent: float) -> bool:
    """Whether any amount differs by more than the threshold from the one last sent.

    From 4000m to 4201m at 5 percent: yes (5.025 percent). From 100m to 109m: no (9m is below the smallest change).
    From zero to something, and between known and unknown: always.

    Args:
        sent: What was last sent. [milli-cores, bytes]
        now: What it is now. [milli-cores, bytes]
        threshold_percent: ResourceDiffThreshold. [percent]
    """
    if sent.keys() != now.keys():
        return True
    return any(_differs(name, sent[name], amount, threshold_percent) for name, amount in now.items())


def _differs(name: str, before: int, after: int, threshold_percent: float) -> bool:
    if before == 0:
        return after > 0
    difference = abs(after - before)
    return difference >= SMALLEST_CHANGE.get(name, 0) and difference * 100 > threshold_percent * before
