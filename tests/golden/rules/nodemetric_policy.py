"""Rules for `nodemetric_policy.json`."""

from typing import Final

from tests.golden.rules.rule import INTERNALS, Input, OutOfScope, Rule


def _counts_hot_pages(vector: Input) -> bool:
    policy = vector.get("memoryCollectPolicy")
    collect = (vector.get("nodeMetricSpec") or {}).get("metricCollectPolicy") or {}
    return "usageWithHotPageCache" in (policy, collect.get("nodeMemoryCollectPolicy"))


RULES: Final[tuple[Rule, ...]] = (
    OutOfScope("nodemetric_policy", ("node_event", "reconcile_nodemetric", "init_nodemetric"), INTERNALS),
    OutOfScope("nodemetric_policy", ("agent_query_window",), "hot page accounting is left out", when=_counts_hot_pages),
)
"""Its rules, those about scope first."""
