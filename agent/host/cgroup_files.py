"""Text of cgroup files as numbers, of both versions; and which file holds what. Pure."""

from dataclasses import dataclass
from typing import Final

from agent.host.procfs import MOST_BYTES, Malformed, number

FILES: Final[dict[str, dict[int, str]]] = {
    "cpu-usage": {1: "cpuacct.usage", 2: "cpu.stat"},
    "cpu-throttling": {1: "cpu.stat", 2: "cpu.stat"},
    "cpu-quota": {1: "cpu.cfs_quota_us", 2: "cpu.max"},
    "cpu-period": {1: "cpu.cfs_period_us", 2: "cpu.max"},
    "memory-stat": {1: "memory.stat", 2: "memory.stat"},
    "memory-usage": {1: "memory.usage_in_bytes", 2: "memory.current"},
    "memory-limit": {1: "memory.limit_in_bytes", 2: "memory.max"},
}
"""File name by metric and cgroup version. Pressure is in ``cpu.pressure`` and so on: with version 2, and
with version 1 of some distributions."""

UNLIMITED: Final = -1  # what a limit of `max` reads as
_V1_NO_LIMIT: Final = 0x7FFFFFFFFFFFF000
_MOST_DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class Throttling:
    """Periods, and throttled ones, of a cgroup's CPU quota."""

    periods: int  # quota periods in which it was active
    throttled: int  # those of them in which it was held back
    throttled_nanoseconds: int  # for how long [ns]


@dataclass(frozen=True, slots=True)
class MemoryStat:
    """The part of memory.stat that counts, descendants included."""

    inactive_anon: int
    active_anon: int
    unevictable: int
    inactive_file: int
    active_file: int

    @property
    def used_bytes(self) -> int:
        """Memory in use without page cache: inactive_anon + active_anon + unevictable."""
        return self.inactive_anon + self.active_anon + self.unevictable

    @property
    def used_with_page_cache_bytes(self) -> int:
        return self.used_bytes + self.active_file + self.inactive_file


_MEMORY_KEYS: Final = ("inactive_anon", "active_anon", "unevictable", "inactive_file", "active_file")


def cpu_usage_nanoseconds(text: str, version: int) -> int:
    """CPU time used since the cgroup was made [ns].

    From cpuacct.usage (version 1) or cpu.stat (version 2). Raises Malformed: the counter is not in the text.
    """
    if version == 1:
        return number(text.strip(), "cpuacct.usage")
    return _value(_pairs(text, "cpu.stat"), "usage_usec", "cpu.stat") * 1000


def throttling(text: str, version: int) -> Throttling:
    """Return how often the quota held the cgroup back, from cpu.stat.

    Raises Malformed: A counter is missing: version 2 has none where the cpu controller is not enabled.
    """
    return _throttling(_pairs(text, "cpu.stat"), version)


def cpu_counters(text: str) -> tuple[int, Throttling | None]:
    """CPU time used [ns] and throttling, both from cpu.stat of version 2; None where the kernel does not count it.

    Raises Malformed: A counter is missing.
    """
    pairs = _pairs(text, "cpu.stat")
    counted = _throttling(pairs, 2) if "nr_periods" in pairs else None
    return _value(pairs, "usage_usec", "cpu.stat") * 1000, counted


def memory_stat(text: str, version: int) -> MemoryStat:
    """Memory in use, from memory.stat; version 1 counts descendants in its ``total_`` keys.

    Raises Malformed: A key is missing, is more than can be, or any line is not a name and a number.
    """
    pairs = _pairs(text, "memory.stat")
    prefix = "total_" if version == 1 else ""
    result = {key: _value(pairs, prefix + key, "memory.stat") for key in _MEMORY_KEYS}
    if sum(result.values()) >= MOST_BYTES:
        raise Malformed(
            f"memory.stat: {max(result, key=result.__getitem__)} is more than any machine has, with the rest"
        )
    return MemoryStat(**result)


def high_events(text: str) -> int:
    """Return how often the cgroup, or one below it, exceeded memory.high, from memory.events.

    Raises Malformed: the counter is missing, or any line is not a name and a number.
    """
    return _value(_pairs(text, "memory.events"), "high", "memory.events")


def memory_bytes(text: str) -> int:
    """A single amount of memory; no limit reads as `UNLIMITED` [bytes]. Raises Malformed: it is no number."""
    text = text.strip()
    amount = UNLIMITED if text == "max" else number(text, "memory amount")
    return UNLIMITED if amount >= _V1_NO_LIMIT else amount


def cpu_quota_microseconds(text: str, version: int) -> int:
    """CPU quota per period, from cpu.cfs_quota_us or cpu.max; no limit reads as `UNLIMITED` [us].

    Raises Malformed: it is no number.
    """
    quota = text.strip() if version == 1 else _two(text)[0]
    return UNLIMITED if quota in ("max", "-1") else number(quota, "cpu quota")


def cpu_period_microseconds(text: str, version: int) -> int:
    """Length of the quota period, from cpu.cfs_period_us or cpu.max [us]. Raises Malformed: it is no number."""
    return number(text.strip() if version == 1 else _two(text)[1], "cpu period")


def throttled_ratio(before: Throttling, now: Throttling) -> float:
    """Share of the periods since the earlier reading in which the cgroup was held back; 0 if there was no period."""
    periods = now.periods - before.periods
    return (now.throttled - before.throttled) / periods if periods > 0 else 0.0


def cpu_cores(nanoseconds: float, elapsed_seconds: float) -> float:
    """Cores in use: CPU time / elapsed time."""
    return nanoseconds / (elapsed_seconds * 1e9)


def _throttling(pairs: dict[str, str], version: int) -> Throttling:
    name, factor = ("throttled_time", 1) if version == 1 else ("throttled_usec", 1000)
    periods, throttled, time = (_value(pairs, key, "cpu.stat") for key in ("nr_periods", "nr_throttled", name))
    return Throttling(periods, throttled, time * factor)


def _pairs(text: str, file: str) -> dict[str, str]:
    """Values by name, each of which is a number."""
    fields = text.split()
    values = fields[1::2]
    if len(fields) % 2 or not text.isascii() or not all(map(str.isdigit, values)):
        raise Malformed(f"{file} is not a list of names and numbers")
    return dict(zip(fields[::2], values, strict=True))


def _value(pairs: dict[str, str], key: str, file: str) -> int:
    text = pairs.get(key)
    if text is None:
        raise Malformed(f"{file} has no {key}")
    return int(text) if len(text) < _MOST_DIGITS else number(text, f"{key} in {file}")


def _two(text: str) -> tuple[str, str]:
    fields = text.split()
    if len(fields) != 2:  # noqa: PLR2004 - quota and period
        raise Malformed(f"cpu.max is {text.strip()[:40]!r}, not a quota and a period")
    return fields[0], fields[1]
