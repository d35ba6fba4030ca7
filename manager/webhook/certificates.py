"""Certificates of the webhook: making them, reading what others may have made, and what is due. No I/O.

A certificate of ours is its own authority, so an API server that is to trust it is given the certificate: there is none
whose key could be lost.
"""

import base64
import binascii
import ipaddress
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME_SECONDS: Final = 90 * 86400.0  # how long a certificate of ours is valid from the moment it is made [s]
RENEW_BEFORE_SECONDS: Final = LIFETIME_SECONDS / 3
"""A certificate is replaced when it has no longer than this to live: time enough for a manager that is away. [s]"""
OVERLAP_SECONDS: Final = 3600.0  # how long an old certificate stays trusted: far longer than a replica serves it [s]
_SLACK_SECONDS: Final = 86400.0
_BACKDATED: Final = timedelta(days=3650)
_MOST_TRUSTED: Final = 4
_LONGEST_PEM: Final = 256 * 1024
_NO_USAGE: Final = ("key_encipherment", "content_commitment", "data_encipherment", "key_agreement", "crl_sign")
_USAGE: Final = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    **dict.fromkeys((*_NO_USAGE, "encipher_only", "decipher_only"), False),
)
_FAULTS: Final = (
    *(ValueError, TypeError, UnsupportedAlgorithm),
    *(x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType),
)


class UnusableError(ValueError):
    """What a Secret holds cannot be served; one line that says why."""


@dataclass(frozen=True)
class Pair:
    """What a Secret of type kubernetes.io/tls holds, as PEM."""

    certificate: bytes  # the serving certificate, with those between it and its authority
    key: bytes

    @property
    def data(self) -> dict[str, str]:
        parts = {"tls.crt": self.certificate, "tls.key": self.key}
        return {name: base64.b64encode(part).decode() for name, part in parts.items()}

    @cached_property
    def leaf(self) -> x509.Certificate:
        """The serving certificate itself. Raises UnusableError: it cannot be read."""
        return _certificates(self.certificate)[0]

    @property
    def starts(self) -> float:
        """From when on it is valid. [unix s]"""
        return self.leaf.not_valid_before_utc.timestamp()

    @property
    def ends(self) -> float:
        """Until when it is valid. [unix s]"""
        return self.leaf.not_valid_after_utc.timestamp()

    @property
    def self_signed(self) -> bool:
        return self.leaf.issuer == self.leaf.subject

    @property
    def names(self) -> frozenset[str]:
        return _names(self.leaf)

    def trust(self, trusted: Iterable[bytes], now: float) -> bytes:
        """What API servers have to trust, as PEM: this one first and, for an hour after it was made, what they do.

        Args:
            trusted: what they trust so far, as PEM; what has expired or cannot be read is left out.
            now: the time. [unix s]
        """
        own = _pem(self.leaf)
        if now - (self.ends - LIFETIME_SECONDS) > OVERLAP_SECONDS:  # of ours it is known when it was made
            return own
        found = (each for text in trusted for each in _readable(text))
        kept = dict.fromkeys((own, *(_pem(each) for each in found if each.not_valid_after_utc.timestamp() > now)))
        return b"".join(list(kept)[:_MOST_TRUSTED])


def issue(names: Sequence[str], now: float) -> Pair:
    """Make a certificate for DNS names and IP addresses at a time. [unix s]

    It is valid from long ago, so that a clock that runs ahead of the API server's makes nothing that is not valid yet.
    """
    key, moment = ec.generate_private_key(ec.SECP256R1()), datetime.fromtimestamp(now, UTC)
    # No two have the same name: trust is looked up by it.
    serial = x509.random_serial_number()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"headroom-manager-webhook-{serial:x}"[:64])])
    start, end = moment - _BACKDATED, moment + timedelta(seconds=LIFETIME_SECONDS)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), serial, start, end)
        # Its own authority: so it is shown, and found, among what is trusted.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_USAGE, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(each) for each in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return Pair(_pem(certificate), key.private_bytes(encoding, private, serialization.NoEncryption()))


def read(data: Mapping[str, Any] | None) -> Pair:
    """The pair in the data of a Secret. Raises UnusableError: there is none that could be served."""
    pair = Pair(*(_decoded(data or {}, name) for name in ("tls.crt", "tls.key")))
    certificate = pair.leaf
    try:
        key = serialization.load_pem_private_key(pair.key, password=None)
    except TypeError:
        raise UnusableError("tls.key is encrypted") from None
    except (ValueError, UnsupportedAlgorithm):
        raise UnusableError("tls.key is not a private key in PEM form") from None
    if _public(key.public_key()) != _public(certificate.public_key()):
        raise UnusableError("tls.key is not the key of tls.crt")
    return pair


def due(pair: Pair, names: Collection[str], now: float) -> str:
    """Why the certificate of a pair must be replaced by one for these names; empty when it need not."""
    rest = pair.ends - now
    missing = sorted(set(names) - pair.names)
    reasons = {
        "an authority has signed it, which is not ours": not pair.self_signed,
        f"it is not for {', '.join(missing)}": bool(missing),
        "it is not valid yet": pair.starts > now,
        "it has expired": rest <= 0,
        f"it ends in {rest / 86400:.0f} days": rest < RENEW_BEFORE_SECONDS,
        f"it was made for {rest / 86400:.0f} days by a clock that ran ahead, or by somebody else": (
            rest > LIFETIME_SECONDS + _SLACK_SECONDS
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _decoded(data: Mapping[str, Any], name: str) -> bytes:
    if not (encoded := data.get(name)):
        raise UnusableError(f"{name} is missing")
    try:
        text = base64.b64decode(str(encoded), validate=True)
    except (binascii.Error, ValueError):
        raise UnusableError(f"{name} is not base64") from None
    if len(text) > _LONGEST_PEM:
        raise UnusableError(f"{name} has {len(text)} bytes, more than {_LONGEST_PEM}")
    return text


def _certificates(text: bytes) -> list[x509.Certificate]:
    """All in a text, at least one."""
    try:
        found = x509.load_pem_x509_certificates(text)
        for each in found:  # some faults of a certificate show when one asks it
            _names(each)
            each.public_key()
            _ = each.issuer, each.subject
    except _FAULTS:
        raise UnusableError("tls.crt is not a certificate in PEM form") from None
    return found


def _readable(text: bytes) -> list[x509.Certificate]:
    try:
        return _certificates(text)
    except UnusableError:
        return []


def _names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = names.get_values_for_type(x509.IPAddress)
    return frozenset({*names.get_values_for_type(x509.DNSName), *map(str, addresses)})


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _public(key: Any) -> bytes:  # noqa: ANN401 - a key of any kind
    return bytes(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
