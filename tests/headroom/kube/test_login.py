import base64
import json
import ssl
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headroom import kube
from headroom.kube import ApiServer, ApiUnavailable, LoginError, acts_as, connect, connector
from headroom.kube.connection import TokenFile, in_cluster
from tests.headroom.kube.fake import answer, serving
from tests.headroom.kube.logins import config, serving_tls, socks_proxy, written
from tests.support.world import Clock
from tools.devcluster.certs import Pki


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
    """A kubeconfig gives server, namespace and header: of a token, a password, a separate file, or none."""
    (tmp_path / "token").write_text("from-file\n")
    result = connect(written(tmp_path, config(user=user)))
    assert (result.server, result.authorization(), result.namespace) == ("http://127.0.0.1:1", authorization, "shop")
    assert result.tls is None


@pytest.mark.parametrize("context", [{"cluster": "c"}, {"cluster": "c", "user": ""}, {"cluster": "c", "user": None}])
def test_context_may_name_no_user(tmp_path: Path, context: dict[str, Any]) -> None:
    """A context without user logs in as no user, as kubectl does, whatever users the kubeconfig lists."""
    result = connect(written(tmp_path, config(top={"contexts": [{"name": "dev", "context": context}]})))
    assert (result.authorization(), result.acts_as, result.namespace) == (None, (), None)


def test_token_file_comes_first(tmp_path: Path) -> None:
    """A token file comes before the token, which counts while the file cannot be read, as for kubectl."""
    user = {"token": "t", "tokenFile": "token"}
    login = connect(written(tmp_path, config(user=user)))
    assert login.authorization() == "Bearer t"
    (tmp_path / "token").write_text("from-file")
    assert login.authorization() == "Bearer from-file"


@pytest.mark.parametrize(
    "wrap", [lambda text: f"{text}\n", lambda text: "\n".join(textwrap.wrap(text, 64)), " {}\r\n".format]
)
async def test_wrapped_data_is_read(tmp_path: Path, wrap: Callable[[str], str]) -> None:
    """Base64 data may be in several lines, and end in a newline."""
    pki = Pki(tmp_path)
    client = pki.client("client", "client")
    parts = {"client-certificate-data": client.cert, "client-key-data": client.key}
    user = {name: wrap(base64.b64encode(path.read_bytes()).decode()) for name, path in parts.items()}
    authority = {"certificate-authority-data": wrap(base64.b64encode(pki.ca.read_bytes()).decode())}
    async with serving_tls(pki.server("server", ["127.0.0.1"]), client_authority=pki.ca) as server:
        login = connect(written(tmp_path, config(cluster={"server": server, **authority}, user=user)))
        async with ApiServer(login, user_agent="test") as api:
            assert await api.get("/version") == {"hello": True}


