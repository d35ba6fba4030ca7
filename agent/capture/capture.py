"""Record this node's /proc and cgroup files at several instants, for a bug report or for `replay`."""

import contextlib
import errno
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from agent.host.cgroup import NoCgroups, detect
from agent.host.paths import HostPaths
from headroom.runtime.options import Parser, WrongSetting, variable

_FIRST_SECONDS: Final = (0, 1, 2, 10)
_STEP_SECONDS: Final = 10
_MOST_INSTANTS: Final = 16
_LONGEST_SECONDS: Final = 86_400
_MOST_CGROUPS: Final = 20_000
_MOST_BYTES: Final = 1 << 22
_CHUNK_BYTES: Final = 1 << 16

_PROC_HOT: Final = (
    "stat", "meminfo", "loadavg", "uptime", "pressure/cpu", "pressure/memory", "pressure/io",
)  # fmt: skip
_PROC: Final = ("vmstat", "cgroups", "cpuinfo", "swaps", "sys/kernel/osrelease", "self/cgroup")
_PROC_MOUNTS: Final = ("mounts", "self/mountinfo")
_HOT: Final = (
    "cpuacct.usage", "cpu.stat", "memory.stat", "cpuacct.stat", "memory.usage_in_bytes", "memory.current",
    "cpu.pressure", "memory.pressure", "io.pressure",
)  # fmt: skip
_COLD: Final = (
    "cgroup.controllers", "cgroup.subtree_control", "cgroup.type", "cgroup.events", "cgroup.stat",
    "cpu.max", "cpu.weight", "cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us",
    "memory.min", "memory.low", "memory.high", "memory.max", "memory.peak", "memory.events", "memory.swap.current",
    "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.use_hierarchy",
    "pids.current", "pids.peak", "pids.max",
)  # fmt: skip
"""What the agent reads (hot), and what explains it. Nothing of processes but the kernel's sums."""


