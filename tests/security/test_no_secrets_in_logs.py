"""The services at --log-level=debug, with secrets to lose: none is in a log or on a page, let in or refused."""

import base64
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from tests.architecture.sources import ROOT
from tests.manager.stage import rendered
from tools.devcluster import Cluster
from tools.devcluster.component import free_port

pytestmark = pytest.mark.cluster

SERVICES = ("agent", "manager", "scheduler_plugins")
PROVIDER_TOKEN = "provider-" + uuid.uuid4().hex  # of the monitoring that the extender queries
WRONG_TOKEN = "eyJhbGciOiJSUzI1NiJ9." + uuid.uuid4().hex + "." + uuid.uuid4().hex
WEBHOOK_SECRET = "headroom-manager-webhook-tls"  # noqa: S105 - the object's name
PAGES = ("/metrics", "/healthz?verbose", "/readyz?verbose", "/livez", "/debug/snapshot", "/ui", "/nowhere")
SHORTEST = 12  # of a secret, so many characters in a row would be worth something to a reader of logs


@dataclass
class Run:
    name: str
    log: Path
    port: int
    process: subprocess.Popen[bytes]
    pages: list[str] = field(default_factory=list)

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def page(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
                return str(answer.read().decode(errors="replace"))
        except urllib.error.HTTPError as error:
            with error:
                return f"{error.headers}{error.read().decode(errors='replace')}"
        except OSError:
            return ""

    def until(self, holds: Callable[[], object], what: str, seconds: float = 120.0) -> None:
        end = time.monotonic() + seconds
        while not holds():
            if self.process.poll() is not None or time.monotonic() > end:
                pytest.fail(f"{self.name}: not {what} (exit code {self.process.poll()}):\n{self.log_text()[-4000:]}")
            time.sleep(0.1)


class Monitoring(BaseHTTPRequestHandler):
    """A Prometheus that rejects requests, and repeats their login in its response."""

    logins: list[str] = []  # noqa: RUF012 - of the class, because each request is another instance

    def do_GET(self) -> None:
        login = self.headers.get("Authorization") or ""
        type(self).logins.append(login)
        self.send_response(401, f"not {login}")
        self.end_headers()
        self.wfile.write(json.dumps({"status": "error", "error": f"unknown login {login}"}).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace with a service account that may do everything, so that nothing is left undone for want of a right."""
    name = f"secrets-{uuid.uuid4().hex[:6]}"
    cluster.define(ROOT / "crds/node_metric.yaml")
    cluster.define(ROOT / "crds/elastic_quota.yaml")
    cluster.create_namespace(name)
    cluster.kubectl("create", "serviceaccount", "everything", "-n", name)
    cluster.kubectl(
        "create", "clusterrolebinding", name, "--clusterrole=cluster-admin", f"--serviceaccount={name}:everything"
    )
    objects = yaml.safe_dump_all(rendered(cluster, name, "manager-webhook.yaml"))
    cluster.kubectl("apply", "-f", "-", stdin=objects)
    yield name
    cluster.kubectl("delete", "-f", "-", stdin=objects)
    cluster.kubectl("delete", "clusterrolebinding", name)
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def monitoring() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Monitoring) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _flags(service: str, folder: Path, namespace: str, monitoring: str) -> list[str]:
    """A service's flags besides its login."""
    if service == "agent":
        return [f"--data-dir={folder / 'data'}", f"--node-name=absent-{namespace}", "--collectors=node"]
    if service == "manager":
        # It makes a certificate, with its key in a Secret, and leaves nodes of other tests out.
        webhook = [f"--webhook-listen=127.0.0.1:{free_port()}", "--webhook-certificates=self"]
        return [f"--namespace={namespace}", "--leader-elect", "--exclude-nodes=!absent-label", *webhook]
    provider = {"type": "Prometheus", "address": monitoring, "token": PROVIDER_TOKEN, "intervalSeconds": 1}
    plugins = [{"name": "LowRiskOverCommitment", "args": {"metricProvider": provider}}]
    profile = {"apiVersion": "headroom.dev/v1alpha1", "kind": "HeadroomSchedulerConfiguration", "plugins": plugins}
    (folder / "profile.yaml").write_text(yaml.safe_dump(profile))
    return [f"--profile={folder / 'profile.yaml'}"]


@contextmanager
def _running(service: str, folder: Path, login: Path, flags: list[str]) -> Iterator[Run]:
    port, log = free_port(), folder / "log"
    command = [
        sys.executable,
        "-m",
        service,
        f"--kubeconfig={login}",
        f"--listen=127.0.0.1:{port}",
        "--log-level=debug",
    ]
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("KUBE", "HEADROOM_"))}
    with (
        log.open("wb") as file,
        subprocess.Popen([*command, *flags], cwd=ROOT, stdout=file, stderr=file, env=environment) as process,
    ):
        run = Run(f"{service} in {folder}", log, port, process)
        try:
            yield run
        finally:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


