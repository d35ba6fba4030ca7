"""The webhook as the manager knows it: what outlives a run against the API server, and what belongs to one."""

import ipaddress
from collections.abc import Callable, Coroutine
from typing import Any

from headroom.kube import ApiServer
from manager.metrics import ManagerMetrics
from manager.profiles.state import Profiles
from manager.settings import Settings
from manager.webhook.certificate import ServingCertificate
from manager.webhook.listener import Listener
from manager.webhook.metrics import WebhookMetrics
from manager.webhook.server import WebhookServer


class Webhook:
    """A per process; it claims its port when it is made. Raises ListenError: the port is not free."""

    def __init__(self, settings: Settings, metrics: ManagerMetrics) -> None:
        counts = metrics.of(WebhookMetrics)
        self._listener = Listener(settings.webhook.listen)
        names = served_names(settings.webhook.service_name, settings.namespace, self._listener.host)
        self._serving = ServingCertificate(settings, names, counts)
        self.profiles = Profiles()
        """The ClusterColocationProfiles of this replica."""
        self.server = WebhookServer(
            self._listener, self._serving, settings.namespace, settings.config_name, counts, self.profiles
        )
        """The listener's address and certificate for kopf."""

    def keep_certificate(
        self, api: ApiServer, leads: Callable[[], bool], wall: Callable[[], float]
    ) -> Coroutine[Any, Any, None]:
        """Return the background task that keeps the certificate during a run, with the wall clock. [unix s]"""
        return self._serving.keep(api, leads, wall)

    @property
    def authority(self) -> str:
        """The authority that API servers are to trust, in base64; empty: none yet, or cert-manager's."""
        return self._serving.authority

    def close(self) -> None:
        """Give up a port that was never listened on."""
        self._listener.close()


def served_names(service: str, namespace: str, host: str) -> tuple[str, ...]:
    """Return the names of the certificate: those of the Service, and the host that the webhook listens on."""
    names = (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return (*names, host) if host else names
    return names if address.is_unspecified else (*names, str(address))
