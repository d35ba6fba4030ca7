"""The extender in trouble, to be run with `python -m`. Its own flags, beside those of the extender:

`--forget`: news of bound pods comes late, and there is no in-flight ledger: it shows what the ledger is good for.
`--dies-when=held`: it kills itself as soon as it has written the first hold, before anybody is evicted.
`--dies-when=evicted`: it kills itself as soon as the first pod is evicted.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from scheduler_plugins import wiring
from scheduler_plugins.__main__ import main
from scheduler_plugins.preemption import eviction, hold_writer
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.pod import PodRequest

FORGET = "--forget"
DIES_HELD, DIES_EVICTED = "--dies-when=held", "--dies-when=evicted"
LATE_PODS: Final = 300  # so many bound pods are not heard of yet while more are bound
LATE_SECONDS: Final = 3.0  # all are heard of when there has been no other for so long


class LateCache(ClusterCache):
    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as the cache takes them
        super().__init__(*given, **named)
        self._held: dict[str, tuple[PodRequest, float]] = {}
        self._heard: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def place(self, request: PodRequest, now: float) -> None:
        if not request.node_name or request.uid in self._heard:
            super().place(request, now)
            return
        self._held[request.uid] = (request, now)
        self._let_go(LATE_PODS)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(LATE_SECONDS, self._let_go, 0)

    def delete_pod(self, uid: str) -> None:
        self._held.pop(uid, None)
        super().delete_pod(uid)

    def _let_go(self, rest: int) -> None:
        while len(self._held) > rest:
            uid = next(iter(self._held))
            self._heard.add(uid)
            super().place(*self._held.pop(uid))


class ForgetfulCache(LateCache):
    """Keeps no account of pods in flight; pods that are known to be bound count as ever."""

    def charge(self, pod: PodRequest, names: Sequence[str], now: float) -> None:
        """Charge nothing."""


def _mortal(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def last(*given: Any, **named: Any) -> None:  # noqa: ANN401 - as the call takes them
        await call(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return last


def _trouble(word: str) -> bool:
    if word == FORGET:
        setattr(wiring, "ClusterCache", ForgetfulCache)  # noqa: B010 - not exported
    elif word == DIES_HELD:
        setattr(hold_writer, "write", _mortal(hold_writer.write))  # noqa: B010 - mypy would have it stay as it is
    elif word == DIES_EVICTED:
        setattr(eviction, "evict", _mortal(eviction.evict))  # noqa: B010 - as above
    else:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main([word for word in sys.argv[1:] if not _trouble(word)]))
