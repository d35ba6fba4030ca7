"""The extender with injected faults, to be run with `python -m`. Its own flags, in addition to the extender's:

`--dies-when=held`: it kills itself as soon as it has written the first hold, before any eviction.
`--dies-when=evicted`: it kills itself as soon as the first pod is evicted.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from scheduler_plugins.__main__ import main
from scheduler_plugins.preemption import eviction, hold_writer

DIES_HELD, DIES_EVICTED = "--dies-when=held", "--dies-when=evicted"


def _crash_after(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def crash(*given: Any, **named: Any) -> None:  # noqa: ANN401 - arguments of the call
        await call(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return crash


def _injected(word: str) -> bool:
    if word == DIES_HELD:
        setattr(hold_writer, "write", _crash_after(hold_writer.write))  # noqa: B010 - mypy forbids the assignment
    elif word == DIES_EVICTED:
        setattr(eviction, "evict", _crash_after(eviction.evict))  # noqa: B010 - as above
    else:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main([word for word in sys.argv[1:] if not _injected(word)]))
