"""The agent's process: SIGTERM and SIGINT end it within two seconds whatever hangs, and freed memory goes back.

A clean stop saves what was learned and closes the database. If something does not let go (a disk that does not answer,
a server that keeps a connection), the program ends all the same. Nothing that was measured is lost then either: every
tick was written through, and what was learned since the last checkpoint is learned again from the samples.
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
    """Take each block of 256 KiB and more from the kernel by itself, so that it goes back as soon as it is freed.

    Left alone, glibc raises that bound to the largest block that was ever freed (mallopt(3)), and tables that grow
    leave holes behind. A C library that knows no such bound (musl) is left as it is.
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
