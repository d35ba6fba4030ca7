"""CPU and memory of the whole node, from /proc/stat and /proc/meminfo."""

from agent.collectors.base import Machine, Tick
from agent.host import procfs
from agent.host.files import HeldFile
from agent.host.rates import Gap, Rates
from agent.samples import CPU, MEMORY, MEMORY_WITH_PAGE_CACHE, NODE, Harvest, Missing, Sample

_TICKS_TO_SPARE = 3.0  # a counter of 10 ms ticks may show a few more than there was time for


class NodeCollector:
    """Cores = busy ticks / (seconds * ticks per second); memory = total - available, with page cache total - free."""

    def __init__(self, machine: Machine) -> None:
        self._stat = HeldFile(machine.paths.proc / "stat")
        self._meminfo = HeldFile(machine.paths.proc / "meminfo")
        self._clock = machine.clock
        self._ticks_per_second = machine.ticks_per_second
        self._rates = Rates(shortest_seconds=_TICKS_TO_SPARE / machine.ticks_per_second)

    def collect(self, tick: Tick) -> Harvest:
        """Node CPU from the second tick on, node memory from the first."""
        harvest = Harvest()
        memory = procfs.meminfo(self._meminfo.read())
        harvest.samples.append(Sample(MEMORY, NODE, tick.now, float(memory.used_bytes)))
        harvest.samples.append(Sample(MEMORY_WITH_PAGE_CACHE, NODE, tick.now, float(memory.used_with_page_cache_bytes)))
        stat, at = self._stat.read(), self._clock()
        highest = (procfs.cpu_count(stat) or 1) * self._ticks_per_second * 1.5
        rate = self._rates.rate(CPU, procfs.busy_ticks(stat), at, highest=highest)
        if isinstance(rate, Gap):
            harvest.missing.append(Missing(CPU, NODE, rate))
        else:
            cores = procfs.node_cpu_cores(rate, 1.0, self._ticks_per_second)
            harvest.samples.append(Sample(CPU, NODE, tick.now, cores))
        return harvest
