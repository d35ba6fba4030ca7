"""Pods with a memory usage below their need, because of memory.high or swap."""

import zlib
from typing import Final

from agent.collectors.base import Machine, NoData, Tick
from agent.collectors.pod_pressure import SHARE
from agent.host import cgroup_files
from agent.host.cgroup import Hierarchy, PodCgroup
from agent.host.cgroup_files import FILES
from agent.host.procfs import Malformed
from agent.host.rates import Gap
from agent.host.reopening_files import ReopeningFile, Unreadable
from agent.samples import MEMORY_HELD_BACK, CollectionResult

LEAST_SWAP_BYTES: Final = 1 << 20  # less is left by any shortage of the past [bytes]
_FILES: Final = {
    1: {"memory": FILES["memory-usage"][1], "swap": "memory.memsw.usage_in_bytes"},
    2: {"events": "memory.events", "swap": "memory.swap.current"},
}
"""File by name and cgroup version; version 1 counts memory and swap together."""


class PodHeldBackCollector:
    """Series `memory_held_back` of each pod: 1 while its usage is below its need, else 0.

    It is 1 while the kernel counts `high` events of the pod, or while a part of its memory is in swap. A tenth of the
    pods is read each tick, as for their pressure.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._cgroups = machine.cgroups
        self._files: dict[str, dict[str, ReopeningFile]] = {}
        self._events: dict[str, tuple[int, int]] = {}  # count and identity of the last reading, by path
        self._ticks = 0

    def collect(self, tick: Tick) -> CollectionResult:
        """A pod's state at its turn; raises NoData where the kernel has no memory controller."""
        hierarchy = self._cgroups.layout.memory
        if hierarchy is None:
            raise NoData("the kernel has no memory controller")
        cgroups = self._cgroups.latest  # as the pod collector read them in this tick
        self._forget_all_but({cgroup.path for cgroup in cgroups.values()})
        self._ticks += 1
        pods_by_cgroup, collected = tick.by_cgroup(), CollectionResult()
        for uid, cgroup in cgroups.items():
            pod = pods_by_cgroup.get(uid)
            if zlib.crc32(uid.encode()) % SHARE == self._ticks % SHARE and not (pod and pod.terminal):
                state = self._state(cgroup, hierarchy)
                if state is not None:
                    collected.add(MEMORY_HELD_BACK, pod.uid if pod else uid, tick.now, state)
        return collected

    def _state(self, cgroup: PodCgroup, hierarchy: Hierarchy) -> float | Gap | None:
        """Return 1 or 0, or the reason for its absence; None where the kernel counts neither."""
        if cgroup.path not in self._files:
            folder = hierarchy.root / cgroup.path
            names = _FILES[hierarchy.version]
            self._files[cgroup.path] = {name: self._machine.open(folder / file) for name, file in names.items()}
        files = self._files[cgroup.path]
        try:
            rising = self._rising(cgroup.path, files.get("events"))
            swap = self._swap(files)
        except Unreadable:
            return Gap.UNREADABLE
        except Malformed:
            return Gap.MALFORMED
        if rising is None and swap is None:
            return None
        return float(bool(rising) or (swap or 0) >= LEAST_SWAP_BYTES)

    def _rising(self, path: str, file: ReopeningFile | None) -> bool | None:
        """Return whether the kernel counted `high` events since the last turn; None where it counts none."""
        text = None if file is None else _content(file)
        if file is None or text is None:
            return None
        before, now = self._events.get(path), (cgroup_files.high_events(text), file.identity)
        self._events[path] = now
        return before is not None and before[1] == now[1] and now[0] > before[0]

    @staticmethod
    def _swap(files: dict[str, ReopeningFile]) -> int | None:
        """Return the pod's memory in swap [bytes]; None where the kernel does not count it.

        Memory that is counted with it is read before and after, so that a change between two readings is not taken for
        swap.
        """
        memory = files.get("memory")
        before = _content(memory) if memory else "0"
        text = _content(files["swap"])
        after = _content(memory) if memory else "0"
        if before is None or text is None or after is None:
            return None
        total, *used = (cgroup_files.memory_bytes(content) for content in (text, before, after))
        return max(total - max(used), 0)

    def _forget_all_but(self, paths: set[str]) -> None:
        for path in self._files.keys() - paths:
            self._events.pop(path, None)
            for file in self._files.pop(path).values():
                file.close()


def _content(file: ReopeningFile) -> str | None:
    """Return the content of a file; None where the cgroup has no such file. Raises Unreadable."""
    try:
        return file.read()
    except Unreadable as error:
        if error.gone:
            return None
        raise
