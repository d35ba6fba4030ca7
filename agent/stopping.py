"""SIGTERM and SIGINT: stop cleanly, and within two seconds whatever hangs.

A clean stop saves what was learned and closes the database. If something does not let go (a disk that does not answer,
a server that keeps a connection), the program ends all the same. Nothing that was measured is lost then either: every
tick was written through, and what was learned since the last checkpoint is learned again from the samples.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

log = logging.getLogger(__name__)

_LOG_SECONDS: Final = 0.1


def on_signals(stop: asyncio.Event, grace_seconds: float, end: Callable[[int], object] = os._exit) -> None:
    """Set an event on SIGTERM and SIGINT, and end the program if that is not enough.

    Python's own handler, not the loop's: it runs even while a tick waits for a file.

    Args:
        stop: What the agent waits for; of the running loop.
        grace_seconds: How long a clean stop may take. [s]
        end: Ends the program at once, given an exit code.
    """
    loop = asyncio.get_running_loop()
    deadline = threading.Timer(grace_seconds, _end_now, [end])
    deadline.daemon = True

    def handle(_number: int, _frame: FrameType | None) -> None:
        if deadline.ident is None:  # the first signal; a second one changes nothing
            loop.call_soon_threadsafe(stop.set)
            deadline.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)


def _end_now(end: Callable[[int], object]) -> None:
    text = "something did not let go in time: ending without a last checkpoint; the samples are safe"
    telling = threading.Thread(target=log.warning, args=[text], daemon=True)  # the log may be what hangs
    telling.start()
    telling.join(_LOG_SECONDS)
    end(0)
