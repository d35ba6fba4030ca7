"""The usage of a replayed pod or node over time: annotations and requests in, cores and bytes out. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tools.devcluster import traces
from tools.devcluster.commands import DevClusterError

CPU = "replay.headroom.dev/cpu"
MEMORY = "replay.headroom.dev/memory"
TRACE = "replay.headroom.dev/trace"
"""Annotations of pods and nodes. cpu and memory: a share of the request (of a node: of its capacity) such as `80%`, or
an amount such as `500m` or `1Gi`, constant. trace: the name of a series, such as `bitbrains-46`."""

DEFAULT_CPU_CORES = 0.1  # what a pod without a CPU request takes for its request
DEFAULT_MEMORY_BYTES = 128 << 20  # what a pod without a memory request takes for its request
SYSTEM_CPU_SHARE = 0.06  # what a node's system uses at most when its trace is at 100 %, as a share of the capacity
SYSTEM_MEMORY_SHARE = 0.04  # memory of a node's system, as a share of the capacity
SUFFIXES = {"m": Fraction(1, 1000), "": Fraction(1), "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9)}
SUFFIXES |= {
    "T": Fraction(10**12),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
}
EXTENDED_CPU = ("kubernetes.io/mid-cpu", "kubernetes.io/batch-cpu")
EXTENDED_MEMORY = ("kubernetes.io/mid-memory", "kubernetes.io/batch-memory")

Json = Mapping[str, Any]
Curve = Callable[[float], float]


@dataclass(frozen=True)
class Load:
    """The usage, as functions of the time in the replay [seconds]."""

    cpu: Curve  # cores
    memory: Curve  # bytes, without page cache


NOTHING = Load(lambda _: 0.0, lambda _: 0.0)


def amount(text: str) -> float:
    """A Kubernetes quantity of CPU [cores] or memory [bytes]."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?", text.strip())
    if match is None:
        raise DevClusterError(f"{text!r} is not an amount such as 500m, 2 or 1Gi")
    return float(Fraction(match[1]) * SUFFIXES[match[2] or ""])


def share_or_amount(text: str, of: float) -> float:
    """`80%` of something, or an amount of its own."""
    if text.strip().endswith("%"):
        try:
            return float(text.strip()[:-1]) / 100 * of
        except ValueError:
            raise DevClusterError(f"{text!r} is not a share such as 80%") from None
    return amount(text)


def pod_load(pod: Json) -> Load:
    """Return the usage of a pod: by its annotations, else a series of the Bitbrains trace over its requests."""
    metadata = pod["metadata"]
    key = f"{metadata['namespace']}/{metadata['name']}"
    cpu = sum_of(pod, "requests", ("cpu",)) or sum_of(pod, "requests", EXTENDED_CPU) / 1000 or DEFAULT_CPU_CORES
    memory = sum_of(pod, "requests", ("memory", *EXTENDED_MEMORY)) or DEFAULT_MEMORY_BYTES
    load = _load(f"pod {key}", metadata.get("annotations") or {}, key, cpu, memory)
    return _limited(load, sum_of(pod, "limits", ("cpu",)), sum_of(pod, "limits", ("memory",)))


def system_load(node: Json, capacity_cpu: float, capacity_memory: float) -> Load:
    """Return the usage of a node's system: some percent, moving like a PlanetLab host."""
    series, start = traces.choose(node["metadata"]["name"], "planetlab")
    return Load(
        lambda seconds: series.cpu_share(start + seconds) * SYSTEM_CPU_SHARE * capacity_cpu,
        lambda _: SYSTEM_MEMORY_SHARE * capacity_memory,
    )


def node_floor(node: Json, capacity_cpu: float, capacity_memory: float) -> Load:
    """Return the least usage of a whole node, by its annotations; 0 without them. The system uses the rest."""
    name = node["metadata"]["name"]
    annotations = node["metadata"].get("annotations") or {}
    if not {CPU, MEMORY, TRACE} & set(annotations):
        return NOTHING
    load = _load(f"node {name}", annotations, name, capacity_cpu, capacity_memory)
    if TRACE in annotations:
        return load
    return Load((load if CPU in annotations else NOTHING).cpu, (load if MEMORY in annotations else NOTHING).memory)


def sum_of(pod: Json, kind: str, names: tuple[str, ...]) -> float:
    """Sum over a pod's containers of the first of these resources that each has, in requests or limits.

    For limits it is 0 when a container has none: then there is no limit.
    """
    result = []
    for container in pod["spec"].get("containers", ()):
        resources = container.get("resources", {}).get(kind) or {}
        result.append(next((amount(str(resources[name])) for name in names if name in resources), 0.0))
    return 0.0 if kind == "limits" and 0.0 in result else sum(result)


def _load(what: str, annotations: Mapping[str, str], key: str, cpu: float, memory: float) -> Load:
    series, start = traces.choose(key)
    try:
        if TRACE in annotations:
            series, start = traces.load()[annotations[TRACE]], 0.0
        fixed_cpu = share_or_amount(annotations[CPU], cpu) if CPU in annotations else None
        fixed_memory = share_or_amount(annotations[MEMORY], memory) if MEMORY in annotations else None
    except KeyError as error:
        raise DevClusterError(f"{what}: annotation {TRACE}: there is no series {error}") from None
    except DevClusterError as error:
        raise DevClusterError(f"{what}: annotations {CPU} and {MEMORY}: {error}") from None
    return Load(
        lambda seconds: series.cpu_share(start + seconds) * cpu if fixed_cpu is None else fixed_cpu,
        lambda seconds: series.memory_share(start + seconds) * memory if fixed_memory is None else fixed_memory,
    )


def _limited(load: Load, cpu_limit: float, memory_limit: float) -> Load:
    """Use stays at or below limits; a limit of 0 is none."""
    return Load(
        lambda seconds: min(load.cpu(seconds), cpu_limit or float("inf")),
        lambda seconds: min(load.memory(seconds), memory_limit or float("inf")),
    )
