"""The manager's health: the answers of /healthz, /readyz, /livez and ?verbose, read by a thread of their own."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from headroom.kube import WatchHealth
from headroom.runtime.health import Check, Health

_LATE_HEARTBEAT_SECONDS: Final = 30.0


@dataclass(slots=True)
class Progress:
    """Progress of the manager. Written by the event loop, read by any thread."""

    heartbeat: float = field(default_factory=time.monotonic)  # when the event loop last turned [monotonic s]
    config_read: bool = False  # whether the ConfigMap has been read, or is known to be absent
    nodes_listed: bool = False  # whether all Nodes have been listed once
    node_metrics: WatchHealth = field(default_factory=WatchHealth)
    pods: WatchHealth = field(default_factory=WatchHealth)
    problem: str = ""  # the problem that blocks the manager; empty without one
    leadership: Callable[[], str] = lambda: "has not started"
    further: dict[str, Check] = field(default_factory=dict)

    def alive(self) -> str:
        """Return why a restart would help; empty when it would not."""
        late = time.monotonic() - self.heartbeat
        return f"the event loop has been stuck for {late:.0f} s" if late > _LATE_HEARTBEAT_SECONDS else ""

    def health(self) -> Health:
        """The checks of the pages. A standby is ready, too: it can take over."""

        def check(problem: str, *, done: bool) -> str:
            return "" if done else f"{problem}; {self.problem}" if self.problem else problem

        ready: dict[str, Check] = {
            "config": lambda: check("the ConfigMap has not been read yet", done=self.config_read),
            "nodes": lambda: check("Nodes have not been listed yet", done=self.nodes_listed),
            "nodemetrics": self._node_metrics,
            "pods": lambda: check(self.pods.problem or "pods have not been listed yet", done=self.pods.synced),
            **self.further,
        }
        facts = {"leadership": self.leadership, "NodeMetric": self._definition}
        return Health(healthy={"loop": self.alive}, ready=ready, facts=facts)

    def _node_metrics(self) -> str:
        if self.node_metrics.synced:
            return ""
        return self._definition() if self.node_metrics.not_found else "NodeMetrics have not been listed yet"

    def _definition(self) -> str:
        if not self.node_metrics.not_found:
            return "defined"
        return "the API server does not know NodeMetric, so every node is degraded in time: install Headroom's CRDs"
