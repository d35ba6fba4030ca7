"""A lock between processes, so that one of them builds and the others wait and say for whom."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PAUSE_SECONDS = 0.2
SAY_EVERY_SECONDS = 30.0


@contextlib.contextmanager
def file_lock(path: Path, what: str, say: Callable[[str], None] = print) -> Iterator[None]:
    """Hold the lock of a file; the kernel gives it back when the process dies, however it dies.

    Args:
        path: the lock's file; made when missing, and left in place.
        what: what the lock protects, for the line that says whom we wait for.
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
