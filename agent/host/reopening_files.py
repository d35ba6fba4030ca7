"""Files that are read every second: opened once, read again from the start, and opened again after a replacement."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

_BYTES = 16384
_MOST_BYTES = 1 << 22
_SLOW_SECONDS = 0.02
_GONE = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR)


class Unreadable(OSError):  # noqa: N818 - the state of the file
    """A file or folder that is not there or cannot be read; the message names it."""

    @property
    def gone(self) -> bool:
        return self.errno in _GONE

    @property
    def unsupported(self) -> bool:
        """Return whether the kernel has the file without its function, such as pressure files with psi=0."""
        return self.errno == errno.EOPNOTSUPP


def unreadable(path: Path | str, error: OSError) -> Unreadable:
    return Unreadable(error.errno, f"{path}: {error.strerror}")


def _no_clock() -> float:
    return 0.0


class ReopeningFile:
    """A file of /proc or a cgroup, held open.

    A cgroup that was removed and created again is another cgroup with the same path: `identity` differs,
    so that a counter is never compared with its predecessor's.
    """

    __slots__ = ("_clock", "_descriptor", "_folder", "_name", "_plain", "at", "identity")

    def __init__(self, path: Path | str, clock: Callable[[], float] = _no_clock) -> None:
        self._folder, self._name = os.path.split(os.fspath(path))
        self._clock = clock
        self._descriptor = -1
        self._plain = False
        self.identity: int = 0  # number of the folder that the file was last read from
        self.at: float = 0.0  # when it was last read: the middle of the reading, by the clock. [s]

    @property
    def path(self) -> str:
        return os.path.join(self._folder, self._name)  # noqa: PTH118 - read every second

    def read(self) -> str:
        """The content now. Raises Unreadable: it is gone, or may not be read."""
        try:
            content, seconds = self._timed()
            if seconds > _SLOW_SECONDS:  # held up: the time of the content is unknown
                content, _ = self._timed()
        except OSError as error:
            self.close()
            raise unreadable(self.path, error) from error
        return content

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _timed(self) -> tuple[str, float]:
        before = self._clock()
        content = self._current()
        after = self._clock()
        self.at = (before + after) / 2
        return content, after - before

    def _current(self) -> str:
        if self._descriptor < 0 or (self._plain and os.fstat(self._descriptor).st_nlink == 0):
            self._open()
        try:
            return self._content()
        except OSError as error:
            if error.errno != errno.ENODEV:  # the error of a removed cgroup
                raise
            self._open()
            return self._content()

    def _open(self) -> None:
        self.close()
        folder = os.open(self._folder or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._descriptor = os.open(self._name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
            self.identity = os.fstat(folder).st_ino
        finally:
            os.close(folder)
        facts = os.fstat(self._descriptor)
        # Files of /proc and cgroups have no size. One that has is part of a recorded tree, where a writer may
        # replace it at every step.
        self._plain = facts.st_size > 0
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "not a plain file")

    def _content(self) -> str:
        data = os.pread(self._descriptor, _BYTES, 0)
        at = len(data)
        while at and at % _BYTES == 0:
            if at >= _MOST_BYTES:
                raise OSError(errno.EFBIG, f"more than {_MOST_BYTES >> 20} MiB")
            more = os.pread(self._descriptor, _BYTES, at)
            if not more:
                break
            data += more
            at += len(more)
        return data.decode("ascii", "replace")
