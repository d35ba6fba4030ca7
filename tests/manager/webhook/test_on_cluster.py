"""The webhook on a real API server: the chart's configuration, but for the address, since Services lead nowhere."""

import base64
import contextlib
import functools
import json
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manager.settings import WebhookSettings
from manager.webhook.certificate import LIFETIME_SECONDS, issue, read
from manager.webhook.service import served_names
from tests.crds.mid_cases import Case, cases, exact, shortened
from tests.manager.stage import CONFIG_MAP, Manager, Stage, called_at, prepared, rendered
from tests.support.mid_namespace import created, mid_namespace
from tests.support.waiting import eventually
from tools.devcluster import Cluster
from tools.devcluster.api import ApiError
from tools.devcluster.component import free_port

pytestmark = pytest.mark.cluster

NAMESPACE = "webhook-test"
SETTINGS = WebhookSettings()
HOOK = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{SETTINGS.configuration_name}"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/{SETTINGS.secret_name}"
CONFIG = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}"
MID = "webhook-test-mid"
GOOD = '{"enable": false}'
BAD = '{"enabl": true, "degradeTimeMinutes": 0}'
DAY = 86400.0


class Guarded:
    """A stage with a webhook configuration, and managers that answer."""

    def __init__(self, stage: Stage, directory: Path) -> None:
        self.stage, self.api, self.port = stage, stage.cluster.api, free_port()
        self._login, self._directory = stage.login(directory / "kubeconfig"), directory
        self.managers: list[Manager] = []
        self._install()

    def _install(self) -> None:
        objects = rendered(self.stage.cluster, NAMESPACE, "manager-webhook.yaml")
        (hook,) = [item for item in objects if item["kind"].startswith("Validating")]
        self.stage.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(called_at(hook, self.port)))

    def manager(self, port: int | None = None) -> Manager:
        listen = f"--webhook-listen=127.0.0.1:{port or self.port}"
        log = self._directory / f"manager-{len(self.managers)}.log"
        manager = Manager(self._login, log, NAMESPACE, listen, "--webhook-pods-configuration=headroom-mid-namespaces")
        self.managers.append(manager)
        manager.start(wait=False)
        return manager

    def end(self) -> None:
        """End every manager in order; none may have logged denied rights or a fault of its own."""
        codes = [manager.stop() for manager in self.managers]
        said = "".join(manager.log_text() for manager in self.managers)
        assert set(codes) <= {0, -signal.SIGKILL}, said
        assert "Traceback" not in said
        assert "orbidden" not in said or "cannot be reached" in said, said

    def store(self, text: str) -> None:
        """Store a text in the ConfigMap without admission."""
        self.stage.configure(text)

    def refusal(self, text: str, *, dry: bool = True) -> dict[str, Any]:
        """The API server's answer to an edit when it refuses; empty when it passes."""
        body = {"data": {"colocation-config": text}}
        try:
            self.api.merge(f"{CONFIG}?dryRun=All" if dry else CONFIG, body)
        except ApiError as error:
            return {"status": error.status, "message": str(error)}
        return {}

    def kubectl(self, *arguments: str, stdin: str = "", editor: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**self.stage.cluster.environment, **({"KUBE_EDITOR": str(editor)} if editor else {})}
        command = [str(self.stage.cluster.binaries.path("kubectl")), "-n", NAMESPACE, *arguments]
        return subprocess.run(
            command, env=environment, input=stdin, capture_output=True, text=True, timeout=120, check=False
        )

    def trusted(self) -> bytes:
        return base64.b64decode(self.api.get(HOOK)["webhooks"][0]["clientConfig"].get("caBundle", ""))

    def served(self, port: int | None = None) -> bytes:
        """The certificate that is served on a port, after a handshake that trusts what API servers trust."""
        trust = ssl.create_default_context(cadata=self.trusted().decode())
        with (
            socket.create_connection(("127.0.0.1", port or self.port), timeout=60) as plain,
            trust.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
        ):
            return secured.getpeercert(binary_form=True) or b""

    def reviews(self, manager: Manager) -> float:
        page = manager.page("/metrics")[1]
        counts = re.findall(r"^headroom_manager_webhook_reviews_total\{.*\} (\S+)$", page, flags=re.MULTILINE)
        return sum(map(float, counts))


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    with prepared(cluster, NAMESPACE) as stage:
        yield stage


