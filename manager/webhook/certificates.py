"""Certificates of the webhook: making them, reading what others may have made, and what is due.

Trust is widened first (the API servers believe the old authority and the new one), then the certificate is switched,
and trust is narrowed when every replica must have switched, too. No I/O; clocks are arguments.
"""

import base64
import binascii
import ipaddress
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME_SECONDS: Final = 90 * 86400.0  # how long a certificate of ours is valid from the moment it is made [s]
RENEW_BEFORE_SECONDS: Final = LIFETIME_SECONDS / 3
"""A certificate is replaced when it has no longer than this to live: time enough for a manager that is away. [s]"""
OVERLAP_SECONDS: Final = 3600.0
"""How long the old authority stays trusted beside the new one: far longer than a replica takes to notice. [s]"""
_SLACK_SECONDS: Final = 86400.0
_BACKDATED: Final = timedelta(days=3650)
_MOST_AUTHORITIES: Final = 4
_LONGEST_PEM: Final = 256 * 1024
_NAME: Final = "headroom-manager-webhook"
_KEYS: Final = ("ca.crt", "tls.crt", "tls.key")
_FAULTS: Final = (
    *(ValueError, TypeError, UnsupportedAlgorithm),
    *(x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType),
)


class UnusableError(ValueError):
    """What a Secret holds cannot be served; one line that says why."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What a Secret of type kubernetes.io/tls holds, as PEM."""

    authorities: bytes  # the authorities to trust, the newest first; may be empty where the authority is public
    certificate: bytes  # the serving certificate, with those between it and its authority
    key: bytes

    @property
    def data(self) -> dict[str, str]:
        """The data of the Secret."""
        parts = (self.authorities, self.certificate, self.key)
        return {name: base64.b64encode(part).decode() for name, part in zip(_KEYS, parts, strict=True)}


class Facts(NamedTuple):
    """What a serving certificate says of itself."""

    starts: float  # [unix s]
    ends: float  # [unix s]
    names: frozenset[str]  # DNS names and IP addresses that it is for
    authorities: int  # how many authorities are trusted beside it
    signed: bool  # whether one of them has signed it

    @property
    def issued(self) -> float:
        """When it was made, if we made it: it starts earlier on purpose. [unix s]"""
        return self.ends - LIFETIME_SECONDS


