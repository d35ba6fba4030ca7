"""Stops the manager, and makes sure that none is left that would put everything back."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import kubeapi
from cli import live, manager_state
from cli.errors import CommandError

_LABEL: Final = f"app.kubernetes.io/name={manager_state.NAME}"
_LONGEST_SECONDS: Final = 180.0
_POLL_SECONDS: Final = 0.5
_FREE_FOR_SECONDS: Final = 5.0
_DEFAULT_LEASE_SECONDS: Final = 15

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
        seconds = spec.get("leaseDurationSeconds") or _DEFAULT_LEASE_SECONDS
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


async def stop(api: kubeapi.ApiServer, namespace: str, clock: Clock | None = None) -> int:
    """Scale the manager's Deployment to nothing and wait until nobody holds the Lease.

    Args:
        api: the cluster.
        namespace: Headroom's.
        clock: how time passes.

    Returns:
        How many replicas the Deployment had.

    Raises:
        CommandError: a manager that this command cannot stop goes on, or it does not end.
    """
    clock = clock or Clock()
    deployment = await live.optional(api, manager_state.deployment_path(namespace))
    before = replicas(deployment) if deployment else 0
    if before:
        _say(f"Stopping the manager: Deployment {namespace}/{manager_state.NAME} is scaled to 0")
        await api.patch(manager_state.deployment_path(namespace), {"spec": {"replicas": 0}})
    record, end, told = _Record(clock), clock.now() + _LONGEST_SECONDS, False
    while True:
        record.saw(await live.optional(api, kubeapi.paths.lease(namespace, manager_state.NAME)))
        ending = deployment is not None and await _has_pods(api, namespace)
        # Of pods on a node that is gone nobody ever says that they have ended.
        if record.free and (not ending or record.free_for(_FREE_FOR_SECONDS)):
            return before
        if record.renewals and not (ending or before):
            raise CommandError(foreign_manager(namespace, record.holder))
        if clock.now() > end:
            raise CommandError(
                f"The manager does not end: after {_LONGEST_SECONDS:.0f} s {record.holder} still holds the Lease "
                f"{namespace}/{manager_state.NAME}. Nothing was removed. Look at kubectl get pods -n {namespace} "
                f"-l {_LABEL}, then run this again."
            )
        if not (told or before or record.free):
            _say(f"Waiting to see whether {record.holder} still renews the Lease {namespace}/{manager_state.NAME}")
            told = True
        await clock.sleep(_POLL_SECONDS)


def foreign_manager(namespace: str, holder: str) -> str:
    """What to say of a manager that is at work and cannot be stopped from here."""
    return (
        f"A manager is at work that no Deployment {namespace}/{manager_state.NAME} runs, and it would put everything "
        f"back: {holder} holds the Lease {namespace}/{manager_state.NAME}. Stop it, then run this again."
    )


async def _has_pods(api: kubeapi.ApiServer, namespace: str) -> bool:
    """Whether pods of the manager are left."""
    return bool(await live.objects(api, kubeapi.paths.pods(namespace), labelSelector=_LABEL))


def replicas(deployment: Json) -> int:
    """How many replicas a Deployment asks for; the API's own default is one."""
    asked = (deployment.get("spec") or {}).get("replicas")
    return 1 if asked is None else int(asked)


def _say(line: str) -> None:
    print(line, file=sys.stderr)
