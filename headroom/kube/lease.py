"""A Lease decides which replica may write.

A `LeaderElector` takes part in an election; a `LeaseFollower` only reads the Lease of another program in its pod.
`may_write_for` checks both right before each write: a replica that was stopped for a while (SIGSTOP, a frozen virtual
machine) must not write when it resumes, and each write must end before another replica can begin one.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol, Self

from headroom.kube import paths
from headroom.kube.api import ApiServer, Json
from headroom.kube.errors import ApiError, ApiUnavailable, optional
from headroom.kube.server_clock import micro_time
from headroom.runtime.clocks import Elapsed

POLL_SECONDS: Final = 2.0  # how often a Lease is read, which is as often as kube-scheduler renews it by default [s]
_READS: Final = 5
"""So often a Lease is read at least while it lasts: the right to write runs from the read before the last renewal."""
_DEFAULT_DURATION_SECONDS: Final = 15.0
_JITTER: Final = 0.2
_LOG: Final = logging.getLogger(__name__)


class NotLeading(ApiUnavailable):
    """Another replica may be writing now; this one must not."""


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Where a Lease is."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        return paths.lease(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """Times of an election; a standby writes within 15 s of the leader's sudden end."""

    enabled: bool = False
    """True if to take part in an election; without it this process writes at once, so it must be the only one."""
    lease_seconds: int = 10  # a leader that has not renewed for this long is replaced [s]
    renew_deadline_seconds: float = 7.0
    """A leader that could not renew for this long stops writing; less than `lease_seconds`. [s]"""
    retry_seconds: float = 1.5  # time between two attempts to get or renew the Lease [s]


