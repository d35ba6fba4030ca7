"""CPU, memory and throttling of every pod, from its own cgroup: version 1 or 2, whichever driver made it."""

from collections.abc import Iterator

from agent.collectors.base import Machine, Tick
from agent.host import cgroup_files
from agent.host.cgroup import Layout, PodCgroup
from agent.host.cgroup_files import FILES, Throttling
from agent.host.files import HeldFile, Unreadable
from agent.host.procfs import Malformed
from agent.host.rates import Gap, Rates
from agent.pods import PodRef
from agent.samples import CPU, CPU_THROTTLED, MEMORY, MEMORY_WITH_PAGE_CACHE, Harvest, Missing, Sample

NO_CGROUP = "no-cgroup"
NO_CONTROLLER = "no-memory-controller"
UNREADABLE = "unreadable"
MALFORMED = "malformed"
_NANO = 1e9
_LOCATE_EVERY_SECONDS = 30.0
_MOST_CORES = 4096.0


class _PodFiles:
    """The files of one pod's cgroup, and what they last said."""

    __slots__ = ("memory", "throttling", "usage", "was_throttled", "was_throttled_in")

    def __init__(self, cgroup: PodCgroup, layout: Layout) -> None:
        usage = FILES["cpu-usage"][layout.cpu.version][1]
        self.usage = HeldFile(layout.cpu.root / cgroup.path / usage)
        self.throttling: HeldFile | None = None
        if layout.throttling is not None and layout.throttling.version == 1:
            self.throttling = HeldFile(layout.throttling.root / cgroup.path / FILES["cpu-throttling"][1][1])
        self.memory: HeldFile | None = None
        if layout.memory is not None:
            self.memory = HeldFile(layout.memory.root / cgroup.path / FILES["memory-stat"][layout.memory.version][1])
        self.was_throttled: Throttling | None = None
        self.was_throttled_in = 0

    def close(self) -> None:
        for file in (self.usage, self.throttling, self.memory):
            if file is not None:
                file.close()


class PodCollector:
    """Reads every pod in the cgroup tree; one that the API server has not told of yet goes by its cgroup's uid.

    Those count too: what they use is not the system's. A running pod without a cgroup is a gap.
    """

    def __init__(self, machine: Machine) -> None:
        self._cgroups = machine.cgroups
        self._clock = machine.clock
        self._rates = Rates()
        self._files: dict[str, _PodFiles] = {}
        self._located = float("-inf")

    def collect(self, tick: Tick) -> Harvest:
        """CPU from a pod's second tick on, memory from its first."""
        self._locate()
        cgroups = self._cgroups.pods()
        known = {pod.cgroup_uid or pod.uid: pod for pod in tick.pods}
        self._forget(cgroups)
        harvest = Harvest()
        for uid, cgroup in cgroups.items():
            pod = known.get(uid)
            if pod is None or not pod.terminal:
                self._collect_pod(harvest, cgroup, uid if pod is None else pod.uid, tick.now)
        harvest.missing.extend(_without_cgroup(known, cgroups))
        return harvest

    def _locate(self) -> None:
        now = self._clock()
        if not self._cgroups.kubepods or now - self._located > _LOCATE_EVERY_SECONDS:
            self._cgroups.locate()
            self._located = now

    def _forget(self, cgroups: dict[str, PodCgroup]) -> None:
        for uid in self._files.keys() - cgroups.keys():
            self._files.pop(uid).close()
            self._rates.forget(uid)

    def _collect_pod(self, harvest: Harvest, cgroup: PodCgroup, entity: str, now: float) -> None:
        files = self._files.get(cgroup.uid)
        if files is None:
            files = self._files[cgroup.uid] = _PodFiles(cgroup, self._cgroups.layout)
        for metrics, read in ((CPU,), self._cpu), ((MEMORY, MEMORY_WITH_PAGE_CACHE), self._memory):
            try:
                harvest.samples.extend(Sample(metric, entity, now, value) for metric, value in read(cgroup.uid, files))
            except _NotNow as error:
                harvest.missing.extend(Missing(metric, entity, error.reason) for metric in metrics)
            except Unreadable:
                harvest.missing.extend(Missing(metric, entity, UNREADABLE) for metric in metrics)
            except Malformed:
                harvest.missing.extend(Missing(metric, entity, MALFORMED) for metric in metrics)

    def _cpu(self, uid: str, files: _PodFiles) -> list[tuple[str, float]]:
        layout = self._cgroups.layout
        text, at = files.usage.read(), self._clock()
        nanoseconds = cgroup_files.cpu_usage_nanoseconds(text, layout.cpu.version)
        rate = self._rates.rate(uid, nanoseconds, at, identity=files.usage.identity, highest=_MOST_CORES * _NANO)
        held_back = list(self._throttled(files, text))
        if isinstance(rate, Gap):
            raise _NotNow(rate)
        return [(CPU, cgroup_files.cpu_cores(rate, 1.0)), *held_back]

    def _throttled(self, files: _PodFiles, cpu_stat: str) -> Iterator[tuple[str, float]]:
        """Share of throttled periods; nothing for a pod without a quota, or where the kernel does not count."""
        try:
            if files.throttling is not None:
                now = cgroup_files.throttling(files.throttling.read(), 1)
            elif self._cgroups.layout.cpu.version == 2:  # noqa: PLR2004 - cgroup v2
                now = cgroup_files.throttling(cpu_stat, 2)
            else:
                return
        except (Unreadable, Malformed):
            return
        before, files.was_throttled = files.was_throttled, now
        same = files.was_throttled_in == files.usage.identity
        files.was_throttled_in = files.usage.identity
        if before is not None and same and 0 < before.periods <= now.periods and before.throttled <= now.throttled:
            yield CPU_THROTTLED, cgroup_files.throttled_ratio(before, now)

    def _memory(self, _uid: str, files: _PodFiles) -> list[tuple[str, float]]:
        hierarchy = self._cgroups.layout.memory
        if files.memory is None or hierarchy is None:
            raise _NotNow(NO_CONTROLLER)
        stat = cgroup_files.memory_stat(files.memory.read(), hierarchy.version)
        return [(MEMORY, float(stat.used_bytes)), (MEMORY_WITH_PAGE_CACHE, float(stat.used_with_page_cache_bytes))]


class _NotNow(Exception):  # noqa: N818 - a gap, not an error
    """There is no value this tick."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _without_cgroup(known: dict[str, PodRef], cgroups: dict[str, PodCgroup]) -> Iterator[Missing]:
    for uid, pod in known.items():
        if uid not in cgroups and pod.running and not pod.terminal:
            yield Missing(CPU, pod.uid, NO_CGROUP)
            yield Missing(MEMORY, pod.uid, NO_CGROUP)
