"""The explanation of a node's Mid resources: gathers the content of `explain` from live objects. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from crds import names
from crds.node_metric import ShadowAccount
from manager.calculators.base import Result
from manager.calculators.mid import calculate
from manager.config.in_force import InForce, at_start
from manager.config.merge import EffectiveStrategy, effective_strategy
from manager.hot_nodes.load import OFF, HotSettings, Load, effects_on
from manager.inputs import Measured, NodeInputs, ObservedAt, PodInputs, Resource, from_objects
from manager.mid.explanation import eviction as explain_eviction
from manager.mid.explanation import managed_fields
from manager.mid.explanation import next_action as explain_next
from manager.mid.explanation.eviction import Eviction
from manager.mid.explanation.lease import Lease
from manager.mid.explanation.next_action import Step
from manager.mid.explanation.node_metric import Report, age, read
from manager.mid.explanation.reclaimable import with_bounds
from manager.mid.explanation.what_if import SOURCE, WhatIf
from manager.mid.node_filter import REASON as EXCLUDED
from manager.mid.node_filter import NodeFilter
from manager.mid.publish import published_amounts
from manager.node_metric import ManagedFields

Json = Mapping[str, Any]

ENABLED: Final = "colocation were enabled"  # the missing condition of a node with a strategy that publishes nothing
FRESH: Final = "the report still counted"
"""The missing condition where the report or the prediction is too old."""
_EXPIRED: Final = frozenset({"ReportExpired", "PredictionExpired"})


class ConfigState(NamedTuple):
    """The present colocation ConfigMap, and the manager's reading of its text."""

    place: str
    age_seconds: float | None  # time since its last write; None without one [s]
    in_force: InForce


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """The live objects about one node."""

    node: Json
    node_metric: Json | None
    pods: Sequence[Json | PodInputs]
    now: float  # when they were read [unix s]
    observed_at: ObservedAt | None = None
    """When the report's times were seen to change; None: as the API server noted it. [unix s]"""
    written_at: float | None = None
    """When the manager last wrote to the Node; None: as the API server noted it. [unix s]"""
    lease: Lease | None = None  # the manager's Lease; None where there is none, or it may not be read
    exclusion: NodeFilter = field(default_factory=NodeFilter)  # which nodes the manager leaves alone
    shadow: ShadowAccount | None = None  # the account of mode shadow, if there is one


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything about one node's Mid resources."""

    node: str
    seen: ObservedNode
    config: ConfigState
    strategy: EffectiveStrategy  # the strategy in force on this node, and where each value comes from
    facts: NodeInputs  # of the formula
    result: Result  # of the formula
    would_be: Result | None
    """The result if only numbers decided; None where they do, or where there are none."""
    unless: str
    """The condition that keeps the numbers from deciding, such as "colocation were enabled"; empty without one."""
    published: Measured  # on the Node; None where it has no such resource
    steps: tuple[Step, ...]  # the next actions of the manager, per resource
    report: Report  # the agent's
    status: Json  # status of the NodeMetric; empty where there is none or it cannot be read
    mid_pods: tuple[PodInputs, ...]  # the pods that requested Mid resources here
    eviction: Eviction | None  # what eviction makes of a deficit; None where there is none
    hot: Load | None  # the load beside the thresholds of `hotNodes`; None where that is off and the node has no taint
    what_if: WhatIf | None = None  # the changes tried; None: the current state
    before: "Explanation | None" = None  # how it is, when something is tried

    @property
    def desired(self) -> Mapping[Resource, int | None]:
        """The desired amounts; None for no such resource. [milli-cores, bytes]"""
        return explain_next.desired(self.result, self.facts.strategy)

    @property
    def excluded(self) -> str:
        """Return why the manager leaves this node alone; empty where it does not."""
        degraded = self.result.degraded
        return degraded.message if degraded and degraded.reason == EXCLUDED else ""

    @property
    def prediction(self) -> Json:
        return self.status.get("prediction") or {}

    @property
    def conditions(self) -> Sequence[Json]:
        return self.status.get("conditions") or ()

    @property
    def ready_message(self) -> str:
        ready = (
            condition for condition in self.conditions if condition.get("type") == names.CONDITION_PREDICTION_READY
        )
        return str(next(ready, {}).get("message") or "")


def explain(seen: ObservedNode, config: ConfigState, what_if: WhatIf | None = None) -> Explanation:
    """Gather the explanation of one node; with a what-if, `before` has the current state."""
    if what_if is None:
        return _explain(seen, config, None)
    before = _explain(seen, config, None)
    tried = config
    if what_if.config is not None:
        place = f"{what_if.config.place} (--config)"
        tried = ConfigState(place, None, at_start(what_if.config.text, present=True, last_good=None))
    return replace(_explain(seen, tried, what_if), before=before)


