"""Pressure stall information of every pod, where the kernel has it per cgroup: version 2, and a few of version 1."""

import zlib
from pathlib import Path

from agent.collectors.base import Machine, NoData, Tick
from agent.host import procfs
from agent.host.cgroup import PodCgroup
from agent.host.procfs import Malformed
from agent.host.rates import Gap, Rates
from agent.host.reopening_files import ReopeningFile, Unreadable
from agent.samples import PSI_RESOURCES, SOME, CollectionResult, psi

SHARE = 10
_MICRO = 1e6
_HIGHEST = 1.5 * _MICRO


class PodPressureCollector:
    """Series ``psi_<resource>_some`` of each pod: the share of time in which some of its tasks waited, 0 to 1.

    A tenth of the pods is read each tick: the counters are totals, so that nothing is lost between two readings, and a
    value is the exact mean of the time between them. ``full`` is measured for the node alone: it adds little about
    a pod, and would double the series.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._cgroups = machine.cgroups
        self._rates = Rates(machine.longest_seconds * SHARE)
        self._files: dict[str, dict[str, ReopeningFile]] = {}
        self._ticks = 0

    def collect(self, tick: Tick) -> CollectionResult:
        """A pod's pressure from its second turn on; raises NoData where no cgroup has pressure.

        A pod without a pressure file has no value, and no gap: its cgroup.pressure may be 0.
        """
        cgroups = self._cgroups.latest  # as the pod collector read them in this tick
        self._forget_all_but({cgroup.path for cgroup in cgroups.values()})
        self._ticks += 1
        paths = (self._path(cgroup, name) for cgroup in cgroups.values() for name in PSI_RESOURCES)
        if cgroups and all(not path.exists() for path in paths):
            raise NoData("this kernel has no pressure stall information per cgroup")
        pods_by_cgroup = tick.by_cgroup()
        collected, slept = CollectionResult(), self._machine.slept()
        for uid, cgroup in cgroups.items():
            pod = pods_by_cgroup.get(uid)
            if zlib.crc32(uid.encode()) % SHARE == self._ticks % SHARE and not (pod and pod.terminal):
                self._collect_pod(collected, cgroup, pod.uid if pod else uid, tick.now, slept)
        return collected

    def _collect_pod(
        self, collected: CollectionResult, cgroup: PodCgroup, entity: str, now: float, slept: float
    ) -> None:
        files = self._files.get(cgroup.path)
        if files is None:
            files = {name: self._machine.open(self._path(cgroup, name)) for name in PSI_RESOURCES}
            self._files[cgroup.path] = files
        for name, file in files.items():
            rate = self._rate((cgroup.path, name), file, slept)
            if rate is not None:
                collected.add(psi(name, SOME), entity, now, rate if isinstance(rate, Gap) else min(rate / _MICRO, 1.0))

    def _rate(self, key: tuple[str, str], file: ReopeningFile, slept: float) -> float | Gap | None:
        try:
            total = procfs.pressure_totals(file.read()).get(SOME)
        except Unreadable as error:
            self._rates.forget(key)
            if error.unsupported:
                raise NoData("this kernel's pressure stall information is off (psi=0)") from error
            if error.gone:
                return None if Path(file.path).parent.exists() else Gap.VANISHED
            return Gap.UNREADABLE
        except Malformed:
            return Gap.MALFORMED
        if total is None:
            return Gap.MALFORMED
        return self._rates.rate(key, total, file.at, identity=file.identity, slept=slept, highest=_HIGHEST)

    def _path(self, cgroup: PodCgroup, resource: str) -> Path:
        hierarchy = self._cgroups.layout.pressure
        return hierarchy.root / cgroup.path / f"{resource}.pressure"

    def _forget_all_but(self, paths: set[str]) -> None:
        for path in self._files.keys() - paths:
            for name, file in self._files.pop(path).items():
                file.close()
                self._rates.forget((path, name))
