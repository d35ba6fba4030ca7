"""CPU and memory of the whole node, from /proc/stat, /proc/meminfo and ZFS's arcstats."""

from agent.collectors.base import Machine, Tick
from agent.host import procfs
from agent.host.procfs import Malformed
from agent.host.rates import Gap
from agent.host.reopening_files import Unreadable
from agent.samples import CPU, MEMORY, MEMORY_WITH_PAGE_CACHE, NODE, CollectionResult

_TICKS_TO_SPARE = 3.0  # a counter of 10 ms ticks may show a few more than there was time for
_FASTER = 1.5
_MOST_CORES = 4096.0


class NodeCollector:
    """Cores = busy ticks / (seconds * ticks per second); memory = total - huge pages - ARC - available."""

    def __init__(self, machine: Machine) -> None:
        self._stat = machine.open(machine.paths.proc / "stat")
        self._meminfo = machine.open(machine.paths.proc / "meminfo")
        self._arcstats = machine.open(machine.paths.proc / procfs.ARCSTATS)
        self._slept = machine.slept
        self._ticks_per_second = machine.ticks_per_second
        self._rates = machine.rates(shortest_seconds=_TICKS_TO_SPARE / machine.ticks_per_second)

    def collect(self, tick: Tick) -> CollectionResult:
        """Node CPU from the second tick on, node memory from the first."""
        collected = CollectionResult()
        problems = []
        for metrics, measure in ((MEMORY, MEMORY_WITH_PAGE_CACHE), self._memory), ((CPU,), self._cpu):
            try:
                values = measure()
            except (Unreadable, Malformed) as error:
                reason = Gap.UNREADABLE if isinstance(error, Unreadable) else Gap.MALFORMED
                values = (reason,) * len(metrics)
                problems.append(str(error))
            for metric, value in zip(metrics, values, strict=True):
                collected.add(metric, NODE, tick.now, value)
        collected.problem = "; ".join(problems)
        return collected

    def _memory(self) -> tuple[float | Gap, ...]:
        try:
            arcstats = self._arcstats.read()
        except Unreadable as error:
            if not error.gone:
                raise
            arcstats = None  # no ZFS on this machine
        memory = procfs.meminfo(self._meminfo.read(), arcstats)
        return float(memory.used_bytes), float(memory.used_with_page_cache_bytes)

    def _cpu(self) -> tuple[float | Gap, ...]:
        try:
            stat = self._stat.read()
            ticks = procfs.busy_ticks(stat)
        except (Unreadable, Malformed):
            self._rates.forget(CPU)  # over two ticks it would not be of the time of the pods' rates
            raise
        highest = (procfs.cpu_count(stat) or _MOST_CORES) * self._ticks_per_second * _FASTER
        rate = self._rates.rate(CPU, ticks, self._stat.at, slept=self._slept(), highest=highest)
        return (rate if isinstance(rate, Gap) else procfs.node_cpu_cores(rate, 1.0, self._ticks_per_second),)
