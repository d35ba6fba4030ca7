"""NodeResourcesAllocatable: prefer small (Least) or large (Most) nodes, whatever runs on them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Self

import numpy as np

from scheduler_plugins.framework.plugin import Problem, ProblemKind
from scheduler_plugins.quota.amounts import is_scalar
from scheduler_plugins.snapshot.arrays import IntArray, Nodes, NodeState
from scheduler_plugins.snapshot.ordinary import Prepared
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.steps.formula import Formula
from scheduler_plugins.steps.in_python import LARGEST_SPAN

NAME: Final = "NodeResourcesAllocatable"  # how profiles and tables call it

_BEST: Final = 100
_NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


class Mode(StrEnum):
    """Which nodes score highest."""

    LEAST = "Least"
    MOST = "Most"


@dataclass(frozen=True, slots=True)
class ResourceWeight:
    """The weight of a resource."""

    name: str  # its name
    weight: int = 0  # its weight; must be positive


_DEFAULT_RESOURCES: Final = (ResourceWeight("cpu", 2**20), ResourceWeight("memory", 1))
"""A milli-core counts as much as a mebibyte."""


@dataclass(frozen=True, slots=True)
class NodeResourcesAllocatable:
    """The plugin; its fields are its arguments."""

    mode: str = ""  # which end scores highest: Least (default) or Most
    resources: tuple[ResourceWeight, ...] = field(default=())
    """The resources and their weights (cpu 1048576, memory 1); of a duplicate name the last weight counts."""

    # Arguments

    def defaulted(self) -> Self:
        return replace(self, mode=self.mode or str(Mode.LEAST), resources=self.resources or _DEFAULT_RESOURCES)

    def problems(self) -> Sequence[Problem]:
        return tuple(_problems(self))

    @property
    def weights(self) -> Mapping[str, int]:
        return {resource.name: resource.weight for resource in self.resources}

    # A node's record

    def dtype(self) -> np.dtype[Any]:
        return np.dtype([("raw", np.int64)])

    def record(self, node: NodeState) -> tuple[Any, ...]:
        """Return a node's record: it depends on neither the pod nor the node's pods."""
        return node.once(NAME, lambda node: (self.raw(node.own_allocatable),))

    def raw(self, allocatable: Mapping[str, int]) -> int:
        """The weighted mean of what a node has to give, truncated toward zero; for Least it is negative.

        Exact whatever the weights are. 8 cores and 16 GiB by the default weights:
        (8000 * 1048576 + 17179869184) / 1048577 = 24383.9..., so 24383 or -24383.
        """
        weights = self.weights
        total = sum(weights.values())
        amounts = (weight * allocatable.get(name, 0) for name, weight in weights.items() if counts(name))
        mean = sum(amounts) // total if total else 0
        return -mean if self.mode == Mode.LEAST else mean

    # Score

    def score(self, _pod: PodRequest, nodes: Nodes) -> IntArray:
        """Return the nodes' positions between the worst (0) and the best (100), shape (N,); 0 if all are equal."""
        raw: IntArray = nodes.tables[NAME]["raw"]
        return normalised(raw)

    def formula(self) -> Formula:
        """The whole score."""
        return Formula(position="raw")

    def prepare(self, _pod: PodRequest, _nodes: Nodes) -> Prepared:
        return ()

    def explain(self, pod: PodRequest, nodes: Nodes) -> Sequence[Mapping[str, Any]]:
        """Return the weighted mean of each node, and its position."""
        scores = self.score(pod, nodes).tolist()
        means = nodes.tables[NAME]["raw"].tolist()
        return [
            {"mode": self.mode, "weightedMean": abs(mean), "score": score}
            for mean, score in zip(means, scores, strict=True)
        ]


def counts(resource: str) -> bool:
    """Return whether kube-scheduler tracks an amount of a resource that plugins can read.

    cpu, memory, ephemeral-storage and its scalars: extended resources, huge pages, attachable volumes. Not
    pods, nor quota names such as requests.cpu; those have no amount.
    """
    return resource in _NATIVE or is_scalar(resource)


def normalised(raw: IntArray) -> IntArray:
    """(raw - least) * 100 // (most - least), exactly; zeros where all are the same."""
    if not len(raw):
        return np.zeros(0, np.int64)
    least, most = int(raw[raw.argmin()]), int(raw[raw.argmax()])
    span = most - least
    if not span:
        return np.zeros(len(raw), np.int64)
    if span <= LARGEST_SPAN:
        return (raw - least) * _BEST // span
    return np.array([(value - least) * _BEST // span for value in raw.tolist()], np.int64)


def _problems(args: NodeResourcesAllocatable) -> Iterator[Problem]:
    for index, (name, weight) in enumerate((resource.name, resource.weight) for resource in args.resources):
        if weight <= 0:
            text = f"Invalid value: {weight}: resource weight of {name} should be a positive value, got :{weight}"
            yield Problem(f"resources[{index}].weight", ProblemKind.INVALID, text)
    if args.mode not in list(Mode):
        text = f'Invalid value: "{args.mode}": invalid support ModeType: must be {" or ".join(Mode)}'
        yield Problem("mode", ProblemKind.INVALID, text)
