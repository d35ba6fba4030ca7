"""Certificates and kubeconfigs of one cluster: with an own authority per cluster."""

import base64
import datetime as dt
import functools
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=365)
CLOCK_SKEW = dt.timedelta(hours=1)
SERVICE_ACCOUNT_KEY_BITS = 2048

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, as PEM files."""

    cert: Path
    key: Path


def _name(common_name: str, organizations: Iterable[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _write_key(path: Path, key: PrivateKey) -> Path:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
    return path


class Pki:
    """The certificate authority of one cluster and its certificates; everything lies in `directory`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("headroom-devcluster")
        self._identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self.ca = self._sign(directory / "ca.crt", self._name, self._key, authority=True)
        self.ca_key = _write_key(directory / "ca.key", self._key)

    def _sign(
        self,
        path: Path,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *others: x509.ExtensionType,
        authority: bool = False,
    ) -> Path:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - CLOCK_SKEW)
            .not_valid_after(now + LIFETIME)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=authority), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        for extension in others:
            builder = builder.add_extension(extension, critical=False)
        path.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return path

    def _pair(
        self, name: str, subject: x509.Name, usage: x509.ObjectIdentifier, *others: x509.ExtensionType
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier)
        cert = self._sign(self.directory / f"{name}.crt", subject, key, x509.ExtendedKeyUsage([usage]), issuer, *others)
        return KeyPair(cert, _write_key(self.directory / f"{name}.key", key))

    def server(self, name: str, addresses: Iterable[str], names: Iterable[str] = ()) -> KeyPair:
        """A serving certificate for these IP addresses and DNS names, in `<name>.crt` and `<name>.key`."""
        alternatives: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        alternatives += [x509.DNSName(name) for name in names]
        wanted = x509.SubjectAlternativeName(alternatives)
        return self._pair(name, _name(name), ExtendedKeyUsageOID.SERVER_AUTH, wanted)

    def client(self, name: str, common_name: str, organizations: Iterable[str] = ()) -> KeyPair:
        """A client certificate: the API server takes `common_name` as the user and `organizations` as its groups."""
        return self._pair(name, _name(common_name, organizations), ExtendedKeyUsageOID.CLIENT_AUTH)

    @functools.cached_property
    def service_account_key(self) -> Path:
        """The RSA key that signs service-account tokens."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=SERVICE_ACCOUNT_KEY_BITS)
        return _write_key(self.directory / "service-account.key", key)

    def kubeconfig(self, name: str, client: KeyPair, server_url: str) -> Path:
        """A kubeconfig with everything embedded, in `<name>.kubeconfig`; may be copied away."""
        cluster = {"server": server_url, "certificate-authority-data": _base64(self.ca)}
        user = {"client-certificate-data": _base64(client.cert), "client-key-data": _base64(client.key)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "headroom",
            "clusters": [{"name": "headroom", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "headroom", "context": {"cluster": "headroom", "user": name}}],
        }
        path = self.directory / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
