"""A recorded machine: instants of /proc and /sys/fs/cgroup in folders t000, t001 …, and when each file was read."""

import contextlib
import json
import math
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from agent.host.cgroup import Layout
from agent.host.cgroup_identity import fell, rising_counters
from agent.host.paths import HostPaths
from agent.host.reopening_files import ReopeningFile

_NAME: Final = re.compile(r"t(\d{1,9})")
_NANO: Final = 1e9
_TICKS_PER_SECOND: Final = 100.0


class NotARecording(OSError):  # noqa: N818 - what the folder is
    """A folder that cannot be replayed; one line that names it and says what is missing."""


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment of a recorded machine."""

    name: str  # its folder's name: t and the nominal seconds
    folder: Path  # where its tree is
    started: float  # when its reading began, on the monotonic clock; NaN when that is not known. [s]
    slept: float | None  # how long the machine had been suspended by then; None when that is not known. [s]
    ticks_per_second: float  # unit of its /proc/stat
    times: Mapping[str, float]
    """The middle of each file's reading by its path on the machine, on the monotonic clock. [s]"""
    inodes: Mapping[str, int]
    """Number of each cgroup's folder by its path on the machine; empty in a recording that lacks them."""


def find(folder: Path) -> tuple[list[Instant], list[str]]:
    """The instants of a recording, in the order of their nominal seconds.

    They are in the folder itself, or all in one folder in it.

    Returns the instants, and one sentence for each thing in them that cannot be used. Raises NotARecording: the folder
    is no recording, or has fewer than two instants.
    """
    names = _names(folder)
    if not names:  # an archive may hold them in a folder of its own
        inner = [(one, found) for one in sorted(folder.iterdir()) if one.is_dir() and (found := _names(one))]
        folder, names = inner[0] if len(inner) == 1 else (folder, [])
    if not names:
        raise NotARecording(f"{folder} holds no instants (folders t000, t001 …): give the folder that holds them")
    if len(names) == 1:
        raise NotARecording(f"{folder} has one instant only ({names[0][1]}): CPU is what was used between two")
    problems: list[str] = []
    return [_instant(folder / name, problems) for _, name in names], problems


def _names(folder: Path) -> list[tuple[int, str]]:
    """The instants in a folder by their nominal seconds."""
    try:
        names = [(int(found[1]), name) for name in os.listdir(folder) if (found := _NAME.fullmatch(name))]  # noqa: PTH208
    except NotADirectoryError:
        raise NotARecording(
            f"{folder} is a file: unpack it (tar xf), and give the folder that holds t000, t001 …"
        ) from None
    except OSError as error:
        raise NotARecording(f"cannot read {folder}: {error.strerror}") from error
    return sorted((number, name) for number, name in names if (folder / name).is_dir())


def _instant(folder: Path, problems: list[str]) -> Instant:
    facts = _facts(folder, problems)
    started, boot = facts.get("monotonic_ns"), facts.get("boottime_ns")
    ticks = facts.get("clk_tck") or _TICKS_PER_SECOND
    times = dict(_times(folder, problems))
    if not times and started is None:
        problems.append(f"{folder.name} does not say when it was read: it makes no rates")
    return Instant(
        name=folder.name,
        folder=folder,
        started=math.nan if started is None else started / _NANO,
        slept=None if started is None or boot is None else (boot - started) / _NANO,
        ticks_per_second=float(ticks),
        times=times,
        inodes=dict(_inodes(folder)),
    )


def _facts(folder: Path, problems: list[str]) -> dict[str, int]:
    """The numbers in capture.json."""
    try:
        content: Any = json.loads((folder / "capture.json").read_text(encoding="utf-8", errors="replace"))
        if not isinstance(content, dict):
            raise ValueError("not an object")  # noqa: TRY301, TRY004 - the same answer as a torn file's
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a JSON object"
        problems.append(f"{folder.name}/capture.json cannot be used: {reason}")
        return {}
    numbers = {key: value for key, value in content.items() if isinstance(value, int) and not isinstance(value, bool)}
    return {key: value for key, value in numbers.items() if 0 <= value < 1 << 63}


def _times(folder: Path, problems: list[str]) -> Iterator[tuple[str, float]]:
    """The middle of each file's reading: lines of start, end [ns] and path."""
    bad = 0
    for fields in _lines(folder / "times.tsv", problems):
        numbers = [int(text) for text in fields[:2] if text.isascii() and text.isdigit() and len(text) < 20]  # noqa: PLR2004 - 2^64
        if len(fields) == 3 and len(numbers) == 2 and numbers[0] <= numbers[1]:  # noqa: PLR2004 - start, end, path
            yield fields[2], (numbers[0] + numbers[1]) / 2 / _NANO
        else:
            bad += 1
    if bad:
        problems.append(f"{folder.name}/times.tsv has {bad} lines that are no start, end and path")


