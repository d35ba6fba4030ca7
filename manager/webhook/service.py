"""The webhook as the manager knows it: what outlives a run against the API server, and what belongs to one."""

import ipaddress
from collections.abc import Callable, Coroutine
from typing import Any

from headroom.kube import ApiServer
from manager.metrics import ManagerMetrics
from manager.settings import Settings
from manager.webhook.listener import Listener
from manager.webhook.metrics import WebhookMetrics
from manager.webhook.rotator import CertRotator
from manager.webhook.server import WebhookServer
from manager.webhook.serving_certificate import ServingCertificate


class Webhook:
    """One per process; it claims its port when it is made.

    Args:
        settings: settings of the manager.
        telemetry: metrics.

    Raises:
        ListenError: the port is not free, or the address is not one; one line.
    """

    def __init__(self, settings: Settings, metrics: ManagerMetrics) -> None:
        self._settings = settings
        self._metrics = metrics.of(WebhookMetrics)
        self._listener = Listener(settings.webhook.listen)
        self._serving = ServingCertificate()
        self.server = WebhookServer(
            self._listener, self._serving, settings.namespace, settings.config_name, self._metrics
        )
        """What kopf serves with."""

    def keep_certificate(
        self, api: ApiServer, leads: Callable[[], bool], wall: Callable[[], float]
    ) -> Coroutine[Any, Any, None]:
        """The background task that keeps the certificate during a run.

        Args:
            api: the session.
            leads: whether this replica may write.
            wall: the wall clock. [unix s]
        """
        own = self._settings
        names = served_names(own.webhook.service_name, own.namespace, self._listener.host)
        keeper = CertRotator(api, own, names, self._serving, self._metrics, leads, wall)
        return keeper.run()

    def close(self) -> None:
        """Give up a port that was never listened on."""
        self._listener.close()


def served_names(service: str, namespace: str, host: str) -> tuple[str, ...]:
    """What a certificate must be for: the Service as API servers name it, and the host that is listened on."""
    names = [f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local"]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return (*names, host) if host else tuple(names)
    return tuple(names) if address.is_unspecified else (*names, str(address))
