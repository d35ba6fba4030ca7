"""The agent's health checks behind /healthz, /readyz and ?verbose; each is evaluated on request."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from agent.settings import AgentSettings
from headroom.runtime.health import Check, Health

_FEWEST_TICKS = 3.0


class PipelineStatus(Protocol):
    """What the pipeline knows of itself; times are of the clock that only runs forward. [s]"""

    @property
    def ticked_at(self) -> float | None:
        """When the last tick ended."""

    @property
    def node_measured_at(self) -> float | None:
        """When node CPU and memory were last measured in one tick."""

    @property
    def store_failing_since(self) -> float | None:
        """Since when samples cannot be written; None when they are."""

    @property
    def store_problem(self) -> str:
        """Why they cannot; empty when they are."""


class PodListStatus(Protocol):
    """What a pod source knows of itself."""

    @property
    def synced(self) -> bool:
        """Whether the pods were listed."""

    @property
    def problem(self) -> str:
        """Why the list is not current; empty when it is."""


@dataclass(frozen=True, slots=True)
class AgentHealth:
    """The checks."""

    settings: AgentSettings  # the limits
    pipeline: PipelineStatus  # what they look at
    clock: Callable[[], float]  # the clock that only runs forward. [s]
    began: float  # when the agent began, by that clock. [s]
    pod_list: PodListStatus  # where the pods come from

    def health(self, facts: Mapping[str, Callable[[], str]]) -> Health:
        """All of them.

        /healthz: ticks are made. /readyz, besides: node CPU and memory are measured, the pods were listed, and samples
        are written (a full disk may last ``--unready-after``). An API server that is away is in neither: the agent goes
        on without it, and a restart would not bring it back.
        """
        ready: dict[str, Check] = {"node": self.node, "pods": self.pods, "store": self.store}
        return Health(healthy={"ticks": self.ticks}, ready=ready, facts=facts)

    def ticks(self) -> str:
        """What is wrong with the ticks."""
        last = self.pipeline.ticked_at
        age = self.clock() - (self.began if last is None else last)
        if age <= self._longest():
            return ""
        return f"no tick was made for {age:.0f} s" if last is None else f"the last tick was made {age:.0f} s ago"

    def node(self) -> str:
        """What is wrong with measuring the node."""
        last = self.pipeline.node_measured_at
        if last is None:
            return "CPU and memory of the node were not measured yet"
        age = self.clock() - last
        return f"the node was last measured {age:.0f} s ago" if age > self._longest() else ""

    def pods(self) -> str:
        """What is wrong with the list of pods."""
        if self.pod_list.synced:
            return ""
        return f"the pods of this node were not listed yet: {self.pod_list.problem or 'waiting for the first list'}"

    def store(self) -> str:
        """What is wrong with keeping samples."""
        since = self.pipeline.store_failing_since
        if since is None:
            return ""
        age = self.clock() - since
        limit = self.settings.serve.unready_after_seconds
        return f"samples are kept in memory for {age:.0f} s: {self.pipeline.store_problem}" if age > limit else ""

    def _longest(self) -> float:
        return max(self.settings.serve.unhealthy_after_seconds, _FEWEST_TICKS * self.settings.collect.interval_seconds)
