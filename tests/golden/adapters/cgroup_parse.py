"""cgroup_parse: names of cgroups, contents of their files, and the rates computed from them."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from agent.host import cgroup_files, cgroup_names, procfs
from agent.host.procfs import Malformed
from agent.host.rates import Gap, Rates
from tests.golden.results import UnsupportedVectorError

_MEMINFO_NAMES: Final = {
    "Active(anon)": "ActiveAnon",
    "Active(file)": "ActiveFile",
    "Inactive(anon)": "InactiveAnon",
    "Inactive(file)": "InactiveFile",
}


def _pod_cgroup_dir(vector: dict[str, Any]) -> dict[str, Any]:
    return {"path": cgroup_names.pod_dir(vector["driver"], vector["kubeQOSClass"], vector["podUID"])}


def _qos_cgroup_dir(vector: dict[str, Any]) -> dict[str, Any]:
    return {"path": cgroup_names.qos_dir(vector["driver"], vector["kubeQOSClass"])}


def _container_name(vector: Mapping[str, Any]) -> str | None:
    try:
        return cgroup_names.container_name(vector["containerID"], vector["driver"])
    except ValueError:
        return None


def _container_dir(vector: dict[str, Any]) -> dict[str, Any]:
    name = _container_name(vector)
    runtime = vector["containerID"].partition("://")[0] if name else "unknown"
    return {"dir": name or "", "error": name is None, "runtime": runtime}


def _container_cgroup_dir(vector: dict[str, Any]) -> dict[str, Any]:
    name = _container_name(vector)
    path = "" if name is None else _joined(vector["podParentDir"], name)
    return {"path": path, "error": name is None}


def _joined(*parts: str) -> str:
    """A path of parts; only the first may begin with a slash."""
    first, *rest = (part.rstrip("/") for part in parts if part)
    return "/".join([first, *(part.lstrip("/") for part in rest)])


def _place(file: str, version: int) -> tuple[str, str]:
    """Hierarchy and file of the cgroup version, for a file that is named as in version 1."""
    pressure = [f"{resource}-pressure" for resource in ("cpu", "memory", "io")]
    result = next((what for what in (*cgroup_files.FILES, *pressure) if place(what, 1)[1] == file), None)
    if result is None:
        raise UnsupportedVectorError(f"we do not read {file}")
    return place(result, version)


def _pod_cgroup_file(vector: dict[str, Any]) -> dict[str, Any]:
    hierarchy, file = _place(vector["resource"], vector["cgroupVersion"])
    folder = cgroup_names.pod_dir(vector["driver"], vector["kubeQOSClass"], vector["podUID"])
    return {"path": _joined(vector["cgroupRoot"], hierarchy, folder, file)}


def _container_cgroup_file(vector: dict[str, Any]) -> dict[str, Any]:
    hierarchy, file = _place(vector["resource"], vector["cgroupVersion"])
    name = _container_name(vector)
    if name is None:
        return {"path": "", "error": True}
    return {"path": _joined(vector["cgroupRoot"], hierarchy, vector["podParentDir"], name, file), "error": False}


def _throttling(text: str, version: int) -> dict[str, Any]:
    result = cgroup_files.throttling(text, version)
    return {
        "nrPeriods": result.periods,
        "nrThrottled": result.throttled,
        "throttledNanoseconds": result.throttled_nanoseconds,
    }


def _cpu_stat(text: str, version: int) -> dict[str, Any]:
    result = cgroup_files.throttling(text, version)
    return {
        "usageUsec": cgroup_files.cpu_usage_nanoseconds(text, version) // 1000,
        "nrPeriods": result.periods,
        "nrThrottled": result.throttled,
        "throttledUsec": result.throttled_nanoseconds // 1000,
    }


def _memory_stat(text: str, version: int) -> dict[str, Any]:
    result = cgroup_files.memory_stat(text, version)
    return {
        "inactiveAnon": result.inactive_anon,
        "activeAnon": result.active_anon,
        "unevictable": result.unevictable,
        "inactiveFile": result.inactive_file,
        "activeFile": result.active_file,
        "usage": result.used_bytes,
        "usageWithPageCache": result.used_with_page_cache_bytes,
    }


def _memory_bytes(text: str, _version: int) -> int:
    return cgroup_files.memory_bytes(text)


_CONTENTS: Final[Mapping[str, tuple[str, Callable[[str, int], Any]]]] = {
    "cpuQuotaMicroseconds": ("cpu-quota", cgroup_files.cpu_quota_microseconds),
    "cpuPeriodMicroseconds": ("cpu-period", cgroup_files.cpu_period_microseconds),
    "cpuUsageNanoseconds": ("cpu-usage", cgroup_files.cpu_usage_nanoseconds),
    "cpuThrottling": ("cpu-throttling", _throttling),
    "memoryUsageBytes": ("memory-usage", _memory_bytes),
    "memoryLimitBytes": ("memory-limit", _memory_bytes),
    "memoryStat": ("memory-stat", _memory_stat),
}
"""Resource of the `read` operation -> our name, and its parser."""


def _read(vector: dict[str, Any]) -> dict[str, Any]:
    if vector["resource"] == "psiAvg10":
        return _pressure(vector)
    if vector["resource"] not in _CONTENTS:
        raise UnsupportedVectorError(f"we do not read {vector['resource']}")
    what, parse = _CONTENTS[vector["resource"]]
    return _parsed(parse, _file(vector, what), vector["cgroupVersion"])


_OF_CPU: Final = frozenset({"cpu-throttling", "cpu-quota", "cpu-period"})


def place(what: str, version: int) -> tuple[str, str]:
    """Hierarchy (of version 1 only) and name of a file of a cgroup."""
    resource, _, kind = what.partition("-")
    file = f"{resource}.pressure" if kind == "pressure" else cgroup_files.FILES[what][version]
    first = "memory" if what.startswith("memory") and kind != "pressure" else "cpuacct"
    return ("cpu" if what in _OF_CPU else first) if version == 1 else "", file


def _file(vector: Mapping[str, Any], what: str) -> str | None:
    hierarchy, file = place(what, vector["cgroupVersion"])
    path = _joined(*(part for part in (hierarchy, vector["parentDir"], file) if part)).lstrip("/")
    text: str | None = vector["files"].get(path)
    return text


def _pressure(vector: Mapping[str, Any]) -> dict[str, Any]:
    """Stall times of tasks, by resource: the source of pressure."""
    result = {
        name: _parsed(lambda text, _: procfs.pressure_totals(text), _file(vector, f"{name}-pressure"), 0)
        for name in ("cpu", "memory", "io")
    }
    if any(entry["error"] for entry in result.values()):
        return {"error": True, "value": None}
    return {"error": False, "value": {name: one["value"] for name, one in result.items()}}


def _parsed(parse: Callable[[str, int], Any], text: str | None, version: int) -> dict[str, Any]:
    if text is None:  # the file is not there
        return {"error": True, "value": None}
    try:
        return {"error": False, "value": parse(text, version)}
    except Malformed:
        return {"error": True, "value": None}


_FIELDS: Final[Mapping[tuple[str, str | None], Callable[[str, int], Any]]] = {
    ("cpu.max", "quota"): cgroup_files.cpu_quota_microseconds,
    ("cpu.max", "period"): cgroup_files.cpu_period_microseconds,
    ("cpu.stat", "usageNanoseconds"): cgroup_files.cpu_usage_nanoseconds,
    ("cpu.stat", "throttling"): _throttling,
    ("cpu.stat", "all"): _cpu_stat,
    ("cpu.stat", None): _throttling,
    ("memory.stat", None): _memory_stat,
    ("memory.max", None): _memory_bytes,
    ("memory.current", None): _memory_bytes,
    ("memory.limit_in_bytes", None): _memory_bytes,
    ("memory.usage_in_bytes", None): _memory_bytes,
    ("cpu.cfs_quota_us", None): cgroup_files.cpu_quota_microseconds,
    ("cpu.cfs_period_us", None): cgroup_files.cpu_period_microseconds,
    ("cpuacct.usage", None): cgroup_files.cpu_usage_nanoseconds,
}
"""File and field of the `parse` operation -> its parser."""


def _parse(vector: dict[str, Any]) -> dict[str, Any]:
    parse = _FIELDS.get((vector["file"], vector.get("field")))
    if parse is None:
        raise UnsupportedVectorError(f"we do not parse {vector.get('field') or 'all'} of {vector['file']}")
    return _parsed(parse, vector["content"], vector["cgroupVersion"])


def _meminfo(vector: dict[str, Any]) -> dict[str, Any]:
    if vector["content"] is None:  # the file is not there
        return {"error": True, "value": None}
    try:
        result, amounts = procfs.meminfo(vector["content"]), procfs.meminfo_kilobytes(vector["content"])
    except Malformed:
        return {"error": True, "value": None}
    named = {_MEMINFO_NAMES.get(name, name): amount for name, amount in amounts.items()}
    used = {
        "memTotalBytes": result.total_bytes,
        "usageBytes": result.used_bytes,
        "usageWithPageCacheBytes": result.used_with_page_cache_bytes,
    }
    return {"error": False, "value": {**named, **used}}


def _proc_stat(ticks: Callable[[str], Any], vector: Mapping[str, Any]) -> Any:  # noqa: ANN401
    try:
        return None if vector["content"] is None else ticks(vector["content"])
    except Malformed:
        return None


def _proc_stat_usage_ticks(vector: dict[str, Any]) -> dict[str, Any]:
    ticks = _proc_stat(procfs.busy_ticks, vector)
    return {"error": ticks is None, "ticks": ticks}


def _proc_stat_per_cpu_ticks(vector: dict[str, Any]) -> dict[str, Any]:
    ticks = _proc_stat(procfs.busy_ticks_per_cpu, vector)
    return {
        "error": ticks is None,
        "ticks": None if ticks is None else {str(number): busy for number, busy in ticks.items()},
    }


def rate_of(before: float | None, now: float, elapsed_seconds: float) -> float | Gap:
    """The counter's growth per second, by our own rates."""
    rates = Rates(longest_seconds=math.inf, shortest_seconds=0.0)
    if before is not None:
        rates.rate("counter", before, 0.0)
    return rates.rate("counter", now, elapsed_seconds)


