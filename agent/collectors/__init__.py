"""Collectors, one file each, and the registry that names them. They read, they never store."""

from typing import Final

COLLECTORS: Final[dict[str, str]] = {
    "node": "agent.collectors.node:NodeCollector",
    "pod": "agent.collectors.pod:PodCollector",
    "exclusive-cpu": "agent.collectors.exclusive_cpu:ExclusiveCpuCollector",
    "pod-held-back": "agent.collectors.pod_held_back:PodHeldBackCollector",
    "pod-pressure": "agent.collectors.pod_pressure:PodPressureCollector",
    "pressure": "agent.collectors.pressure:PressureCollector",
}
"""Collector by name; resolved when the agent starts, in this order."""
