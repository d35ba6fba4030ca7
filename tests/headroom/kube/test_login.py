"""Logging in: pods, kubeconfigs, certificates, login programs, and everything that is wrong with them."""

import base64
import datetime as dt
import json
import ssl
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headroom import kube
from headroom.kube import ApiServer, ApiUnavailable, LoginError, connect
from headroom.kube.connection import TokenFile, in_cluster
from tests.support.world import Clock


def _config(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/", **changes.get("cluster", {})}}],
        "users": [{"name": "u", "user": changes.get("user", {"token": "t"})}],
        **changes.get("top", {}),
    }


def _write(folder: Path, config: object, name: str = "config") -> str:
    file = folder / name
    file.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    return str(file)


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        ({"token": "t"}, "Bearer t"),
        ({"username": "a", "password": "b"}, "Basic " + base64.b64encode(b"a:b").decode()),
        ({"tokenFile": "token"}, "Bearer from-file"),
        ({}, None),
    ],
)
def test_logins(tmp_path: Path, user: dict[str, str], authorization: str | None) -> None:
    """A kubeconfig gives server, namespace and header: of a token, a password, a file beside it, or none."""
    (tmp_path / "token").write_text("from-file\n")
    found = connect(_write(tmp_path, _config(user=user)))
    assert (found.server, found.authorization(), found.namespace) == ("http://127.0.0.1:1", authorization, "shop")
    assert found.tls is None


def test_context_can_be_chosen(tmp_path: Path) -> None:
    """Another context than the current one can be asked for."""
    both = _config(
        top={
            "contexts": [{"name": name, "context": {"cluster": "c", "user": name}} for name in ("dev", "prod")],
            "users": [{"name": name, "user": {"token": name}} for name in ("dev", "prod")],
        }
    )
    file = _write(tmp_path, both)
    assert connect(file).authorization() == "Bearer dev"
    assert connect(file, "prod").authorization() == "Bearer prod"


def test_files_are_joined(tmp_path: Path) -> None:
    """Several files count as one; the first that names something wins, one that is missing is skipped."""
    first = _write(tmp_path, {"current-context": "dev", "users": [{"name": "u", "user": {"token": "first"}}]}, "a")
    second = _write(tmp_path, _config(), "b")
    assert connect(f"{first}:{tmp_path}/missing:{second}").authorization() == "Bearer first"


