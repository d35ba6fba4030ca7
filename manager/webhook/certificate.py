"""The certificate of the webhooks: each replica serves that of a Secret, and the leader issues and renews it.

The certificate is its own authority. API servers trust the new one before the Secret holds it, and the former one until
the next renewal, so each replica may change over in its own time. Or cert-manager does all of that.
"""

import asyncio
import base64
import ipaddress
import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headroom.kube import ApiError, ApiServer, ApiUnavailable, optional
from headroom.kube.api import APPLY, JSON_PATCH
from manager.settings import Settings
from manager.webhook.metrics import WebhookMetrics

LIFETIME_SECONDS: Final = 90 * 86400.0
RENEW_BEFORE_SECONDS: Final = LIFETIME_SECONDS / 3
_BACKDATED: Final = timedelta(days=3650)  # so that API servers whose clocks are behind accept it
_REGISTRATION: Final = "admissionregistration.k8s.io/v1"
_KIND: Final = "ValidatingWebhookConfiguration"
MUTATING: Final = f"/apis/{_REGISTRATION}/mutatingwebhookconfigurations"
"""Path of the MutatingWebhookConfigurations."""
_PEM: Final = serialization.Encoding.PEM
_NO_USAGE: Final = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign")
_USAGE: Final = dict.fromkeys(("digital_signature", "key_cert_sign"), True)
_OTHER_USAGE: Final = dict.fromkeys((*_NO_USAGE, "encipher_only", "decipher_only"), False)
_FAULTS: Final = (KeyError, TypeError, ValueError, OSError, UnsupportedAlgorithm, x509.InvalidVersion)
_LOG: Final = logging.getLogger(__name__)

Json = dict[str, Any]


