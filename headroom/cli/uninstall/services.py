"""The services that would put back what is taken away, as their Deployments tell. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headroom.cli import manager_state
from headroom.kube import paths

_LEASE_FLAG: Final = "--leader-lease"
_SCHEDULER: Final = "headroom-scheduler"

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Service:
    """A service with a Deployment, of whose replicas the one that holds a Lease writes."""

    noun: str
    """What people call it."""
    name: str
    """Of its Deployment, and of the label of its pods."""
    lease: str
    """Name of its Lease; of the scheduler's what pods call it, too."""

    @property
    def label(self) -> str:
        """Selects its pods."""
        return f"app.kubernetes.io/name={self.name}"

    def deployment_path(self, namespace: str) -> str:
        """Path of its Deployment."""
        return f"/apis/apps/v1/namespaces/{namespace}/deployments/{self.name}"

    def lease_path(self, namespace: str) -> str:
        """Path of its Lease."""
        return paths.lease(namespace, self.lease)


MANAGER: Final = Service("manager", manager_state.NAME, manager_state.NAME)
"""It would put back what is taken from Nodes."""


def scheduler(deployment: Json | None) -> Service:
    """The scheduler: it would put back its Lease, whose name is among the flags of its Deployment.

    Args:
        deployment: the scheduler's, or None where there is none.
    """
    told = manager_state.flag(deployment, _LEASE_FLAG) or ""
    return Service("scheduler", _SCHEDULER, told.rpartition("/")[2] or _SCHEDULER)
