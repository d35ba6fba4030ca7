"""The load of a node beside the thresholds of `hotNodes`. Pure.

    percent = round(usage / allocatable * 100), rounded as LoadAwareScheduling rounds it
    hot     = percent > threshold, of any checked resource
    cool    = percent <= max(threshold - margin, threshold / 2), of every checked resource

With thresholds of 65 % CPU and 95 % memory and a margin of 10, a node is hot at 66 % CPU and cool at 55 % CPU and 85 %
memory. A resource without a measurement counts as cool.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from crds.colocation import DEFAULTS, ColocationStrategy
from crds.names import TAINT_HOT
from manager.inputs import Amounts, NodeInputs, Resource
from manager.inputs.reading import get_objects

OFF: Final = "off"
DRY_RUN: Final = "dryRun"
EFFECTS: Final[Mapping[str, str]] = {"prefer": "PreferNoSchedule", "noSchedule": "NoSchedule"}
"""Mode -> effect of the taint; the other modes set none."""
_PEAK: Final = "peak"


def effects_on(node: Mapping[str, Any]) -> str:
    """Return the effect of the taint on a Node, or its effects; empty where it has none."""
    taints = get_objects(node, "spec", "taints")
    return "+".join(sorted(str(taint.get("effect")) for taint in taints if taint.get("key") == TAINT_HOT))


@dataclass(frozen=True, slots=True)
class HotSettings:
    """`hotNodes` in force on a node, nothing left open."""

    mode: str = OFF  # off, dryRun, prefer or noSchedule
    peak: bool = False  # whether the predicted peak counts beside the usage
    thresholds: Amounts = Amounts(65, 95)  # noqa: RUF009 - a frozen value [percent]
    margin_percent: int = 10
    after_seconds: int = 300  # how long reports must show the node hot [s]
    max_nodes_percent: int = 20
    per_minute: int = 10  # new taints in the cluster; 0 means none [1/min]

    @classmethod
    def of(cls, strategy: ColocationStrategy) -> Self:
        """Complete a strategy with the built-in defaults."""

        def get(name: str) -> Any:  # noqa: ANN401 - fields of several types
            value = getattr(strategy.hot_nodes, name, None)
            return getattr(DEFAULTS.hot_nodes, name) if value is None else value

        return cls(
            mode=get("mode"),
            peak=get("measure") == _PEAK,
            thresholds=Amounts(get("cpu_threshold_percent"), get("memory_threshold_percent")),
            margin_percent=get("margin_percent"),
            after_seconds=get("after_seconds"),
            max_nodes_percent=get("max_nodes_percent"),
            per_minute=get("max_per_minute"),
        )

    @property
    def effect(self) -> str:
        """The effect of the taint; empty where the mode sets none."""
        return EFFECTS.get(self.mode, "")

    @property
    def checked(self) -> tuple[Resource, ...]:
        return tuple(resource for resource in Resource if self.thresholds[resource])

    def lower(self, resource: Resource) -> int:
        """The percentage up to which a node is cool: a margin above the threshold must not keep the taint forever."""
        threshold = self.thresholds[resource]
        return max(threshold - self.margin_percent, threshold // 2)


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a node by its last report."""

    settings: HotSettings
    percents: Mapping[Resource, int] = field(default_factory=dict)  # of the checked resources with a measurement
    unusable: str = ""  # why there is no usable report; empty where there is one
    expires_in: float | None = None  # in how many seconds the report has expired, if no new one arrives [s]

    @classmethod
    def of(cls, inputs: NodeInputs, settings: HotSettings) -> Self:
        """Evaluate a report; one that is exactly `degradeTimeMinutes` old still counts."""
        limit, age, report = inputs.strategy.degrade_seconds, inputs.report_age, inputs.report
        if report is None or age is None:
            return cls(settings, unusable="there is no report")
        if age > limit:
            return cls(settings, unusable=f"the report is older than degradeTimeMinutes ({limit // 60})")
        if not report.collecting:
            return cls(settings, unusable="the agent does not measure this node (condition Collecting)")
        percents = {resource: _percent(inputs, settings, resource) for resource in settings.checked}
        measured = {resource: percent for resource, percent in percents.items() if percent is not None}
        return cls(settings, measured, expires_in=limit - age + 1.0)

    @property
    def heat(self) -> int:
        """The distance of the hottest resource above its threshold; negative below it. [percentage points]"""
        return max((percent - self.settings.thresholds[each] for each, percent in self.percents.items()), default=-100)

    @property
    def hot(self) -> bool:
        return self.heat > 0

    @property
    def cool(self) -> bool:
        return all(percent <= self.settings.lower(resource) for resource, percent in self.percents.items())


def _percent(inputs: NodeInputs, settings: HotSettings, resource: Resource) -> int | None:
    measured, allocatable = _measured(inputs, settings, resource), inputs.allocatable[resource]
    return math.floor(measured / allocatable * 100 + 0.5) if measured is not None and allocatable else None


def _measured(inputs: NodeInputs, settings: HotSettings, resource: Resource) -> int | None:
    """The usage of a node or, where the settings count it and it is fresh, the predicted peak if that is larger."""
    report, age = inputs.report, inputs.prediction_age
    usage = None if report is None else report.node_usage[resource]
    if report is None or usage is None or not settings.peak:
        return usage
    fresh = age is not None and age <= inputs.strategy.degrade_seconds and report.prediction_ready
    return max(usage, report.prod_peak[resource] or 0) if fresh else usage
