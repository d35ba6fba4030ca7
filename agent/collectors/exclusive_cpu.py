"""Usage of exclusive CPUs: those that kubelet's static CPU manager gave to containers for themselves."""

import zlib
from collections.abc import Mapping
from dataclasses import replace

from agent.collectors.base import Machine, NoData, Tick
from agent.host import cpusets, procfs
from agent.host.cgroup import ExclusiveCpus
from agent.host.procfs import Malformed
from agent.host.rates import Gap
from agent.host.reopening_files import Unreadable
from agent.pods import PodRef
from agent.samples import CPU, CPU_EXCLUSIVE, NODE, CollectionResult
from headroom.cluster.cpu_list import format_cpus

_READ_EVERY_SECONDS = 10.0  # as often as kubelet's CPU manager reconciles
_TICKS_TO_SPARE = 3.0
_FASTER = 1.5


class ExclusiveCpuCollector:
    """Series ``cpu_exclusive`` of the node: busy ticks of the exclusive CPUs / (seconds * ticks per second).

    It is 0 while there are none, so that a mean is of the same ticks as the node's CPU.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._stat = machine.open(machine.paths.proc / "stat")
        self._rates = machine.rates(shortest_seconds=_TICKS_TO_SPARE / machine.ticks_per_second)
        self._read_at = float("-inf")

    def collect(self, tick: Tick) -> CollectionResult:
        """From the second tick with the same CPUs on; raises NoData where it is unknown which CPUs are exclusive."""
        collected, cgroups = CollectionResult(), self._machine.cgroups
        if self._machine.clock() - self._read_at >= _READ_EVERY_SECONDS:
            self._read_at = self._machine.clock()
            try:
                cgroups.exclusive = self._read(tick.by_cgroup()) or cgroups.exclusive
            except (Unreadable, Malformed) as error:  # as with missing ones, the last known CPUs count
                collected.problem = str(error)
        if cgroups.exclusive is None:
            if collected.problem:
                return collected
            raise NoData("the cgroups of pods have no cpusets")
        collected.add(CPU_EXCLUSIVE, NODE, tick.now, self._usage(cgroups.exclusive) if cgroups.exclusive.cpus else 0.0)
        return collected

    def _read(self, pods: Mapping[str, PodRef]) -> ExclusiveCpus | None:
        requested = {uid: pod.requests[CPU] for uid, pod in pods.items() if CPU in pod.requests}
        containers = {uid: pod.containers for uid, pod in pods.items()}
        result = cpusets.read_exclusive(self._machine.cgroups, requested, containers)
        if result is None:
            return None
        return replace(result, pods=frozenset(pods[uid].uid if uid in pods else uid for uid in result.pods))

    def _usage(self, exclusive: ExclusiveCpus) -> float | Gap:
        try:
            by_cpu = procfs.busy_ticks_per_cpu(self._stat.read())
        except (Unreadable, Malformed) as error:
            self._rates.forget(CPU_EXCLUSIVE)
            return Gap.UNREADABLE if isinstance(error, Unreadable) else Gap.MALFORMED
        rate = self._rates.rate(
            CPU_EXCLUSIVE,
            sum(by_cpu.get(cpu, 0) for cpu in exclusive.cpus),
            self._stat.at,
            identity=zlib.crc32(format_cpus(exclusive.cpus).encode()),
            slept=self._machine.slept(),
            highest=len(exclusive.cpus) * self._machine.ticks_per_second * _FASTER,
        )
        return rate if isinstance(rate, Gap) else procfs.node_cpu_cores(rate, 1.0, self._machine.ticks_per_second)
