"""Rules for `nodemetric_report.json`."""

import pkgutil
from typing import Any, Final

from tests.golden.adapters import FAMILIES, Adapter
from tests.golden.rules.rule import INTERNALS, Deviation, Input, OutOfScope, Rule


def _counts_hot_pages(vector: Input) -> bool:
    policy = vector.get("memoryCollectPolicy")
    collect = (vector.get("nodeMetricSpec") or {}).get("metricCollectPolicy") or {}
    return "usageWithHotPageCache" in (policy, collect.get("nodeMemoryCollectPolicy"))


def _is_no_sample_list(vector: Input) -> bool:
    values = vector.get("values")
    return not isinstance(values, list) or not values or not all(isinstance(value, int | float) for value in values)


def _without_memory(_input: Input, theirs: Any) -> Any:  # noqa: ANN401
    return {name: value for name, value in theirs.items() if not name.startswith("memory")}


def _minus_applications(vector: Input, theirs: Any) -> Any:  # noqa: ANN401
    """What we answer to the same node without host applications; nothing where something else is missing, too."""
    others = [vector["node"], *vector["pods"].values()]
    if any(part is None or part["ageSeconds"] > vector["outdatedIntervalSeconds"] for part in others):
        return theirs
    adapter: Adapter = pkgutil.resolve_name(FAMILIES["nodemetric_report"])["system_usage"]
    return adapter({**vector, "hostApps": {"cpu": 0, "memory": 0, "ageSeconds": 0}})


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
    Deviation(
        "nodemetric_report",
        ("system_usage",),
        "host applications are left out: their collector stops nothing, what they use is the system's",
        ours=_minus_applications,
    ),
    Deviation(
        "nodemetric_report",
        ("node_collect",),
        "memory is no rate: it is known from the first reading on",
        ours=_without_memory,
        when=lambda vector: vector["previousTicks"] is None,
    ),
    Deviation(
        "nodemetric_report",
        ("pod_collect",),
        "memory is no rate: it is known from the first reading on",
        ours=_without_memory,
        when=lambda vector: vector["previousUsageNanoseconds"] is None,
    ),
)
"""Its rules, those about scope first."""
