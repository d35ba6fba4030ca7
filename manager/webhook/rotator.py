"""Certificates in the cluster: the Secret that both replicas serve from, and the trust that API servers put in it."""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from headroom.kube import ApiError, ApiServer, ApiUnavailable
from headroom.kube.api import APPLY, JSON_PATCH
from manager.settings import Settings
from manager.webhook.certificates import Pair, UnusableError, bundle, due, facts, issue, narrowed, read
from manager.webhook.metrics import WebhookMetrics
from manager.webhook.serving_certificate import Serving

_LOG: Final = logging.getLogger(__name__)
_FIELD_MANAGER: Final = "headroom-manager"
_INJECTED: Final = "cert-manager.io/inject-ca-from"
_REGISTRATION: Final = "admissionregistration.k8s.io/v1"

Json = dict[str, Any]


@dataclass(slots=True)
class CertificateKeeper:
    """Loads what the Secret holds, and where this replica leads, renews it and has the API servers trust it."""

    api: ApiServer
    settings: Settings
    names: Sequence[str]  # what a certificate must be for
    serving: Serving
    metrics: WebhookMetrics
    leads: Callable[[], bool]  # whether this replica may write
    wall: Callable[[], float]  # the wall clock [unix s]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _told: str = ""
    _awaited: str = ""

    async def run(self) -> None:
        """Keep the certificate, for ever; whatever is wrong with it must not disturb what else the manager does."""
        pause = self.settings.webhook.first_poll_seconds
        while True:
            try:
                await self.step()
                self._told = ""
            except (ApiError, ApiUnavailable, UnusableError) as error:
                self._log_failure(str(error))
            except Exception as error:  # noqa: BLE001 - the outer runner: the webhook is not worth the manager's life
                if self._log_failure(repr(error)):
                    _LOG.exception("The webhook's certificate: an error that should not happen; please report it")
            await self.sleep(pause)
            # Eager at first: the Lease, which decides who makes a certificate, is taken at the same time.
            longest = self.settings.webhook.poll_seconds if self.serving.ready.is_set() else pause
            pause = min(2 * pause, longest)

    async def step(self) -> None:
        """Read the Secret once, and do what is due.

        Raises:
            ApiError: the API server refuses.
            ApiUnavailable: it is away.
            UnusableError: the Secret holds nothing that can be served, and this replica is not to mend that.
        """
        own, old, reason = self.settings.webhook, None, "there is none yet"
        secret = await self._read(self._secret_path)
        if own.certificates != "self" or not self.leads():
            if secret is not None:
                self._awaited = ""
                self._load(read(secret.get("data")))
                return
            maker = "cert-manager" if own.certificates == "cert-manager" else "the replica that leads"
            self._await(f"waits for {maker} to make Secret {own.secret_name}")
            return
        if secret is not None:
            try:
                old = read(secret.get("data"))
                reason = due(old, self.names, self.wall())
            except UnusableError as error:
                reason = str(error)
        if old is not None:
            self._load(old)
        configuration = await self._read(self._configuration_path)
        if configuration is None:
            # Nobody asks, and the webhook may be on its way out: a Secret written now would have no owner to go with.
            self._await(f"is not registered (ValidatingWebhookConfiguration {own.configuration_name})")
            return
        self._awaited = ""
        if old is None or reason:
            await self._renew(secret, old, reason, configuration)
            return
        wanted = narrowed(old, self.wall())
        if wanted != old:
            await self._write(secret, wanted, configuration)
        await self._trust(wanted.authorities, configuration)

    @property
    def _secret_path(self) -> str:
        return f"/api/v1/namespaces/{self.settings.namespace}/secrets/{self.settings.webhook.secret_name}"

    @property
    def _configuration_path(self) -> str:
        name = self.settings.webhook.configuration_name
        return f"/apis/{_REGISTRATION}/validatingwebhookconfigurations/{name}"

    def _await(self, words: str) -> None:
        if words != self._awaited:
            _LOG.info("The webhook %s", words)
        self._awaited = words

    async def _renew(self, secret: Json | None, old: Pair | None, reason: str, configuration: Json) -> None:
        now = self.wall()
        # Whatever any replica may be serving stays trusted.
        known = [each.authorities for each in (old, self.serving.pair) if each is not None]
        trusted = bundle([*known, *_trusted(configuration)], now)
        pair = await asyncio.to_thread(issue, self.names, now, trusted)
        _LOG.info("The webhook gets a new certificate (Secret %s): %s", self.settings.webhook.secret_name, reason)
        if trusted and await self._trust(pair.authorities, configuration):
            await self.sleep(
                self.settings.webhook.settle_seconds
            )  # until every API server has learnt of the new authority
        if not self.leads():
            return
        await self._write(secret, pair, configuration)
        self.metrics.rotations.inc()
        self._load(pair)
        await self._trust(pair.authorities)  # read anew: trust may just have been widened

    def _load(self, pair: Pair) -> None:
        ends = facts(pair).ends
        if self.serving.load(pair):
            _LOG.info("The webhook serves a certificate that is valid for %.0f days", (ends - self.wall()) / 86400)
        self.metrics.certificate_ends.set(ends)

    async def _write(self, secret: Json | None, pair: Pair, configuration: Json) -> None:
        """Write the Secret by server-side apply, whose creation can be permitted by name; it goes with the webhook."""
        own, kind = self.settings.webhook, "ValidatingWebhookConfiguration"
        owner = {"apiVersion": _REGISTRATION, "kind": kind, "name": own.configuration_name}
        owner["uid"] = configuration["metadata"]["uid"]
        metadata: Json = {"name": own.secret_name, "namespace": self.settings.namespace, "ownerReferences": [owner]}
        body: Json = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": pair.data}
        if secret is None:
            body["type"] = "kubernetes.io/tls"
        else:  # refused when somebody has changed it meanwhile
            metadata["resourceVersion"] = secret["metadata"]["resourceVersion"]
        params = {"fieldManager": _FIELD_MANAGER, "force": "true"}
        await self.api.patch(self._secret_path, body, content_type=APPLY, params=params)

    async def _trust(self, authorities: bytes, configuration: Json | None = None) -> bool:
        """Have the API servers trust these authorities; whether that was news to them."""
        configuration = configuration or await self._read(self._configuration_path)
        if configuration is None or _INJECTED in (configuration["metadata"].get("annotations") or {}):
            return False
        wanted = base64.b64encode(authorities).decode()
        changes: list[Json] = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": wanted}
            for index, trusted in enumerate(_bundles(configuration))
            if trusted != wanted
        ]
        if not changes:
            return False
        version = configuration["metadata"]["resourceVersion"]
        test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
        await self.api.patch(self._configuration_path, [test, *changes], content_type=JSON_PATCH)
        name = self.settings.webhook.configuration_name
        _LOG.info("API servers now trust the webhook's authority (ValidatingWebhookConfiguration %s)", name)
        return True

    async def _read(self, path: str) -> Json | None:
        try:
            return await self.api.get(path)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    def _log_failure(self, words: str) -> bool:
        """Say it once; whether it was said."""
        if words == self._told:
            return False
        self._told = words
        served = "the one before is served" if self.serving.pair else "edits of the config are not checked"
        _LOG.warning("The webhook's certificate cannot be kept, trying again (%s): %s", served, words)
        return True


def _bundles(configuration: Json) -> list[Any]:
    return [(each.get("clientConfig") or {}).get("caBundle") for each in configuration.get("webhooks") or ()]


def _trusted(configuration: Json) -> list[bytes]:
    """What the API servers trust so far."""
    found = []
    for text in _bundles(configuration):
        with suppress(ValueError, TypeError):
            found.append(base64.b64decode(text))
    return found
