"""Which CPUs are exclusive, from the CPUs that each container may use."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

from agent.host.cgroup import CgroupTree, ExclusiveCpus, Hierarchy, PodCgroup, folders
from agent.host.cgroup_names import GUARANTEED
from agent.host.procfs import Malformed
from agent.host.reopening_files import unreadable
from headroom.cluster.cpu_list import parse_cpus

FILES: Final[Mapping[int, Sequence[str]]] = {1: ("cpuset.effective_cpus", "cpuset.cpus"), 2: ("cpuset.cpus.effective",)}
"""Files with the CPUs of a cgroup by version; the first that is there counts."""
_MILLI: Final = 1000


def read_exclusive(tree: CgroupTree, requested: Mapping[str, int]) -> ExclusiveCpus | None:
    """The exclusive CPUs, and the pods that have them by the uid of their cgroup.

    Only containers of Guaranteed pods can have exclusive CPUs: all of these are outside of the shared pool, in which
    kubelet runs every other container. Without a container in the pool, CPUs are exclusive that no other pod may use,
    and that are not more than the pod requests [milli-cores by uid]. A container with all CPUs of the machine is not
    subject to a CPU manager, such as the one that holds a pod's namespaces.

    Returns None where cgroups of pods have no cpusets. Raises Unreadable, Malformed: a file has no list of CPUs.
    """
    hierarchy = tree.layout.cpuset
    all_cpus = [cpus for top in tree.kubepods if hierarchy and (cpus := _cpus(hierarchy, top.path))]
    if hierarchy is None or not all_cpus:
        return None
    guaranteed = [pod for pod in tree.latest.values() if pod.qos == GUARANTEED]
    candidates = list(_restricted(hierarchy, guaranteed, all_cpus))
    if not candidates:
        return ExclusiveCpus()
    in_pool = [pod for pod in tree.latest.values() if pod.qos != GUARANTEED]
    pool = frozenset[int]().union(*(cpus for _, cpus in _restricted(hierarchy, in_pool, all_cpus)))
    if pool:
        exclusive = [(uid, cpus) for uid, cpus in candidates if not cpus & pool]
    else:
        exclusive = [
            (uid, cpus)
            for uid, cpus in candidates
            if all(cpus.isdisjoint(neighbour) for owner, neighbour in candidates if owner != uid)
            and len(cpus) * _MILLI <= requested.get(uid, inf)
        ]
    return ExclusiveCpus(
        frozenset[int]().union(*(cpus for _, cpus in exclusive)), frozenset(uid for uid, _ in exclusive)
    )


def _restricted(
    hierarchy: Hierarchy, pods: Iterable[PodCgroup], all_cpus: Sequence[frozenset[int]]
) -> Iterator[tuple[str, frozenset[int]]]:
    """Return the CPUs of the containers that may not use all."""
    for pod in pods:
        for name in folders(hierarchy.root / pod.path):
            cpus = _cpus(hierarchy, f"{pod.path}/{name}")
            if cpus is not None and cpus not in all_cpus:
                yield pod.uid, cpus


def _cpus(hierarchy: Hierarchy, path: str) -> frozenset[int] | None:
    """Return the CPUs of a cgroup; None when it is gone, or has no cpuset."""
    for name in FILES[hierarchy.version]:
        file = hierarchy.root / path / name
        try:
            text = file.read_text(encoding="ascii", errors="replace").strip()
        except OSError as error:
            failure = unreadable(file, error)
            if not failure.gone:
                raise failure from error
            continue
        if text:
            try:
                return parse_cpus(text)
            except ValueError as error:
                raise Malformed(f"{file}: {error}") from error
    return None
