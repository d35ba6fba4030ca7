"""The usage of workloads that agents report and the manager hands out; a workload has an id instead of its name."""

import base64
import hashlib
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

LONGEST_REPORT: Final = 4096
"""The workloads of a report have at most this size as JSON. [bytes]"""
MOST_WORKLOADS: Final = 256
"""At most so many workloads are in a report, or in `spec.workloadHistory`."""
MOST_HOURS: Final = 168
"""Observed time beyond this is reported as this. [h]"""
LONGEST_HOURS: Final = 24
"""A workload is known after one node has observed a pod of it for so long: pods have a daily rhythm. [h]"""
LEAST_HOURS: Final = 3
"""A node counts as one of `workloadHistoryNodes` from this observed time on. [h]"""
_ID_LENGTH: Final = 12
_LINE: Final = re.compile(r"([A-Za-z0-9_-]{12}) ([0-9]{1,9}) ([0-9]{1,9}) ([0-9]{1,3}) ([0-9]{1,4}) ([0-9]{1,4})")


@dataclass(frozen=True, slots=True)
class WorkloadUsage:
    """The usage of one workload's pods on one node."""

    id: str  # `workload_id` of the workload
    cpu_milli: int  # highest 5-minute average of one pod. [milli-cores]
    memory_mib: int  # highest usage of one pod. [MiB]
    hours: int  # observed time of the pod with most of it, inherited time included. [h]
    pods: int  # pods on the node now
    cold: int  # those of them that have too little history

    def __str__(self) -> str:
        return f"{self.id} {self.cpu_milli} {self.memory_mib} {self.hours} {self.pods} {self.cold}"


@lru_cache(maxsize=1024)
def workload_id(workload: str) -> str:
    """Return the id of a workload: 72 bits of a hash of its key, because names are too long for a report."""
    return base64.urlsafe_b64encode(hashlib.sha256(workload.encode()).digest()).decode()[:_ID_LENGTH]


def parse_usage(line: str) -> WorkloadUsage:
    """The usage in one line of a report. Raises ValueError: it has another form."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"{line[:80]!r} is not the usage of a workload")
    return WorkloadUsage(match[1], *map(int, match.groups()[1:]))


def whole_mib(memory_bytes: float) -> int:
    """Return whole MiB, rounded up."""
    return math.ceil(memory_bytes / (1 << 20))