def issue(names: Sequence[str], now: float, trusted: bytes = b"") -> Pair:
    """Make an authority for one certificate, and forget the authority's key, so that nobody can use it again.

    It is valid from long ago, so that a clock that runs ahead of the API server's makes nothing that is not valid yet.

    Args:
        names: DNS names and IP addresses to serve.
        now: the time. [unix s]
        trusted: authorities that stay trusted beside the new one, as PEM.
    """
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _named(f"{_NAME}-ca-{x509.random_serial_number():x}"[:64])  # names of different authorities differ
    of_authority, identifier = authority_key.public_key(), x509.AuthorityKeyIdentifier.from_issuer_public_key
    authority = (
        _builder(issuer, issuer, of_authority, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(_named(_NAME), issuer, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier(of_authority), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(each) for each in names]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = serialization.PrivateFormat.PKCS8
    key_pem = key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption())
    return Pair(bundle((_pem(authority), trusted), now), _pem(certificate), key_pem)


def read(data: Mapping[str, Any] | None) -> Pair:
    """The pair in the data of a Secret.

    Raises:
        UnusableError: there is none that could be served.
    """
    authority, tls, private = _KEYS
    pair = Pair(*(_decoded(data or {}, name) for name in _KEYS))
    certificate = _certificates(pair.certificate, tls)[0]
    try:
        key = serialization.load_pem_private_key(pair.key, password=None)
    except TypeError:
        raise UnusableError(f"{private} is encrypted") from None
    except (ValueError, UnsupportedAlgorithm):
        raise UnusableError(f"{private} is not a private key in PEM form") from None
    if _public(key.public_key()) != _public(certificate.public_key()):
        raise UnusableError(f"{private} is not the key of {tls}")
    if pair.authorities:
        _certificates(pair.authorities, authority)
    return pair


def facts(pair: Pair) -> Facts:
    """What the certificate of a readable pair says."""
    certificate, trusted = _certificates(pair.certificate, "")[0], _readable(pair.authorities)
    starts, ends = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    return Facts(starts, ends, _names(certificate), len(trusted), bool(own_authority(pair)))


def bundle(parts: Iterable[bytes], now: float) -> bytes:
    """Authorities as one PEM text, each once, in their order; what has expired or cannot be read is left out."""
    moment = datetime.fromtimestamp(now, UTC)
    found = itertools.chain.from_iterable(map(_readable, parts))
    kept = dict.fromkeys(_pem(each) for each in found if each.not_valid_after_utc > moment)
    return b"".join(list(kept)[:_MOST_AUTHORITIES])


def own_authority(pair: Pair) -> bytes:
    """The authority that has signed the certificate of a pair, alone; empty when none that the pair trusts has."""
    certificate = _certificates(pair.certificate, "")[0]
    for each in _readable(pair.authorities):
        try:
            certificate.verify_directly_issued_by(each)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            continue
        return _pem(each)
    return b""


def due(pair: Pair, names: Collection[str], now: float) -> str:
    """Why the certificate of a pair must be replaced by one for these names; empty when it need not."""
    found = facts(pair)
    rest = found.ends - now
    missing = sorted(set(names) - found.names)
    reasons = {
        "no authority beside it has signed it": not found.signed,
        f"it is not for {', '.join(missing)}": bool(missing),
        "it is not valid yet": found.starts > now,
        "it has expired": rest <= 0,
        f"it ends in {rest / 86400:.0f} days": rest < RENEW_BEFORE_SECONDS,
        f"it was made for {rest / 86400:.0f} days by a clock that ran ahead, or by somebody else": (
            rest > LIFETIME_SECONDS + _SLACK_SECONDS
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def narrowed(pair: Pair, now: float) -> Pair:
    """A pair that trusts no authority but that of its certificate, if every replica must have that one by now."""
    found = facts(pair)
    over = found.authorities > 1 and now - found.issued > OVERLAP_SECONDS
    return Pair(own_authority(pair), pair.certificate, pair.key) if over else pair


def _decoded(data: Mapping[str, Any], name: str) -> bytes:
    encoded = data.get(name)
    if not encoded and name != _KEYS[0]:
        raise UnusableError(f"{name} is missing")
    try:
        text = base64.b64decode(str(encoded or ""), validate=True)
    except (binascii.Error, ValueError):
        raise UnusableError(f"{name} is not base64") from None
    if len(text) > _LONGEST_PEM:
        raise UnusableError(f"{name} has {len(text)} bytes, more than {_LONGEST_PEM}")
    return text


def _certificates(text: bytes, what: str) -> list[x509.Certificate]:
    """All in a text, at least one."""
    try:
        found = x509.load_pem_x509_certificates(text)
        for each in found:  # some faults of a certificate show when one asks it
            _names(each)
            each.public_key()
    except _FAULTS:
        raise UnusableError(f"{what} is not a certificate in PEM form") from None
    return found


def _readable(text: bytes) -> list[x509.Certificate]:
    try:
        return _certificates(text, "") if text else []
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


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: float
) -> x509.CertificateBuilder:
    moment, serial = datetime.fromtimestamp(now, UTC), x509.random_serial_number()
    end = moment + timedelta(seconds=LIFETIME_SECONDS)
    return x509.CertificateBuilder(issuer, subject, key, serial, moment - _BACKDATED, end).add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key), critical=False
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    others = ("key_encipherment", "content_commitment", "data_encipherment", "key_agreement")
    never = dict.fromkeys((*others, "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(digital_signature=True, key_cert_sign=signs, crl_sign=signs, **never)


def _public(key: Any) -> bytes:  # noqa: ANN401 - a key of any kind
    return bytes(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
