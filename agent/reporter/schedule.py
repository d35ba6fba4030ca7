"""When to report: each node at its own phase of the interval; fast when much changed."""

import hashlib
from collections.abc import Mapping
from typing import Final

from agent.pods import Resources
from agent.prediction.node import NodePrediction
from crds.predict_policy import with_defaults

SMALLEST_CHANGE: Final[Mapping[str, int]] = {"cpu": 10, "memory": 16 << 20}
"""A smaller difference is never worth a report. [milli-cores, bytes]"""


def phase_of(name: str) -> float:
    """A node's place in every interval, 0 to 1: constant, and evenly spread over many names."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64


def until_next(now: float, interval_seconds: float, phase: float) -> float:
    """Return how long until the node's next moment, but at least half an interval and less than one and a half. [s]

    A thousand nodes that start, or see the API server again, at the same moment are spread over the interval by this;
    a node that is on time stays so. With an interval of 60 s and phase 0.25, the moments are 15 s past each minute: at
    12:00:20 the wait is 55 s, at 12:00:50 it is 85 s.
    """
    earliest = now + interval_seconds / 2
    missing = (phase * interval_seconds - earliest) % interval_seconds
    return interval_seconds / 2 + missing


def is_due(sent: NodePrediction, sent_seconds_ago: float, now: NodePrediction) -> bool:
    """Return whether the present prediction must be sent before the next full report, by the policy's thresholds."""
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
    """Return whether any amount differs by more than the threshold from the one last sent.

    From 4000m to 4201m at 5 percent: yes (5.025 percent). From 100m to 109m: no (9m is below the smallest change).
    From zero to something, and between known and unknown: always. Amounts are in milli-cores and bytes.
    """
    if sent.keys() != now.keys():
        return True
    return any(_differs(name, sent[name], amount, threshold_percent) for name, amount in now.items())


def _differs(name: str, before: int, after: int, threshold_percent: float) -> bool:
    if before == 0:
        return after > 0
    difference = abs(after - before)
    return difference >= SMALLEST_CHANGE.get(name, 0) and difference * 100 > threshold_percent * before