class LeaderElector:
    """Holds or awaits a Lease.

    Another replica's Lease expires by the own clock, counted from its last observed change: clocks need not agree.

    Args:
        api: the session.
        lease: the Lease.
        identity: name of this replica.
        settings: times.
        clock: a clock that never jumps. [s]
        on_change: called each time this replica becomes the leader, also when another one led unnoticed in between, and
            when another one has taken over.
        own_clock: the clock by which the own Lease expires; `None`: `clock`. [s]
    """

    def __init__(
        self,
        api: ApiServer,
        lease: LeaseName,
        identity: str,
        settings: LeaderSettings,
        clock: Callable[[], float],
        on_change: Callable[[], None],
        own_clock: Callable[[], float] | None = None,
    ) -> None:
        self._api, self._lease, self._identity, self._settings = api, lease, identity, settings
        self._clock, self._own_clock = clock, own_clock or clock
        self._on_change = on_change
        self._renewed_at: float | None = None
        self._seen: tuple[str, float] = ("", float("-inf"))
        self._failure_logged = False
        self._holder = ""
        self._held: Json | None = None
        self.term = ""
        """`acquireTime` of the Lease when this replica took it: another value means that another one led in between."""

    @property
    def is_leader(self) -> bool:
        """Return whether this replica may write now: always without an election, else while it holds the Lease."""
        if not self._settings.enabled:
            return True
        return self._renewed_at is not None and (
            self._own_clock() - self._renewed_at < self._settings.renew_deadline_seconds
        )

    @property
    def is_standby(self) -> bool:
        """Return whether another replica may write; a leader that failed to renew its Lease in time is no standby."""
        return self._settings.enabled and self._renewed_at is None

    @property
    def description(self) -> str:
        if self.is_leader:
            return "leads" if self._settings.enabled else "leads: there is no election"
        return f"is a standby of {self._holder}" if self._holder else "waits for the Lease"

    def may_write_for(self) -> float:
        """Return how long a write that begins now may take: it must end before another replica may begin. [s]

        Raises:
            NotLeading: none may begin.
        """
        if not self._settings.enabled:
            return float("inf")
        if not self.is_leader or self._renewed_at is None:
            raise NotLeading("this replica no longer leads")
        return self._renewed_at + self._settings.lease_seconds - self._own_clock()

    async def run(self) -> None:
        """Acquire the Lease and renew it, forever."""
        if not self._settings.enabled:
            self._on_change()
            await asyncio.Event().wait()
        led, ours, logged = False, False, ""
        while True:
            try:
                async with asyncio.timeout(self._settings.renew_deadline_seconds):
                    await self._attempt()
                self._failure_logged = False
            except (ApiError, ApiUnavailable, TimeoutError) as error:
                if not self._failure_logged:
                    _LOG.warning("The Lease %s cannot be read or written, trying again: %s", self._lease.path, error)
                self._failure_logged = True
            if self.is_leader and not (led and logged == self.term):
                _LOG.info("Leading: this replica (%s) now writes", self._identity)
                logged = self.term
                self._on_change()
            elif led and not self.is_leader:
                _LOG.warning("This replica (%s) no longer leads; it has stopped writing", self._identity)
            led = self.is_leader
            if ours and self._renewed_at is None:  # while the holder is unknown, no state is dropped
                self._on_change()
            ours = self._renewed_at is not None
            pause = self._settings.retry_seconds * random.uniform(1, 1 + _JITTER)  # noqa: S311 - it spreads replicas
            await asyncio.sleep(pause)

    async def release(self) -> None:
        """Release the Lease, so that another replica need not wait for it to expire."""
        if not self._settings.enabled or self._renewed_at is None:
            return
        self._renewed_at = self._held = None
        try:
            lease = await self._api.get(self._lease.path)
            if lease.get("spec", {}).get("holderIdentity") == self._identity:
                await self._write(lease, {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()})
        except (ApiError, ApiUnavailable) as error:
            _LOG.warning("The Lease %s could not be released; it expires by itself: %s", self._lease.path, error)

    async def _attempt(self) -> None:
        if await self._renew():
            return
        started = self._own_clock()
        lease = await optional(self._api.get(self._lease.path))
        if lease is not None and not self._may_take(lease):
            self._renewed_at = None
            return
        try:
            self._held = await (self._create() if lease is None else self._write(lease, self._claim(lease)))
        except ApiError as error:
            if not error.conflict:
                raise
            self._renewed_at = None  # another replica was faster
            return
        self._renewed_at, self.term = started, str(self._held["spec"].get("acquireTime", ""))

    async def _renew(self) -> bool:
        """Renew the Lease without reading it, unless another replica took it: a slow server gets one request."""
        lease, self._held = self._held, None
        if lease is None:
            return False
        started = self._own_clock()
        try:
            self._held = await self._write(lease, self._claim(lease))
        except ApiError as error:
            if error.conflict or error.not_found:
                return False
            raise
        self._renewed_at = started
        return True

    def _may_take(self, lease: Json) -> bool:
        spec = lease.get("spec") or {}
        holder = str(spec.get("holderIdentity") or "")
        record = f"{holder} {spec.get('renewTime')} {lease.get('metadata', {}).get('resourceVersion')}"
        if self._seen[0] != record:
            self._seen = (record, self._clock())
        duration = spec.get("leaseDurationSeconds") or self._settings.lease_seconds
        if holder in {"", self._identity} or self._clock() - self._seen[1] > duration:
            return True
        self._holder = holder
        return False

    def _claim(self, lease: Json | None) -> Json:
        spec = (lease or {}).get("spec") or {}
        now, seconds = _now(), self._settings.lease_seconds
        claim: Json = {"holderIdentity": self._identity, "leaseDurationSeconds": seconds, "renewTime": now}
        if spec.get("holderIdentity") != self._identity:
            transitions = 0 if lease is None else int(spec.get("leaseTransitions") or 0) + 1
            claim |= {"acquireTime": now, "leaseTransitions": transitions}
        return claim

    async def _create(self) -> Json:
        head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._lease.name}}
        collection = paths.LEASES.format(namespace=self._lease.namespace)
        return await self._api.create(collection, {**head, "spec": self._claim(None)})

    async def _write(self, lease: Json, spec: Json) -> Json:
        # The version makes the server refuse if another replica wrote in between.
        version = lease["metadata"]["resourceVersion"]
        return await self._api.patch(self._lease.path, {"metadata": {"resourceVersion": version}, "spec": spec})