class UnusableError(ValueError):
    """The Secret holds no certificate that the webhook can serve."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in PEM form."""

    certificate: bytes
    key: bytes

    @property
    def data(self) -> dict[str, str]:
        parts = {"tls.crt": self.certificate, "tls.key": self.key}
        return {name: base64.b64encode(part).decode() for name, part in parts.items()}

    @cached_property
    def leaf(self) -> x509.Certificate:
        return x509.load_pem_x509_certificates(self.certificate)[0]

    @property
    def ends(self) -> float:
        """The end of its validity. [unix s]"""
        return self.leaf.not_valid_after_utc.timestamp()

    def context(self) -> ssl.SSLContext:
        """Return a TLS context that serves it. Raises OSError: the key is not that of the certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Python reads certificates from files alone, and a pod can write none: this one is in memory.
        with os.fdopen(os.memfd_create("certificate"), "wb") as file:
            file.write(self.certificate + b"\n" + self.key)
            file.flush()
            context.load_cert_chain(f"/dev/fd/{file.fileno()}", password="")  # an encrypted key is refused
        return context

    def due(self, names: Sequence[str], now: float) -> str:
        """Return the reason to replace it by a certificate for these names; empty: there is none."""
        rest, subjects = self.ends - now, self.leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        if missing := [name for name in names if _general(name) not in subjects.value]:
            return f"it is not for {', '.join(missing)}"
        # A certificate that lasts longer was issued by a clock that is ahead.
        return "" if RENEW_BEFORE_SECONDS <= rest <= LIFETIME_SECONDS + 86400 else f"it ends in {rest / 86400:.0f} days"


def issue(names: Sequence[str], now: float) -> Pair:
    """Issue a self-signed certificate for DNS names and IP addresses at a time. [unix s]"""
    key, serial = ec.generate_private_key(ec.SECP256R1()), x509.random_serial_number()
    # Each has a subject of its own: TLS clients find trusted certificates by their subject.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"headroom-manager-webhook-{serial:x}"[:64])])
    start, end = (datetime.fromtimestamp(now, UTC) + d for d in (-_BACKDATED, timedelta(seconds=LIFETIME_SECONDS)))
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), serial, start, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**_USAGE, **_OTHER_USAGE), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(certificate.public_bytes(_PEM), private)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def read(data: Mapping[str, Any] | None) -> Pair:
    """Return the pair in the data of a Secret. Raises UnusableError: the webhook cannot serve it."""
    try:
        parts = (base64.b64decode(str((data or {})[name]), validate=True) for name in ("tls.crt", "tls.key"))
        pair = Pair(*parts)
        pair.context()
        pair.due((), 0.0)
    except (*_FAULTS, x509.ExtensionNotFound) as error:
        raise UnusableError(f"tls.crt and tls.key are no certificate with its key: {error}") from None
    return pair


class ServingCertificate:
    """The certificate of the listener. Another one replaces it for all later connections."""

    def __init__(self, settings: Settings, names: Sequence[str], metrics: WebhookMetrics) -> None:
        self._settings, self._names, self._metrics = settings, names, metrics
        self.ready = asyncio.Event()  # set once there is a certificate
        self.pair: Pair | None = None
        self._state = ""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # of the listener; it hands each connection over
        options = settings.webhook
        self._secret = f"/api/v1/namespaces/{settings.namespace}/secrets/{options.secret_name}"
        self._hook = f"/apis/{_REGISTRATION}/{_KIND.lower()}s/{options.configuration_name}"
        names = (options.pods_configuration_name, options.profiles_configuration_name)
        self._mutating = tuple(f"{MUTATING}/{name}" for name in names if name)

    @property
    def authority(self) -> str:
        """The authority that API servers are to trust, in base64; empty: none yet, or cert-manager's."""
        if self.pair is None or self._settings.webhook.certificates != "self":
            return ""
        return base64.b64encode(_bundle(self.pair, [], "")).decode()

    def load(self, pair: Pair) -> None:
        """Serve a certificate. Raises OSError: as `Pair.context`."""
        self._metrics.certificate_ends.set(pair.ends)
        if pair != self.pair:
            current = pair.context()
            # Python calls it also for clients that name no server.
            self.context.sni_callback = lambda connection, _name, _context: setattr(connection, "context", current)
            self.pair = pair
            self.ready.set()

    async def keep(
        self,
        api: ApiServer,
        leads: Callable[[], bool],
        wall: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Repeat `step` until cancelled; no failure stops anything else in the manager."""
        own, pause = self._settings.webhook, self._settings.webhook.first_poll_seconds
        while True:
            try:
                state = await self.step(api, leads, wall(), sleep)
            except (ApiError, ApiUnavailable, UnusableError) as error:
                state = f"cannot be renewed or read: {error}"
            except Exception:  # noqa: BLE001 - the outer runner
                state = "is not renewed: unexpected error; please report it"
                _LOG.exception("The webhook's certificate %s", state)
            if state and state != self._state:
                served = "the former one is served" if self.pair else "edits of the config are not checked"
                _LOG.warning("The webhook's certificate (Secret %s) %s; %s", own.secret_name, state, served)
            self._state = state
            await sleep(pause)
            # At the start the leader is elected at the same time, so the first polls are short.
            pause = min(2 * pause, own.poll_seconds if self.ready.is_set() else own.first_poll_seconds)

    async def step(
        self, api: ApiServer, leads: Callable[[], bool], now: float, sleep: Callable[[float], Awaitable[None]]
    ) -> str:
        """Read the Secret once, renew the certificate if that is due, and return the missing part.

        Raises:
            ApiError: the API server refuses a request.
            ApiUnavailable: the API server does not answer.
            UnusableError: the webhook cannot serve the content of the Secret, and this replica may not replace it.
        """
        own, secret, pair, reason = self._settings.webhook, await optional(api.get(self._secret)), None, "it is missing"
        renews = own.certificates == "self" and leads()
        if secret is not None:
            try:
                pair = read(secret.get("data"))
                reason = pair.due(self._names, now)
                self.load(pair)
            except UnusableError as error:
                if not renews:
                    raise
                reason = str(error)
        if not renews:
            return "" if secret else "is missing until the leader or cert-manager creates it"
        if (hook := await optional(api.get(self._hook))) is None:
            return f"is not renewed while its owner, {_KIND} {own.configuration_name}, is missing"
        fresh = await asyncio.to_thread(issue, self._names, now) if pair is None or reason else pair
        served = [] if pair is None or pair == fresh else [pair.certificate]
        extended = await self._trust(api, fresh, served, self._hook, hook)
        extended = await self._trust_of_pods(api, fresh, served) or extended
        if fresh != pair:
            _LOG.info("The webhook's certificate (Secret %s) is renewed: %s", own.secret_name, reason)
            if extended:
                await sleep(own.settle_seconds)  # until each API server has read the new trust
            if leads():
                await self._write(api, secret, fresh, hook)
        return ""

    async def _write(self, api: ApiServer, secret: Json | None, pair: Pair, hook: Json) -> None:
        name, uid = self._settings.webhook.configuration_name, hook["metadata"]["uid"]
        owner = {"apiVersion": _REGISTRATION, "kind": _KIND, "name": name, "uid": uid}
        metadata: Json = {"name": self._settings.webhook.secret_name, "namespace": self._settings.namespace}
        metadata["ownerReferences"] = [owner]
        body: Json = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        if secret is None:
            body["type"] = "kubernetes.io/tls"
        else:  # the API server refuses it if another client has changed the Secret
            metadata["resourceVersion"] = secret["metadata"]["resourceVersion"]
        # RBAC can permit the creation by name for server-side apply alone.
        params = {"fieldManager": "headroom-manager", "force": "true"}
        await api.patch(self._secret, {**body, "data": pair.data}, content_type=APPLY, params=params)
        self._metrics.rotations.inc()
        self.load(pair)

    async def _trust_of_pods(self, api: ApiServer, pair: Pair, served: list[bytes]) -> bool:
        """As `_trust`, for the webhooks of pods that are installed."""
        extended = False
        for path in self._mutating:
            if (hook := await optional(api.get(path))) is not None:
                extended = await self._trust(api, pair, served, path, hook) or extended
        return extended

    async def _trust(self, api: ApiServer, pair: Pair, served: list[bytes], path: str, hook: Json) -> bool:
        """Have the API servers trust a certificate and the former one; return whether one is served that they trust."""
        if "cert-manager.io/inject-ca-from" in (hook["metadata"].get("annotations") or {}):
            return False
        changes, trusted = list[Json](), False
        for index, webhook in enumerate(hook.get("webhooks") or ()):
            former = (webhook.get("clientConfig") or {}).get("caBundle")
            wanted = base64.b64encode(_bundle(pair, served, former)).decode()
            trusted = trusted or bool(former)
            if former != wanted:
                changes.append({"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": wanted})
        if changes:
            test = {"op": "test", "path": "/metadata/resourceVersion", "value": hook["metadata"]["resourceVersion"]}
            await api.patch(path, [test, *changes], content_type=JSON_PATCH)
        return trusted and bool(changes)


def _bundle(pair: Pair, served: list[bytes], former: Any) -> bytes:  # noqa: ANN401 - JSON
    own, foreign = pair.leaf.public_bytes(_PEM), list[bytes]()
    with suppress(*_FAULTS):
        foreign = [
            certificate.public_bytes(_PEM) for certificate in x509.load_pem_x509_certificates(base64.b64decode(former))
        ]
    return b"".join([own, *served, *(text for text in foreign if text != own)][:2])
