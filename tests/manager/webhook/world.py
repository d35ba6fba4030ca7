"""A cluster in memory with the webhook's configuration in it, for the tests of who keeps its certificate."""

import base64
import copy
from typing import Any

from headroom.kube import ApiError
from headroom.kube.api import APPLY, JSON_PATCH
from manager.metrics import ManagerMetrics
from manager.settings import Settings, WebhookSettings
from manager.webhook.certificates import Pair, read
from manager.webhook.metrics import WebhookMetrics
from manager.webhook.rotator import CertificateKeeper
from manager.webhook.serving_certificate import Serving
from tests.support.api import FakeApi

NOW = 1_800_000_000.0
DAY = 86400.0
NAMES = ("headroom-manager-webhook.headroom-system.svc",)
SECRET = "/api/v1/namespaces/headroom-system/secrets/headroom-manager-webhook-tls"  # noqa: S105 - a path
HOOK = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/headroom-colocation-config"
FORBIDDEN = ApiError(403, "Forbidden", "secrets is forbidden")

Json = dict[str, Any]


class Api(FakeApi):
    """An API server that also applies, and takes JSON patches."""

    async def patch(self, path: str, body: Any, content_type: str = "", params: Any = None) -> Json:  # noqa: ANN401
        """Apply an object, or a JSON patch."""
        self._enter("PATCH", path, body)
        if content_type == APPLY:
            assert params == {"fieldManager": "headroom-manager", "force": "true"}
            stored = self.objects.get(path)
            version = body["metadata"].get("resourceVersion")
            if version is not None and (stored is None or stored["metadata"]["resourceVersion"] != version):
                raise ApiError(409, "Conflict", "the object has been modified")
            merged = {**(stored or {}), **body, "data": {**((stored or {}).get("data") or {}), **body["data"]}}
            return self.put(path, merged)
        assert content_type == JSON_PATCH
        stored = copy.deepcopy(self._stored(path))
        for each in body:
            *parents, last = each["path"].strip("/").split("/")
            target: Any = stored
            for parent in parents:
                target = target[int(parent) if parent.isdigit() else parent]
            if each["op"] == "test":
                if target[last] != each["value"]:
                    raise ApiError(409, "Conflict", "the test failed")
            else:
                target[last] = each["value"]
        return self.put(path, stored)


class World:
    """A cluster with the webhook's configuration in it, and replicas."""

    def __init__(self, *, installed: bool = True) -> None:
        self.api = Api()
        self.now = NOW
        self.slept: list[tuple[float, bytes, Json | None]] = []
        self.metrics = ManagerMetrics()
        if installed:
            client = {"service": {"name": "headroom-manager-webhook", "namespace": "headroom-system"}}
            metadata = {"name": "headroom-colocation-config", "uid": "hook"}
            self.api.put(HOOK, {"metadata": metadata, "webhooks": [{"name": "w", "clientConfig": client}]})

    def replica(self, *, leads: bool = True, certificates: str = "self") -> tuple[CertificateKeeper, Serving]:
        """One replica."""
        serving = Serving()
        metrics = self.metrics.of(WebhookMetrics)

        async def sleep(seconds: float) -> None:
            self.slept.append((seconds, self.trusted(), self.api.objects.get(SECRET)))

        settings = Settings(webhook=WebhookSettings(certificates=certificates))
        api: Any = self.api
        keeper = CertificateKeeper(
            api, settings, NAMES, serving, metrics, leads=lambda: leads, wall=lambda: self.now, sleep=sleep
        )
        return keeper, serving

    def store(self, pair: Pair) -> None:
        """Put a pair into the Secret and let it be trusted."""
        self.api.put(SECRET, {"metadata": {"name": "headroom-manager-webhook-tls"}, "data": pair.data})
        self.trust(pair.authorities)

    def trust(self, authorities: bytes) -> None:
        """Let the API servers trust authorities."""
        if HOOK in self.api.objects:
            client = self.api.objects[HOOK]["webhooks"][0]["clientConfig"]
            client["caBundle"] = base64.b64encode(authorities).decode()

    def stored(self) -> Pair:
        """What the Secret holds."""
        return read(self.api.objects[SECRET]["data"])

    def trusted(self) -> bytes:
        """What the API servers trust."""
        hook = self.api.objects.get(HOOK, {"webhooks": [{"clientConfig": {}}]})
        return base64.b64decode(hook["webhooks"][0]["clientConfig"].get("caBundle", ""))

    def writes(self) -> list[str]:
        """Paths that were written to."""
        return [path for method, path, _ in self.api.calls if method != "GET"]