def _node_cpu_usage(vector: dict[str, Any]) -> dict[str, Any]:
    grown = rate_of(vector["previousTicks"], vector["currentTicks"], vector["elapsedMilliseconds"] / 1000)
    if isinstance(grown, Gap):
        return {"cores": None}
    return {"cores": procfs.node_cpu_cores(grown, 1.0, 1000 / vector["jiffyMilliseconds"])}


def _pod_cpu_usage(vector: dict[str, Any]) -> dict[str, Any]:
    before, now = vector["previousUsageNanoseconds"], vector["currentUsageNanoseconds"]
    grown = rate_of(before, now, vector["elapsedMilliseconds"] / 1000)
    return {"cores": None if isinstance(grown, Gap) else cgroup_files.cpu_cores(grown, 1.0)}


def _throttled_ratio(vector: dict[str, Any]) -> dict[str, Any]:
    before, now = (
        cgroup_files.Throttling(vector[which]["nrPeriods"], vector[which]["nrThrottled"], 0)
        for which in ("previous", "current")
    )
    return {"ratio": cgroup_files.throttled_ratio(before, now)}


def _detect_driver_from_cgroup_name(vector: dict[str, Any]) -> dict[str, Any]:
    return {"driver": cgroup_names.driver_of(path.rstrip("/").rsplit("/", 1)[-1] for path in vector["dirs"]) or ""}


def _parse_pod_id(vector: dict[str, Any]) -> dict[str, Any]:
    result = cgroup_names.pod_uid(vector["basename"], vector["driver"])
    return {"error": result is None, "id": result}


def _parse_container_id(vector: dict[str, Any]) -> dict[str, Any]:
    result = cgroup_names.container_id(vector["basename"], vector["driver"])
    return {"error": result is None, "id": result}
