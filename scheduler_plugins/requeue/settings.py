"""Settings for refused pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from crds.codec import json_name
from scheduler_plugins.framework.plugin import Problem, ProblemKind


@dataclass(frozen=True, slots=True)
class RequeueSettings:
    """The section `requeue` of the profile; its keys are these fields' names in camelCase."""

    enabled: bool = True
    """True if pods are woken when the reason for refusing them has gone. Needs the right to patch pods/status."""
    patches_per_second: float = 50.0
    """Pods that are requeued a second in the long run. [1/s]"""
    patch_burst: int = 100
    """The burst after a quiet time. [pods]"""
    most_pods: int = 150_000
    """The limit of stored waiting pods; further ones wait for kube-scheduler's own five minutes. [pods]"""
    scale_up_delay: bool = True
    """True if pods that their quota refuses get the annotation cluster-autoscaler.kubernetes.io/pod-scale-up-delay, so
    that Cluster Autoscaler adds no node for them until the quota admits them."""
    events: bool = True
    """True if each refused pod gets an Event with the numbers behind it. Needs the right to create Events."""
    events_per_second: float = 2.0
    """Events that are written a second in the long run, over all pods. [1/s]"""
    event_burst: int = 50
    """The burst after a quiet time. [events]"""

    def problems(self) -> Sequence[Problem]:
        """Everything wrong with the values, in order."""
        return tuple(
            Problem(
                json_name(name), ProblemKind.INVALID, f"{getattr(self, name):g} is not in the range {low:g} to {high:g}"
            )
            for name, (low, high) in RANGES.items()
            if not low <= getattr(self, name) <= high
        )


RANGES: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    {
        "patches_per_second": (0.1, 1000.0),
        "patch_burst": (1, 10_000),
        "most_pods": (1, 1_000_000),
        "events_per_second": (0.01, 100.0),
        "event_burst": (1, 10_000),
    }
)
"""The range of each number, both ends included."""
