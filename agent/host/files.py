"""Files that are read every second: opened once, read again from the start, opened anew when they were replaced."""

import errno
import os
from pathlib import Path

_BYTES = 16384


class Unreadable(OSError):  # noqa: N818 - what the file is
    """A file that is not there or cannot be read; the message names it."""


class HeldFile:
    """One file of /proc or a cgroup, held open.

    A cgroup that was removed and made again is another cgroup, though its path is the same: `identity` tells them
    apart, so that a counter is never compared with its predecessor's.
    """

    __slots__ = ("_descriptor", "_path", "_plain", "identity")

    def __init__(self, path: Path | str) -> None:
        self._path = os.fspath(path)
        self._descriptor = -1
        self._plain = False
        self.identity: int = 0
        """Number of the folder that the file was last read from."""

    def read(self) -> str:
        """The content now.

        Raises:
            Unreadable: It is gone, or may not be read.
        """
        try:
            if self._descriptor < 0 or (self._plain and os.fstat(self._descriptor).st_nlink == 0):
                self._open()
            try:
                return self._content()
            except OSError as error:
                if error.errno != errno.ENODEV:  # what a removed cgroup answers
                    raise
                self._open()
                return self._content()
        except OSError as error:
            self.close()
            raise Unreadable(error.errno, f"{self._path}: {error.strerror}") from error

    def close(self) -> None:
        """Let go of the file; the next read opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        self.close()
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        # Files of /proc and cgroups have no size. One that has is part of a recorded tree, where a writer may
        # replace it at every step.
        self._plain = os.fstat(self._descriptor).st_size > 0
        self.identity = os.stat(os.path.dirname(self._path)).st_ino  # noqa: PTH116, PTH120 - once per pod and second

    def _content(self) -> str:
        data = os.pread(self._descriptor, _BYTES, 0)
        at = len(data)
        while at and at % _BYTES == 0:
            more = os.pread(self._descriptor, _BYTES, at)
            if not more:
                break
            data += more
            at += len(more)
        return data.decode("ascii", "replace")
