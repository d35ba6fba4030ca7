"""Queries of amounts that several dashboards use."""

from typing import Final

from tools.dashboards.model import BYTES, CORES

RESOURCES: Final = ("cpu", "memory")
"""What is published."""
UNIT: Final = {"cpu": CORES, "memory": BYTES}
"""In which unit it is shown."""
TITLE: Final = {"cpu": "CPU", "memory": "Memory"}
"""What it is called."""
_USED: Final = {"cpu": "headroom_agent_node_used_cpu_cores", "memory": "headroom_agent_node_used_memory_bytes"}


def _chosen(*matchers: str) -> str:
    """A selector's braces, without matchers that are empty."""
    inside = ", ".join(filter(None, matchers))
    return f"{{{inside}}}" if inside else ""


def used(resource: str, node: str = "") -> str:
    """What each node uses.

    Args:
        resource: cpu or memory.
        node: a matcher such as `node="$node"`; "" for all.
    """
    return f"max by (node) ({_USED[resource]}{_chosen(node)})"


def allocatable(resource: str, node: str = "") -> str:
    """What pods may request on each node."""
    return f"max by (node) (headroom_agent_node_resource_allocatable{_chosen(node, _of(resource))})"


def predicted_peak(resource: str, node: str = "") -> str:
    """What Prod and the system are expected to use at most on each node."""
    return f"max by (node) (headroom_agent_node_predicted_resource_peak{_chosen(node, _of(resource))})"


def reclaimable(resource: str, node: str = "") -> str:
    """What Prod requested on each node and will not use."""
    return f"max by (node) (headroom_agent_node_predicted_resource_reclaimable{_chosen(node, _of(resource))})"


def mid(what: str, resource: str, node: str = "") -> str:
    """An amount of Mid of each node, of the replica that leads.

    Args:
        what: calculated, published, requested or deficit.
        resource: cpu or memory.
        node: a matcher; "" for all.
    """
    amount = f"max by (node) (headroom_manager_mid_{what}{_chosen(node, _of(resource))})"
    return f"{amount} / 1000" if resource == "cpu" else amount


def _of(resource: str) -> str:
    return f'resource="{resource}"'


def quantile(share: float, histogram: str, by: str = "") -> str:
    """A quantile of a histogram over the time between two points.

    Args:
        share: 0.99 for the value that 99 % stay under.
        histogram: its name, without `_bucket`.
        by: labels that are kept apart, each followed by a comma and a blank.
    """
    return f"histogram_quantile({share}, sum by ({by}le) (rate({histogram}_bucket[$__rate_interval])))"
