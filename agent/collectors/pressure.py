"""Pressure stall information of the whole node: the share of time in which tasks waited for CPU, memory or I/O."""

from agent.collectors.base import Machine, NoData, Tick
from agent.host import procfs
from agent.host.files import HeldFile, Unreadable
from agent.host.rates import Gap, Rates
from agent.samples import NODE, Harvest, Missing, Sample

RESOURCES = ("cpu", "memory", "io")
_MICRO = 1e6


class PressureCollector:
    """Series ``psi_<resource>_<some|full>``: growth of the stall counter per elapsed time, 0 to 1."""

    def __init__(self, machine: Machine) -> None:
        self._files = {name: HeldFile(machine.paths.proc / "pressure" / name) for name in RESOURCES}
        self._clock = machine.clock
        self._rates = Rates()

    def collect(self, tick: Tick) -> Harvest:
        """From the second tick on; raises NoData where the kernel has no pressure files."""
        harvest = Harvest()
        lacking = []
        for name, file in self._files.items():
            try:
                totals, at = procfs.pressure_totals(file.read()), self._clock()
            except Unreadable as error:
                lacking.append(str(error))
                continue
            for kind, total in totals.items():
                metric = f"psi_{name}_{kind}"
                rate = self._rates.rate(metric, total, at)
                if isinstance(rate, Gap):
                    harvest.missing.append(Missing(metric, NODE, rate))
                else:
                    harvest.samples.append(Sample(metric, NODE, tick.now, min(rate / _MICRO, 1.0)))
        if len(lacking) == len(RESOURCES):
            raise NoData(f"this kernel has no pressure stall information: {lacking[0]}")
        return harvest
