"""Which replica decides for the whole cluster: the extender beside the kube-scheduler that leads.

kube-schedulers elect a leader among themselves by a Lease, and the extender next to the leader is the one that is
asked. So there is no election here: the Lease is read, and our right to write follows from it. It ends before another
replica's can begin, also where we are frozen, the API server is away, or the Lease is given back early.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from headroom.kube import ApiError, ApiUnavailable, paths
from headroom.runtime.lease_clock import perhaps_elapsed
from scheduler_plugins.snapshot.units import unix_time

POLL_SECONDS: Final = 2.0
"""How often the Lease is read, which is as often as kube-scheduler renews it by default. [s]"""

_READS: Final = 5
"""So often a Lease is read at least while it lasts: the right to write runs from the read before the last renewal."""

_DEFAULT_DURATION_SECONDS: Final = 15.0
_LOG: Final = logging.getLogger(__name__)


class NotLeading(ApiUnavailable):
    """Another replica may be writing now; this one must not."""


class ReadsLeases(Protocol):
    """The part of the API session that is needed."""

    async def get(self, path: str) -> Mapping[str, Any]:
        """Read one object."""
        ...


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Where kube-scheduler's Lease is."""

    namespace: str
    """Its namespace."""
    name: str
    """Its name."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class _Record:
    """What a Lease says."""

    holder: str
    renewed: str
    acquired: str
    duration: float
    first: bool
    """Whether nobody held it before."""

    @classmethod
    def of(cls, lease: Mapping[str, Any]) -> "_Record":
        spec = lease.get("spec") or {}
        duration = spec.get("leaseDurationSeconds")
        return cls(
            holder=str(spec.get("holderIdentity") or ""),
            renewed=str(spec.get("renewTime") or ""),
            acquired=str(spec.get("acquireTime") or ""),
            duration=float(duration) if duration else _DEFAULT_DURATION_SECONDS,
            first=not spec.get("leaseTransitions"),
        )

    @property
    def held_for(self) -> float:
        """For how long its holder has held it for sure, by the holder's own clock. [s]"""
        try:
            renewed, acquired = unix_time(self.renewed), unix_time(self.acquired)
        except ValueError:
            return 0.0
        return 0.0 if renewed is None or acquired is None else renewed - acquired


class Leader:
    """Says whether this replica leads.

    It may write until the Lease can expire: the Lease was renewed after we had last read the renewal before that one.
    It begins when the right of any other holder has run out, also of one that gave the Lease back and may not have
    noticed yet: as soon as we saw the Lease stay as another had left it for its duration, or it has been our
    kube-scheduler's for as long.

    Args:
        api: the session.
        lease: kube-scheduler's Lease; None: this is the only replica, and always leads.
        identity: of this replica's kube-scheduler, up to the underscore: its host name.
        clock: how much time has passed, on the safe side. [s]
    """

    def __init__(
        self, api: ReadsLeases, lease: LeaseName | None, identity: str, clock: Callable[[], float] | None = None
    ) -> None:
        self._api = api
        self._lease = lease
        self._prefix = f"{identity}_"
        self._clock = clock or perhaps_elapsed()
        self._record: _Record | None = None
        self._seen_at = float("-inf")
        self._polled_at: float | None = None
        self._begins = float("inf")
        self._until = float("-inf")
        self._told = False

    def leads(self) -> bool:
        """Whether this replica may write now."""
        return self._lease is None or self._begins <= self._clock() < self._until

    def may_write_for(self) -> float:
        """How long a write that begins now may take: it must have ended before another replica may begin. [s]

        Raises:
            NotLeading: none may begin.
        """
        if self._lease is None:
            return float("inf")
        now = self._clock()
        if not self._begins <= now < self._until:
            raise NotLeading("this replica does not lead any more")
        return self._until - now

    @property
    def words(self) -> str:
        """What this replica does, for people."""
        if self.leads():
            return "leads" if self._lease is not None else "leads: there is no other replica"
        holder = self._record.holder if self._record is not None else ""
        if not holder:
            return f"stands by: nobody is known to hold the Lease {self._lease}"
        return f"begins soon: {holder} leads" if self._ours(holder) else f"stands by: {holder} leads"

    @property
    def poll_seconds(self) -> float:
        """After which time the Lease is read again: sooner where it is a short one. [s]"""
        return min(POLL_SECONDS, (self._record.duration if self._record else _DEFAULT_DURATION_SECONDS) / _READS)

    async def run(self) -> None:
        """Read the Lease, for ever."""
        led = False
        while self._lease is not None:
            await self.poll()
            if self.leads() != led:
                led = not led
                _LOG.info("This replica %s", self.words)
            await asyncio.sleep(self.poll_seconds)

    async def poll(self) -> None:
        """Read the Lease once. While it cannot be read, what was read last counts until it expires."""
        if self._lease is None:
            return
        started = self._clock()
        try:
            found = _Record.of(await self._api.get(paths.lease(self._lease.namespace, self._lease.name)))
        except (ApiError, ApiUnavailable) as error:
            if not self._told:
                _LOG.warning("The Lease %s cannot be read, trying again: %s", self._lease, error)
            self._told = True
            return
        self._told = False
        self._take(found, started)

    def _take(self, found: _Record, started: float) -> None:
        now, former = self._clock(), self._record
        if not self._ours(found.holder):
            self._begins, self._until = float("inf"), float("-inf")
        elif found != former:
            if found.first or found.held_for >= found.duration:
                self._begins = float("-inf")
            elif former is None or not self._ours(former.holder):
                expired = former is not None and started - self._seen_at >= found.duration
                self._begins = now if expired else now + found.duration
            if self._polled_at is not None:  # it was renewed after that read
                self._until = self._polled_at + found.duration
        if found != former:
            self._record, self._seen_at = found, now
        self._polled_at = started

    def _ours(self, holder: str) -> bool:
        return holder.startswith(self._prefix)
