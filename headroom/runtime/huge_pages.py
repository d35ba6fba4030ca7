"""Huge pages for the heap of a process that others interrupt all the time.

The CPU finds all of the heap by few entries of its table of pages (TLB), so that less of it is cold after a pause.
"""

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_SMAPS: Final = Path("/proc/self/smaps")
_COLLAPSE: Final = 25  # MADV_COLLAPSE of madvise(2), since Linux 6.1
_SIZE: Final = 2 * 2**20  # of a huge page [bytes]
_LEAST_SHARE: Final = 0.75  # of a mapping that is in memory; stacks of threads have less, and would be filled
_MAPPING: Final = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(?:\[heap\]|\[anon:.*\])?\n(?:\w+: .*\n)*?Rss: +(\d+) kB$", re.MULTILINE
)


def collapse() -> None:
    """Move the present heap into huge pages, which takes some milliseconds for each of them. Threads go on meanwhile.

    Nothing changes where the kernel does not support that, or has too little memory.
    """
    try:
        smaps = _SMAPS.read_text(encoding="utf-8")
    except OSError:
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for start, length in heap(smaps):
        advise(start, length, _COLLAPSE)


def heap(smaps: str) -> Iterator[tuple[int, int]]:
    """The address and the length of each part that huge pages can hold, from the text of /proc/PID/smaps. [bytes]"""
    for first, last, resident in _MAPPING.findall(smaps):
        start, end = int(first, 16), int(last, 16)
        if int(resident) * 1024 >= (end - start) * _LEAST_SHARE:
            aligned = -(-start // _SIZE) * _SIZE
            if (length := (end - aligned) // _SIZE * _SIZE) > 0:
                yield aligned, length
