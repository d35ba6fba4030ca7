"""Record this node's /proc and cgroup files at several instants into a tar file, for a bug report or for `replay`."""

import contextlib
import errno
import io
import json
import os
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from agent.host.cgroup import NoCgroups, detect
from agent.host.procfs import ARCSTATS, HostPaths
from headroom.runtime.options import Parser, WrongSetting, variable

_FIRST_SECONDS: Final = (0, 1, 2, 10)
_STEP_SECONDS: Final = 10
_MOST_INSTANTS: Final = 16
_LONGEST_SECONDS: Final = 86_400
_MOST_CGROUPS: Final = 20_000
_MOST_BYTES: Final = 1 << 22
_CHUNK_BYTES: Final = 1 << 16

# What the agent reads (hot), and what explains it. Nothing of processes but the kernel's sums.
_PROC_HOT: Final = (
    "stat", "meminfo", ARCSTATS, "loadavg", "uptime", "pressure/cpu", "pressure/memory", "pressure/io",
)  # fmt: skip
_PROC: Final = ("vmstat", "cgroups", "cpuinfo", "swaps", "sys/kernel/osrelease", "self/cgroup")
_PROC_MOUNTS: Final = ("mounts", "self/mountinfo")
_HOT: Final = (
    "cpuacct.usage", "cpu.stat", "memory.stat", "cpuacct.stat", "memory.usage_in_bytes", "memory.current",
    "cpu.pressure", "memory.pressure", "io.pressure",
    "memory.events", "memory.swap.current", "memory.memsw.usage_in_bytes",
)  # fmt: skip
_COLD: Final = (
    "cgroup.controllers", "cgroup.subtree_control", "cgroup.type", "cgroup.events", "cgroup.stat",
    "cpu.max", "cpu.weight", "cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us",
    "cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus",
    "memory.min", "memory.low", "memory.high", "memory.max", "memory.peak",
    "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.use_hierarchy",
    "pids.current", "pids.peak", "pids.max",
)  # fmt: skip


class CannotCapture(OSError):  # noqa: N818 - users see only the message
    """Nothing can be recorded, or not there; one line with the cause and the way out."""