def plan(seconds: int) -> list[int]:
    """At which nominal seconds instants are taken: 0, 1, 2, 10, then every ten seconds or more, and the last one."""
    step = max(_STEP_SECONDS, -(-seconds // (_MOST_INSTANTS - len(_FIRST_SECONDS))))
    regular = range(_FIRST_SECONDS[-1] + step, seconds, step)
    return sorted({one for one in (*_FIRST_SECONDS, *regular) if one < seconds} | {seconds})


class CannotCapture(OSError):  # noqa: N818 - what the user sees is the message
    """Nothing can be recorded, or not there; one line that names the thing and the way out."""


@dataclass(slots=True)
class _Written:
    """One instant on disk."""

    folder: Path
    files: int = 0
    times: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def keep(self, path: str, content: bytes) -> None:
        """Write one file of the machine."""
        target = self.folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        self.files += 1

    def read(self, file: Path, path: str) -> bytes | None:
        """One file's content; what cannot be read is listed, a file that this kernel has not is not."""
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.errors.append(f"{path}\t{error.strerror}\n")
            return None
        try:
            return b"".join(_chunks(descriptor))
        except OSError as error:
            if error.errno != errno.ENODEV:  # a cgroup that went away meanwhile
                self.errors.append(f"{path}\t{error.strerror}\n")
            return None
        finally:
            os.close(descriptor)


class CaptureWriter:
    """Takes instants of one machine."""

    def __init__(self, paths: HostPaths, folder: Path) -> None:
        """Finds out which hierarchies there are. Raises CannotCapture: there is no cgroup file system at that place."""
        self._paths = paths
        self._folder = folder
        try:
            layout = detect(paths.cgroup)
        except NoCgroups as error:
            raise CannotCapture(str(error)) from error
        wanted = [one.root for one in (layout.cpu, layout.throttling, layout.memory) if one is not None]
        if layout.hybrid:
            wanted += [root for root in paths.cgroup.iterdir() if (root / "cgroup.controllers").exists()]
        self._roots = list(dict.fromkeys(Path(os.path.realpath(root)) for root in wanted))

    def take(self, name: str) -> tuple[int, int]:
        """Write one instant; its folder appears when it is complete.

        Returns how many files it has, and how many could not be read. Raises OSError: it cannot be written.
        """
        written = _Written(self._folder / f".{name}")
        try:
            written.folder.mkdir(parents=True)
            cgroups = list(self._cgroups(written))
            facts = _clocks()
            hot = list(self._hot(written, cgroups))
            facts["hot_end_monotonic_ns"] = time.monotonic_ns()
            for path, content in hot:
                written.keep(path, content)
            self._cold(written, cgroups)
            _write(written, facts)
            written.folder.rename(self._folder / name)
        except BaseException:  # half an instant is worth nothing
            shutil.rmtree(written.folder, ignore_errors=True)
            raise
        return written.files, len(written.errors)

    def _cgroups(self, written: _Written) -> Iterator[tuple[Path, str]]:
        """Every cgroup's folder and its path on the machine; their numbers are written down."""
        inodes = []
        for root in self._roots:
            below = os.path.relpath(root, os.path.realpath(self._paths.cgroup))
            top = "/sys/fs/cgroup" if below == "." else f"/sys/fs/cgroup/{below}"
            for folder in _tree(root, written, top):
                path = top + folder.removeprefix(str(root))
                with contextlib.suppress(OSError):
                    inodes.append(f"{os.stat(folder).st_ino}\t{path}\n")  # noqa: PTH116 - of very many folders
                yield Path(folder), path
        (written.folder / "cgroups.tsv").write_text("".join(inodes), encoding="utf-8")

    def _hot(self, written: _Written, cgroups: Sequence[tuple[Path, str]]) -> Iterator[tuple[str, bytes]]:
        """Counters, each with the time of its reading."""
        proc = ((self._paths.proc / name, f"/proc/{name}") for name in _PROC_HOT)
        for file, path in (*proc, *((folder / name, f"{path}/{name}") for folder, path in cgroups for name in _HOT)):
            start = time.monotonic_ns()
            content = written.read(file, path)
            if content is not None:
                written.times.append(f"{start}\t{time.monotonic_ns()}\t{path}\n")
                yield path, content

    def _cold(self, written: _Written, cgroups: Sequence[tuple[Path, str]]) -> None:
        for name in (*_PROC, *_PROC_MOUNTS):
            content = written.read(self._paths.proc / name, f"/proc/{name}")
            if content is not None:
                written.keep(f"/proc/{name}", _about_cgroups(content) if name in _PROC_MOUNTS else content)
        for folder, path in cgroups:
            for name in _COLD:
                content = written.read(folder / name, f"{path}/{name}")
                if content is not None:
                    written.keep(f"{path}/{name}", content)
        top = written.folder / "sys/fs/cgroup"
        with os.scandir(self._paths.cgroup) as entries:
            links = [(entry.name, os.readlink(entry.path)) for entry in entries if entry.is_symlink()]  # noqa: PTH115
        for name, target in links:
            if "/" not in target and (top / target).is_dir():
                (top / name).symlink_to(target)


def _clocks() -> dict[str, int | str]:
    monotonic, boot, wall = time.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.time_ns()
    utc = datetime.fromtimestamp(wall // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return {
        "monotonic_ns": monotonic,
        "boottime_ns": boot,
        "wall_ns": wall,
        "wall_utc": f"{utc}.{wall % 1_000_000_000:09d}Z",
    }


def _write(written: _Written, facts: dict[str, int | str]) -> None:
    """The instant's own files: when everything was read, and what could not be."""
    (written.folder / "times.tsv").write_text("".join(written.times), encoding="utf-8")
    (written.folder / "errors.tsv").write_text("".join(written.errors), encoding="utf-8")
    facts |= {
        "end_monotonic_ns": time.monotonic_ns(),
        "files": written.files,
        "unreadable": len(written.errors),
        "clk_tck": os.sysconf("SC_CLK_TCK"),
        "page_size": os.sysconf("SC_PAGE_SIZE"),
    }
    (written.folder / "capture.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")


def _tree(root: Path, written: _Written, top: str) -> Iterator[str]:
    """A hierarchy's folders, parents first."""

    def cannot_list(error: OSError) -> None:
        path = top + str(error.filename or "").removeprefix(str(root))
        written.errors.append(f"{path}\t{error.strerror}\n")

    for number, (folder, folders, _) in enumerate(os.walk(root, onerror=cannot_list), start=1):
        folders.sort()
        yield folder
        if number == _MOST_CGROUPS:
            written.errors.append(f"{top}\tmore than {_MOST_CGROUPS} cgroups: the rest is left out\n")
            return


def _chunks(descriptor: int) -> Iterator[bytes]:
    total = 0
    while total < _MOST_BYTES and (chunk := os.read(descriptor, _CHUNK_BYTES)):
        total += len(chunk)
        yield chunk


def _about_cgroups(mounts: bytes) -> bytes:
    """The lines of a list of mounts that are about /proc and cgroups: the others name volumes and servers."""
    kept = (b" proc ", b" cgroup ", b" cgroup2 ", b" /sys/fs/cgroup ")
    return b"".join(line for line in mounts.splitlines(keepends=True) if any(word in line for word in kept))


@dataclass(frozen=True, slots=True)
class Timing:
    """How time passes between instants."""

    clock: Callable[[], float] = time.monotonic  # A time that only runs forward. [s]
    sleep: Callable[[float], None] = time.sleep  # waits. [s]


def capture(
    paths: HostPaths, folder: Path, seconds: int, progress: Callable[[str], None], timing: Timing = Timing()
) -> None:
    """Record a machine. Raises CannotCapture: the folder cannot be used, or there is nothing to record."""
    recorder = CaptureWriter(paths, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise _unwritable(folder, error) from error
    if taken:
        raise CannotCapture(f"{folder} is not empty: give a new folder")
    began = timing.clock()
    for second in plan(seconds):
        timing.sleep(max(began + second - timing.clock(), 0.0))
        try:
            files, errors = recorder.take(f"t{second:03d}")
        except OSError as error:
            raise _unwritable(folder, error) from error
        progress(
            f"t{second:03d} of t{seconds:03d}: {files} files" + (f", {errors} could not be read" if errors else "")
        )


def _unwritable(folder: Path, error: OSError) -> CannotCapture:
    return CannotCapture(f"cannot write {folder}: {error.strerror}; give another folder")


def main(arguments: Sequence[str]) -> int:
    """Record into a folder.

    Returns 0 when it is complete. Raises WrongSetting: the command line is wrong. CannotCapture: The folder cannot be
    used, or there is nothing to record.
    """
    parser = Parser(prog="headroom-agent capture", description=__doc__, allow_abbrev=False)
    parser.add_argument("directory", metavar="DIR", type=Path, help="a new folder to write to")
    parser.add_argument("--seconds", metavar="N", default="10", help="how long, in seconds (default 10)")
    for flag, what in ("host-root", "/proc and /sys are"), ("proc", "/proc is"), ("cgroup-root", "/sys/fs/cgroup is"):
        default = os.environ.get(variable("headroom-agent", flag)) or None
        parser.add_argument(f"--{flag}", metavar="DIR", type=Path, default=default, help=f"where the machine's {what}")
    options = parser.parse_args(arguments)
    if not (
        options.seconds.isascii() and options.seconds.isdigit() and 1 <= int(options.seconds[:9]) <= _LONGEST_SECONDS
    ):
        raise WrongSetting(f"--seconds must be a whole number from 1 to {_LONGEST_SECONDS}, not {options.seconds!r}")
    usual = HostPaths.under(options.host_root or "/")
    paths = HostPaths(Path(options.proc or usual.proc), Path(options.cgroup_root or usual.cgroup))
    folder = options.directory
    capture(paths, folder, int(options.seconds), _print_line)
    where = folder.resolve()
    sys.stdout.write(f"Recorded in {folder}. To pack it: tar -C {where.parent} -cJf {where.name}.tar.xz {where.name}\n")
    return 0


def _print_line(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