def test_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of a pod, $KUBECONFIG counts, then the file in the home folder."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", _write(tmp_path, _config()))
    assert connect().authorization() == "Bearer t"
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(LoginError, match="Set KUBECONFIG or give --kubeconfig FILE"):
        connect()
    with pytest.raises(LoginError, match=f"{tmp_path}/nope cannot be read"):
        connect(str(tmp_path / "nope"))
    (tmp_path / ".kube").mkdir()
    _write(tmp_path / ".kube", _config())
    assert connect().authorization() == "Bearer t"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("a: [", r"is not valid YAML \(line 1\)"),
        ("- a", "it must be a mapping with clusters, users and contexts"),
        ("", "no current-context is set"),
        (_config(top={"current-context": "x"}), "there is no context 'x'. It has: dev."),
        (_config(top={"users": []}), "there is no user 'u'. It has: none."),
        (_config(top={"clusters": None}), "there is no cluster 'c'. It has: none."),
        (_config(cluster={"server": "host:6443"}), "server must be a URL such as https://host:6443, got 'host:6443'"),
        (_config(cluster={"proxy-url": "socks5://x"}), "proxy-url must be an http or https URL"),
        (_config(cluster={"server": "https://x", "certificate-authority": "nope.crt"}), "certificate-authority cannot"),
        (_config(cluster={"server": "https://x", "certificate-authority-data": "#"}), "certificate-authority cannot"),
        (
            _config(cluster={"server": "https://x", "certificate-authority-data": "Z2FyYmFnZQ=="}),
            "The certificate authority in the kubeconfig is unusable",
        ),
        (_config(cluster={"server": "https://x:port"}), "server must be a URL such as https://host:6443"),
        (_config(cluster={"server": 5}), "cluster c of .*: server must be text, got int"),
        (_config(top={"users": "x"}), "users must be a list of entries, each with a name and the mapping user"),
        (_config(top={"contexts": [{"name": "dev", "context": "c"}]}), "contexts must be a list of entries"),
        (_config(top={"clusters": [5]}), "clusters must be a list of entries"),
        (_config(user={"token": "two\nlines"}), "token must be one line of plain characters"),
        (_config(user={"tokenFile": 5}), "user u of .*: tokenFile must be text, got int"),
        (_config(user={"tokenFile": "config"}), "tokenFile config cannot be read, or is not one line of text"),
        (_config(user={"tokenFile": "nope"}), "tokenFile nope cannot be read, or is not one line of text"),
        (
            _config(
                cluster={"server": "https://x"},
                user={"client-certificate-data": "eA==", "client-key-data": "eA=="},
            ),
            "user u of .*: the client certificate and key do not work",
        ),
        (
            _config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nope"}}),
            "gave no token and no certificate",
        ),
    ],
)
def test_wrong_kubeconfig_is_explained(tmp_path: Path, config: object, message: str) -> None:
    """Whatever is wrong with a kubeconfig, one line names the file, the entry and the problem."""
    with pytest.raises(LoginError, match=message) as caught:
        connect(_write(tmp_path, config))
    assert len(str(caught.value).splitlines()) == 1


def test_login_program_runs(tmp_path: Path) -> None:
    """A login program (exec) is run by the official client, and its token is used."""
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "fresh"},
    }
    program = tmp_path / "login"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    execute = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(program),
        "interactiveMode": "Never",
    }
    found = connect(_write(tmp_path, _config(user={"exec": execute})))
    assert found.authorization() == "Bearer fresh"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(credential).replace('fresh', 'fresher')}'\n")
    found.forget_authorization()
    assert found.authorization() == "Bearer fresher"


def test_login_program_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the official client is not installed, as in our images, one sentence says what to do."""
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(LoginError, match="needs the package kubernetes, which is not installed here"):
        connect(_write(tmp_path, _config(user={"exec": {"command": "/nope"}})))


def test_token_is_read_again(tmp_path: Path) -> None:
    """A token that kubelet renews is read again once a minute, at once after a 401, and kept while unreadable."""
    file, clock = tmp_path / "token", Clock()
    file.write_text("one")
    token = TokenFile(file, clock)
    assert token.authorization() == "Bearer one"
    file.write_text("two")
    clock.now = 59.0
    assert token.authorization() == "Bearer one"
    clock.now = 60.0
    assert token.authorization() == "Bearer two"
    file.write_text("three")
    token.forget()
    assert token.authorization() == "Bearer three"
    file.write_text("half\nwritten")
    clock.now = 200.0
    assert token.authorization() == "Bearer three"
    file.unlink()
    clock.now = 300.0
    assert token.authorization() == "Bearer three"


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key."""

    certificate: bytes
    key: bytes


def _certificate(name: str) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Certificate(certificate.public_bytes(serialization.Encoding.PEM), private)


@pytest.fixture(scope="module")
def certificates() -> tuple[Certificate, Certificate]:
    """A server's certificate for the name `api.test`, and a client's."""
    return _certificate("api.test"), _certificate("client")


