"""Rules for `nodemetric_report.json`."""

from typing import Final

from tests.golden.rules.rule import INTERNALS, Deviation, Input, OutOfScope, Rule


def _counts_hot_pages(vector: Input) -> bool:
    policy = vector.get("memoryCollectPolicy")
    collect = (vector.get("nodeMetricSpec") or {}).get("metricCollectPolicy") or {}
    return "usageWithHotPageCache" in (policy, collect.get("nodeMemoryCollectPolicy"))


def _is_no_sample_list(vector: Input) -> bool:
    values = vector.get("values")
    return not isinstance(values, list) or not values or not all(isinstance(value, int | float) for value in values)


RULES: Final[tuple[Rule, ...]] = (
    OutOfScope("nodemetric_report", ("collect_host_app",), "host applications are left out"),
    OutOfScope(
        "nodemetric_report",
        ("collect_numa", "system_numa_usage", "numa_memory", "numa_cpu"),
        "NUMA is left out",
    ),
    OutOfScope("nodemetric_report", ("collect_node_gpu",), "GPUs are left out"),
    OutOfScope("nodemetric_report", ("pod_filter", "sync"), INTERNALS),
    OutOfScope(
        "nodemetric_report",
        ("collect_node", "collect_pod"),
        "hot page accounting is left out",
        when=_counts_hot_pages,
    ),
    Deviation(
        "nodemetric_report",
        ("percentile",),
        "an error carries no value: a 0 could be taken for a measurement",
        ours=lambda _input, _theirs: {"error": True},
        when=_is_no_sample_list,
    ),
)
"""Its rules, those about scope first."""
