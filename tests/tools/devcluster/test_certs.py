"""Certificates that clients of today accept, and kubeconfigs that hold all they need."""

import base64
import ssl
import stat
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tools.devcluster.certs import Pki


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    """A new authority."""
    return Pki(tmp_path / "pki")


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """Do a TLS handshake in memory."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=name)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


@pytest.mark.parametrize("name", ["127.0.0.1", "kubernetes.default.svc"])
def test_strict_clients_accept(pki: Pki, name: str) -> None:
    """A client that checks strictly, as Python 3.13 does, and a server accept each other's certificates."""
    pair, admin = pki.server("api", ["127.0.0.1"], ["kubernetes.default.svc"]), pki.client("admin", "admin")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.cert, pair.key)
    server.load_verify_locations(pki.ca)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(pki.ca))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.load_cert_chain(admin.cert, admin.key)
    _handshake(server, client, name)


def test_other_names_are_refused(pki: Pki) -> None:
    """A certificate stands only for its own addresses."""
    pair = pki.server("api", ["127.0.0.1"])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.cert, pair.key)
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(server, ssl.create_default_context(cafile=str(pki.ca)), "10.96.0.1")


def test_client_names_user_and_groups(pki: Pki) -> None:
    """The API server reads user and groups from the subject."""
    pair = pki.client("kubelet", "system:node:one", ["system:nodes", "more"])
    certificate = x509.load_pem_x509_certificate(pair.cert.read_bytes())
    subject = certificate.subject
    assert [one.value for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["system:nodes", "more"]
    assert subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:node:one"
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_keys_are_private(pki: Pki) -> None:
    """Keys and kubeconfigs can be read by their owner alone."""
    pair = pki.client("admin", "admin")
    kubeconfig = pki.kubeconfig("admin", pair, "https://127.0.0.1:1")
    for file in (pair.key, pki.ca_key, pki.service_account_key, kubeconfig):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name


def test_kubeconfig_is_complete(pki: Pki) -> None:
    """A kubeconfig names no other file, so it can be copied away."""
    pair = pki.client("admin", "admin")
    document = yaml.safe_load(pki.kubeconfig("admin", pair, "https://127.0.0.1:1").read_text())
    user = document["users"][0]["user"]
    assert base64.b64decode(user["client-key-data"]) == pair.key.read_bytes()
    assert document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    assert document["current-context"] == document["contexts"][0]["name"]
