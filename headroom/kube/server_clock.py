"""The API server's time, from the Date of its responses: the local wall clock may be wrong or set."""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from headroom.runtime.clocks import since_boot


def micro_time(seconds: float) -> str:
    """A time as a MicroTime of the API. [unix s]"""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class ServerClock:
    """The server's time. Before the first response it is our wall clock's."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = since_boot) -> None:
        self._wall, self._steady = wall, steady
        self._known: tuple[float, float] | None = None

    @property
    def is_known(self) -> bool:
        return self._known is not None

    @property
    def ahead_seconds(self) -> float:
        """Return the offset of the local wall clock to the server's; 0 while it is unknown. [s]"""
        return self._wall() - self() if self._known is not None else 0.0

    def __call__(self) -> float:
        """The API server's time. [unix s]"""
        if self._known is None:
            return self._wall()
        stamped, seen = self._known
        return stamped + self._steady() - seen

    def learn(self, date: str | None) -> None:
        """Record the `Date` of a response, exact to a second; ignore a malformed one."""
        with suppress(ValueError, OverflowError):
            self._known = parsedate_to_datetime(date or "").timestamp(), self._steady()
