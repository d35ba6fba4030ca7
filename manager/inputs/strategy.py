"""The strategy of one node as a formula reads it."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from crds.colocation import DEFAULTS, ColocationStrategy
from manager.inputs.amounts import Amounts


@dataclass(frozen=True, slots=True)
class StrategyInputs:
    """The strategy of one node, nothing left open."""

    enabled: bool  # whether Mid is published at all
    shadow: bool  # whether everything is calculated and nothing published
    mid_policy: str  # reclaimable, design or designMixed
    floor: bool  # whether what running Mid pods request stays published
    static: bool  # whether a fixed share is published instead of the prediction
    threshold_percent: Amounts  # Mid never exceeds this share of allocatable [percent]
    static_percent: Amounts  # share of allocatable that static mode publishes [percent]
    unallocated_percent: int  # share of what no pod requested that is published, too [percent]
    degrade_seconds: int  # a report older than this counts as absent [s]
    update_seconds: int  # any difference at all is written after this time [s]
    diff_threshold: Fraction  # an increase above this share is written as soon as it has held [ratio]
    increase_hold_seconds: int  # how long an increase must hold [s]

    @classmethod
    def of(cls, strategy: ColocationStrategy) -> Self:
        """Complete a strategy with the built-in defaults."""

        def get(name: str) -> Any:  # noqa: ANN401 - fields of several types
            value = getattr(strategy, name)
            return getattr(DEFAULTS, name) if value is None else value

        return cls(
            enabled=get("enable"),
            shadow=get("mode") == "shadow",
            mid_policy=get("mid_policy"),
            floor=get("mid_shrink_policy") == "floor",
            static=get("mid_reclaim_mode") == "static",
            threshold_percent=Amounts(get("mid_cpu_threshold_percent"), get("mid_memory_threshold_percent")),
            static_percent=Amounts(get("mid_static_cpu_reserved_percent"), get("mid_static_memory_reserved_percent")),
            unallocated_percent=get("mid_unallocated_percent"),
            degrade_seconds=get("degrade_time_minutes") * 60,
            update_seconds=get("update_time_threshold_seconds"),
            diff_threshold=Fraction(str(get("resource_diff_threshold"))),
            increase_hold_seconds=get("mid_increase_hold_seconds"),
        )