def plan(seconds: int) -> list[int]:
    """At which nominal seconds instants are taken: 0, 1, 2, 10, then every ten seconds or more, and the last one."""
    step = max(_STEP_SECONDS, -(-seconds // (_MOST_INSTANTS - len(_FIRST_SECONDS))))
    regular = range(_FIRST_SECONDS[-1] + step, seconds, step)
    return sorted({second for second in (*_FIRST_SECONDS, *regular) if second < seconds} | {seconds})


def capture(
    paths: HostPaths,
    target: Path,
    seconds: int,
    progress: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Record a machine into a new tar file. Raises CannotCapture."""
    roots, file = _hierarchies(paths), _create(target)
    complete, whole, began = 0, False, clock()
    try:
        with file:
            archive = tarfile.open(fileobj=file, mode="w")  # noqa: SIM115 - closed when it is whole
            for second in plan(seconds):
                sleep(max(began + second - clock(), 0.0))
                instant = _Instant(archive, f"t{second:03d}")
                instant.take(paths, roots)
                file.flush()
                complete = archive.offset
                failed = f", {len(instant.errors)} could not be read" if instant.errors else ""
                progress(f"{instant.name} of t{seconds:03d}: {instant.files} files{failed}")
            archive.close()
        whole = True
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        if not complete:
            target.unlink(missing_ok=True)
        elif not whole:  # half an instant is worth nothing
            os.truncate(target, complete)


def _create(target: Path) -> BinaryIO:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.open("xb")
    except OSError as error:
        if target.exists():
            raise CannotCapture(f"{target} exists already: give a new file") from None
        raise _unwritable(target, error) from error


def _unwritable(target: Path, error: OSError) -> CannotCapture:
    return CannotCapture(f"cannot write {target}: {error.strerror}; give another file")


def _hierarchies(paths: HostPaths) -> list[Path]:
    try:
        layout = detect(paths.cgroup)
    except NoCgroups as error:
        raise CannotCapture(str(error)) from error
    wanted = [tree.root for tree in (layout.cpu, layout.throttling, layout.memory, layout.cpuset) if tree is not None]
    if layout.hybrid:
        wanted += [root for root in paths.cgroup.iterdir() if (root / "cgroup.controllers").exists()]
    return list(dict.fromkeys(Path(os.path.realpath(root)) for root in wanted))


class _Instant:
    """An instant in an archive: a folder with the machine's files and their read times."""

    def __init__(self, archive: tarfile.TarFile, name: str) -> None:
        self.archive, self.name, self.files = archive, name, 0
        self.times: list[str] = []
        self.errors: list[str] = []

    def take(self, paths: HostPaths, roots: Sequence[Path]) -> None:
        cgroups = list(self._cgroups(paths, roots))
        inodes = [f"{inode}\t{path}\n" for _, path, inode in cgroups if inode is not None]
        folders = [(folder, path) for folder, path, _ in cgroups]
        facts = _clocks()
        hot = list(self._hot(paths, folders))  # before anything is written, which takes time
        facts["hot_end_monotonic_ns"] = time.monotonic_ns()
        for path, content in hot:
            self._keep(path, content)
        self._cold(paths, folders, roots)
        facts |= {
            "end_monotonic_ns": time.monotonic_ns(),
            "files": self.files,
            "unreadable": len(self.errors),
            "clk_tck": os.sysconf("SC_CLK_TCK"),
            "page_size": os.sysconf("SC_PAGE_SIZE"),
        }
        lists = {"cgroups.tsv": inodes, "times.tsv": self.times, "errors.tsv": self.errors}
        for name, lines in {**lists, "capture.json": [json.dumps(facts) + "\n"]}.items():
            self._add(name, "".join(lines).encode(errors="surrogateescape"))

    def _add(self, path: str, content: bytes) -> None:
        entry = tarfile.TarInfo(f"{self.name}/{path}")
        entry.size, entry.mtime = len(content), time.time()
        self.archive.addfile(entry, io.BytesIO(content))

    def _keep(self, path: str, content: bytes) -> None:
        self._add(path.lstrip("/"), content)
        self.files += 1

    def _read(self, file: Path, path: str) -> bytes | None:
        """A file's content; what cannot be read is listed, a file that this kernel has not is not."""
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
            if error.errno not in (errno.ENODEV, errno.EOPNOTSUPP):  # a cgroup that went away; pressure with psi=0
                self.errors.append(f"{path}\t{error.strerror}\n")
            return None
        finally:
            os.close(descriptor)

    def _cgroups(self, paths: HostPaths, roots: Sequence[Path]) -> Iterator[tuple[Path, str, int | None]]:
        """Every cgroup's folder, its path on the machine, and its number; parents first."""
        for root in roots:
            below = os.path.relpath(root, os.path.realpath(paths.cgroup))
            top = "/sys/fs/cgroup" if below == "." else f"/sys/fs/cgroup/{below}"

            def on_machine(folder: object, root: Path = root, top: str = top) -> str:
                return top + str(folder or "").removeprefix(str(root))

            def cannot_list(error: OSError, on_machine: Callable[[object], str] = on_machine) -> None:
                self.errors.append(f"{on_machine(error.filename)}\t{error.strerror}\n")

            for number, (folder, folders, _) in enumerate(os.walk(root, onerror=cannot_list), start=1):
                folders.sort()
                inode = None
                with contextlib.suppress(OSError):
                    inode = os.stat(folder).st_ino  # noqa: PTH116 - of very many folders
                yield Path(folder), on_machine(folder), inode
                if number == _MOST_CGROUPS:
                    self.errors.append(f"{top}\tmore than {_MOST_CGROUPS} cgroups: the rest is left out\n")
                    break

    def _hot(self, paths: HostPaths, cgroups: Sequence[tuple[Path, str]]) -> Iterator[tuple[str, bytes]]:
        """Counters, each with the time of its reading."""
        proc = ((paths.proc / name, f"/proc/{name}") for name in _PROC_HOT)
        for file, path in (*proc, *((folder / name, f"{path}/{name}") for folder, path in cgroups for name in _HOT)):
            start = time.monotonic_ns()
            content = self._read(file, path)
            if content is not None:
                self.times.append(f"{start}\t{time.monotonic_ns()}\t{path}\n")
                yield path, content

    def _cold(self, paths: HostPaths, cgroups: Sequence[tuple[Path, str]], roots: Sequence[Path]) -> None:
        proc = ((paths.proc / name, f"/proc/{name}") for name in (*_PROC, *_PROC_MOUNTS))
        for file, path in (*proc, *((folder / name, f"{path}/{name}") for folder, path in cgroups for name in _COLD)):
            content = self._read(file, path)
            if content is not None:
                self._keep(path, _about_cgroups(content) if path[6:] in _PROC_MOUNTS else content)
        recorded = {root.name for root in roots}
        with os.scandir(paths.cgroup) as entries:
            links = [(entry.name, os.readlink(entry.path)) for entry in entries if entry.is_symlink()]  # noqa: PTH115
        for name, target in links:
            if target in recorded:
                entry = tarfile.TarInfo(f"{self.name}/sys/fs/cgroup/{name}")
                entry.type, entry.linkname = tarfile.SYMTYPE, target
                self.archive.addfile(entry)


def _clocks() -> dict[str, int | str]:
    monotonic, boot, wall = time.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.time_ns()
    utc = datetime.fromtimestamp(wall // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return {
        "monotonic_ns": monotonic,
        "boottime_ns": boot,
        "wall_ns": wall,
        "wall_utc": f"{utc}.{wall % 1_000_000_000:09d}Z",
    }


def _chunks(descriptor: int) -> Iterator[bytes]:
    total = 0
    while total < _MOST_BYTES and (chunk := os.read(descriptor, _CHUNK_BYTES)):
        total += len(chunk)
        yield chunk


def _about_cgroups(mounts: bytes) -> bytes:
    """The lines of a list of mounts that are about /proc and cgroups: the others name volumes and servers."""
    kernel_mounts = (b" proc ", b" cgroup ", b" cgroup2 ", b" /sys/fs/cgroup ")
    return b"".join(line for line in mounts.splitlines(keepends=True) if any(word in line for word in kernel_mounts))


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main(arguments: Sequence[str]) -> int:
    """Record into a file; 0 when it is complete. Raises WrongSetting and CannotCapture."""
    parser = Parser(prog="headroom-agent capture", description=__doc__, allow_abbrev=False)
    parser.add_argument("file", metavar="FILE", type=Path, help="a new tar file to write to")
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
    capture(paths, options.file, int(options.seconds), _say)
    sys.stdout.write(f"Recorded in {options.file}. To make it smaller: xz {options.file}\n")
    return 0
