"""Recent stalls of tasks: pressure of the node and its pods, and throttling; averages from the store."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from agent.reporter.usage import UsageStore
from agent.samples import CPU_THROTTLED, MEMORY_HELD_BACK, NODE, PSI_KINDS, PSI_RESOURCES, SOME, psi

MOST_PODS: Final = 10  # A report lists at most so many pods, those that waited most
HELD_BACK_SECONDS: Final = 300.0
"""A pod is held back for so long after the last reading that shows it, as long as an average of the models. [s]"""
LEAST: Final = 0.05  # A pod that waited for less than this share of the time is not reported


@dataclass(frozen=True, slots=True)
class Pressure:
    """Means over the window of a report, each a share of the time (0 to 1); unmeasured ones are absent."""

    node: Mapping[tuple[str, str], float]
    """By resource (cpu, memory, io) and kind: some of the tasks waited, or all of them (full)."""
    pods: Mapping[str, Mapping[str, float]]  # by resource and pod uid: some of the pod's tasks waited
    throttled: Mapping[str, float]
    """By pod uid: the share of the quota's periods in which it was held back; pods with a CPU limit have it."""


def measure_pressure(now: float, store: UsageStore, uids: Collection[str], window_seconds: float) -> Pressure:
    """The pressure statistics of a report about these pods; averages over a window [s]."""
    start = now - window_seconds

    def of_pods(metric: str) -> dict[str, float]:
        result = store.windows(metric, start, now)
        return {uid: float(np.mean(result[uid].values)) for uid in uids if uid in result and result[uid].values.size}

    of_node = {
        (resource, kind): store.window(psi(resource, kind), NODE, start, now).values
        for resource in PSI_RESOURCES
        for kind in PSI_KINDS
    }
    return Pressure(
        node={key: float(np.mean(values)) for key, values in of_node.items() if values.size},
        pods={resource: of_pods(psi(resource, SOME)) for resource in PSI_RESOURCES},
        throttled=of_pods(CPU_THROTTLED),
    )


def held_back(now: float, store: UsageStore) -> frozenset[str]:
    """Return the uids of pods that memory.high or swap held back lately."""
    states = store.windows(MEMORY_HELD_BACK, now - HELD_BACK_SECONDS, now)
    return frozenset(uid for uid, series in states.items() if series.values.any())


def extensions(pressure: Pressure) -> dict[str, dict[str, Any]]:
    """`podsMetric[].extensions` of the pods that waited most, by uid, in whole percent; of at most `MOST_PODS` pods.

    A report is kept in etcd and sent to every watcher, so it lists only the pods with the most pressure.
    """
    every_share = [pressure.throttled, *pressure.pods.values()]
    worst = {uid: max(share.get(uid, 0.0) for share in every_share) for uid in set().union(*every_share)}
    chosen = sorted((uid for uid in worst if worst[uid] >= LEAST), key=lambda uid: (-worst[uid], uid))[:MOST_PODS]
    return {uid: _extension(pressure, uid) for uid in chosen}


def _extension(pressure: Pressure, uid: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if uid in pressure.throttled:
        result["cpuThrottledPercent"] = round(100 * pressure.throttled[uid])
    waited = {resource: round(100 * shares[uid]) for resource, shares in pressure.pods.items() if uid in shares}
    return result | ({"pressurePercent": waited} if waited else {})
