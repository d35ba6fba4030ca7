"""Text of /proc files as numbers. Pure."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_BUSY: Final = (1, 2, 3, 6, 7)  # user, nice, system, irq, softirq; not idle, iowait, steal, guest
_PRESSURE: Final = re.compile(
    r"(some|full) avg10=\d+(?:\.\d+)? avg60=\d+(?:\.\d+)? avg300=\d+(?:\.\d+)? total=(\d+)", re.ASCII
)
_MOST_DIGITS: Final = 20
_MOST: Final = 1 << 64
MOST_BYTES: Final = 1 << 53
"""More memory than this no machine has (8 PiB): a counter that wrapped around, or another file. [bytes]"""

_SAME_MACHINE: Final = 0.9  # MemTotal of this share of ZFS's memory_all_bytes, which is MemTotal of its machine
ARCSTATS: Final = "spl/kstat/zfs/arcstats"
"""File of /proc with the size of ZFS's cache, the ARC."""


class Malformed(ValueError):  # noqa: N818 - the state of the file
    """A kernel file with unexpected content: a short read, or another file. The message names the missing part."""


@dataclass(frozen=True, slots=True)
class HostPaths:
    """Roots of the two file systems that describe a machine."""

    proc: Path  # the machine's /proc
    cgroup: Path  # the machine's /sys/fs/cgroup

    @classmethod
    def under(cls, root: Path | str) -> Self:
        """The usual places below a root: ``/`` for this machine, a mount point or a recorded tree for another."""
        return cls(proc=Path(root) / "proc", cgroup=Path(root) / "sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class MemInfo:
    """The fields of /proc/meminfo for the whole machine."""

    total_bytes: int  # MemTotal
    free_bytes: int  # MemFree
    available_bytes: int  # MemAvailable
    huge_pages_bytes: int  # pools of huge pages, which kubelet takes out of allocatable memory
    arc_bytes: int  # the part of ZFS's cache above its minimum, which ZFS frees on demand; not in MemAvailable

    @property
    def used_bytes(self) -> int:
        """Memory in use without page cache: total - pools of huge pages - ARC above its minimum - available."""
        return max(self.total_bytes - self.huge_pages_bytes - self.arc_bytes - self.available_bytes, 0)

    @property
    def used_with_page_cache_bytes(self) -> int:
        """Memory in use with page cache: total - pools of huge pages - ARC above its minimum - free."""
        return max(self.total_bytes - self.huge_pages_bytes - self.arc_bytes - self.free_bytes, 0)


def number(text: str, what: str) -> int:
    """A count as the kernel writes it: decimal digits, below 2^64. Raises Malformed: it is anything else."""
    if text.isdigit() and text.isascii() and len(text) <= _MOST_DIGITS and (count := int(text)) < _MOST:
        return count
    raise Malformed(f"{what} is {text[:40]!r}, not a number")


def busy_ticks(stat: str) -> int:
    """Ticks in which the machine's CPUs worked: user + nice + system + irq + softirq of the line ``cpu``.

    Raises Malformed: there is no complete ``cpu`` line.
    """
    line = stat if stat.startswith("cpu ") else stat[stat.find("\ncpu ") + 1 :]
    return _busy(line.split("\n", 1)[0].split(), "cpu")


def busy_ticks_per_cpu(stat: str) -> dict[int, int]:
    """The same for each CPU by number. Raises Malformed: there is no complete line of any CPU."""
    lines = [line.split() for line in stat.splitlines() if line.startswith("cpu") and line[3:4].isdigit()]
    if not lines:
        raise Malformed("/proc/stat has no line of a CPU")
    return {number(fields[0][3:], "number of a CPU in /proc/stat"): _busy(fields, fields[0]) for fields in lines}


def cpu_count(stat: str) -> int:
    """CPUs that are online: the lines ``cpu0`` and so on."""
    return sum(line.startswith("cpu") and line[3:4].isdigit() for line in stat.splitlines())


def meminfo_kilobytes(text: str) -> dict[str, int]:
    """Every line of /proc/meminfo that is an amount [kB]. Raises Malformed: A line has no number."""
    amounts = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        digits, _, unit = rest.strip().partition(" ")
        amount = number(digits, f"/proc/meminfo: {name[:40] or 'a line'}")
        if unit == "kB":
            amounts[name] = amount
    return amounts


def meminfo(text: str, arcstats: str | None = None) -> MemInfo:
    """The machine's memory; `arcstats` is ZFS's file, None without ZFS.

    Raises Malformed: A line that we need is missing, or a part exceeds the total.
    """
    amounts = meminfo_kilobytes(text)
    missing = [name for name in ("MemTotal", "MemFree", "MemAvailable") if name not in amounts]
    if missing:
        raise Malformed(f"/proc/meminfo has no {', '.join(missing)}")
    if "Hugetlb" not in amounts:  # the pools of all sizes, since Linux 4.17; before, only the default size is listed
        pages = re.search(r"^HugePages_Total:\s*(\S+)$", text, flags=re.MULTILINE)
        count = number(pages[1], "/proc/meminfo: HugePages_Total") if pages else 0
        amounts["Hugetlb"] = count * amounts.get("Hugepagesize", 0)
    arc = 0 if arcstats is None or _is_of_host(arcstats, amounts["MemTotal"]) else arc_above_minimum_bytes(arcstats)
    sizes = (amounts[name] * 1024 for name in ("MemTotal", "MemFree", "MemAvailable", "Hugetlb"))
    result = MemInfo(*(*sizes, arc))
    parts = (result.free_bytes, result.available_bytes, result.huge_pages_bytes, result.arc_bytes)
    if max(parts) > result.total_bytes or result.total_bytes > MOST_BYTES:
        raise Malformed("/proc/meminfo has more free than total memory, or an impossible total")
    return result


def _is_of_host(arcstats: str, total_kilobytes: int) -> bool:
    """Return whether the ARC is of a larger machine: lxcfs gives system containers (LXC) a MemTotal of their own."""
    whole = re.search(r"^memory_all_bytes\s+\d+\s+(\S+)$", arcstats, flags=re.MULTILINE)
    size = number(whole[1], "ZFS's arcstats: memory_all_bytes") if whole else 0
    return total_kilobytes * 1024 < size * _SAME_MACHINE


def arc_above_minimum_bytes(arcstats: str) -> int:
    """Size of ZFS's cache above its minimum: max(size - c_min, 0). Raises Malformed: A line is missing."""
    lines = dict(re.findall(r"^(size|c_min)\s+\d+\s+(\S+)$", arcstats, flags=re.MULTILINE))
    if missing := [name for name in ("size", "c_min") if name not in lines]:
        raise Malformed(f"ZFS's arcstats has no {', '.join(missing)}")
    size, least = (number(lines[name], f"ZFS's arcstats: {name}") for name in ("size", "c_min"))
    return max(size - least, 0)


def pressure_totals(text: str) -> dict[str, int]:
    """Time that tasks were stalled since boot, by ``some`` and ``full`` [microseconds].

    Raises Malformed: it is no pressure file.
    """
    totals = {}
    for line in text.splitlines():
        result = _PRESSURE.fullmatch(line)
        if result is None:
            raise Malformed(f"not a line of a pressure file: {line[:40]!r}")
        totals[result[1]] = number(result[2], f"total of {result[1]} in a pressure file")
    if not totals:
        raise Malformed("a pressure file is empty")
    return totals


def node_cpu_cores(ticks: float, elapsed_seconds: float, ticks_per_second: float) -> float:
    """Cores that were busy: ticks / (elapsed * ticks per second)."""
    return ticks / (elapsed_seconds * ticks_per_second)


def _busy(fields: list[str], name: str) -> int:
    if len(fields) <= _BUSY[-1] or fields[0] != name:
        raise Malformed(f"/proc/stat has no complete line {name[:40]!r}")
    return sum(number(fields[place], f"/proc/stat: line {name[:40]!r}") for place in _BUSY)
