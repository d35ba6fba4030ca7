"""Certificates in the cluster: the Secret that all replicas serve from, and the trust that API servers put in it.

Trust is widened first (API servers believe the old certificate and the new one), then the Secret is written, and trust
is narrowed when every replica must have switched, too.
"""

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
from manager.webhook.certificates import Pair, UnusableError, due, issue, read
from manager.webhook.metrics import WebhookMetrics
from manager.webhook.serving_certificate import ServingCertificate

_LOG: Final = logging.getLogger(__name__)
_FIELD_MANAGER: Final = "headroom-manager"
_INJECTED: Final = "cert-manager.io/inject-ca-from"
_REGISTRATION: Final = "admissionregistration.k8s.io/v1"
_KIND: Final = "ValidatingWebhookConfiguration"

Json = dict[str, Any]


@dataclass(slots=True)
class CertRotator:
    """Loads what the Secret holds, and where this replica leads, renews it and has the API servers trust it."""

    api: ApiServer
    settings: Settings
    names: Sequence[str]  # what a certificate must be for
    serving: ServingCertificate
    metrics: WebhookMetrics
    leads: Callable[[], bool]  # whether this replica may write
    wall: Callable[[], float]  # the wall clock [unix s]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _failure: str = ""
    _awaited: str = ""

    async def run(self) -> None:
        """Rotate for ever; whatever is wrong with the certificate must not disturb what else the manager does."""
        pause = self.settings.webhook.first_poll_seconds
        while True:
            try:
                await self.step()
                self._failure = ""
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
        own, secret = self.settings.webhook, await self._read(self._secret_path)
        if own.certificates != "self" or not self.leads():
            maker = "cert-manager" if own.certificates == "cert-manager" else "the replica that leads"
            self._await("" if secret else f"waits for {maker} to make Secret {own.secret_name}")
            if secret is not None:
                self._load(read(secret.get("data")))
            return
        pair, reason = None, "there is none yet"
        if secret is not None:
            try:
                pair = read(secret.get("data"))
                reason = due(pair, self.names, self.wall())
                self._load(pair)
            except UnusableError as error:
                reason = str(error)
        hook = await self._read(self._hook_path)
        # Without it nobody asks, and the webhook may be on its way out: a Secret would have no owner to go with.
        self._await("" if hook else f"is not registered ({_KIND} {own.configuration_name})")
        if hook is None:
            return
        if pair is None or reason:
            await self._renew(secret, hook, reason)
        else:
            await self._trust(pair, hook)

    @property
    def _secret_path(self) -> str:
        return f"/api/v1/namespaces/{self.settings.namespace}/secrets/{self.settings.webhook.secret_name}"

    @property
    def _hook_path(self) -> str:
        return f"/apis/{_REGISTRATION}/{_KIND.lower()}s/{self.settings.webhook.configuration_name}"

    async def _renew(self, secret: Json | None, hook: Json, reason: str) -> None:
        own, pair = self.settings.webhook, await asyncio.to_thread(issue, self.names, self.wall())
        _LOG.info("The webhook gets a new certificate (Secret %s): %s", own.secret_name, reason)
        if any(_trusted(hook)) and await self._trust(pair, hook):
            await self.sleep(own.settle_seconds)  # until every API server has learnt of the new one
        if not self.leads():
            return
        await self._write(secret, pair, hook)
        self.metrics.rotations.inc()
        self._load(pair)
        if (widened := await self._read(self._hook_path)) is not None:  # trust may just have been widened
            await self._trust(pair, widened)

    async def _write(self, secret: Json | None, pair: Pair, hook: Json) -> None:
        """Write the Secret by server-side apply, whose creation can be permitted by name; it goes with the webhook."""
        name, uid = self.settings.webhook.configuration_name, hook["metadata"]["uid"]
        owner = {"apiVersion": _REGISTRATION, "kind": _KIND, "name": name, "uid": uid}
        metadata: Json = {"name": self.settings.webhook.secret_name, "namespace": self.settings.namespace}
        metadata["ownerReferences"] = [owner]
        body: Json = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": pair.data}
        if secret is None:
            body["type"] = "kubernetes.io/tls"
        else:  # refused when somebody has changed it meanwhile
            metadata["resourceVersion"] = secret["metadata"]["resourceVersion"]
        params = {"fieldManager": _FIELD_MANAGER, "force": "true"}
        await self.api.patch(self._secret_path, body, content_type=APPLY, params=params)

    async def _trust(self, pair: Pair, hook: Json) -> bool:
        """Have the API servers trust a certificate; whether that was news to them."""
        if _INJECTED in (hook["metadata"].get("annotations") or {}):
            return False
        wanted = base64.b64encode(pair.trust(_trusted(hook), self.wall())).decode()
        changes: list[Json] = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": wanted}
            for index, each in enumerate(hook.get("webhooks") or ())
            if (each.get("clientConfig") or {}).get("caBundle") != wanted
        ]
        if changes:
            test = {"op": "test", "path": "/metadata/resourceVersion", "value": hook["metadata"]["resourceVersion"]}
            await self.api.patch(self._hook_path, [test, *changes], content_type=JSON_PATCH)
            name = self.settings.webhook.configuration_name
            _LOG.info("API servers now trust the webhook's certificate (%s %s)", _KIND, name)
        return bool(changes)

    async def _read(self, path: str) -> Json | None:
        try:
            return await self.api.get(path)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    def _load(self, pair: Pair) -> None:
        if self.serving.load(pair):
            _LOG.info("The webhook serves a certificate that is valid for %.0f days", (pair.ends - self.wall()) / 86400)
        self.metrics.certificate_ends.set(pair.ends)

    def _await(self, reason: str) -> None:
        """Log once what is waited for; empty: nothing."""
        if reason and reason != self._awaited:
            _LOG.info("The webhook %s", reason)
        self._awaited = reason

    def _log_failure(self, reason: str) -> bool:
        """Log it once; whether it was logged."""
        if reason == self._failure:
            return False
        self._failure = reason
        served = "the one before is served" if self.serving.pair else "edits of the config are not checked"
        name = self.settings.webhook.secret_name
        _LOG.warning("The webhook's certificate (Secret %s) cannot be kept, trying again; %s: %s", name, served, reason)
        return True


def _trusted(hook: Json) -> list[bytes]:
    """What the API servers trust so far."""
    found = []
    for each in hook.get("webhooks") or ():
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            found.append(base64.b64decode(each["clientConfig"].get("caBundle", "")))
    return found
