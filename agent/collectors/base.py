"""The interface of a collector."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Protocol

from agent.collectors import COLLECTORS
from agent.host.cgroup import CgroupTree
from agent.host.procfs import HostPaths
from agent.host.rates import Rates, slept_seconds
from agent.host.reopening_files import ReopeningFile
from agent.pods import PodRef
from agent.samples import CollectionResult

Clock = Callable[[], float]  # returns a time that never falls. [s]


class NoData(Exception):  # noqa: N818 - an outcome, not an error
    """This machine does not support this collector; the message names the missing part."""


class Incomplete(RuntimeError):  # noqa: N818 - an outcome
    """A collector brought less than it should; the message names the file that keeps it from its work."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The sources of collectors."""

    paths: HostPaths  # its files
    cgroups: CgroupTree  # its cgroups
    clock: Clock  # when a counter was read
    ticks_per_second: float  # unit of /proc/stat
    slept: Clock = slept_seconds  # how long the machine was suspended so far: a rate over a suspension is a gap
    longest_seconds: float = 30.0  # readings further apart make no rate; more than the collect interval
    open_file: Callable[[Path], ReopeningFile] | None = None
    """Makes a file of a path, where that is not just opening it: in a recording, which knows when it was read."""

    def open(self, path: Path) -> ReopeningFile:
        """A file of this machine; nothing is read yet."""
        return ReopeningFile(path, self.clock) if self.open_file is None else self.open_file(path)

    def rates(self, shortest_seconds: float = 0.02) -> Rates:
        return Rates(self.longest_seconds, shortest_seconds)


@dataclass(frozen=True, slots=True)
class Tick:
    """A round of collection."""

    now: float  # the time of all its samples [seconds since 1970]
    pods: Sequence[PodRef]  # the pods that are known on this node

    def by_cgroup(self) -> dict[str, PodRef]:
        """The pods by the uid in their cgroup's name.

        Of several pods with one cgroup, the pod that the cgroup's uid names is first, then one that runs, then one that
        has not ended: a pod that no kubelet admitted cannot take another pod's samples.
        """
        pods_by_cgroup: dict[str, PodRef] = {}
        for pod in self.pods:
            uid = pod.cgroup_uid or pod.uid
            if uid not in pods_by_cgroup or _right(pod) > _right(pods_by_cgroup[uid]):
                pods_by_cgroup[uid] = pod
        return pods_by_cgroup


def _right(pod: PodRef) -> tuple[bool, bool, bool]:
    return pod.cgroup_uid in ("", pod.uid), pod.running, not pod.terminal


class Collector(Protocol):
    """Reads some files of the machine, once per tick."""

    def __init__(self, machine: Machine) -> None:
        """Called once, when the agent starts; opens nothing yet."""

    def collect(self, tick: Tick) -> CollectionResult:
        """Called every tick, from one thread.

        Returns the samples, and each missing value with its reason. A file that cannot be read or is malformed is a
        missing value; `CollectionResult.problem` names it where one file holds all values. Raises NoData: there is
        nothing to collect on this machine.
        """


def resolve(names: Sequence[str], machine: Machine) -> dict[str, Collector]:
    """The collectors of these names, in this order. Raises ValueError: A name is not in the registry."""
    unknown = [name for name in names if name not in COLLECTORS]
    if unknown:
        raise ValueError(f"no collector named {', '.join(unknown)}; there are: {', '.join(COLLECTORS)}")
    return {name: resolve_name(COLLECTORS[name])(machine) for name in names}
