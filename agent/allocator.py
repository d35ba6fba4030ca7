"""What the C library does with memory that is no longer needed."""

import ctypes
from contextlib import suppress
from typing import Final

_M_MMAP_THRESHOLD: Final = -3  # in <malloc.h>
_LARGE: Final = 256 * 1024


def set_mmap_threshold() -> None:
    """Take each block of 256 KiB and more from the kernel by itself, so that it goes back as soon as it is freed.

    Left alone, glibc raises that bound to the largest block that was ever freed (mallopt(3)), and tables that grow
    leave holes behind. A C library that knows no such bound (musl) is left as it is.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)
