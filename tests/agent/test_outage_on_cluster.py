"""The agent as a process, with the rights that the chart gives it, while a real API server is killed and changed."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.agent.metric_text import value_of
from tests.agent.process import get
from tests.manager.stage import login, rendered
from tests.support.waiting import eventually
from tools.devcluster import Cluster, ClusterSpec, CommandError
from tools.devcluster.component import free_port

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
NODE = "outage"
NAMESPACE = "outage-test"
CRD = ROOT / "crds/node_metric.yaml"
POLICY = {"checkIntervalSeconds": 5, "forceUpdateIntervalSeconds": 60, "coldStartPeriodSeconds": 0}


class Stage:
    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.log, self.folder = cluster, folder / "agent.log", folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        flags = [
            *(
                f"--node-name={NODE}",
                f"--kubeconfig={login(self.cluster, 'headroom-agent', NAMESPACE, self.folder / 'kubeconfig')}",
                f"--data-dir={self.folder / 'data'}",
            ),
            *(f"--listen=127.0.0.1:{self.port}", "--report-after=1s", "--report-longest-backoff=1s"),
            *("--training-interval=1s", "--collectors=node,pod"),
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "agent", *flags], cwd=ROOT, stdout=log, stderr=log, env=os.environ
            )
        eventually(lambda: self.reported_at("updateTime"), f"the first report; {self.log}:\n{self.log_text()}")

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(timeout=120)

    def log_text(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def metric(self, name: str) -> float:
        return value_of(get(f"http://127.0.0.1:{self.port}/metrics")[1], f"headroom_agent_{name}")

    def status(self) -> dict[str, Any]:
        """The NodeMetric's status; empty when there is none, or the API server is not ready."""
        try:
            text = self.cluster.kubectl("get", "nodemetric", NODE, "--ignore-not-found", "-o", "json")
        except CommandError:
            return {}
        return dict(json.loads(text).get("status") or {}) if text.strip() else {}

    def reported_at(self, *path: str) -> float:
        """A time in the status [seconds since 1970]; 0 while it is absent."""
        result: Any = self.status()
        for name in path:
            result = (result or {}).get(name)
        return datetime.fromisoformat(result).astimezone(UTC).timestamp() if result else 0.0

    def condition(self, name: str) -> dict[str, Any]:
        return next((dict(entry) for entry in self.status().get("conditions") or [] if entry["type"] == name), {})

    def create(self) -> None:
        spec = {"metricCollectPolicy": {"reportIntervalSeconds": 30}, "predictPolicy": POLICY}
        body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": NODE}}
        self.cluster.kubectl("create", "-f", "-", stdin=json.dumps({**body, "spec": spec}))

    def notes(self, reason: str) -> list[str]:
        events = json.loads(self.cluster.kubectl("get", "events.events.k8s.io", "-n", "default", "-o", "json"))
        return [
            item["note"]
            for item in events["items"]
            if item["reason"] == reason and item["regarding"].get("kind") == "NodeMetric"
        ]


def _rights(cluster: Cluster) -> str:
    return yaml.safe_dump_all(rendered(cluster, NAMESPACE, "agent-rbac.yaml"))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Everything, with an agent that reports; it must end in order, without a traceback."""
    with Cluster(ClusterSpec(), say=lambda _: None) as cluster:
        cluster.define(CRD)
        cluster.create_namespace(NAMESPACE)
        cluster.kubectl("apply", "-f", "-", stdin=_rights(cluster))
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        body = {**node, "status": {"capacity": amounts, "allocatable": amounts}}
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(body))
        result = Stage(cluster, tmp_path_factory.mktemp("outage"))
        result.create()
        result.start()
        try:
            yield result
        finally:
            code = result.stop()
        assert code == 0, result.log_text()
        assert "Traceback" not in result.log_text()


def _times_logged(stage: Stage, words: str, before: int = 0) -> int:
    return stage.log_text().count(words) - before


def test_killed_api_server_is_waited_for(stage: Stage) -> None:
    said = _times_logged(stage, "cannot report")
    stage.cluster.apiserver.kill()
    eventually(lambda: _times_logged(stage, "cannot report", said), "the outage is noticed")
    samples, tries = stage.metric("samples_total"), stage.metric('reports_total{kind="full",result="failed"}')
    eventually(lambda: stage.metric("samples_total") > samples, "measuring goes on")
    eventually(lambda: stage.metric('reports_total{kind="full",result="failed"}') >= tries + 3, "more tries")
    assert _times_logged(stage, "cannot report", said) == 1
    again = _times_logged(stage, "reporting recovered")
    back = time.time()
    stage.cluster.apiserver.start()
    eventually(lambda: stage.reported_at("updateTime") >= int(back), "a full report")
    eventually(lambda: _times_logged(stage, "reporting recovered", again) == 1, "the end is said")
    eventually(lambda: stage.metric("report_lag_seconds") == 0, "reports are on time")


@pytest.mark.long
def test_new_certificate_is_accepted(stage: Stage) -> None:
    plane = stage.cluster.control_plane
    mine = plane.pki.server("renewed", ("10.96.0.1", "127.0.0.1"), ["localhost"])
    stage.cluster.apiserver.stop()
    for new, old in ((mine.cert, "apiserver.crt"), (mine.key, "apiserver.key")):
        shutil.copyfile(new, plane.pki.directory / old)
    back = time.time()
    stage.cluster.apiserver.start()
    eventually(lambda: stage.reported_at("prediction", "time") >= int(back), "a report after it")


def test_deleted_object_gets_everything(stage: Stage) -> None:
    said = _times_logged(stage, "there is no NodeMetric")
    stage.cluster.kubectl("delete", "nodemetric", NODE)
    eventually(lambda: _times_logged(stage, "there is no NodeMetric", said) == 1, "its absence is noticed")
    stage.create()
    eventually(lambda: stage.reported_at("updateTime"), "a full report")


@pytest.mark.long
def test_missing_right_is_said_once(stage: Stage) -> None:
    said = _times_logged(stage, "not allowed to report")
    stage.cluster.kubectl("delete", "clusterrolebinding", "headroom-agent")
    eventually(lambda: _times_logged(stage, "not allowed to report", said) == 1, "the refusal is said")
    failed = 'reports_total{kind="full",result="failed"}'
    tries = stage.metric(failed)
    eventually(lambda: stage.metric(failed) >= tries + 3, "more tries")
    assert _times_logged(stage, "not allowed to report", said) == 1
    back = time.time()
    stage.cluster.kubectl("apply", "-f", "-", stdin=_rights(stage.cluster))
    eventually(lambda: stage.reported_at("updateTime") >= int(back), "a full report")


@pytest.mark.long
def test_foreign_definition_is_noticed(stage: Stage) -> None:
    content = yaml.safe_load(CRD.read_text())
    status = content["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    for ours in ("prediction", "conditions"):
        del status[ours]
    force = ("apply", "--server-side", "--force-conflicts", "-f")
    stage.cluster.kubectl(*force, "-", stdin=yaml.safe_dump(content))
    eventually(lambda: stage.notes("ReportFieldsDropped"), "the event")
    assert "install Headroom's" in stage.notes("ReportFieldsDropped")[0]
    eventually(lambda: stage.metric("report_dropped_fields") == 2, "both fields counted")
    assert stage.status()["nodeMetric"]["nodeUsage"]["resources"]["memory"]
    stage.cluster.kubectl(*force, CRD)
    eventually(lambda: stage.notes("ReportFieldsKept"), "the event of its end")
    eventually(lambda: stage.condition("Collecting").get("status") == "True", "the condition")
