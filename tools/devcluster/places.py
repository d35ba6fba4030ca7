"""Folders of the dev cluster: a cache of builds, a short folder for running clusters; and locks."""

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.devcluster.commands import DevClusterError

NAME_PATTERN = re.compile(r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?")
PAUSE_SECONDS = 0.2
SAY_EVERY_SECONDS = 30.0
LONGEST_STATE_PATH = 60  # Unix sockets lie under the state folder, and their paths may have 107 bytes


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/headroom` (`~/.cache/headroom`): binaries, images, Go, logs of failures. May be deleted."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "headroom"


def clusters_directory() -> Path:
    """The folder with one folder per running cluster: in `$XDG_RUNTIME_DIR`, else in /tmp; readable by us alone."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    directory = Path(runtime) / "headroom" if runtime else Path(f"/tmp/headroom-{os.getuid()}")  # noqa: S108
    if len(str(directory)) > LONGEST_STATE_PATH:
        raise DevClusterError(f"{directory} is too long for unix sockets: set XDG_RUNTIME_DIR to a shorter folder")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise DevClusterError(f"{directory} belongs to another user: set XDG_RUNTIME_DIR to a folder of your own")
    return directory


def state_directory(name: str) -> Path:
    """The folder of the cluster with this name; not made here."""
    if not NAME_PATTERN.fullmatch(name):
        raise DevClusterError(
            f"cluster name {name!r}: use 1 to 20 of a-z, 0-9 and '-', not starting or ending with '-'"
        )
    return clusters_directory() / name


@contextlib.contextmanager
def file_lock(path: Path, what: str, say: Callable[[str], None] = print) -> Iterator[None]:
    """Hold the lock of a file; the kernel gives it back when the process dies, however it dies.

    Args:
        path: the lock's file; made when missing, and left in place.
        what: the protected thing, for the line that names the holder.
        say: takes the lines "waiting for pid N, which …".
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        _wait_for(file.fileno(), path, what, say)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
        file.truncate(0)


def _wait_for(descriptor: int, path: Path, what: str, say: Callable[[str], None]) -> None:
    next_line = started = time.monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= next_line:
                holder = path.read_text() or "unknown"
                say(f"waiting for pid {holder}, which has the lock of {what} ({time.monotonic() - started:.0f} s)")
                next_line = time.monotonic() + SAY_EVERY_SECONDS
            time.sleep(PAUSE_SECONDS)
        else:
            return