@pytest.mark.parametrize("proxy", ["socks5://u:p@localhost:1080", "socks5h://localhost:1080"])
def test_missing_library_is_named(tmp_path: Path, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SOCKS proxy needs a library that is not always there; the sentence names it, and no password."""
    monkeypatch.setattr(connector, "_LIBRARY", "no_such_library")
    file = written(tmp_path, config(cluster={"server": "http://api.example", "proxy-url": proxy}))
    with pytest.raises(
        LoginError, match=r"localhost:1080 needs the package aiohttp-socks.*Name an http proxy"
    ) as caught:
        connect(file)
    assert "u:p" not in str(caught.value)
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(LoginError, match="aiohttp-socks"):
        connect(written(tmp_path, config(cluster={"server": "http://api.example"})))


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
async def test_socks_proxy_is_used(tmp_path: Path, scheme: str) -> None:
    """Requests go through the proxy, which resolves the server's name and gets the login of its URL."""
    pki = Pki(tmp_path)
    async with serving_tls(pki.server("server", [], ["api.example"])) as server, socks_proxy(server) as (port, wanted):
        cluster = {"server": "https://api.example:6443", "certificate-authority": "ca.crt"}
        file = written(tmp_path, config(cluster={**cluster, "proxy-url": f"{scheme}://us%40er:pass@127.0.0.1:{port}"}))
        async with ApiServer(connect(file), user_agent="test") as api:
            assert await api.get("/version") == {"hello": True}
    assert wanted == [("us@er", "pass", "api.example", 6443)]


def test_context_can_be_chosen(tmp_path: Path) -> None:
    both = config(
        top={
            "contexts": [{"name": name, "context": {"cluster": "c", "user": name}} for name in ("dev", "prod")],
            "users": [{"name": name, "user": {"token": name}} for name in ("dev", "prod")],
        }
    )
    file = written(tmp_path, both)
    assert connect(file).authorization() == "Bearer dev"
    assert connect(file, "prod").authorization() == "Bearer prod"


def test_files_are_joined(tmp_path: Path) -> None:
    """Several files count as one; the first that names something wins, one that is missing is skipped."""
    first = written(tmp_path, {"current-context": "dev", "users": [{"name": "u", "user": {"token": "first"}}]}, "a")
    second = written(tmp_path, config(), "b")
    assert connect(f"{first}:{tmp_path}/missing:{second}").authorization() == "Bearer first"


def test_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of a pod, $KUBECONFIG counts, then the file in the home folder."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", written(tmp_path, config()))
    assert connect().authorization() == "Bearer t"
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(LoginError, match="Set KUBECONFIG or give --kubeconfig FILE"):
        connect()
    with pytest.raises(LoginError, match=f"{tmp_path}/nope cannot be read"):
        connect(str(tmp_path / "nope"))
    (tmp_path / ".kube").mkdir()
    written(tmp_path / ".kube", config())
    assert connect().authorization() == "Bearer t"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", r"is not valid YAML \(line 1\)"),
        ("- a", "it must be a mapping with clusters, users and contexts"),
        ("", "no current-context is set"),
        (config(top={"current-context": "x"}), "there is no context 'x'. It has: dev."),
        (config(top={"users": []}), "there is no user 'u'. It has: none."),
        (config(top={"clusters": None}), "there is no cluster 'c'. It has: none."),
        (config(cluster={"server": "host:6443"}), "server must be a URL such as https://host:6443, got 'host:6443'"),
        (config(cluster={"proxy-url": "ftp://u:p@x"}), "proxy-url must be an http, https or socks5 URL, got 'ftp://x'"),
        (config(cluster={"proxy-url": "socks5://x:port"}), "proxy-url must be an http, https or socks5 URL"),
        (config(cluster={"proxy-url": "socks5://x", "tls-server-name": "api"}), "tls-server-name has no effect"),
        (config(cluster={"server": "https://x", "insecure-skip-tls-verify": "false"}), "must be true or false"),
        (
            config(
                cluster={"server": "https://x", "insecure-skip-tls-verify": True, "certificate-authority-data": "eA=="}
            ),
            "a certificate authority and insecure-skip-tls-verify exclude each other",
        ),
        (
            config(top={"contexts": [{"name": "dev", "context": {"user": "u"}}]}),
            "it names no cluster; give it one of: c",
        ),
        (config(top={"contexts": [{"name": "dev"}]}), "it names no cluster"),
        (config(cluster={"server": "https://x", "certificate-authority": "nope.crt"}), "certificate-authority cannot"),
        (config(cluster={"server": "https://x", "certificate-authority-data": "#"}), "certificate-authority cannot"),
        (
            config(cluster={"server": "https://x", "certificate-authority-data": "Z2FyYmFnZQ=="}),
            "The certificate authority in the kubeconfig is unusable",
        ),
        (config(cluster={"server": "https://x:port"}), "server must be a URL such as https://host:6443"),
        (config(cluster={"server": 5}), "cluster c of .*: server must be text, got int"),
        (config(top={"users": "x"}), "users must be a list of entries, each with a name and the mapping user"),
        (config(top={"contexts": [{"name": "dev", "context": "c"}]}), "contexts must be a list of entries"),
        (config(top={"clusters": [5]}), "clusters must be a list of entries"),
        (config(user={"token": "two\nlines"}), "token must be one line of plain characters"),
        (config(user={"tokenFile": 5}), "user u of .*: tokenFile must be text, got int"),
        (config(user={"tokenFile": "config"}), "tokenFile config cannot be read, or is not one line of text"),
        (config(user={"tokenFile": "nope"}), "tokenFile nope cannot be read, or is not one line of text"),
        (
            config(
                cluster={"server": "https://x"},
                user={"client-certificate-data": "eA==", "client-key-data": "eA=="},
            ),
            "user u of .*: the client certificate and key do not work",
        ),
        (
            config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nope"}}),
            "gave no token and no certificate",
        ),
    ],
)
def test_wrong_kubeconfig_is_explained(tmp_path: Path, content: object, message: str) -> None:
    """Whatever is wrong with a kubeconfig, one line names the file, the entry and the problem."""
    with pytest.raises(LoginError, match=message) as caught:
        connect(written(tmp_path, content))
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
    result = connect(written(tmp_path, config(user={"exec": execute})))
    assert result.authorization() == "Bearer fresh"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(credential).replace('fresh', 'fresher')}'\n")
    result.forget_authorization()
    assert result.authorization() == "Bearer fresher"


