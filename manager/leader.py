"""One replica writes at a time: leader election on a Lease.

A replica that was stopped for a while (SIGSTOP, a frozen virtual machine) must not write when it resumes. So it checks
right before each write that it still holds the Lease, and each write must end before another replica can begin one.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from headroom.kube import ApiError, ApiServer, ApiUnavailable, paths
from manager.settings import LeaderSettings

_LOG: Final = logging.getLogger(__name__)
_JITTER: Final = 0.2

Json = dict[str, Any]


class NotLeading(ApiUnavailable):
    """Another replica may be writing now; this one must not."""


class LeaderElector:
    """Holds or awaits the Lease.

    Another replica's Lease expires by the own clock, counted from its last observed change: clocks need not agree.

    Args:
        api: the session.
        namespace: where the Lease is.
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
        namespace: str,
        identity: str,
        settings: LeaderSettings,
        clock: Callable[[], float],
        on_change: Callable[[], None],
        own_clock: Callable[[], float] | None = None,
    ) -> None:
        self._api = api
        self._collection = paths.LEASES.format(namespace=namespace)
        self._path = paths.lease(namespace, settings.lease_name)
        self._identity = identity
        self._settings = settings
        self._clock = clock
        self._own_clock = own_clock or clock
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
        """Whether this replica may write now: always without an election, else while it certainly holds the Lease."""
        if not self._settings.enabled:
            return True
        return self._renewed_at is not None and (
            self._own_clock() - self._renewed_at < self._settings.renew_deadline_seconds
        )

    @property
    def is_standby(self) -> bool:
        """Whether another replica may be writing; a leader that could not renew its Lease in time is no standby."""
        return self._settings.enabled and self._renewed_at is None

    @property
    def description(self) -> str:
        """The role of this replica, for people."""
        if self.is_leader:
            return "leads" if self._settings.enabled else "leads: there is no election"
        return f"stands by for {self._holder}" if self._holder else "waits for the Lease"

    def may_write_for(self) -> float:
        """How long a write that begins now may take: it must have ended before another replica may begin. [s]

        Raises:
            NotLeading: none may begin.
        """
        if not self._settings.enabled:
            return float("inf")
        if not self.is_leader or self._renewed_at is None:
            raise NotLeading("this replica does not lead any more")
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
                    _LOG.warning("The Lease %s cannot be read or written, trying again: %s", self._path, error)
                self._failure_logged = True
            if self.is_leader and not (led and logged == self.term):
                _LOG.info("Leading: this replica (%s) now writes", self._identity)
                logged = self.term
                self._on_change()
            elif led and not self.is_leader:
                _LOG.warning("No longer leading: this replica (%s) writes no more", self._identity)
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
            lease = await self._api.get(self._path)
            if lease.get("spec", {}).get("holderIdentity") == self._identity:
                await self._write(lease, {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()})
        except (ApiError, ApiUnavailable) as error:
            _LOG.warning("The Lease %s could not be released; it expires by itself: %s", self._path, error)

    async def _attempt(self) -> None:
        if await self._renew():
            return
        started = self._own_clock()
        try:
            lease = await self._api.get(self._path)
        except ApiError as error:
            if not error.not_found:
                raise
            lease = None
        try:
            if lease is None:
                self._held = await self._create()
            elif self._may_take(lease):
                self._held = await self._write(lease, self._claim(lease))
            else:
                self._renewed_at = None
                self._holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
                return
        except ApiError as error:
            if error.conflict:  # another replica was faster
                self._renewed_at = None
                return
            raise
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
        holder = spec.get("holderIdentity") or ""
        record = f"{holder} {spec.get('renewTime')} {lease.get('metadata', {}).get('resourceVersion')}"
        if self._seen[0] != record:
            self._seen = (record, self._clock())
        duration = spec.get("leaseDurationSeconds") or self._settings.lease_seconds
        return holder in {"", self._identity} or self._clock() - self._seen[1] > duration

    def _claim(self, lease: Json) -> Json:
        spec = lease.get("spec") or {}
        claim: Json = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._settings.lease_seconds,
            "renewTime": _now(),
        }
        if spec.get("holderIdentity") != self._identity:
            claim["acquireTime"] = claim["renewTime"]
            claim["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        return claim

    async def _create(self) -> Json:
        now = _now()
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._settings.lease_seconds,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._settings.lease_name},
            "spec": spec,
        }
        return await self._api.create(self._collection, body)

    async def _write(self, lease: Json, spec: Json) -> Json:
        # The version makes the server refuse if another replica wrote in between.
        version = lease["metadata"]["resourceVersion"]
        return await self._api.patch(self._path, {"metadata": {"resourceVersion": version}, "spec": spec})


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
