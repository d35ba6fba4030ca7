"""Why a node has the Mid resources it has: gathers from live objects what `explain` prints. Pure."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cli.reports import Report, age, read
from crds import names
from crds.quantity import QuantityError, value
from manager.calculators.base import Result
from manager.calculators.mid import calculate
from manager.config.in_force import InForce, at_start
from manager.config.overlay import NodeStrategyView, overlay
from manager.facts import Measured, NodeFacts, PodFacts, from_objects

Json = Mapping[str, Any]

DISABLED: Final = "ColocationDisabled"
"""The calculator's reason for a node whose strategy sells nothing."""


@dataclass(frozen=True, slots=True)
class ConfigState:
    """The colocation ConfigMap as it is now."""

    place: str
    """Namespace/name."""
    age_seconds: float | None
    """Time since somebody last wrote it; None when there is none. [s]"""
    in_force: InForce
    """What the manager makes of its text."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything about one node's Mid resources."""

    node: str
    """Name of the node."""
    config: ConfigState
    """The ConfigMap."""
    strategy: NodeStrategyView
    """The strategy in force on this node, and where each value comes from."""
    facts: NodeFacts
    """What the formula read."""
    result: Result
    """What the formula says."""
    would_be: Result | None
    """What it would say if colocation were enabled here; None where it is."""
    published: Measured
    """What the Node offers now; None where it has no such resource."""
    report: Report
    """What the agent says."""
    prediction: Json
    """`status.prediction` of the NodeMetric."""
    ready_message: str
    """The agent's own sentence about its prediction."""
    mid_pods: tuple[PodFacts, ...]
    """The pods that bought Mid resources here."""


def explain(node: Json, node_metric: Json | None, pods: Sequence[Json], config: ConfigState, now: float) -> Explanation:
    """Gather the explanation of one node.

    Args:
        node: the Node.
        node_metric: its NodeMetric, or None.
        pods: the pods on it.
        config: the colocation config, of `config_state`.
        now: the clock. [unix s]
    """
    metadata = node["metadata"]
    view = overlay(config.in_force.config, metadata.get("labels"), metadata.get("annotations"))
    here = [PodFacts.from_object(pod) for pod in pods]
    facts = from_objects(node, node_metric, here, view.strategy, now)
    result = calculate(facts)
    enabled = dataclasses.replace(facts, strategy=dataclasses.replace(facts.strategy, enabled=True))
    report = read(node_metric, now) if node_metric else Report()
    # What cannot be decoded can hold anything; the report's problem says so.
    status = {} if report.problem else (node_metric or {}).get("status") or {}
    return Explanation(
        node=str(metadata["name"]),
        config=config,
        strategy=view,
        facts=facts,
        result=result,
        would_be=calculate(enabled) if result.degraded and result.degraded.reason == DISABLED else None,
        published=_published(node),
        report=report,
        prediction=status.get("prediction") or {},
        ready_message=_ready_message(status),
        mid_pods=tuple(pod for pod in here if pod.holds_mid),
    )


def config_state(config_map: Json | None, last_good: Json | None, place: str, now: float) -> ConfigState:
    """What the manager makes of the ConfigMap.

    Args:
        config_map: the colocation ConfigMap, or None.
        last_good: the ConfigMap in which the manager keeps the last good text, or None.
        place: namespace/name of the first.
        now: the clock. [unix s]
    """
    in_force = at_start(_text(config_map), present=config_map is not None, last_good=_text(last_good))
    return ConfigState(place, _written_ago(config_map, now) if config_map else None, in_force)


def _text(config_map: Json | None) -> str | None:
    return ((config_map or {}).get("data") or {}).get(names.CONFIG_MAP_KEY)


def _written_ago(config_map: Json, now: float) -> float | None:
    metadata = config_map.get("metadata") or {}
    times = [str(entry["time"]) for entry in metadata.get("managedFields") or () if entry.get("time")]
    written = max(times, default=metadata.get("creationTimestamp"))
    return age(written, now) if written else None


def _published(node: Json) -> Measured:
    offered = (node.get("status") or {}).get("allocatable") or {}
    return Measured(_whole(offered.get(names.MID_CPU)), _whole(offered.get(names.MID_MEMORY)))


def _whole(quantity: str | None) -> int | None:
    try:
        return None if quantity is None else value(quantity)
    except QuantityError:  # the API server admits no such Node
        return None


def _ready_message(status: Json) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == names.CONDITION_PREDICTION_READY:
            return str(condition.get("message") or "")
    return ""