def _inodes(folder: Path) -> Iterator[tuple[str, int]]:
    for fields in _lines(folder / "cgroups.tsv", []):
        if len(fields) == 2 and fields[0].isascii() and fields[0].isdigit() and len(fields[0]) < 20:  # noqa: PLR2004
            yield fields[1], int(fields[0])


def _lines(file: Path, problems: list[str]) -> list[list[str]]:
    try:
        return [line.split("\t") for line in file.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError as error:
        problems.append(f"{file.parent.name}/{file.name} cannot be used: {error.strerror}")
        return []


@dataclass(slots=True)
class RecordedMachine:
    """Shows one instant after the other at the same paths, as a machine would."""

    root: Path  # A link to the instant that is shown
    instant: Instant | None = None  # the instant that is shown
    layout: Layout | None = None  # the hierarchies of the machine, once they are known
    slept: float = 0.0  # how long the machine had been suspended by then. [s]
    shown: int = 0  # how many instants were shown
    _generations: dict[str, tuple[int, dict[str, int]]] = field(default_factory=dict)
    _identities: dict[str, int] = field(default_factory=dict)

    @classmethod
    @contextlib.contextmanager
    def open(cls) -> Iterator[Self]:
        """A stage in a temporary folder. Raises NotARecording: there is no room for one."""
        try:
            recorded = tempfile.TemporaryDirectory(prefix="headroom-replay-")
        except OSError as error:
            raise NotARecording(f"{error.strerror}; set TMPDIR to a folder that can be written") from error
        with recorded as folder:
            yield cls(Path(folder) / "now")

    @property
    def paths(self) -> HostPaths:
        """The machine's files."""
        return HostPaths.under(self.root)

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

    def file(self, path: Path) -> ReopeningFile:
        """A file of the machine that is read from whichever instant is shown."""
        return _RecordedFile(path, self)

    def read_at(self, path: str) -> float:
        """When a file was read; the instant's start when only that is known, else NaN. [s]"""
        if self.instant is None:
            return math.nan
        on_machine = path.removeprefix(str(self.root))
        at = self.instant.times.get(on_machine)
        if at is None:  # by its name without links: a hierarchy may have several
            real = os.path.realpath(path).removeprefix(os.path.realpath(self.root))
            at = self.instant.times.get(real, self.instant.started)
        return at

    def identity(self, folder: str) -> int:
        """Distinguishes cgroups that had the same path.

        By the number of their folder where it was recorded. Else a cgroup is another one when any of its counters fell:
        that one of them rose is no proof that it is the same.
        """
        below = self._below(folder)
        if below is None or self.instant is None:
            return 0
        if below not in self._identities:
            inode = self._inode(folder)
            self._identities[below] = self._identity_by_counters(below) if inode is None else inode
        return self._identities[below]

    def _below(self, folder: str) -> str | None:
        """A cgroup's path below the root of its hierarchy."""
        if self.layout is not None:
            for hierarchy in (self.layout.cpu, self.layout.throttling, self.layout.memory):
                root = "" if hierarchy is None else f"{hierarchy.root}/"
                if root and folder.startswith(root):
                    return folder.removeprefix(root)
        return None

    def _inode(self, folder: str) -> int | None:
        inodes = self.instant.inodes if self.instant is not None else {}
        found = inodes.get(folder.removeprefix(str(self.root)))
        if found is None and inodes:
            found = inodes.get(os.path.realpath(folder).removeprefix(os.path.realpath(self.root)))
        return found

    def _identity_by_counters(self, below: str) -> int:
        hierarchies = (self.layout.cpu, self.layout.throttling, self.layout.memory) if self.layout is not None else ()
        counters: dict[str, int] = {}
        for hierarchy in dict.fromkeys(hierarchies):
            if hierarchy is not None:
                counters |= rising_counters(hierarchy.root / below, hierarchy.version)
        generation, before = self._generations.get(below, (0, {}))
        generation += fell(before, counters)
        self._generations[below] = generation, counters
        return zlib.crc32(os.fsencode(below)) << 16 | generation  # under another path it is another cgroup in any case


class _RecordedFile(ReopeningFile):
    """A file of a recording: read anew at each instant, with the time at which the recorder read it."""

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
