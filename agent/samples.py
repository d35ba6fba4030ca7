"""The noun that crosses stages: one value of one series at one time. Imports nothing of ours."""

from dataclasses import dataclass, field
from typing import Final

NODE: Final = "node"
"""Entity of the whole machine."""
SYS: Final = "sys"
"""Entity of everything that runs outside pods: node minus pods, derived in the same tick."""

CPU: Final = "cpu"
"""CPU in use. [cores]"""
MEMORY: Final = "memory"
"""Memory in use without page cache. [bytes]"""
MEMORY_WITH_PAGE_CACHE: Final = "memory_with_page_cache"
"""Memory in use with page cache. [bytes]"""
CPU_THROTTLED: Final = "cpu_throttled"
"""Share of the quota periods in which the pod was held back. [0..1]"""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured value.

    A missing measurement is no sample at all: there is no sample for "unknown", and zero means zero.
    """

    metric: str
    """What was measured: one of the names above, or ``psi_*`` [ratio]."""
    entity: str
    """Whose it is: ``node``, ``sys``, a class name, or a pod's uid."""
    time: float
    """When, the same for every sample of a tick. [seconds since 1970]"""
    value: float
    """How much, in the metric's unit. Always finite."""


@dataclass(frozen=True, slots=True)
class Missing:
    """One value that a tick should have had, and has not."""

    metric: str
    """What was to be measured."""
    entity: str
    """Whose it is."""
    reason: str
    """Why not: a short name, counted by the runner."""


@dataclass(slots=True)
class Harvest:
    """What one collector brought home from one tick."""

    samples: list[Sample] = field(default_factory=list)
    """What was measured."""
    missing: list[Missing] = field(default_factory=list)
    """What should have been, and was not."""
