"""The noun that crosses stages: one value of one series at one time. Imports nothing of ours."""

from dataclasses import dataclass, field
from typing import Final

NODE: Final = "node"  # entity of the whole machine
SYS: Final = "sys"  # entity of everything that runs outside pods: node minus pods, derived in the same tick

CPU: Final = "cpu"  # CPU in use. [cores]
CPU_EXCLUSIVE: Final = "cpu_exclusive"  # usage of exclusive CPUs, of the node; 0 where there are none. [cores]
MEMORY: Final = "memory"  # memory in use without page cache. [bytes]
MEMORY_WITH_PAGE_CACHE: Final = "memory_with_page_cache"  # memory in use with page cache. [bytes]
MEMORY_HELD_BACK: Final = "memory_held_back"  # 1 while memory.high or swap keeps a pod's usage below its need, else 0
CPU_THROTTLED: Final = "cpu_throttled"  # share of the quota periods in which the pod was held back. [0..1]

PSI_RESOURCES: Final = ("cpu", "memory", "io")  # resources in the kernel's pressure stall information
SOME: Final = "some"  # some of the tasks waited
PSI_KINDS: Final = (SOME, "full")  # some of the tasks waited, or all of them


def psi(resource: str, kind: str) -> str:
    """The series of the share of time in which tasks waited. [0..1]"""
    return f"psi_{resource}_{kind}"


VANISHED: Final = "vanished"
INPUT_MISSING: Final = "input-missing"
NOT_FINITE: Final = "not-finite"
NO_CGROUP: Final = "no-cgroup"
ENDED: Final = "ended"
REASONS: Final[dict[str, str]] = {
    "first-reading": "A counter was read for the first time: a rate needs two readings.",
    "recreated": "The cgroup was removed and recreated under the same name.",
    "counter-reset": "The counter fell.",
    "too-soon": "The two readings are too close together for a rate.",
    "clock": "The time of the reading is unknown, or its clock did not run forward.",
    "paused": "The last reading is too old, because the agent was delayed.",
    "suspended": "The machine slept between the two readings.",
    "implausible": "The counter grew by more than this machine allows.",
    VANISHED: "The cgroup was removed since the last tick.",
    ENDED: "The pod ended since the last tick; terminated pods are not measured.",
    NO_CGROUP: "The pod runs, but no tick found its cgroup.",
    "no-memory-controller": "The kernel, or this cgroup, has no memory controller.",
    "unreadable": "The agent has no permission to read the file, or reading failed.",
    "malformed": "The file has unexpected content: a short read, or another file.",
    NOT_FINITE: "The value is no finite number.",
    INPUT_MISSING: "An input of node - pods is missing in this tick.",
}
"""Reasons for a missing value, with their meanings."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A measured value.

    A missing measurement is no sample at all: there is no sample for "unknown", and zero means zero.
    """

    metric: str  # the metric: a name from above, or `psi_*` [ratio]
    entity: str  # its owner: `node`, `sys`, a class name, or a pod's uid
    time: float  # when, the same for every sample of a tick. [seconds since 1970]
    value: float  # how much, in the metric's unit. Always finite.
    container: str = ""  # which container of the pod; empty for the whole entity


@dataclass(frozen=True, slots=True)
class Missing:
    """A value that a tick should have had, and has not."""

    metric: str  # the metric
    entity: str  # its owner
    reason: str  # why not: one of `REASONS`, counted by the runner


@dataclass(slots=True)
class CollectionResult:
    """Result of one collector for one interval."""

    samples: list[Sample] = field(default_factory=list)  # the measured values
    missing: list[Missing] = field(default_factory=list)  # what should have been, and was not
    pods_listed: bool = False  # whether it is known which pods there are: each has a sample or is missing
    problem: str = ""  # what keeps the collector from its work, for people; empty when nothing does

    def add(self, metric: str, entity: str, time: float, value: float | str) -> None:
        """Take a value, or the reason why there is none."""
        if isinstance(value, str):
            self.missing.append(Missing(metric, entity, value))
        else:
            self.samples.append(Sample(metric, entity, time, value))

    def extend(self, other: "CollectionResult") -> None:
        """Take in what another one brought home in the same tick; its problem is for the caller."""
        self.samples += other.samples
        self.missing += other.missing
        self.pods_listed |= other.pods_listed
