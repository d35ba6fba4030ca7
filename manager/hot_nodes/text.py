"""Sentences about hot nodes: of conditions, of events and of `explain`."""

from collections.abc import Mapping
from typing import Any, Final

from crds.names import TAINT_HOT
from manager.hot_nodes.decision import Reason
from manager.hot_nodes.load import Load, effects_on
from manager.inputs import Resource

_NAMES: Final = {Resource.CPU: "CPU", Resource.MEMORY: "memory"}


def sentence(reason: Reason, load: Load) -> str:
    """Return why a node has the taint, or has none, with the numbers."""
    if reason is Reason.OFF:
        return "hotNodes.mode is off for this node."
    if reason is Reason.NO_REPORT:
        return f"No taint without a fresh report: {load.unusable}."
    return f"{percents(load)}: {_outcome(reason, load)}."


def _outcome(reason: Reason, load: Load) -> str:
    settings = load.settings
    limit, rate = f"maxNodesPercent ({settings.max_nodes_percent} %)", f"maxPerMinute ({settings.per_minute})"
    return {
        Reason.TAINTED: f"the Node has the taint {TAINT_HOT}:{settings.effect} until {_cool(load)}",
        Reason.DRY_RUN: f"with mode prefer or noSchedule the Node would have the taint {TAINT_HOT}",
        Reason.SHARE: f"no taint, because as many nodes as {limit} allows have it",
        Reason.RATE: f"no taint yet, because {rate} limits new taints",
        Reason.FORBIDDEN: "the API server refuses the taint; install the chart with manager.hotNodes.enabled=true",
        Reason.NOT_HOT: f"no taint before reports show the node hot for {settings.after_seconds} s",
    }[reason]


def state(load: Load, node: Mapping[str, Any]) -> str:
    """Return whether a Node is hot, and whether it has the taint, by its last report."""
    if effects := effects_on(node):
        return f"the Node has the taint {TAINT_HOT}:{effects}"
    if load.unusable:
        return f"no taint without a fresh report: {load.unusable}"
    return "hot, without the taint; condition NodeHot has the reason" if load.hot else "not hot"


def percents(load: Load) -> str:
    """Return the load beside its thresholds: "Usage: CPU 82 % of allocatable (threshold 65 %)"."""
    what = "usage or predicted peak" if load.settings.peak else "usage"
    parts = [
        f"{_NAMES[resource]} {percent} % of allocatable (threshold {load.settings.thresholds[resource]} %)"
        for resource, percent in load.percents.items()
    ]
    return f"{what[0].upper()}{what[1:]}: {', '.join(parts) or 'not measured'}"


def _cool(load: Load) -> str:
    limits = [f"{_NAMES[resource]} is at most {load.settings.lower(resource)} %" for resource in load.settings.checked]
    return " and ".join(limits)
