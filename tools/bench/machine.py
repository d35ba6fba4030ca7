"""A replayed machine with 110 pods, for benchmarks that read files as on a node."""

from pathlib import Path

from tools.bench.workload import CPUS, MEMORY_BYTES, PODS
from tools.devcluster import traces
from tools.devcluster.replay_load import NOTHING, Load
from tools.devcluster.replay_machine import Group, Machine

CORES, GIB = 0.5, 1 << 30


def replayed(root: Path, pods: int = PODS) -> Machine:
    """A machine with cgroup v2 below a folder; each pod follows a series of the real traces."""
    system = Load(lambda _: 0.2, lambda _: 0.5 * GIB)
    machine = Machine(root, CPUS, MEMORY_BYTES, system, NOTHING)
    machine.set_pods({uid: Group(f"kubepods/burstable/pod{uid}", _load(uid)) for uid in uids(pods)})
    return machine


def uids(pods: int = PODS) -> list[str]:
    """The pods' uids."""
    return [f"00000000-0000-4000-8000-{number:012x}" for number in range(pods)]


def _load(uid: str) -> Load:
    series, start = traces.choose(uid)
    return Load(
        lambda seconds: series.cpu_share(start + seconds) * CORES,
        lambda seconds: series.memory_share(start + seconds) * 0.25 * GIB,
    )
