"""The agent's process: SIGTERM and SIGINT end it within two seconds, and freed memory returns to the kernel.

A clean stop saves a checkpoint and closes the database. A blocked operation (a disk that does not respond, a server
that keeps a connection open) does not delay the exit. No sample is lost then: every tick was written through, and
training since the last checkpoint is repeated from the samples.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import threading
import time
from typing import Final

log = logging.getLogger(__name__)

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_LOG_SECONDS: Final = 0.1
_M_MMAP_THRESHOLD: Final = -3  # in <malloc.h>
_LARGE: Final = 256 * 1024


def set_mmap_threshold() -> None:
    """Allocate each block of 256 KiB and more with mmap, so that the kernel gets it back when it is freed.

    By default, glibc raises this threshold to the largest freed block (mallopt(3)), and growing tables
    leave holes behind. A C library without this threshold (musl) is not changed.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)


def on_signals(stop: asyncio.Event, grace_seconds: float) -> None:
    """Set an event of the running loop on SIGTERM and SIGINT, and end the program if that is not enough.

    A thread waits for them on a pipe that the system writes to: a call that holds up the loop, or Python itself, does
    not hold up this.
    """
    loop = asyncio.get_running_loop()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _SIGNALS:
        signal.signal(number, lambda *_: None)

    def watch() -> None:
        while not set(os.read(reader, 64)) & set(_SIGNALS):
            pass
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            loop.call_soon_threadsafe(stop.set)
        time.sleep(grace_seconds)
        text = "shutdown timed out; exiting without a final checkpoint, the samples are safe"
        logging_ = threading.Thread(target=log.warning, args=[text], daemon=True)  # the log may be what hangs
        logging_.start()
        logging_.join(_LOG_SECONDS)
        os._exit(0)

    threading.Thread(target=watch, name="signals", daemon=True).start()
