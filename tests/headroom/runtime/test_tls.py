"""Authorities without key identifiers, as clusters have them: from Python 3.13 on, defaults refuse them."""

import datetime as dt
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headroom.kube.connection import tls_context
from headroom.runtime import tls
from headroom.runtime.http.listener import ServerTls, _Certificates
from tests.architecture.sources import ROOT

SHAKE_HANDS = """
import ssl, sys
from headroom.runtime import tls

def shake_hands(client, server):
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(to_client, to_server, server_hostname="api.test")]
    ends += [server.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(5):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
    return ends[0].version()
"""
BY_ITSELF = """
folder = sys.argv[1]
server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.load_cert_chain(folder + "/server.crt", folder + "/server.key")
assert sys.version_info < (3, 13) or ssl.create_default_context().verify_flags & ssl.VERIFY_X509_STRICT
print(shake_hands(tls.context(folder + "/ca.crt"), server))
"""


def _certificate(name: str, key: ec.EllipticCurvePrivateKey, issuer: str, by: ec.EllipticCurvePrivateKey) -> bytes:
    """A certificate without key identifiers; of an authority if it is its own issuer."""
    now = dt.datetime.now(dt.UTC)
    subject, issued_by = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (name, issuer))
    builder = x509.CertificateBuilder(issued_by, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - dt.timedelta(hours=1)).not_valid_after(now + dt.timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return builder.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An authority without key identifiers, and a server's certificate of it."""
    authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    (tmp_path / "ca.crt").write_bytes(_certificate("ca", authority, "ca", authority))
    (tmp_path / "server.crt").write_bytes(_certificate("api.test", server, "ca", authority))
    form = serialization.PrivateFormat.TraditionalOpenSSL
    key = server.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (tmp_path / "server.key").write_bytes(key)
    return tmp_path


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Defaults as of Python 3.13."""
    usual = ssl.create_default_context

    def create(*given: object, **named: object) -> ssl.SSLContext:
        result = usual(*given, **named)  # type: ignore[arg-type]
        result.verify_flags |= ssl.VERIFY_X509_STRICT
        return result

    monkeypatch.setattr(ssl, "create_default_context", create)


def _server(folder: Path) -> ssl.SSLContext:
    result = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    result.load_cert_chain(folder / "server.crt", folder / "server.key")
    return result


@pytest.mark.usefixtures("strict")
def test_named_authority_needs_no_identifiers(folder: Path) -> None:
    """The authority of a cluster or a user is accepted without key identifiers; those of the system stay strict."""
    names: dict[str, object] = {}
    exec(SHAKE_HANDS, names)  # noqa: S102 - the text that other interpreters run
    shake_hands = names["shake_hands"]
    assert callable(shake_hands)
    for client in (tls_context(folder / "ca.crt"), tls_context(authority_text=(folder / "ca.crt").read_text())):
        assert shake_hands(client, _server(folder)) == "TLSv1.3"
        assert client.check_hostname
    with pytest.raises(ssl.SSLCertVerificationError, match="Key Identifier"):
        shake_hands(ssl.create_default_context(cafile=folder / "ca.crt"), _server(folder))
    assert tls_context().verify_flags & ssl.VERIFY_X509_STRICT
    assert tls.context().verify_flags & ssl.VERIFY_X509_STRICT


@pytest.mark.usefixtures("strict")
def test_authority_of_clients_needs_no_identifiers(folder: Path) -> None:
    """So is the authority of clients."""
    files = ServerTls(folder / "server.crt", folder / "server.key", folder / "ca.crt")
    assert not _Certificates(files).context.verify_flags & ssl.VERIFY_X509_STRICT


@pytest.mark.parametrize("python", [sys.executable, "python3.13", "python3.14"])
def test_other_interpreters_accept_it(folder: Path, python: str) -> None:
    """An interpreter of its own accepts the authority, too, as far as this machine has it."""
    if (program := shutil.which(python)) is None or subprocess.run([program, "-c", ""], check=False).returncode:
        pytest.skip(f"{python} is not installed")
    command = [program, "-c", SHAKE_HANDS + BY_ITSELF, str(folder)]
    result = subprocess.run(command, check=False, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    assert (result.stdout, result.stderr) == ("TLSv1.3\n", "")
