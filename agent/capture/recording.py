"""A recorded machine: instants of /proc and /sys/fs/cgroup in folders t000, t001 …, and when each file was read."""

import contextlib
import json
import lzma
import math
import os
import re
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from agent.host import procfs
from agent.host.cgroup import Hierarchy, Layout
from agent.host.procfs import HostPaths, Malformed
from agent.host.reopening_files import ReopeningFile, Unreadable

_NAME: Final = re.compile(r"t(\d{1,9})")
_TIME: Final = re.compile(r"([0-9]{1,19})\t([0-9]{1,19})\t([^\t]*)")
_INODE: Final = re.compile(r"([0-9]{1,19})\t([^\t]*)")
_NANO: Final = 1e9
_TICKS_PER_SECOND: Final = 100.0
_Number = TypeVar("_Number", int, float)


class NotARecording(OSError):  # noqa: N818 - the state of the folder
    """A folder or file that cannot be replayed; the message names it and the missing part."""


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment of a recorded machine."""

    folder: Path  # where its tree is; its name is t and the nominal seconds
    started: float  # when its reading began, on the monotonic clock; NaN when that is not known. [s]
    slept: float | None  # how long the machine had been suspended by then; None when that is not known. [s]
    ticks_per_second: float  # unit of its /proc/stat
    times: Mapping[str, float]  # the middle of each file's reading by its path on the machine, on that clock. [s]
    inodes: Mapping[str, int]  # number of each cgroup's folder by its path on the machine; empty if not recorded

    @property
    def name(self) -> str:
        return self.folder.name


def find(folder: Path) -> tuple[list[Instant], list[str]]:
    """The instants of a recording, in the order of their nominal seconds; and a sentence for each unusable part.

    They are in the folder itself, or all in one folder in it. Raises NotARecording for fewer than two.
    """
    names = _names(folder)
    if not names:  # an archive may hold them in a folder of its own
        inner = [(path, result) for path in sorted(folder.iterdir()) if path.is_dir() and (result := _names(path))]
        folder, names = inner[0] if len(inner) == 1 else (folder, [])
    if not names:
        raise NotARecording(f"{folder} holds no instants (folders t000, t001 …): give the folder that holds them")
    if len(names) == 1:
        raise NotARecording(f"{folder} has one instant only ({names[0][1]}): CPU usage is the difference of two")
    problems: list[str] = []
    return [_instant(folder / name, problems) for _, name in names], problems


def _names(folder: Path) -> list[tuple[int, str]]:
    """The instants in a folder by their nominal seconds."""
    try:
        names = [(int(result[1]), name) for name in os.listdir(folder) if (result := _NAME.fullmatch(name))]  # noqa: PTH208
    except OSError as error:
        raise NotARecording(f"cannot read {folder}: {error.strerror}") from error
    return sorted((number, name) for number, name in names if (folder / name).is_dir())


def _instant(folder: Path, problems: list[str]) -> Instant:
    facts = _facts(folder, problems)
    started, boot = facts.get("monotonic_ns"), facts.get("boottime_ns")
    lines = _lines(folder / "times.tsv", problems)
    read = [(int(result[1]), int(result[2]), result[3]) for line in lines if (result := _TIME.fullmatch(line))]
    times = {path: (start + end) / 2 / _NANO for start, end, path in read if start <= end}
    if bad := len(lines) - sum(start <= end for start, end, _ in read):
        problems.append(f"{folder.name}/times.tsv has {bad} lines that are no start, end and path")
    if not times and started is None:
        problems.append(f"{folder.name} has no time of reading: no rates are computed from it")
    inodes = (_INODE.fullmatch(line) for line in _lines(folder / "cgroups.tsv", []))
    return Instant(
        folder=folder,
        started=math.nan if started is None else started / _NANO,
        slept=None if started is None or boot is None else (boot - started) / _NANO,
        ticks_per_second=float(facts.get("clk_tck") or _TICKS_PER_SECOND),
        times=times,
        inodes={result[2]: int(result[1]) for result in inodes if result},
    )


def _facts(folder: Path, problems: list[str]) -> dict[str, int]:
    """The numbers in capture.json."""
    try:
        content: Any = json.loads((folder / "capture.json").read_text(encoding="utf-8", errors="replace"))
        if not isinstance(content, dict):
            raise ValueError("not an object")  # noqa: TRY301, TRY004 - handled like a torn file
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a JSON object"
        problems.append(f"{folder.name}/capture.json cannot be used: {reason}")
        return {}
    return {key: value for key, value in content.items() if type(value) is int and 0 <= value < 1 << 63}


def _lines(file: Path, problems: list[str]) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        problems.append(f"{file.parent.name}/{file.name} cannot be used: {error.strerror}")
        return []


@dataclass(slots=True)
class RecordedMachine:
    """Shows one instant after the other at the same paths, as a machine would."""

    root: Path  # a link to the instant that is shown
    instant: Instant | None = None  # the instant that is shown
    layout: Layout | None = None  # the hierarchies of the machine, once they are known
    slept: float = 0.0  # how long the machine had been suspended by then. [s]
    shown: int = 0  # how many instants were shown
    _generations: dict[str, tuple[int, dict[str, int]]] = field(default_factory=dict)
    _identities: dict[str, int] = field(default_factory=dict)

    @classmethod
    @contextlib.contextmanager
    def open(cls, recording: Path) -> Iterator[tuple[Self, Path]]:
        """A stage in a temporary folder, and the folder of the recording: an archive is unpacked there.

        Raises NotARecording: there is no space for one, or the archive cannot be read.
        """
        try:
            made = tempfile.TemporaryDirectory(prefix="headroom-replay-")
        except OSError as error:
            raise NotARecording(f"{error.strerror}; set TMPDIR to a folder that can be written") from error
        with made as folder:
            if recording.is_file():
                try:
                    with tarfile.open(recording) as archive:
                        archive.extractall(Path(folder) / "recording", filter="data")
                except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError) as error:
                    raise NotARecording(f"cannot unpack {recording}: {error}") from error
                recording = Path(folder) / "recording"
            yield cls(Path(folder) / "now"), recording

    def show(self, instant: Instant) -> None:
        """Show an instant."""
        link = self.root.with_name("next")
        link.symlink_to(instant.folder.resolve())
        link.replace(self.root)
        self.instant = instant
        self.shown += 1
        self._identities.clear()
        if instant.slept is not None:
            self.slept = instant.slept

    @property
    def paths(self) -> HostPaths:
        return HostPaths.under(self.root)

    def file(self, path: Path) -> ReopeningFile:
        return _RecordedFile(path, self)

    def read_at(self, path: str) -> float:
        """Return when a file was read; the instant's start when only that is known, else NaN. [s]"""
        if self.instant is None:
            return math.nan
        result = self._known(self.instant.times, path)
        return self.instant.started if result is None else result

    def identity(self, folder: str) -> int:
        """Distinguishes cgroups that had the same path.

        By the number of their folder where it was recorded. Else a cgroup is another one when any of its counters fell:
        that one of them rose is no proof that it is the same.
        """
        hierarchies = self._hierarchies()
        roots = (f"{hierarchy.root}/" for hierarchy in hierarchies)
        below = next((folder.removeprefix(root) for root in roots if folder.startswith(root)), None)
        if below is None or self.instant is None:
            return 0
        if below not in self._identities:
            inode = self._known(self.instant.inodes, folder)
            self._identities[below] = self._identity_by_counters(below) if inode is None else inode
        return self._identities[below]

    def _hierarchies(self) -> list[Hierarchy]:
        result = (self.layout.cpu, self.layout.throttling, self.layout.memory) if self.layout is not None else ()
        return [fromkey for fromkey in dict.fromkeys(result) if fromkey is not None]

    def _known(self, known: Mapping[str, _Number], path: str) -> _Number | None:
        """Return the value for a path on the machine, else for its name without links: a hierarchy may have several."""
        result = known.get(path.removeprefix(str(self.root)))
        if result is None and known:
            result = known.get(os.path.realpath(path).removeprefix(os.path.realpath(self.root)))
        return result

    def _identity_by_counters(self, below: str) -> int:
        counters: dict[str, int] = {}
        for hierarchy in self._hierarchies():
            counters |= _rising_counters(hierarchy.root / below, hierarchy.version)
        generation, before = self._generations.get(below, (0, {}))
        generation += any(counters[name] < value for name, value in before.items() if name in counters)
        self._generations[below] = generation, counters
        return zlib.crc32(os.fsencode(below)) << 16 | generation  # another path is another cgroup


