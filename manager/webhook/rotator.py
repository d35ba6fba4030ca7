"""Certificates in the cluster: the Secret that both replicas serve from, and the trust that API servers put in it."""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from headroom.kube import ApiError, ApiServer, ApiUnavailable
from headroom.kube.api import APPLY, JSON_PATCH
from manager.settings import Settings
from manager.webhook.certificates import Pair, UnusableError, bundle, facts, issue, own_authority, read
from manager.webhook.metrics import WebhookMetrics
from manager.webhook.rotation import Step, plan
from manager.webhook.serving_certificate import Serving

_LOG: Final = logging.getLogger(__name__)
_FIELD_MANAGER: Final = "headroom-manager"
_INJECTED: Final = "cert-manager.io/inject-ca-from"
_REGISTRATION: Final = "admissionregistration.k8s.io/v1"

Json = dict[str, Any]


class CertificateKeeper:
    """Loads what the Secret holds, and where this replica leads, renews it and has the API servers trust it.

    Args:
        api: the session.
        settings: names, pace, and who makes certificates.
        names: what a certificate must be for.
        serving: takes the certificates.
        metrics: counts.
        leads: whether this replica may write.
        wall: the wall clock. [unix s]
        sleep: waits. [s]
    """

    def __init__(
        self,
        api: ApiServer,
        settings: Settings,
        names: Sequence[str],
        serving: Serving,
        metrics: WebhookMetrics,
        leads: Callable[[], bool],
        wall: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        own = settings.webhook
        self._api, self._settings, self._names, self._namespace = api, own, names, settings.namespace
        self._serving, self._metrics, self._leads, self._wall, self._sleep = serving, metrics, leads, wall, sleep
        self._secret_path = f"/api/v1/namespaces/{settings.namespace}/secrets/{own.secret_name}"
        self._configuration_path = f"/apis/{_REGISTRATION}/validatingwebhookconfigurations/{own.configuration_name}"
        self._told, self._awaited = "", ""
        self._maker = "cert-manager" if own.certificates == "cert-manager" else "the replica that leads"

    async def run(self) -> None:
        """Keep the certificate, for ever; whatever is wrong with it must not disturb what else the manager does."""
        pause = self._settings.first_poll_seconds
        while True:
            try:
                await self.step()
                self._told = ""
            except (ApiError, ApiUnavailable, UnusableError) as error:
                self._log_failure(str(error))
            except Exception as error:  # noqa: BLE001 - the outer runner: the webhook is not worth the manager's life
                if self._log_failure(repr(error)):
                    _LOG.exception("The webhook's certificate: an error that should not happen; please report it")
            await self._sleep(pause)
            # Eager at first: the Lease, which decides who makes a certificate, is taken at the same time.
            longest = self._settings.poll_seconds if self._serving.ready.is_set() else pause
            pause = min(2 * pause, longest)

    async def step(self) -> None:
        """Look at the Secret once, and do what is due.

        Raises:
            ApiError: the API server refuses.
            ApiUnavailable: it is away.
            UnusableError: the Secret holds nothing that can be served, and this replica is not to mend that.
        """
        secret = await self._read(self._secret_path)
        ours = self._settings.certificates == "self" and self._leads()
        found = plan(secret, self._names, self._wall()) if ours else None
        if found is None:
            if secret is None:
                self._await("waits for %s to make Secret %s", self._maker, self._settings.secret_name)
            else:
                self._awaited = ""
                self._load(read(secret.get("data")))
            return
        if found.pair is not None:
            self._load(found.pair)
        configuration = await self._read(self._configuration_path)
        if configuration is None:
            # Nobody asks, and the webhook may be on its way out: a Secret written now would have no owner to go with.
            self._await("is not registered (ValidatingWebhookConfiguration %s)", self._settings.configuration_name)
            return
        self._awaited = ""
        if found.step is Step.ISSUE:
            await self._renew(secret, found.pair, found.reason, configuration)
        elif found.step is Step.NARROW and found.pair is not None:
            narrow = Pair(own_authority(found.pair), found.pair.certificate, found.pair.key)
            await self._write(secret, narrow, configuration)
            await self._trust(narrow.authorities, configuration)
        elif found.pair is not None:
            await self._trust(found.pair.authorities, configuration)

    def _await(self, words: str, *details: str) -> None:
        if words != self._awaited:
            _LOG.info(f"The webhook {words}", *details)
        self._awaited = words

    async def _renew(self, secret: Json | None, old: Pair | None, reason: str, configuration: Json) -> None:
        now = self._wall()
        # Whatever any replica may be serving stays trusted.
        known = [each.authorities for each in (old, self._serving.pair) if each is not None]
        trusted = bundle([*known, *_trusted(configuration)], now)
        pair = await asyncio.to_thread(issue, self._names, now, trusted)
        _LOG.info("The webhook gets a new certificate (Secret %s): %s", self._settings.secret_name, reason)
        if trusted and await self._trust(pair.authorities, configuration):
            await self._sleep(self._settings.settle_seconds)  # until every API server has learnt of the new authority
        if not self._leads():
            return
        await self._write(secret, pair, configuration)
        self._metrics.rotations.inc()
        self._load(pair)
        await self._trust(pair.authorities)  # read anew: trust may just have been widened

    def _load(self, pair: Pair) -> None:
        ends = facts(pair).ends
        if self._serving.load(pair):
            _LOG.info("The webhook serves a certificate that is valid for %.0f days", (ends - self._wall()) / 86400)
        self._metrics.certificate_ends.set(ends)

    async def _write(self, secret: Json | None, pair: Pair, configuration: Json) -> None:
        """Write the Secret by server-side apply, whose creation can be permitted by name; it goes with the webhook."""
        owner = {
            "apiVersion": _REGISTRATION,
            "kind": "ValidatingWebhookConfiguration",
            "name": self._settings.configuration_name,
            "uid": configuration["metadata"]["uid"],
        }
        metadata: Json = {"name": self._settings.secret_name, "namespace": self._namespace, "ownerReferences": [owner]}
        body: Json = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": pair.data}
        if secret is None:
            body["type"] = "kubernetes.io/tls"
        else:  # refused when somebody has changed it meanwhile
            metadata["resourceVersion"] = secret["metadata"]["resourceVersion"]
        params = {"fieldManager": _FIELD_MANAGER, "force": "true"}
        await self._api.patch(self._secret_path, body, content_type=APPLY, params=params)

    async def _trust(self, authorities: bytes, configuration: Json | None = None) -> bool:
        """Have the API servers trust these authorities; whether that was news to them."""
        configuration = configuration or await self._read(self._configuration_path)
        if configuration is None or _INJECTED in (configuration["metadata"].get("annotations") or {}):
            return False
        wanted = base64.b64encode(authorities).decode()
        changes: list[Json] = []
        for index, webhook in enumerate(configuration.get("webhooks") or ()):
            if (webhook.get("clientConfig") or {}).get("caBundle") != wanted:
                path = f"/webhooks/{index}/clientConfig/caBundle"
                changes.append({"op": "add", "path": path, "value": wanted})
        if not changes:
            return False
        version = configuration["metadata"]["resourceVersion"]
        test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
        await self._api.patch(self._configuration_path, [test, *changes], content_type=JSON_PATCH)
        _LOG.info(
            "API servers now trust the webhook's authority (ValidatingWebhookConfiguration %s)",
            self._settings.configuration_name,
        )
        return True

    async def _read(self, path: str) -> Json | None:
        try:
            return await self._api.get(path)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    def _log_failure(self, words: str) -> bool:
        """Say it once; whether it was said."""
        if words == self._told:
            return False
        self._told = words
        served = "the one before is served" if self._serving.pair else "edits of the config are not checked"
        _LOG.warning("The webhook's certificate cannot be kept, trying again (%s): %s", served, words)
        return True


def _trusted(configuration: Json) -> list[bytes]:
    """What the API servers trust so far."""
    found = []
    for webhook in configuration.get("webhooks") or ():
        text = (webhook.get("clientConfig") or {}).get("caBundle")
        if isinstance(text, str):
            try:
                found.append(base64.b64decode(text))
            except ValueError:
                continue
    return found
