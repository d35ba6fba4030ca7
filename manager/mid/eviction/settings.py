"""`midEviction` of one node."""

from dataclasses import dataclass
from typing import Self

from crds.colocation import DEFAULTS, ColocationStrategy


@dataclass(frozen=True, slots=True)
class EvictionSettings:
    """`midEviction` in force on a node, nothing left open."""

    mode: str
    """off, dry-run or on."""
    after_seconds: int
    """How long a shortage must last. [s]"""
    per_node: int
    """Evictions on one node; 0 means none. [1/min]"""
    per_cluster: int
    """Evictions in the cluster; 0 means none. [1/min]"""
    window_seconds: int
    """Of how much time a report's usage is the mean. [s]"""

    @classmethod
    def of(cls, strategy: ColocationStrategy) -> Self:
        """Complete a strategy with the built-in defaults."""

        def get(name: str) -> int:
            own = getattr(strategy.mid_eviction, name, None)
            return int(getattr(DEFAULTS.mid_eviction, name) if own is None else own)

        own, default = strategy.mid_eviction, DEFAULTS.mid_eviction
        window = strategy.metric_aggregate_duration_seconds or DEFAULTS.metric_aggregate_duration_seconds or 0
        return cls(
            mode=(own and own.mode) or (default and default.mode) or "dry-run",
            after_seconds=get("after_seconds"),
            per_node=get("max_per_node_per_minute"),
            per_cluster=get("max_per_minute"),
            window_seconds=window,
        )
