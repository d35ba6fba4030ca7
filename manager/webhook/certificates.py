"""Certificates of the webhook: making them, and reading what others may have made. No I/O; clocks are arguments."""

import base64
import binascii
import ipaddress
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME_SECONDS: Final = 90 * 86400.0
"""How long a certificate of ours is valid from the moment it is made. [s]"""
_BACKDATED: Final = timedelta(days=3650)
_MOST_AUTHORITIES: Final = 4
_LONGEST_PEM: Final = 256 * 1024
_NAME: Final = "headroom-manager-webhook"
_ODD_EXTENSIONS: Final = (x509.DuplicateExtension, x509.UnsupportedGeneralNameType)

AUTHORITIES_KEY: Final = "ca.crt"
CERTIFICATE_KEY: Final = "tls.crt"
PRIVATE_KEY_KEY: Final = "tls.key"


class UnusableError(ValueError):
    """What a Secret holds cannot be served; one line that says why."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What one Secret holds, as PEM."""

    authorities: bytes
    """The certificate authorities to trust, the newest first; may be empty where the authority is public."""
    certificate: bytes
    """The serving certificate, with those between it and its authority."""
    key: bytes
    """Its private key."""

    @property
    def data(self) -> dict[str, str]:
        """The data of a Secret of type kubernetes.io/tls."""
        parts = {
            AUTHORITIES_KEY: self.authorities,
            CERTIFICATE_KEY: self.certificate,
            PRIVATE_KEY_KEY: self.key,
        }
        return {name: base64.b64encode(part).decode() for name, part in parts.items()}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a serving certificate says of itself."""

    starts: float
    """From when it is valid. [unix s]"""
    ends: float
    """Until when it is valid. [unix s]"""
    names: frozenset[str]
    """DNS names and IP addresses that it is for."""
    authorities: int
    """How many authorities are trusted beside it."""
    signed: bool
    """Whether one of them has signed it."""

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
    authority = (
        _builder(issuer, issuer, authority_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    identifier = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    certificate = (
        _builder(_named(_NAME), issuer, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
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
    pair = Pair(*(_decoded(data or {}, name) for name in (AUTHORITIES_KEY, CERTIFICATE_KEY, PRIVATE_KEY_KEY)))
    certificate = _certificates(pair.certificate, CERTIFICATE_KEY)[0]
    try:
        key = serialization.load_pem_private_key(pair.key, password=None)
    except TypeError:
        raise UnusableError(f"{PRIVATE_KEY_KEY} is encrypted") from None
    except (ValueError, UnsupportedAlgorithm):
        raise UnusableError(f"{PRIVATE_KEY_KEY} is not a private key in PEM form") from None
    if _public(key.public_key()) != _public(certificate.public_key()):
        raise UnusableError(f"{PRIVATE_KEY_KEY} is not the key of {CERTIFICATE_KEY}")
    if pair.authorities:
        _certificates(pair.authorities, AUTHORITIES_KEY)
    return pair


def facts(pair: Pair) -> Facts:
    """What the certificate of a readable pair says."""
    certificate = _certificates(pair.certificate, CERTIFICATE_KEY)[0]
    trusted = _certificates(pair.authorities, AUTHORITIES_KEY) if pair.authorities else []
    return Facts(
        starts=certificate.not_valid_before_utc.timestamp(),
        ends=certificate.not_valid_after_utc.timestamp(),
        names=_names(certificate),
        authorities=len(trusted),
        signed=any(_signed(certificate, each) for each in trusted),
    )


def bundle(parts: Iterable[bytes], now: float) -> bytes:
    """Authorities as one PEM text, each once, in their order; what has expired or cannot be read is left out."""
    moment = datetime.fromtimestamp(now, UTC)
    texts = itertools.chain.from_iterable(map(_readable, parts))
    kept = dict.fromkeys(_pem(each) for each in texts if each.not_valid_after_utc > moment)
    return b"".join(list(kept)[:_MOST_AUTHORITIES])


def own_authority(pair: Pair) -> bytes:
    """The authority that has signed the certificate of a pair, alone; empty when none of the pair has."""
    certificate = _certificates(pair.certificate, CERTIFICATE_KEY)[0]
    signers = [each for each in _readable(pair.authorities) if _signed(certificate, each)]
    return _pem(signers[0]) if signers else b""


def _decoded(data: Mapping[str, Any], name: str) -> bytes:
    encoded = data.get(name)
    if not encoded:
        if name == AUTHORITIES_KEY:
            return b""
        raise UnusableError(f"{name} is missing")
    try:
        text = base64.b64decode(str(encoded), validate=True)
    except (binascii.Error, ValueError):
        raise UnusableError(f"{name} is not base64") from None
    if len(text) > _LONGEST_PEM:
        raise UnusableError(f"{name} has {len(text)} bytes, more than {_LONGEST_PEM}")
    return text


def _certificates(text: bytes, what: str) -> list[x509.Certificate]:
    try:
        found = x509.load_pem_x509_certificates(text)
        for each in found:  # some faults of a certificate show when one asks it
            _names(each)
            each.public_key()
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion, *_ODD_EXTENSIONS):
        raise UnusableError(f"{what} is not a certificate in PEM form") from None
    if not found:
        raise UnusableError(f"{what} holds no certificate")
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


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _public(key: Any) -> bytes:  # noqa: ANN401 - a key of any kind
    return bytes(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: float
) -> x509.CertificateBuilder:
    moment = datetime.fromtimestamp(now, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - _BACKDATED)
        .not_valid_after(moment + timedelta(seconds=LIFETIME_SECONDS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        key_encipherment=False,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
