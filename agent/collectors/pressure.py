"""Pressure stall information of the whole node: the share of time in which tasks waited for CPU, memory or I/O."""

from agent.collectors.base import Machine, NoData, Tick
from agent.host import procfs
from agent.host.procfs import Malformed
from agent.host.rates import Gap
from agent.host.reopening_files import ReopeningFile, Unreadable
from agent.samples import NODE, PSI_RESOURCES, SOME, CollectionResult, Missing, psi

_MICRO = 1e6
_HIGHEST = 1.5 * _MICRO


class PressureCollector:
    """Series ``psi_<resource>_<some|full>``: growth of the stall counter per elapsed time, 0 to 1."""

    def __init__(self, machine: Machine) -> None:
        self._files = {name: machine.open(machine.paths.proc / "pressure" / name) for name in PSI_RESOURCES}
        self._slept = machine.slept
        self._rates = machine.rates()

    def collect(self, tick: Tick) -> CollectionResult:
        """From the second tick on; raises NoData where the kernel has no pressure files."""
        collected = CollectionResult()
        slept, lacking = self._slept(), []
        for name, file in self._files.items():
            try:
                self._collect(collected, name, file, tick.now, slept)
            except Unreadable as error:
                lacking.append(str(error))
            except Malformed:
                collected.missing.append(Missing(psi(name, SOME), NODE, Gap.MALFORMED))
        if len(lacking) == len(PSI_RESOURCES):
            raise NoData(f"this kernel has no pressure stall information: {lacking[0]}")
        return collected

    def _collect(self, collected: CollectionResult, name: str, file: ReopeningFile, now: float, slept: float) -> None:
        for kind, total in procfs.pressure_totals(file.read()).items():
            metric = psi(name, kind)
            rate = self._rates.rate(metric, total, file.at, slept=slept, highest=_HIGHEST)
            collected.add(metric, NODE, now, rate if isinstance(rate, Gap) else min(rate / _MICRO, 1.0))