@pytest.fixture
def guarded(stage: Stage, tmp_path: Path) -> Iterator[Guarded]:
    guarded = Guarded(stage, tmp_path)
    try:
        yield guarded
        guarded.end()
    finally:
        for manager in guarded.managers:
            manager.stop(signal.SIGKILL)
        for path in (HOOK, SECRET, CONFIG):
            with contextlib.suppress(ApiError):
                stage.cluster.api.request("DELETE", path)


def _editor(directory: Path) -> Path:
    """An editor that first writes a bad config and then, when it is opened again, keeps the text and repairs it."""
    script = directory / "editor"
    program = f"""#!{sys.executable}
import pathlib, sys
seen, file = pathlib.Path({str(directory / "seen")!r}), pathlib.Path(sys.argv[1])
text = file.read_text()
if seen.exists():
    seen.write_text(text)
    file.write_text(text.replace("enabl:", "x").replace('"enabl"', '"enable"'))
else:
    seen.write_text("")
    file.write_text(text.replace('"enable": false', '"enabl": true'))
"""
    script.write_text(program)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


def test_errors_reach_the_user(guarded: Guarded, tmp_path: Path) -> None:
    guarded.store(GOOD)
    manager = guarded.manager()
    eventually(lambda: bool(guarded.refusal(BAD)), f"a bad edit is refused: {manager.log_text()}")
    assert guarded.api.get(SECRET)["type"] == "kubernetes.io/tls"
    result = guarded.refusal(BAD)
    assert result["status"] == 422
    assert 'admission webhook "colocation-config.headroom.dev" denied the request' in result["message"]
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}}
    text = json.dumps({**manifest, "data": {"colocation-config": BAD}})
    applied = guarded.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
    assert applied.returncode != 0
    assert "enabl: unknown field: did you mean enable?" in applied.stderr
    assert "degradeTimeMinutes: must be 1 to 10080, got 0" in applied.stderr
    edited = guarded.kubectl("edit", "configmap", CONFIG_MAP, editor=_editor(tmp_path))
    assert "edited" in edited.stdout, edited
    assert "# * enabl: unknown field: did you mean enable?" in (tmp_path / "seen").read_text()
    assert guarded.api.get(CONFIG)["data"]["colocation-config"].strip() == '{"enable": true}'
    unconfirmed = json.dumps({"data": {"colocation-config": '{"enable": false, "somethingElse": 1}'}})
    warned = guarded.kubectl("patch", "configmap", CONFIG_MAP, "--type=merge", "-p", unconfirmed)
    assert warned.returncode == 0
    assert "Warning: somethingElse" in warned.stderr
    before = guarded.reviews(manager)
    assert guarded.kubectl("create", "configmap", "other", f"--from-literal=colocation-config={BAD}").returncode == 0
    elsewhere = ("create", "configmap", CONFIG_MAP, "-n", "default", f"--from-literal=colocation-config={BAD}")
    assert guarded.kubectl(*elsewhere, "--dry-run=server").returncode == 0
    assert guarded.kubectl("delete", "configmap", "other", CONFIG_MAP).returncode == 0
    assert guarded.reviews(manager) == before  # the API server sent no review for these
    created = guarded.kubectl("create", "configmap", CONFIG_MAP, f"--from-literal=colocation-config={BAD}")
    assert "enabl: unknown field" in created.stderr


