"""Rules for `nodemetric_report.json`."""

import pkgutil
from typing import Any, Final

from agent.host import cgroup_files, procfs
from agent.host.procfs import Malformed
from tests.golden.adapters import FAMILIES, Adapter
from tests.golden.rules.rule import INTERNALS, Deviation, Input, OutOfScope, Rule


def _counts_hot_pages(vector: Input) -> bool:
    policy = vector.get("memoryCollectPolicy")
    collect = (vector.get("nodeMetricSpec") or {}).get("metricCollectPolicy") or {}
    return "usageWithHotPageCache" in (policy, collect.get("nodeMemoryCollectPolicy"))


def _is_no_sample_list(vector: Input) -> bool:
    values = vector.get("values")
    return not isinstance(values, list) or not values or not all(isinstance(value, int | float) for value in values)


def _content(vector: Input, what: str) -> str | None:
    """What a file of a pod's cgroup says; None when it is not there."""
    hierarchy, file = cgroup_files.FILES[what][vector["cgroupVersion"]]
    path = "/".join(part.strip("/") for part in (hierarchy, vector["podCgroupDir"], file) if part)
    text: str | None = vector["files"].get(path)
    return text


def _pod_nanoseconds(vector: Input) -> int | None:
    try:
        return cgroup_files.cpu_usage_nanoseconds(_content(vector, "cpu-usage") or "", vector["cgroupVersion"])
    except Malformed:
        return None


def _has_memory(vector: Input) -> bool:
    try:
        cgroup_files.memory_stat(_content(vector, "memory-stat") or "", vector["cgroupVersion"])
    except Malformed:
        return False
    return True


def _is_partial(vector: Input) -> bool:
    """Whether one file can be used and the other cannot, or the peer misses in memory.stat what we do not need."""
    words = set((_content(vector, "memory-stat") or "").split())
    whole = words >= ({"total_cache", "total_rss"} if vector["cgroupVersion"] == 1 else {"file", "anon"})
    has_cpu, has_memory = _pod_nanoseconds(vector) is not None, _has_memory(vector)
    return has_cpu != has_memory or (has_memory and not whole)


def _gap_alone(vector: Input, _theirs: Any) -> Any:  # noqa: ANN401
    cpu = {"cpu": None} if _pod_nanoseconds(vector) is None else {}
    return cpu if _has_memory(vector) else {**cpu, "memory": None, "memoryWithPageCache": None}


def _pod_fell(vector: Input) -> bool:
    before, now = vector["previousUsageNanoseconds"], _pod_nanoseconds(vector)
    return before is not None and now is not None and now < before


def _node_fell(vector: Input) -> bool:
    try:
        now = procfs.busy_ticks(vector["procStat"] or "")
    except Malformed:
        return False
    return vector["previousTicks"] is not None and now < vector["previousTicks"]


def _without_memory(_input: Input, theirs: Any) -> Any:  # noqa: ANN401
    return {name: value for name, value in theirs.items() if not name.startswith("memory")}


def _minus_applications(vector: Input, theirs: Any) -> Any:  # noqa: ANN401
    """What we answer to the same node without host applications; nothing where something else is missing, too."""
    others = [vector["node"], *(vector["pods"] or {}).values()]
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
        ("collect_pod",),
        "a pod that ended uses nothing and is not reported",
        ours=lambda _input, _theirs: {"error": True, "podMetric": None},
        when=lambda vector: vector["pod"].get("phase") in ("Succeeded", "Failed"),
    ),
    Deviation(
        "nodemetric_report",
        ("node_collect",),
        "a counter that fell is a gap: no rate",
        ours=lambda _input, theirs: {**theirs, "cpu": None, "collected": False},
        when=_node_fell,
    ),
    Deviation(
        "nodemetric_report",
        ("pod_collect",),
        "a counter that fell is a gap: no rate",
        ours=lambda _input, theirs: {**theirs, "cpu": None},
        when=_pod_fell,
    ),
    Deviation(
        "nodemetric_report",
        ("pod_collect",),
        "a file that cannot be used takes nothing with it that another one says",
        ours=_gap_alone,
        when=_is_partial,
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