class _RecordedFile(ReopeningFile):
    """A file of a recording: read again at each instant, with the time at which the recorder read it."""

    __slots__ = ("_recorded",)

    def __init__(self, path: Path, recorded: RecordedMachine) -> None:
        super().__init__(path)
        self._recorded = recorded

    def read(self) -> str:
        """The content at the instant that is shown."""
        self.close()
        content = super().read()
        self.close()
        self.at = self._recorded.read_at(self.path)
        self.identity = self._recorded.identity(os.path.dirname(self.path))  # noqa: PTH120 - a text is wanted
        return content


def _single(text: str) -> dict[str, int]:
    return {"": procfs.number(text.strip(), "a counter")}


def _listed(text: str) -> dict[str, int]:
    lines = (line.split() for line in text.splitlines())
    return {fields[0]: procfs.number(fields[1], fields[0]) for fields in lines if len(fields) == 2}  # noqa: PLR2004 - name, number


def _faults(text: str) -> dict[str, int]:
    return {name: value for name, value in _listed(text).items() if name in ("pgfault", "pgmajfault")}


_RISING: Final[Mapping[Callable[[str], Mapping[str, int]], tuple[str, ...]]] = {
    _single: (
        "cpuacct.usage", "cpuacct.usage_user", "cpuacct.usage_sys",
        "memory.peak", "memory.max_usage_in_bytes", "pids.peak",
    ),
    _listed: ("cpu.stat", "cpuacct.stat", "memory.events"),
    procfs.pressure_totals: ("cpu.pressure", "memory.pressure", "io.pressure"),
    _faults: ("memory.stat",),
}  # fmt: skip
"""Parsers of the files of a cgroup with counters: a lower value means another cgroup."""


def _rising_counters(folder: Path, version: int) -> dict[str, int]:
    """Return the counters of a cgroup's files by name; unreadable ones are skipped."""
    counters: dict[str, int] = {}
    for parse, names in _RISING.items():
        for name in names if version != 1 or parse is not _faults else ():  # those of v1 lose what children had
            file = ReopeningFile(folder / name)
            with contextlib.suppress(Unreadable, Malformed):
                counters |= {f"{name} {key}": value for key, value in parse(file.read()).items()}
            file.close()
    return counters