def test_without_manager_edits_pass(guarded: Guarded) -> None:
    guarded.store(GOOD)
    first = guarded.manager()
    eventually(lambda: bool(guarded.refusal(BAD)), f"a bad edit is refused: {first.log_text()}")
    first.stop(signal.SIGKILL)
    assert guarded.refusal(BAD, dry=False) == {}
    second = guarded.manager()
    worse = BAD.replace("0", "-1")
    eventually(lambda: bool(guarded.refusal(worse)), f"a bad edit is refused again: {second.log_text()}")
    guarded.api.merge(CONFIG, {"metadata": {"labels": {"touched": "yes"}}})
    assert guarded.refusal(GOOD, dry=False) == {}


def test_pods_of_mid_namespaces_become_mid(guarded: Guarded) -> None:
    """A manager translates each case as the function does; without a manager, pods pass unchanged."""
    cluster = guarded.stage.cluster
    (hook,) = rendered(cluster, NAMESPACE, "mid-namespaces.yaml")
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(called_at(hook, guarded.port)))
    manager = guarded.manager()
    probe = cases()[0]

    def stored(case: Case) -> Any:  # noqa: ANN401 - JSON
        return exact(shortened(created(cluster, case.as_sent(), MID)[0]))

    try:
        with mid_namespace(cluster, MID):
            eventually(lambda: stored(probe) == exact(probe.becomes), lambda: f"pods become Mid: {manager.log_text()}")
            for case in cases():
                pod, warnings = created(cluster, case.as_sent(), MID)
                assert exact(shortened(pod)) == exact(case.becomes), (case.name, warnings)
                assert case.warning in warnings
            page = manager.page("/metrics")[1]
            assert 'headroom_manager_webhook_pods_total{result="translated"}' in page
            manager.stop(signal.SIGKILL)
            assert stored(probe) == exact(probe.pod)
    finally:
        cluster.kubectl("delete", "-f", "-", stdin=json.dumps(hook))


@pytest.mark.long
def test_rotation_lets_nothing_pass(guarded: Guarded) -> None:
    guarded.store(GOOD)
    names = served_names(SETTINGS.service_name, NAMESPACE, "127.0.0.1")
    due = issue(names, time.time() - 70 * DAY)
    metadata = {"name": SETTINGS.secret_name, "namespace": NAMESPACE}
    guarded.stage.cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": due.data})
    bundle = {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": due.data["tls.crt"]}
    guarded.stage.cluster.kubectl(
        "patch",
        "validatingwebhookconfiguration",
        SETTINGS.configuration_name,
        "--type=json",
        "-p",
        json.dumps([bundle]),
    )
    guarded.manager()
    eventually(lambda: bool(guarded.refusal(BAD)), f"a bad edit is refused: {guarded.managers[0].log_text()}")
    passed, requested, over = [], [0], threading.Event()

    def edit() -> None:
        while not over.is_set():
            requested[0] += 1
            over.wait(0.05)
            if not guarded.refusal(BAD):
                passed.append(time.monotonic())

    editing = threading.Thread(target=edit, daemon=True)
    editing.start()
    other = free_port()
    guarded.manager(other)  # a standby serves the same
    try:
        was = ssl.PEM_cert_to_DER_cert(due.certificate.decode())
        eventually(functools.partial(_differs, guarded, was), "another certificate is served")
        observed = guarded.served()
        eventually(functools.partial(_serves, guarded, other, observed), "the standby serves it too")
        eventually(lambda: requested[0] > 10, "many edits are refused")
    finally:
        over.set()
        editing.join(timeout=120)
    assert passed == []
    secret = guarded.api.get(SECRET)
    assert read(secret["data"]).ends > time.time() + LIFETIME_SECONDS - DAY
    assert due.certificate in guarded.trusted()  # for an hour, since a replica may still serve its certificates
    assert secret["metadata"]["ownerReferences"][0]["kind"] == "ValidatingWebhookConfiguration"


def _differs(guarded: Guarded, seen: bytes) -> bool:
    try:
        return guarded.served() != seen
    except OSError:  # the trusted bundle may be older than the served certificate
        return False


def _serves(guarded: Guarded, port: int, certificate: bytes) -> bool:
    try:
        return guarded.served(port) == certificate
    except OSError:  # it does not listen yet
        return False