@pytest.fixture
async def tls_server(certificates: tuple[Certificate, Certificate], tmp_path: Path) -> AsyncIterator[str]:
    """A server on loopback that proves to be `api.test` and wants the client's certificate."""
    server, client = certificates
    for name, content in (("s.crt", server.certificate), ("s.key", server.key), ("client.crt", client.certificate)):
        (tmp_path / name).write_bytes(content)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "client.crt")
    context.load_cert_chain(tmp_path / "s.crt", tmp_path / "s.key")
    context.verify_mode = ssl.CERT_REQUIRED

    async def hello(_request: web.Request) -> web.Response:
        return web.json_response({"hello": True})

    app = web.Application()
    app.router.add_get("/version", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def _tls_config(server: str, certificates: tuple[Certificate, Certificate], **cluster: Any) -> dict[str, Any]:  # noqa: ANN401
    client = certificates[1]
    user = {
        "client-certificate-data": base64.b64encode(client.certificate).decode(),
        "client-key-data": base64.b64encode(client.key).decode(),
    }
    return _config(cluster={"server": server, **cluster}, user=user)


@pytest.mark.parametrize(
    "trust",
    [{"certificate-authority": "s.crt", "tls-server-name": "api.test"}, {"insecure-skip-tls-verify": True}],
)
async def test_certificates_are_checked(
    tls_server: str, certificates: tuple[Certificate, Certificate], tmp_path: Path, trust: dict[str, Any]
) -> None:
    """Server and client prove themselves, also under another host name; a kubeconfig may skip the server's check."""
    login = connect(_write(tmp_path, _tls_config(tls_server, certificates, **trust)))
    async with ApiServer(login, user_agent="test") as api:
        assert await api.get("/version") == {"hello": True}


@pytest.mark.parametrize("trust", [{"tls-server-name": "api.test"}, {"certificate-authority": "s.crt"}])
async def test_wrong_certificate_is_refused(
    tls_server: str, certificates: tuple[Certificate, Certificate], tmp_path: Path, trust: dict[str, str]
) -> None:
    """A server of an unknown authority, or of another name, is not spoken to."""
    login = connect(_write(tmp_path, _tls_config(tls_server, certificates, **trust)))
    async with ApiServer(login, user_agent="test") as api:
        with pytest.raises(
            ApiUnavailable, match=r"its certificate is refused \(.+\); check the certificate authority in context"
        ):
            await api.get("/version")


def _service_account(folder: Path, certificate: bytes) -> Path:
    (folder / "token").write_text("pod-token")
    (folder / "ca.crt").write_bytes(certificate)
    (folder / "namespace").write_text("headroom-system")
    return folder


@pytest.mark.parametrize(
    ("host", "url"), [("10.96.0.1", "https://10.96.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_pod_login(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    certificates: tuple[Certificate, Certificate],
    host: str,
    url: str,
) -> None:
    """A pod logs in with its service account; a given kubeconfig comes before it."""
    folder = _service_account(tmp_path, certificates[0].certificate)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = in_cluster(folder)
    assert (found.server, found.authorization(), found.namespace) == (url, "Bearer pod-token", "headroom-system")
    assert found.tls is not None
    assert found.tls.verify_mode is ssl.CERT_REQUIRED
    monkeypatch.setattr("headroom.kube.connection.SERVICE_ACCOUNT", folder)
    assert connect(_write(tmp_path, _config())).authorization() == "Bearer t"


def test_incomplete_pod_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificates: tuple[Certificate, Certificate]
) -> None:
    """What is missing of a service account is named."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(LoginError, match="this is not a pod"):
        in_cluster(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    with pytest.raises(LoginError, match="token cannot be read, or is not one line of text"):
        in_cluster(tmp_path)
    _service_account(tmp_path, certificates[0].certificate)
    (tmp_path / "ca.crt").unlink()
    with pytest.raises(LoginError, match=r"ca\.crt is unusable"):
        in_cluster(tmp_path)


def test_import_is_light() -> None:
    """Neither the official client nor YAML is loaded by importing headroom.kube: an agent's memory depends on it."""
    loaded = "import headroom.kube, sys; print(*({'kubernetes', 'yaml', 'numpy'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
    assert kube.MERGE_PATCH == "application/merge-patch+json"