def _answers(run: Run) -> bool:
    return bool(run.page("/livez"))


def _is_refused(run: Run) -> bool:
    return "401" in run.log_text() or "nauthorized" in run.log_text()


def _login(cluster: Cluster, path: Path, token: str, *, certificate: bool) -> Path:
    """A kubeconfig with a token and, for who is let in, with the certificate and key of the cluster's own."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {**(user["user"] if certificate else {}), "token": token}
    path.write_text(yaml.safe_dump(config))
    return path


@dataclass(frozen=True)
class Texts:
    texts: dict[str, str]
    secrets: dict[str, str]


@pytest.fixture(scope="module")
def texts_of(cluster: Cluster, namespace: str, monitoring: str, tmp_path_factory: pytest.TempPathFactory) -> Texts:
    """Texts of each service, once admitted and once rejected, until it has used its secrets."""
    token = cluster.kubectl("create", "token", "everything", "-n", namespace).strip()
    config = yaml.safe_load(cluster.kubeconfig.read_text())["users"][0]["user"]
    runs: dict[str, Run] = {}
    with ExitStack() as stack:
        for service in SERVICES:
            for case, login in (("let in", token), ("refused", WRONG_TOKEN)):
                folder = tmp_path_factory.mktemp(f"{service}-{case.replace(' ', '-')}")
                file = _login(cluster, folder / "kubeconfig", login, certificate=case == "let in")
                flags = _flags(service, folder, namespace, monitoring)
                runs[f"{service}, {case}"] = stack.enter_context(_running(service, folder, file, flags))
        for name, run in runs.items():
            run.until(partial(_is_refused if name.endswith("refused") else _answers, run), "as far as the API server")
        extender, manager = runs["scheduler_plugins, let in"], runs["manager, let in"]
        extender.until(lambda: f"Bearer {PROVIDER_TOKEN}" in Monitoring.logins, "a query of measurements")
        extender.until(lambda: extender.log_text().count("Prometheus"), "the log of the rejection")
        secret = f"/api/v1/namespaces/{namespace}/secrets/{WEBHOOK_SECRET}"
        manager.until(lambda: cluster.api.exists(secret), "keeping the webhook's key")
        key = base64.b64decode(cluster.api.get(secret)["data"]["tls.key"]).decode()
        for run in runs.values():
            run.pages = [run.page(path) for path in PAGES]
    texts = {name: "\n".join([run.log_text(), *run.pages]) for name, run in runs.items()}
    secrets = {
        "token": token,
        "wrong token": WRONG_TOKEN,
        "token of the monitoring": PROVIDER_TOKEN,
        "webhook's key": key,
    }
    for name in ("client-key-data", "client-key"):
        if name in config:
            text = config[name] if name.endswith("data") else Path(config[name]).read_text()
            secrets["client key"] = text
    return Texts(texts, secrets)


def _pieces(secret: str) -> set[str]:
    """Parts of a secret that must not be logged: begin and end of each line or dotted part of it, plain and encoded."""
    words = [word for word in secret.replace(".", "\n").splitlines() if len(word) >= SHORTEST and "-----" not in word]
    pieces = {word[place : place + SHORTEST] for word in words for place in (0, len(word) - SHORTEST)}
    # The begin of a token says only how it is signed; of a key, which kind it is.
    pieces -= {word[:SHORTEST] for word in words[:1] if len(words) > 1}
    return pieces | {base64.b64encode(secret.encode()).decode()[SHORTEST : 3 * SHORTEST]}


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("case", ["let in", "refused"])
def test_no_secret_is_logged(texts_of: Texts, service: str, case: str) -> None:
    """Neither log nor pages hold any piece of a token or key, and they have much text."""
    text = texts_of.texts[f"{service}, {case}"]
    result = [name for name, secret in texts_of.secrets.items() if any(piece in text for piece in _pieces(secret))]
    assert result == []
    assert len(text) > 200


def test_pieces_would_be_found(texts_of: Texts) -> None:
    assert texts_of.secrets.keys() >= {"token", "wrong token", "token of the monitoring", "webhook's key", "client key"}
    for name, secret in texts_of.secrets.items():
        plain = [piece for piece in _pieces(secret) if piece in secret]
        assert plain, name
