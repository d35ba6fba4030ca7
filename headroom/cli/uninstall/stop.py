"""Stops a service of ours, and makes sure that none is left that would put everything back."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headroom import kube
from headroom.cli import live
from headroom.cli import output as outputs
from headroom.cli.errors import CommandError
from headroom.cli.uninstall.services import MANAGER, Service
from manager.mid.explanation.lease import DEFAULT_LEASE_SECONDS

_LONGEST_SECONDS: Final = 180.0
_POLL_SECONDS: Final = 0.5
_FREE_FOR_SECONDS: Final = 5.0


Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Clock:
    """How time passes; tests bring their own."""

    now: Callable[[], float] = time.monotonic
    """A clock that never jumps. [s]"""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits so many seconds."""


class _Record:
    """The Lease as it changes, judged by our own clock: clocks need not agree."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._record: tuple[str, str] | None = None
        self._since = clock.now()
        self.holder = ""
        self.renewals = 0
        """How often it was seen to change while it was held."""
        self._free_since: float | None = None

    def saw(self, lease: Json | None) -> None:
        """Take what was read; None: there is none."""
        spec = (lease or {}).get("spec") or {}
        self.holder = str(spec.get("holderIdentity") or "")
        record, now = (self.holder, str(spec.get("renewTime"))), self._clock.now()
        if record != self._record:
            self.renewals += 1 if self._record is not None and self.holder else 0
            self._record, self._since = record, now
        seconds = spec.get("leaseDurationSeconds") or DEFAULT_LEASE_SECONDS
        if self.holder and now - self._since <= seconds:
            self._free_since = None
        elif self._free_since is None:
            self._free_since = now

    @property
    def free(self) -> bool:
        """Whether nobody holds it."""
        return self._free_since is not None

    def free_for(self, seconds: float) -> bool:
        """Whether nobody has held it for so long."""
        return self._free_since is not None and self._clock.now() - self._free_since >= seconds


async def stop(api: kube.ApiServer, namespace: str, clock: Clock | None = None, service: Service = MANAGER) -> int:
    """Scale a Deployment of ours to nothing and wait until nobody holds its Lease.

    Args:
        api: the cluster.
        namespace: Headroom's.
        clock: how time passes.
        service: whose.

    Returns:
        How many replicas the Deployment had.

    Raises:
        CommandError: one that this command cannot stop goes on, or it does not end.
    """
    clock = clock or Clock()
    deployment = await live.optional(api, service.deployment_path(namespace))
    before = replicas(deployment) if deployment else 0
    if before:
        _say(f"Stopping the {service.noun}: Deployment {namespace}/{service.name} is scaled to 0")
        await api.patch(f"{service.deployment_path(namespace)}/scale", {"spec": {"replicas": 0}})
    record, end, told = _Record(clock), clock.now() + _LONGEST_SECONDS, False
    while True:
        record.saw(await live.optional(api, service.lease_path(namespace)))
        ending = deployment is not None and await _has_pods(api, namespace, service)
        # Of pods on a node that is gone nobody ever says that they have ended.
        if record.free and (not ending or record.free_for(_FREE_FOR_SECONDS)):
            return before
        if record.renewals and not (ending or before):
            raise CommandError(foreign(namespace, record.holder, service))
        if clock.now() > end:
            raise CommandError(_does_not_end(namespace, record.holder, service))
        if not (told or before or record.free):
            _say(f"Waiting to see whether {record.holder} still renews the Lease {namespace}/{service.lease}")
            told = True
        await clock.sleep(_POLL_SECONDS)


def foreign(namespace: str, holder: str, service: Service = MANAGER) -> str:
    """What to say of a replica that is at work and cannot be stopped from here."""
    return (
        f"A {service.noun} is at work that no Deployment {namespace}/{service.name} runs, and it would put everything "
        f"back: {holder} holds the Lease {namespace}/{service.lease}. Stop it, then run this again."
    )


def _does_not_end(namespace: str, holder: str, service: Service) -> str:
    return (
        f"The {service.noun} does not end: after {_LONGEST_SECONDS:.0f} s {holder} still holds the Lease "
        f"{namespace}/{service.lease}. What it writes was not removed. Look at kubectl get pods -n {namespace} "
        f"-l {service.label}, then run this again."
    )


async def _has_pods(api: kube.ApiServer, namespace: str, service: Service) -> bool:
    """Whether pods of it are left."""
    return bool(await live.objects(api, kube.paths.pods(namespace), labelSelector=service.label))


def replicas(deployment: Json) -> int:
    """How many replicas a Deployment asks for; the API's own default is one."""
    asked = (deployment.get("spec") or {}).get("replicas")
    return 1 if asked is None else int(asked)


def _say(line: str) -> None:
    outputs.line(line, sys.stderr)
