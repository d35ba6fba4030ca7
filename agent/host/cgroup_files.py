"""Text of cgroup files as numbers, of both versions; and which file holds what. Pure."""

from dataclasses import dataclass
from typing import Final

from agent.host.procfs import MOST_BYTES, Malformed, number

FILES: Final[dict[str, dict[int, str]]] = {
    "cpu-usage": {1: "cpuacct.usage", 2: "cpu.stat"},
    "cpu-throttling": {1: "cpu.stat", 2: "cpu.stat"},
    "memory-stat": {1: "memory.stat", 2: "memory.stat"},
    "memory-usage": {1: "memory.usage_in_bytes", 2: "memory.current"},
}
"""File name by what is wanted and the cgroup version. Pressure is in ``cpu.pressure`` and so on: with version 2, and
with version 1 of some distributions."""

_MOST_DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class Throttling:
    """How often a cgroup was held back by its CPU quota."""

    periods: int  # quota periods in which it was active
    throttled: int  # those of them in which it was held back


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
        """The same plus active_file + inactive_file."""
        return self.used_bytes + self.active_file + self.inactive_file


_MEMORY_KEYS: Final = ("inactive_anon", "active_anon", "unevictable", "inactive_file", "active_file")


def cpu_usage_nanoseconds(text: str, version: int) -> int:
    """CPU time used since the cgroup was made [ns].

    From cpuacct.usage (version 1) or cpu.stat (version 2). Raises Malformed: the counter is not in the text.
    """
    if version == 1:
        return number(text.strip(), "cpuacct.usage")
    return _value(_pairs(text, "cpu.stat"), "usage_usec", "cpu.stat") * 1000


def throttling(text: str) -> Throttling:
    """How often the quota held the cgroup back, from cpu.stat.

    Raises Malformed: a counter is missing: version 2 has none where the cpu controller is not enabled.
    """
    return _throttling(_pairs(text, "cpu.stat"))


def cpu_counters(text: str) -> tuple[int, Throttling | None]:
    """CPU time used [ns] and throttling, both from cpu.stat of version 2; None where the kernel does not count it.

    Raises Malformed: A counter is missing.
    """
    pairs = _pairs(text, "cpu.stat")
    counted = _throttling(pairs) if "nr_periods" in pairs else None
    return _value(pairs, "usage_usec", "cpu.stat") * 1000, counted


def memory_stat(text: str, version: int) -> MemoryStat:
    """Memory in use, from memory.stat; version 1 counts descendants in its ``total_`` keys.

    Raises Malformed: A key is missing, is more than can be, or any line is not a name and a number.
    """
    pairs = _pairs(text, "memory.stat")
    prefix = "total_" if version == 1 else ""
    found = {key: _value(pairs, prefix + key, "memory.stat") for key in _MEMORY_KEYS}
    if sum(found.values()) >= MOST_BYTES:
        raise Malformed(f"memory.stat: {max(found, key=found.__getitem__)} is more than any machine has, with the rest")
    return MemoryStat(**found)


def throttled_ratio(before: Throttling, now: Throttling) -> float:
    """Share of the periods since the earlier reading in which the cgroup was held back; 0 if there was no period."""
    periods = now.periods - before.periods
    return (now.throttled - before.throttled) / periods if periods > 0 else 0.0


def cpu_cores(nanoseconds: float, elapsed_seconds: float) -> float:
    """Cores in use: CPU time / elapsed time."""
    return nanoseconds / (elapsed_seconds * 1e9)


def _throttling(pairs: dict[str, str]) -> Throttling:
    return Throttling(_value(pairs, "nr_periods", "cpu.stat"), _value(pairs, "nr_throttled", "cpu.stat"))


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