def test_login_program_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the official client is not installed, as in our images, one sentence says what to do."""
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(LoginError, match="needs the package kubernetes, which is not installed here"):
        connect(written(tmp_path, config(user={"exec": {"command": "/nope"}})))


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


@pytest.mark.parametrize(
    ("trust", "accepted"),
    [
        ({"certificate-authority": "ca.crt", "tls-server-name": "api.test"}, True),
        ({"insecure-skip-tls-verify": True}, True),
        ({"tls-server-name": "api.test"}, False),  # of an unknown authority
        ({"certificate-authority": "ca.crt"}, False),  # of another name
    ],
)
async def test_certificates_are_checked(tmp_path: Path, trust: dict[str, Any], *, accepted: bool) -> None:
    """Server and client prove their identity; a kubeconfig may skip the check of the server."""
    pki = Pki(tmp_path)
    client = pki.client("client", "client")
    parts = {"client-certificate-data": client.cert, "client-key-data": client.key}
    user = {name: base64.b64encode(path.read_bytes()).decode() for name, path in parts.items()}
    async with serving_tls(pki.server("server", [], ["api.test"]), client_authority=pki.ca) as server:
        login = connect(written(tmp_path, config(cluster={"server": server, **trust}, user=user)))
        async with ApiServer(login, user_agent="test") as api:
            if accepted:
                assert await api.get("/version") == {"hello": True}
                return
            refused = r"its certificate is refused \(.+\); check the certificate authority in context"
            with pytest.raises(ApiUnavailable, match=refused):
                await api.get("/version")


def _service_account(folder: Path) -> Path:
    """The files of a pod's service account; the authority is in ca.crt."""
    Pki(folder)
    (folder / "token").write_text("pod-token")
    (folder / "namespace").write_text("headroom-system")
    return folder


@pytest.mark.parametrize(
    ("host", "url"), [("10.96.0.1", "https://10.96.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_pod_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, url: str) -> None:
    """A pod logs in with its service account; a given kubeconfig comes before it."""
    folder = _service_account(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    result = in_cluster(folder)
    assert (result.server, result.authorization(), result.namespace) == (url, "Bearer pod-token", "headroom-system")
    assert result.tls is not None
    assert result.tls.verify_mode is ssl.CERT_REQUIRED
    monkeypatch.setattr("headroom.kube.connection.SERVICE_ACCOUNT", folder)
    assert connect(written(tmp_path, config())).authorization() == "Bearer t"


def test_incomplete_pod_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(LoginError, match="this is not a pod"):
        in_cluster(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    with pytest.raises(LoginError, match="token cannot be read, or is not one line of text"):
        in_cluster(tmp_path)
    _service_account(tmp_path)
    (tmp_path / "ca.crt").unlink()
    with pytest.raises(LoginError, match=r"ca\.crt is unusable"):
        in_cluster(tmp_path)


def test_import_is_light() -> None:
    """`import headroom.kube` loads no official client and no YAML: an agent's memory depends on it."""
    loaded = "import headroom.kube, sys; print(*({'kubernetes', 'yaml', 'numpy'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
    assert kube.MERGE_PATCH == "application/merge-patch+json"


async def test_headers_go_with_each_request() -> None:
    """Impersonation is sent with each request, one header per group."""
    async with serving() as (server, api):
        server.add("list", answer({}))
        api.acts_as = acts_as("jane", ["a", "b"])
        await api.get("/list")
    heads = server.requests[-1].headers
    assert heads.getall("Impersonate-User") == ["jane"]
    assert heads.getall("Impersonate-Group") == ["a", "b"]


def test_no_impersonation_sends_no_header() -> None:
    """Without a user nothing is sent; groups alone are refused, as API servers do."""
    assert acts_as(None) == ()
    with pytest.raises(LoginError, match="give --as NAME, too"):
        acts_as(None, ["a"])
    with pytest.raises(LoginError, match="one line of plain characters"):
        acts_as("jane\r\nX: y")


def test_kubeconfig_with_impersonation(tmp_path: Path) -> None:
    """Impersonation of a kubeconfig's user is read as by kubectl, also after a renewal."""
    said = {"as": "jane", "as-groups": ["a"], "as-uid": "7", "as-user-extra": {"example.com/team": ["x", "y"]}}
    result = connect(written(tmp_path, config(user={"token": "t", **said})))
    assert result.acts_as == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-example.com%2Fteam", "x"),
        ("Impersonate-Extra-example.com%2Fteam", "y"),
    )
    assert result.renewed is not None
    assert result.renewed().acts_as == result.acts_as
    for wrong in ({"as-groups": "a"}, {"as-user-extra": ["x"]}, {"as-user-extra": {"team": "x"}}):
        with pytest.raises(LoginError, match="as-groups must be a list, and as-user-extra a mapping of lists"):
            connect(written(tmp_path, config(user={"token": "t", "as": "jane", **wrong})))
