"""Counters of a cgroup that only ever rise: where one fell, it is another cgroup under the same name."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from agent.host import procfs
from agent.host.procfs import Malformed
from agent.host.reopening_files import ReopeningFile, Unreadable

_NUMBERS: Final = (
    "cpuacct.usage", "cpuacct.usage_user", "cpuacct.usage_sys", "memory.peak", "memory.max_usage_in_bytes", "pids.peak",
)  # fmt: skip
_LISTS: Final = ("cpu.stat", "cpuacct.stat", "memory.events")
_PRESSURES: Final = ("cpu.pressure", "memory.pressure", "io.pressure")
_EVENTS: Final = ("pgfault", "pgmajfault")


def rising_counters(folder: Path, version: int) -> dict[str, int]:
    """What the files of a cgroup's folder count, by name. What cannot be read is left out.

    Page faults of version 1 lose what departed children had.
    """
    counters: dict[str, int] = {}
    for name in _NUMBERS:
        counters |= _counted(folder / name, _single)
    for name in _LISTS:
        counters |= _counted(folder / name, _listed)
    for name in _PRESSURES:
        counters |= _counted(folder / name, procfs.pressure_totals)
    if version != 1:
        counters |= _counted(folder / "memory.stat", _faults)
    return counters


def fell(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Whether a counter that is in both is less than it was."""
    return any(now[name] < value for name, value in before.items() if name in now)


def _counted(file: Path, parse: Callable[[str], Mapping[str, int]]) -> dict[str, int]:
    held = ReopeningFile(file)
    try:
        return {f"{file.name} {name}": value for name, value in parse(held.read()).items()}
    except (Unreadable, Malformed):
        return {}
    finally:
        held.close()


def _single(text: str) -> dict[str, int]:
    return {"": procfs.number(text.strip(), "a counter")}


def _listed(text: str) -> dict[str, int]:
    lines = (line.split() for line in text.splitlines())
    return {fields[0]: procfs.number(fields[1], fields[0]) for fields in lines if len(fields) == 2}  # noqa: PLR2004 - name, number


def _faults(text: str) -> dict[str, int]:
    return {name: value for name, value in _listed(text).items() if name in _EVENTS}