def _now() -> str:
    return micro_time(time.time())


class ReadsLeases(Protocol):
    """The part of the API session that a follower needs."""

    async def get(self, path: str) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class _Record:
    """The content of a Lease."""

    holder: str
    renewed: str
    acquired: str
    duration: float
    first: bool  # whether it had no holder before

    @classmethod
    def of(cls, lease: Mapping[str, Any]) -> Self:
        spec = lease.get("spec") or {}
        return cls(
            holder=str(spec.get("holderIdentity") or ""),
            renewed=str(spec.get("renewTime") or ""),
            acquired=str(spec.get("acquireTime") or ""),
            duration=float(spec.get("leaseDurationSeconds") or _DEFAULT_DURATION_SECONDS),
            first=not spec.get("leaseTransitions"),
        )

    @property
    def held_for(self) -> float:
        """For how long its holder has held it for sure, by the holder's own clock. [s]"""
        try:
            held = datetime.fromisoformat(self.renewed) - datetime.fromisoformat(self.acquired)
        except (ValueError, TypeError):  # no times, or one of them without a zone
            return 0.0
        return held.total_seconds()


class LeaseFollower:
    """Follows the Lease of another program in the pod, such as kube-scheduler, to decide whether this replica leads.

    It may write until the Lease can expire: the Lease was renewed after we had last read the renewal before that one.
    It begins when the right of any other holder has run out, also of one that released the Lease and may not have
    noticed yet: as soon as we saw the Lease stay as another had left it for its duration, or it has been our
    kube-scheduler's for as long.
    """

    def __init__(
        self, api: ReadsLeases, lease: LeaseName | None, identity: str, clock: Callable[[], float] | None = None
    ) -> None:
        self._api, self._lease, self._prefix = api, lease, f"{identity}_"
        self._clock = clock or Elapsed()
        self._record: _Record | None = None
        self._seen_at = self._until = float("-inf")
        self._polled_at: float | None = None
        self._begins = float("inf")
        self._failure_logged = False

    def leads(self) -> bool:
        return self._lease is None or self._begins <= self._clock() < self._until

    def may_write_for(self) -> float:
        """Return how long a write that begins now may take: it must end before another replica may begin. [s]

        Raises:
            NotLeading: none may begin.
        """
        if self._lease is None:
            return float("inf")
        now = self._clock()
        if not self._begins <= now < self._until:
            raise NotLeading("this replica no longer leads")
        return self._until - now

    @property
    def description(self) -> str:
        if self.leads():
            return "leads" if self._lease is not None else "leads: there is no other replica"
        holder = self._record.holder if self._record is not None else ""
        if not holder:
            return f"is a standby; the Lease {self._lease} has no holder"
        return (
            f"becomes the leader soon: {holder} holds the Lease"
            if self._ours(holder)
            else f"is a standby; {holder} leads"
        )

    @property
    def poll_seconds(self) -> float:
        """After which time the Lease is read again: sooner where it is a short one. [s]"""
        return min(POLL_SECONDS, (self._record.duration if self._record else _DEFAULT_DURATION_SECONDS) / _READS)

    async def run(self) -> None:
        """Read the Lease, until cancelled."""
        led = False
        while self._lease is not None:
            await self.poll()
            if self.leads() != led:
                led = not led
                _LOG.info("This replica %s", self.description)
            await asyncio.sleep(self.poll_seconds)

    async def poll(self) -> None:
        """Read the Lease once. While that fails, the last known Lease counts until it expires."""
        if self._lease is None:
            return
        started = self._clock()
        try:
            result = _Record.of(await self._api.get(self._lease.path))
        except (ApiError, ApiUnavailable) as error:
            if not self._failure_logged:
                _LOG.warning("The Lease %s cannot be read, trying again: %s", self._lease, error)
            self._failure_logged = True
            return
        self._failure_logged = False
        self._take(result, started)

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
