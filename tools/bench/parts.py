"""The parts of `make bench`: what each measures, how long it takes, and what it needs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Part:
    """A benchmark that runs in a process of its own."""

    group: str  # what it belongs to; the name of a group stands for all of its parts
    title: str  # what it measures, for people
    minutes: float  # about how long it takes on two CPUs that do nothing else
    function: str
    """As module:function, of `quick`, that yields `tools.bench.measurement.Item`s; quick ones show that they run."""
    cluster: bool = False  # whether it starts a dev cluster, whose programs have to be there (`make packages`)


PARTS: Final[dict[str, Part]] = {
    "process": Part("agent", "two whole agents, 110 pods", 1.6, "tools.bench.process:measure"),
    "tick": Part("agent", "a tick, step by step", 0.4, "tools.bench.tick:measure"),
    "training": Part("agent", "a training round", 0.1, "tools.bench.training_round:measure"),
    "store": Part("agent", "the store: appends, windows, size", 0.3, "tools.bench.store:measure"),
    "week": Part("agent", "a simulated week", 3.0, "tools.bench.week:measure"),
    "manager-memory": Part("manager", "the cache of 5,000 nodes", 0.4, "tools.bench.manager_memory:measure"),
    "manager-cluster": Part(
        "manager", "500 to 5,000 nodes on a real API server", 15.0, "tools.bench.manager:part", cluster=True
    ),
    "scheduler-compute": Part(
        "scheduler", "filters and scores of 5,000 nodes", 1.5, "tools.bench.scheduler_compute:measure"
    ),
    "extender": Part("scheduler", "answers over HTTP", 0.5, "tools.bench.extender:measure"),
    "relist": Part("scheduler", "pauses while everything is listed anew", 1.3, "tools.bench.relist:measure"),
    "large-pods": Part(
        "scheduler", "memory of each service under pods of a mebibyte", 6.0, "tools.bench.large_pods:measure"
    ),
    "scheduler-cluster": Part(
        "scheduler", "pods per second through a real kube-scheduler", 8.0, "tools.bench.scheduler:part", cluster=True
    ),
    "quota-compute": Part("quota", "admission, and the choice of victims", 1.5, "tools.bench.quota:measure"),
    "quota-cluster": Part(
        "quota",
        "waits for borrowed resources on a real kube-scheduler",
        2.0,
        "tools.bench.quota_reclaim:part",
        cluster=True,
    ),
    "quality": Part(
        "backtest", "the default policy and every model on recorded usage", 2.0, "tools.bench.quality:measure"
    ),
    "replay": Part(
        "backtest", "a month from sample to Node: agent, NodeMetric, manager, Mid", 9.0, "tools.bench.replay:measure"
    ),
    "placement": Part("placement", "where pods are put, simulated", 10.0, "tools.bench.placement:part"),
}
"""In the order in which they run."""


def groups() -> dict[str, tuple[str, ...]]:
    """The parts of each group, in order."""
    found: dict[str, list[str]] = {}
    for name, part in PARTS.items():
        found.setdefault(part.group, []).append(name)
    return {group: tuple(names) for group, names in found.items()}


def chosen(words: Iterable[str]) -> list[str]:
    """The parts that names of parts and groups stand for, in order; all of them without a name.

    Raises:
        ValueError: a name is neither; the message has all that there are.
    """
    given, known = list(words), groups()
    if unknown := sorted({word for word in given if word not in PARTS and word not in known}):
        raise ValueError(
            f"no benchmark named {', '.join(unknown)}: choose from {', '.join(PARTS)}, "
            f"or from the groups {', '.join(known)}"
        )
    wanted = {name for word in given for name in known.get(word, ())} | {word for word in given if word in PARTS}
    return [name for name in PARTS if name in wanted or not given]


def duration(minutes: float) -> str:
    """For people."""
    if minutes < 1:
        return f"{max(round(minutes * 60), 1)} s"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"  # noqa: PLR2004 - an hour and a half
