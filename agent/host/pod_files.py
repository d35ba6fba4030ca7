"""The files of one pod's cgroup, and their last values. Returns a number, or the reason for its absence."""

import os
from collections.abc import Callable
from pathlib import Path

from agent.host import cgroup_files
from agent.host.cgroup import Layout, PodCgroup
from agent.host.cgroup_files import FILES, MemoryStat, Throttling
from agent.host.procfs import Malformed
from agent.host.rates import Gap, Rates
from agent.host.reopening_files import ReopeningFile, Unreadable

_USAGE = "cpu-usage"


class PodFiles:
    """A pod's cgroup, in every hierarchy that has it."""

    __slots__ = ("_folder", "_layout", "_memory", "_path", "_periods", "_throttling", "_usage", "entity")

    def __init__(
        self, cgroup: PodCgroup, layout: Layout, entity: str, open_file: Callable[[Path], ReopeningFile]
    ) -> None:
        self.entity = entity  # the entity of the last samples
        self._path = cgroup.path
        self._layout = layout
        self._folder = layout.cpu.root / cgroup.path
        self._usage = open_file(self._folder / FILES[_USAGE][layout.cpu.version])
        self._throttling: ReopeningFile | None = None
        if layout.throttling is not None and layout.throttling.version == 1:
            self._throttling = open_file(layout.throttling.root / cgroup.path / FILES["cpu-throttling"][1])
        self._memory: ReopeningFile | None = None
        if layout.memory is not None:
            name = FILES["memory-stat"][layout.memory.version]
            self._memory = open_file(layout.memory.root / cgroup.path / name)
        self._periods: tuple[Throttling, int] | None = None

    @property
    def path(self) -> str:
        return self._path

    def close(self) -> None:
        """Close all files."""
        for file in (self._usage, self._throttling, self._memory):
            if file is not None:
                file.close()

    def cpu(
        self, rates: Rates, key: object, *, slept: float, highest_cores: float
    ) -> tuple[float | Gap, float | Gap | None]:
        """Return the CPU usage since the last call.

        `slept` is the time of suspension of the machine so far. [s] Returns its usage [cores], and the share of its
        quota's periods in which it was held back [0..1]: None for a pod without a quota, and where the kernel does not
        count.
        """
        try:
            nanoseconds, counted = self._counters()
        except (Unreadable, Malformed) as error:
            rates.forget(key)  # over two ticks it would not be of the time of the node's rate, from which it is taken
            self._periods = None
            return (self._unread(error, self._folder) if isinstance(error, Unreadable) else Gap.MALFORMED), None
        identity = self._usage.identity
        rate = rates.rate(key, nanoseconds, self._usage.at, identity=identity, slept=slept, highest=highest_cores * 1e9)
        cores = rate if isinstance(rate, Gap) else cgroup_files.cpu_cores(rate, 1.0)
        return cores, self._throttled_share(counted)

    def memory(self) -> MemoryStat | Gap:
        """Memory now."""
        hierarchy = self._layout.memory
        if self._memory is None or hierarchy is None:
            return Gap.NO_MEMORY_CONTROLLER
        try:
            return cgroup_files.memory_stat(self._memory.read(), hierarchy.version)
        except Malformed:
            return Gap.MALFORMED
        except Unreadable as error:
            gap = self._unread(error, self._folder)
            usage = hierarchy.root / self._path / FILES["memory-usage"][hierarchy.version]
            lacking = gap is Gap.UNREADABLE and error.gone and not usage.exists()
            return Gap.NO_MEMORY_CONTROLLER if lacking else gap

    def _counters(self) -> tuple[int, Throttling | None]:
        """Return CPU time [ns], and the throttling of the same file: in version 1 it is another file."""
        text = self._usage.read()
        if self._layout.cpu.version == 1:
            return cgroup_files.cpu_usage_nanoseconds(text, 1), None
        return cgroup_files.cpu_counters(text)

    def _throttled_share(self, now: Throttling | None) -> float | Gap | None:
        file = self._usage if self._throttling is None else self._throttling
        before, self._periods = self._periods, None
        try:
            if self._throttling is not None:
                now = cgroup_files.throttling(self._throttling.read(), 1)
        except Malformed:
            return Gap.MALFORMED
        except Unreadable as error:
            return None if error.gone else Gap.UNREADABLE
        self._periods = None if now is None else (now, file.identity)
        if now is None or before is None or now.periods == 0:
            return None
        if before[1] != file.identity:
            return Gap.RECREATED
        if now.periods < before[0].periods or now.throttled < before[0].throttled:
            return Gap.RESET
        return min(cgroup_files.throttled_ratio(before[0], now), 1.0)

    @staticmethod
    def _unread(error: Unreadable, folder: Path) -> Gap:
        return Gap.VANISHED if error.gone and not os.path.isdir(folder) else Gap.UNREADABLE  # noqa: PTH112 - the stat is all
