"""The manager as it can be seen from outside: its Deployment, and the Lease of the replica that writes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cli.reports import age
from manager.exclusion import Exclusion

NAME: Final = "headroom-manager"
"""Name of the manager's Deployment and of its Lease."""
_DEFAULT_LEASE_SECONDS: Final = 15

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Lease:
    """Who writes, and since when nothing was heard of it."""

    holder: str
    """Name of the replica; empty when it was given back."""
    renewed_ago: float | None
    """Time since it was renewed, by our clock. [s]"""
    seconds: float
    """It counts for so long after that. [s]"""

    @property
    def held(self) -> bool:
        """Whether somebody writes, as far as our clock and the writer's agree."""
        return bool(self.holder) and self.renewed_ago is not None and self.renewed_ago <= self.seconds


def lease_of(obj: Json | None, now: float) -> Lease | None:
    """What a Lease says; None where there is none.

    Args:
        obj: the Lease as JSON.
        now: the clock. [unix s]
    """
    if obj is None:
        return None
    spec = obj.get("spec") or {}
    renewed = spec.get("renewTime")
    seconds = spec.get("leaseDurationSeconds") or _DEFAULT_LEASE_SECONDS
    return Lease(str(spec.get("holderIdentity") or ""), age(str(renewed), now) if renewed else None, float(seconds))


def deployment_path(namespace: str) -> str:
    """Path of the manager's Deployment."""
    return f"/apis/apps/v1/namespaces/{namespace}/deployments/{NAME}"


def exclusion(deployment: Json | None) -> Exclusion:
    """Which nodes the manager is told to leave alone; the default where its Deployment is not there or says nothing."""
    text = flag(deployment, "--exclude-nodes")
    try:
        return Exclusion() if text is None else Exclusion.of(text)
    except ValueError:  # such a manager does not start
        return Exclusion()


def flag(deployment: Json | None, name: str) -> str | None:
    """The value of a flag in a Deployment's command, such as "--exclude-nodes"; None where it is not given."""
    found = None
    words = _words(deployment or {})
    for word in words:
        given, equals, value = word.partition("=")
        if given == name:
            found = value if equals else next(words, "")
    return found


def _words(deployment: Json) -> Iterator[str]:
    template = (deployment.get("spec") or {}).get("template") or {}
    for container in (template.get("spec") or {}).get("containers") or ():
        for word in (*(container.get("command") or ()), *(container.get("args") or ())):
            yield str(word)
