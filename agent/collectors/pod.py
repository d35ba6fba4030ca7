"""CPU, memory and throttling of every pod, from its own cgroup: version 1 or 2, whichever driver made it."""

import logging
from collections.abc import Iterable, Iterator, Mapping

from agent.collectors.base import Machine, Tick
from agent.host import procfs
from agent.host.cgroup import PodCgroup
from agent.host.pod_files import PodFiles
from agent.host.rates import Gap
from agent.host.reopening_files import Unreadable
from agent.pods import PodRef
from agent.samples import (
    CPU,
    CPU_THROTTLED,
    ENDED,
    MEMORY,
    MEMORY_WITH_PAGE_CACHE,
    NO_CGROUP,
    VANISHED,
    CollectionResult,
    Missing,
)

log = logging.getLogger(__name__)

_LOCATE_EVERY_SECONDS = 30.0
_SEARCH_EVERY_SECONDS = 5.0
_MOST_CORES = 4096.0
_FASTER = 1.5
_ALL = (CPU, MEMORY, MEMORY_WITH_PAGE_CACHE)


class PodCollector:
    """Reads every pod in the cgroup tree; one that is not listed yet has its cgroup's uid.

    They count, too: their usage is not the system's. A running pod without a cgroup is a gap.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._cgroups = machine.cgroups
        self._rates = machine.rates()
        self._files: dict[str, PodFiles] = {}
        self._gone: set[str] = set()
        self._located = float("-inf")
        self._most_cores = _MOST_CORES

    def collect(self, tick: Tick) -> CollectionResult:
        """CPU from a pod's second tick on, memory from its first."""
        try:
            self._locate()
            cgroups = self._cgroups.pods()
        except Unreadable as error:
            self._rates.keep_only(set())
            return CollectionResult(
                missing=list(_missing(self._files.values(), _ALL, Gap.UNREADABLE)), problem=str(error)
            )
        pods_by_cgroup = tick.by_cgroup()
        collected = CollectionResult(pods_listed=True)
        self._part(collected, cgroups, pods_by_cgroup)
        slept = self._machine.slept()
        for uid, cgroup in cgroups.items():
            pod = pods_by_cgroup.get(uid)
            if pod is None or not pod.terminal:
                self._collect_pod(collected, cgroup, uid if pod is None else pod.uid, tick.now, slept)
        collected.missing.extend(_without_cgroup(pods_by_cgroup, cgroups.keys() | self._gone))
        return collected

    def _locate(self) -> None:
        now = self._machine.clock()
        every = _LOCATE_EVERY_SECONDS if self._cgroups.kubepods else _SEARCH_EVERY_SECONDS
        if now - self._located <= every:
            return
        first, self._located = self._located == float("-inf"), now
        if self._cgroups.locate() and not first:
            result = ", ".join(f"{top.path} ({top.driver} driver)" for top in self._cgroups.kubepods)
            log.info("pods are now in %s", result or "no folder: no kubelet runs here")
        try:
            cpus = procfs.cpu_count((self._machine.paths.proc / "stat").read_text(encoding="ascii", errors="replace"))
        except OSError:
            cpus = 0
        self._most_cores = cpus * _FASTER if cpus else _MOST_CORES

    def _part(self, collected: CollectionResult, cgroups: Mapping[str, PodCgroup], known: Mapping[str, PodRef]) -> None:
        """Close the files of pods that are no longer measured. Their last usage is unknown."""
        for uid in list(self._files):
            ended = uid in known and known[uid].terminal
            if uid in cgroups and not ended:
                continue
            collected.missing.extend(
                _missing([self._files[uid]], (CPU,) if ended else _ALL, ENDED if ended else VANISHED)
            )
            self._forget(uid)
        self._gone = (self._gone & known.keys()) - cgroups.keys()

    def _forget(self, uid: str) -> None:
        self._files.pop(uid).close()
        self._rates.forget(uid)
        self._gone.add(uid)

    def _collect_pod(
        self, collected: CollectionResult, cgroup: PodCgroup, entity: str, now: float, slept: float
    ) -> None:
        files = self._files.get(cgroup.uid)
        if files is None or files.path != cgroup.path:
            if files is not None:
                files.close()
            files = self._files[cgroup.uid] = PodFiles(cgroup, self._cgroups.layout, entity, self._machine.open)
        files.entity = entity
        cores, throttled = files.cpu(self._rates, cgroup.uid, slept=slept, highest_cores=self._most_cores)
        memory = files.memory()
        collected.add(CPU, entity, now, cores)
        if throttled is not None:
            collected.add(CPU_THROTTLED, entity, now, throttled)
        used, cached = (
            (memory, memory)
            if isinstance(memory, Gap)
            else (float(memory.used_bytes), float(memory.used_with_page_cache_bytes))
        )
        collected.add(MEMORY, entity, now, used)
        collected.add(MEMORY_WITH_PAGE_CACHE, entity, now, cached)
        if cores is Gap.VANISHED:
            self._forget(cgroup.uid)


def _missing(pods: Iterable[PodFiles], metrics: Iterable[str], reason: str) -> Iterator[Missing]:
    for pod in pods:
        for metric in metrics:
            yield Missing(metric, pod.entity, reason)


def _without_cgroup(known: Mapping[str, PodRef], seen: set[str]) -> Iterator[Missing]:
    """Return running pods whose cgroup was never read; one whose cgroup was removed uses nothing."""
    for uid, pod in known.items():
        if uid not in seen and pod.running and not pod.terminal:
            yield Missing(CPU, pod.uid, NO_CGROUP)
            yield Missing(MEMORY, pod.uid, NO_CGROUP)
