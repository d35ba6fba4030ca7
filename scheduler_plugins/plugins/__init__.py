"""Filters and scores. Arrays in, arrays out: no clocks, no HTTP, no Kubernetes API."""

from collections.abc import Mapping
from typing import Final

PLUGINS: Final[Mapping[str, str]] = {
    "CapacityScheduling": "scheduler_plugins.plugins.capacity_scheduling:CapacityScheduling",
    "LoadAwareScheduling": "scheduler_plugins.plugins.load_aware:LoadAware",
    "LowRiskOverCommitment": "scheduler_plugins.plugins.low_risk_over_commitment:LowRiskOverCommitment",
    "MidResources": "scheduler_plugins.plugins.mid_resources:MidResources",
    "NodeResourcesAllocatable": "scheduler_plugins.plugins.node_resources_allocatable:NodeResourcesAllocatable",
}
"""Every plugin by the name that a profile calls it."""
