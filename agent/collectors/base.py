"""What a collector is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Protocol

from agent.collectors import COLLECTORS
from agent.host.cgroup import CgroupTree
from agent.host.paths import HostPaths
from agent.pods import PodRef
from agent.samples import Harvest

Clock = Callable[[], float]
"""Answers with a time that only runs forward. [s]"""


class NoData(Exception):  # noqa: N818 - an outcome, not an error
    """This machine has nothing for this collector; the message says what is lacking."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What collectors read from."""

    paths: HostPaths
    """Its files."""
    cgroups: CgroupTree
    """Its cgroups."""
    clock: Clock
    """When a counter was read."""
    ticks_per_second: float
    """Unit of /proc/stat."""


@dataclass(frozen=True, slots=True)
class Tick:
    """One round of collection."""

    now: float
    """The time that all its samples bear [seconds since 1970]."""
    pods: Sequence[PodRef]
    """The pods that are known on this node."""


class Collector(Protocol):
    """Reads some files of the machine, once per tick."""

    def __init__(self, machine: Machine) -> None:
        """Called once, when the agent starts; opens nothing yet."""

    def collect(self, tick: Tick) -> Harvest:
        """Called every tick, from one thread.

        Returns:
            What was measured, and what should have been and was not.

        Raises:
            NoData: There is nothing to collect on this machine.
            OSError: A file cannot be read; the message names it.
            ValueError: A file does not hold what it should.
        """


def resolve(names: Sequence[str], machine: Machine) -> dict[str, Collector]:
    """The collectors of these names, in this order.

    Raises:
        ValueError: A name is not in the registry.
    """
    unknown = [name for name in names if name not in COLLECTORS]
    if unknown:
        raise ValueError(f"no collector named {', '.join(unknown)}; there are: {', '.join(COLLECTORS)}")
    return {name: resolve_name(COLLECTORS[name])(machine) for name in names}
