"""Which CPUs are exclusive, from the CPUs that each container may use."""

from collections.abc import Collection, Mapping, Sequence
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
_MONITOR: Final = "conmon-"  # in the name of the cgroup of CRI-O's monitor, which ends with the id of its container


def read_exclusive(
    tree: CgroupTree, requested: Mapping[str, int], containers: Mapping[str, Collection[str]]
) -> ExclusiveCpus | None:
    """The exclusive CPUs, and the pods that have them by the uid of their cgroup.

    Only containers of Guaranteed pods can have exclusive CPUs: all of these are outside of the shared pool, in which
    kubelet runs every other container. Without a container in the pool, CPUs are exclusive that no other pod may use,
    and that are not more than the pod requests. `requested` [milli-cores] and `containers` (their ids) are by that uid.

    Returns None where cgroups of pods have no cpusets. Raises Unreadable, Malformed: a file has no list of CPUs.
    """
    hierarchy = tree.layout.cpuset
    all_cpus = [cpus for top in tree.kubepods if hierarchy and (cpus := _cpus(hierarchy, top.path))]
    if hierarchy is None or not all_cpus:
        return None

    def read(*, guaranteed: bool) -> list[tuple[str, frozenset[int]]]:
        pods = [pod for pod in tree.latest.values() if (pod.qos == GUARANTEED) == guaranteed]
        listed = ((pod.uid, _of_containers(hierarchy, pod, all_cpus, containers.get(pod.uid, ()))) for pod in pods)
        return [(uid, cpus) for uid, of_containers in listed for cpus in of_containers]

    of_guaranteed = read(guaranteed=True)
    candidates = [(uid, cpus) for uid, cpus in of_guaranteed if cpus not in all_cpus]
    if not candidates:  # as on most nodes: the other pods are not read
        return ExclusiveCpus()
    in_pool = [cpus for _, cpus in read(guaranteed=False)] + [cpus for _, cpus in of_guaranteed if cpus in all_cpus]
    pool = frozenset[int]().union(*in_pool)
    if pool:
        exclusive = [(uid, cpus) for uid, cpus in candidates if not cpus & pool]
    else:
        exclusive = [
            (uid, cpus)
            for uid, cpus in candidates
            if all(cpus.isdisjoint(neighbour) for owner, neighbour in candidates if owner != uid)
            and len(cpus) * _MILLI <= requested.get(uid, inf)
        ]
    cpus = frozenset[int]().union(*(cpus for _, cpus in exclusive))
    return ExclusiveCpus(cpus, frozenset(uid for uid, _ in exclusive))


def _of_containers(
    hierarchy: Hierarchy, pod: PodCgroup, all_cpus: Sequence[frozenset[int]], ids: Collection[str]
) -> list[frozenset[int]]:
    """Return the CPUs of each container, without the sandbox and CRI-O's monitors: these have all CPUs.

    A cgroup is a container if its CPUs are restricted, or its id is known. If none is, one of several is a container.
    """
    names = [name for name in folders(hierarchy.root / pod.path) if _MONITOR not in name]
    by_name = {name: cpus for name in names if (cpus := _cpus(hierarchy, f"{pod.path}/{name}"))}
    identifiers = tuple(ids)
    result = [
        cpus
        for name, cpus in by_name.items()
        if cpus not in all_cpus or name.removesuffix(".scope").endswith(identifiers)
    ]
    return result or list(by_name.values())[1:]


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
