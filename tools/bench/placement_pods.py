"""The pods of the placement benchmark: who comes when, for how long, what it asks for and what it uses. Pure.

All of a policy's pods are the same as another's, so that only where they are put differs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.devcluster import traces

FloatArray = NDArray[np.float64]
DAY_STEPS = 288  # steps of 5 minutes in a day
STEPS = 7 * DAY_STEPS
CORES, GIB = 32, 128  # what a node has
FULL = 0.8  # how much of the nodes' CPU the pods request, at the start and on average
DAILY = 0.5  # share of the pods that use what a machine with a daily rhythm used
STAYING = 0.6  # share of the pods that stay to the end
FILL_STEPS = 2 * DAY_STEPS
"""They come in this time from the beginning on, as a cluster fills: the first ones find nothing to go by. [steps]"""
SHORT_STEPS = 144  # mean life of the others [steps]
LIMITS = (1.0, 2.0, 4.0, 8.0)  # CPU that a pod could use at most: what its series is a share of [cores]
LEAST_SHARE, MOST_SHARE = 0.125, 0.5
"""Of that it requests between these, evenly on a logarithmic scale, whatever it uses: requests say little about use."""
GIB_PER_CORE = 1.5  # memory that it could use at most, for each core of its limit; it requests half [GiB]


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod."""

    number: int  # its number, in the order in which they come
    begins: int  # the step in which it comes
    ends: int  # the first step in which it is gone
    cpu_request: float  # [cores]
    memory_request: float  # [GiB]
    cpu: FloatArray  # what it uses in every step of the week, whether it is there or not [cores]
    memory: FloatArray  # the same [GiB]

    @property
    def uid(self) -> str:
        """Its uid."""
        return f"00000000-0000-4000-8000-{self.number:012d}"

    @property
    def name(self) -> str:
        """Its name."""
        return f"pod-{self.number}"

    def to_json(self, node: str = "", scheduled: str = "") -> Mapping[str, Any]:
        """As Kubernetes has it, waiting or bound since then."""
        requests = {"cpu": f"{self.cpu_request * 1000:.0f}m", "memory": f"{self.memory_request * 1024:.0f}Mi"}
        bound = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled}] if node else []
        return {
            "metadata": {"namespace": "default", "name": self.name, "uid": self.uid, "resourceVersion": "1"},
            "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": requests}}]},
            "status": {"conditions": bound},
        }


def population(nodes: int, seed: int, steps: int = STEPS, daily: float = DAILY) -> Sequence[Pod]:
    """The pods of a week, in the order in which they come; `daily` is the share of those with a daily rhythm."""
    lot = np.random.default_rng(seed)
    found: list[Pod] = []
    requested = 0.0
    while requested < FULL * nodes * CORES:
        staying = lot.random() < STAYING
        begins = int(lot.integers(min(FILL_STEPS, steps))) if staying else 0
        ends = steps if staying else _life(lot)
        limit, share = float(lot.choice(LIMITS)), float(np.exp(lot.uniform(np.log(LEAST_SHARE), np.log(MOST_SHARE))))
        found.append(_pod(lot, len(found), (begins, ends), (limit, share), daily))
        requested += limit * share
        while not staying and ends < steps:  # one that goes is followed by one like it
            begins, ends = ends, ends + _life(lot)
            found.append(_pod(lot, len(found), (begins, ends), (limit, share), daily))
    return sorted(found, key=lambda pod: (pod.begins, pod.number))


def _life(lot: np.random.Generator) -> int:
    return 1 + int(lot.exponential(SHORT_STEPS))


def _pod(lot: np.random.Generator, number: int, stay: tuple[int, int], size: tuple[float, float], daily: float) -> Pod:
    """A pod with this limit, of which it requests this share; what it uses is drawn. [cores, 1]"""
    (begins, ends), (limit, share) = stay, size
    family = "daily-" if lot.random() < daily else "bitbrains-"
    names = sorted(name for name in traces.load() if name.startswith(family))
    series = traces.load()[names[lot.integers(len(names))]]
    # Another day of the series, at the same time of day.
    days = int(lot.integers(7)) * DAY_STEPS
    cpu = np.roll(np.array(series.cpu, np.float64)[:STEPS], -days)
    memory = np.roll(np.array(series.memory, np.float64)[:STEPS], -days) if series.memory else np.full(STEPS, 0.5)
    gib = limit * GIB_PER_CORE
    return Pod(number, begins, ends, limit * share, gib / 2, cpu * limit, memory * gib)