def _explain(seen: ObservedNode, config: ConfigState, what_if: WhatIf | None) -> Explanation:
    metadata, node_metric = seen.node["metadata"], _of_this_node(seen)
    above = (SOURCE, what_if.strategy) if what_if and what_if.strategy else None
    view = effective_strategy(config.in_force.config, metadata.get("labels"), metadata.get("annotations"), above)
    labels = metadata.get("labels") or {}
    excluded = seen.exclusion.excludes(labels)
    if excluded:
        view = replace(view, strategy=replace(view.strategy, enable=False))
    here = [pod if isinstance(pod, PodInputs) else PodInputs.from_object(pod) for pod in seen.pods]
    observed_at = seen.observed_at or managed_fields.observed_at(node_metric)
    facts = from_objects(seen.node, node_metric, here, view.strategy, seen.now, observed_at)
    result = seen.exclusion.excluded_result(calculate(facts), labels) if excluded else calculate(facts)
    would_be, unless = _otherwise(facts, result)
    report = read(node_metric, seen.now) if node_metric else Report()
    status = {} if report.problem else (node_metric or {}).get("status") or {}
    allocatable = {resource: facts.allocatable[resource] or 0 for resource in Resource}
    result = replace(result, terms=tuple(with_bounds(result.terms, allocatable, status)))
    if would_be is not None:
        would_be = replace(would_be, terms=tuple(with_bounds(would_be.terms, allocatable, status)))
    current, written_at = published_amounts(seen.node), seen.written_at or managed_fields.written_at(seen.node)
    return Explanation(
        node=str(metadata["name"]),
        seen=seen,
        config=config,
        strategy=view,
        facts=facts,
        result=result,
        would_be=would_be,
        unless=unless,
        published=Measured(*(current[resource].amount for resource in Resource)),
        steps=explain_next.steps(
            current, result, facts.strategy, written_at, seen.now, withdrawn=managed_fields.withdrawn(status)
        ),
        report=report,
        # An undecodable report can hold anything; its problem is shown.
        status=status,
        mid_pods=tuple(pod for pod in here if pod.holds_mid),
        eviction=explain_eviction.of(facts, result, view.strategy, here),
        hot=_hot(seen.node, facts, view, excluded=bool(excluded)),
        what_if=what_if,
    )


def _hot(node: Json, facts: NodeInputs, view: EffectiveStrategy, *, excluded: bool) -> Load | None:
    settings = HotSettings.of(view.strategy)
    off = excluded or settings.mode == OFF
    return None if off and not effects_on(node) else Load.of(facts, settings)


def _of_this_node(seen: ObservedNode) -> Json | None:
    """The NodeMetric, unless it is about a machine of the same name that is gone: the manager has no use for that."""
    managed = ManagedFields.from_object(seen.node_metric or {})
    return None if managed.belongs_to_other_node(str(seen.node["metadata"].get("uid", ""))) else seen.node_metric


def _otherwise(facts: NodeInputs, result: Result) -> tuple[Result | None, str]:
    """Return the result without the facts that override the numbers, and the condition that is missing."""
    if result.degraded is None or result.degraded.reason == EXCLUDED:
        return None, ""
    conditions = []
    if not facts.strategy.enabled:
        conditions.append(ENABLED)
        facts = replace(facts, strategy=replace(facts.strategy, enabled=True))
    why = calculate(facts).degraded
    if why is not None and why.reason in _EXPIRED:
        conditions.append(FRESH)
        facts = replace(facts, report_age=0.0, prediction_age=0.0)
    otherwise = calculate(facts)
    return (None, "") if otherwise.degraded else (otherwise, " and ".join(conditions))


def config_state(config_map: Json | None, last_good: Json | None, place: str, now: float) -> ConfigState:
    in_force = at_start(_text(config_map), present=config_map is not None, last_good=_text(last_good))
    return ConfigState(f"ConfigMap {place}", _written_ago(config_map, now) if config_map else None, in_force)


def _text(config_map: Json | None) -> str | None:
    return ((config_map or {}).get("data") or {}).get(names.CONFIG_MAP_KEY)


def _written_ago(config_map: Json, now: float) -> float | None:
    metadata = config_map.get("metadata") or {}
    foreign = [entry for entry in metadata.get("managedFields") or () if not managed_fields.by_manager(entry)]
    times = [str(entry["time"]) for entry in foreign if entry.get("time")]
    written = max(times, default=metadata.get("creationTimestamp"))
    return age(written, now) if written else None
