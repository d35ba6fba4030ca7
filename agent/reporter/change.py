"""Whether a prediction has moved enough to be told at once. Pure."""

from collections.abc import Mapping
from typing import Final

from agent.pods import Resources

SMALLEST_CHANGE: Final[Mapping[str, int]] = {"cpu": 10, "memory": 16 << 20}
"""A smaller difference is never worth a report. [milli-cores, bytes]"""


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
