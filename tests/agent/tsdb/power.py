"""A disk that loses unflushed pages: SQLite writes through it, and the power may fail at any moment.

SQLite reaches files through a table of functions, its VFS. Ours is the system's with three of them wrapped: data
written is pending until the file is flushed, and a power failure leaves the flushed data and any part of
the pending data. Linux promises no more than that.
"""

import _sqlite3
import contextlib
import ctypes
import random
from collections.abc import Callable, Iterator
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p, cast
from pathlib import Path
from typing import Any

_OK = 0


class _File(ctypes.Structure):
    _fields_ = (("methods", c_void_p),)


_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(_File), c_int, c_void_p)  # the name is kept: no copy of it
_WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
_SYNC = CFUNCTYPE(c_int, c_void_p, c_int)


class _Methods(ctypes.Structure):
    _fields_ = (
        ("version", c_int),
        *((name, c_void_p) for name in ("close", "read")),
        ("write", _WRITE),
        ("truncate", _TRUNCATE),
        ("sync", _SYNC),
        *((f"other_{number}", c_void_p) for number in range(13)),
    )


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("version", c_int),
        ("file_size", c_int),
        ("longest_path", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", _OPEN),
        *((f"other_{number}", c_void_p) for number in range(15)),
    )


class Disk:
    """Flushed and pending data, by path."""

    def __init__(self) -> None:
        self.flushes = 0
        """The number of flushes of a file."""
        self._safe: dict[str, bytearray] = {}
        self._pending: dict[str, list[tuple[int, bytes | None]]] = {}  # offset and content; a new length without one

    def write(self, path: str, offset: int, content: bytes | None) -> None:
        """Something was written there, or the file was cut to that length."""
        self._pending.setdefault(path, []).append((offset, content))

    def flush(self, path: str) -> None:
        self.flushes += 1
        for change in self._pending.pop(path, []):
            _apply(self._safe.setdefault(path, bytearray()), *change)

    def begin(self, path: str) -> None:
        """A file was made, perhaps under the name of one that was deleted."""
        self._safe.pop(path, None)
        self._pending.pop(path, None)

    def fail(self, folder: Path, chance: random.Random, share: float) -> None:
        """Leave in a folder the state after a power failure at this moment, with a share of the pending data."""
        for path in self._safe.keys() | self._pending.keys():
            if path.endswith("-shm") or not Path(path).exists():  # the one is rebuilt, the other was deleted
                continue
            content = bytearray(self._safe.get(path, b""))
            for change in self._pending.get(path, []):
                if chance.random() < share:
                    _apply(content, *change)
            (folder / Path(path).name).write_bytes(content)


def _apply(content: bytearray, offset: int, new: bytes | None) -> None:
    if new is None:
        del content[offset:]
        content.extend(bytes(offset - len(content)))
        return
    content.extend(bytes(max(offset - len(content), 0)))
    content[offset : offset + len(new)] = new


@contextlib.contextmanager
def unreliable_disk(folder: Path) -> Iterator[Disk]:
    """Every database in a folder that is opened in the block lies on such a disk."""
    disk, stored = Disk(), list[Any]()
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = POINTER(_Vfs)
    system = library.sqlite3_vfs_find(None)
    ours = _Vfs.from_buffer_copy(system.contents)
    ours.name, ours.next = b"unreliable", None
    ours.open = _OPEN(_opening(_alone(_OPEN, system.contents.open), disk, folder, stored))
    library.sqlite3_vfs_register(ctypes.byref(ours), 1)
    try:
        yield disk
    finally:
        library.sqlite3_vfs_register(system, 1)
        library.sqlite3_vfs_unregister(ctypes.byref(ours))


def _opening(really: Callable[..., int], disk: Disk, folder: Path, kept: list[Any]) -> Callable[..., int]:
    def opened(vfs: int, name: int | None, file: Any, flags: int, out: int) -> int:  # noqa: ANN401 - a pointer
        path = Path(ctypes.string_at(name).decode()) if name else Path()
        is_new = not path.exists()
        code = int(really(vfs, name, file, flags, out))
        if code == _OK and path.parent == folder:
            methods = _Methods.from_buffer_copy(cast(file.contents.methods, POINTER(_Methods)).contents)
            if is_new:
                disk.begin(str(path))
            _watch(methods, str(path), disk)
            kept.append(methods)
            file.contents.methods = ctypes.addressof(methods)
        return code

    return opened


def _alone(kind: Any, function: Any) -> Any:  # noqa: ANN401 - functions of ctypes
    """A function that does not change with the table that it was taken from."""
    return kind(cast(function, c_void_p).value)


def _watch(methods: _Methods, path: str, disk: Disk) -> None:
    write, truncate, sync = (
        _alone(_WRITE, methods.write),
        _alone(_TRUNCATE, methods.truncate),
        _alone(_SYNC, methods.sync),
    )

    def writing(file: int, content: int, length: int, offset: int) -> int:
        disk.write(path, offset, ctypes.string_at(content, length))
        return int(write(file, content, length, offset))

    def cutting(file: int, length: int) -> int:
        disk.write(path, length, None)
        return int(truncate(file, length))

    def flushing(file: int, flags: int) -> int:
        code = int(sync(file, flags))
        if code == _OK:
            disk.flush(path)
        return code

    methods.write, methods.truncate, methods.sync = _WRITE(writing), _TRUNCATE(cutting), _SYNC(flushing)
