"""Makes the changes of a plan, some at a time, and again where the API server was busy."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from headroom import kube
from headroom.cli.uninstall.plan import Change
from headroom.cli.uninstall.stop import Clock

_AT_ONCE: Final = 16
"""So many writes at a time: 5,000 Nodes took a minute on two busy cores, and the API server has room for others."""
_ATTEMPTS: Final = 6
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 10.0

Outcome = tuple[Change, str]
"""A change, and why it failed; empty when it is done."""


async def carry_out(api: kube.ApiServer, changes: Sequence[Change], clock: Clock) -> list[Outcome]:
    """Make the changes, some at a time; one that fails stops no other. In the order of the changes."""
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(change: Change) -> Outcome:
        async with turn:
            return change, await _attempts(lambda: _make(api, change), clock)

    nodes = [each for each in changes if each.kind == "Node"]
    others = [each for each in changes if each.kind != "Node"]
    # Nodes come first: whatever interrupts this, what is left can be found and taken away by the next run.
    return [*await asyncio.gather(*map(one, nodes)), *await asyncio.gather(*map(one, others))]


async def _attempts(make: Callable[[], Awaitable[None]], clock: Clock) -> str:
    """Why it failed after several attempts; empty when it is done."""
    pause, why = _FIRST_PAUSE_SECONDS, ""
    for attempt in range(_ATTEMPTS):
        asked = 0.0
        try:
            await make()
        except kube.ApiUnavailable as error:
            why, asked = str(error), error.retry_after or 0.0
        except kube.ApiError as error:
            if not error.conflict:
                return str(error)
            why = str(error)
        else:
            return ""
        if attempt < _ATTEMPTS - 1:
            await clock.sleep(max(pause * random.uniform(0.5, 1.0), asked))  # noqa: S311 - it spreads attempts
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
    return why


async def _make(api: kube.ApiServer, change: Change) -> None:
    try:
        if change.patch is not None:
            await api.patch(change.path, change.patch)
        else:
            await api.delete(change.path, {"preconditions": {"uid": change.uid}} if change.uid else None)
    except kube.ApiError as error:
        if not error.not_found:  # else somebody was faster
            raise
