"""Doctor on a real API server, with the chart installed and a real manager: nothing is wrong, and its rights suffice.

kwok runs the pods, so they are ready and do nothing; a manager beside them works in the name of one. The cluster is
shared, so only our own nodes count.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from kubectl_headroom.__main__ import main
from kubectl_headroom.doctor.permissions import NAMESPACES, Permission
from kubectl_headroom.doctor.registry import READS
from tests.charts.rendered import CHART, REGISTRY
from tests.manager.stage import METRICS, Manager, Stage, rendered
from tests.scheduler_plugins.extenders import until
from tests.support.waiting import eventually
from tools.devcluster import Cluster
from tools.devcluster.component import free_port

pytestmark = pytest.mark.cluster

NAMESPACE: Final = "doctor-test"
NODES: Final = ("kwok-0", "kwok-1")
LABEL: Final = "doctor.test/ours"
HOOK: Final = "validatingwebhookconfiguration"
SETTINGS: Final = (
    *(f"{part}.nodeSelector.doctor\\.test/ours=yes" for part in ("agent", "manager", "scheduler")),
    "uninstall.hook.enabled=false",
)
Json = dict[str, Any]


@dataclass
class Ward:
    """The installation, and doctor's eyes on it."""

    stage: Stage
    """The cluster and the namespace."""
    manager: Manager
    """The manager at work."""
    output: pytest.CaptureFixture[str] | None = None
    """The printed output."""

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self.stage.cluster

    def findings(self, *flags: str) -> list[Json]:
        """Findings of doctor that are not ok, for our nodes."""
        assert self.output is not None
        self.output.readouterr()
        login = () if "--kubeconfig" in flags else ("--kubeconfig", str(self.cluster.kubeconfig))
        main(["doctor", "-n", NAMESPACE, "-o", "json", *login, *flags])
        result: list[Json] = json.loads(self.output.readouterr().out)["findings"]
        return [workload for workload in result if not workload["objects"] or not _of_others(workload)]

    def bad(self) -> list[str]:
        """Errors and warnings in short."""
        return [
            f"{finding['severity']} {finding['check']}: {finding['message']}"
            for finding in self.findings()
            if finding["severity"] in {"warning", "error"}
        ]

    def expect_health(self) -> None:
        """Wait until there are no findings."""
        said: list[str] = []

        def well() -> bool:
            said[:] = self.bad()
            return not said

        until(well, lambda: f"nothing is wrong, but {said}")

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl in our namespace."""
        return self.cluster.kubectl("-n", NAMESPACE, *arguments, stdin=stdin)

    def create(self, obj: Json) -> None:
        """Create an object."""
        self.kubectl("create", "-f", "-", stdin=json.dumps(obj))

    def pods(self, part: str) -> dict[str, str]:
        """Our nodes -> the pod of a part that runs there."""
        result = json.loads(self.kubectl("get", "pods", "-l", f"app.kubernetes.io/name={part}", "-o", "json"))["items"]
        return {
            workload["spec"]["nodeName"]: workload["metadata"]["name"]
            for workload in result
            if workload["spec"].get("nodeName") and "deletionTimestamp" not in workload["metadata"]
        }


def _of_others(found: Json) -> bool:
    """Return whether a finding is about Nodes other than ours, or about reporters, as other tests create them."""
    names = set(found["objects"])
    if found["message"].startswith("NodeMetrics are written by"):
        return True
    return found["check"] in {"agents", "clocks", "nodes"} and not names & set(NODES)


def _lease(holder: str) -> Json:
    """A Lease that is held for an hour."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": holder, "renewTime": now, "acquireTime": now, "leaseDurationSeconds": 3600}
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    return {**kind, "metadata": {"name": "headroom-scheduler", "namespace": NAMESPACE}, "spec": spec}


def _endpoints() -> Json:
    """An endpoint of the webhook's Service: kwok's pods have no addresses."""
    labels = {"kubernetes.io/service-name": "headroom-manager-webhook"}
    kind = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
    endpoints = [{"addresses": ["10.255.0.1"], "conditions": {"ready": True}}]
    return {**kind, "metadata": {"name": "by-hand", "labels": labels}, "endpoints": endpoints, "ports": []}


@pytest.fixture(scope="module")
def installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    """The chart on our two nodes, a manager that leads, reports of both nodes, and the webhook at the manager."""
    files, port = tmp_path_factory.mktemp("doctor"), free_port()
    cluster.kubectl("label", "node", *NODES, f"{LABEL}=yes")
    values = [flag for setting in SETTINGS for flag in ("--set-string" if "yes" in setting else "--set", setting)]
    cluster.helm("install", "headroom", str(CHART), "-n", NAMESPACE, "--create-namespace", "--set", REGISTRY, *values)
    stage = Stage(cluster, NAMESPACE)
    ward = Ward(stage, Manager(stage.login(files / "login"), files / "log", NAMESPACE))
    eventually(lambda: set(ward.pods("headroom-manager")) == set(NODES), "kwok runs the managers")
    ward.manager.name = ward.pods("headroom-manager")[NODES[0]]
    flags = f"--webhook-listen=127.0.0.1:{port} --webhook-certificates=self --create-priority-classes"
    ward.manager.flags = tuple(flags.split())
    client = [
        {"op": "remove", "path": "/webhooks/0/clientConfig/service"},
        {"op": "add", "path": "/webhooks/0/clientConfig/url", "value": f"https://127.0.0.1:{port}/configmaps"},
    ]
    ward.kubectl("patch", HOOK, "headroom-colocation-config", "--type=json", "-p", json.dumps(client))
    ward.manager.start()
    eventually(lambda: set(ward.pods("headroom-scheduler")) == set(NODES), "kwok runs the schedulers")
    cluster.apply(_lease(f"{ward.pods('headroom-scheduler')[NODES[0]]}_1"))
    ward.create(_endpoints())
    for node in NODES:
        eventually(lambda node=node: bool(stage.found(f"{METRICS}/{node}")), f"{node} has a NodeMetric")  # type: ignore[misc]
        stage.report(node, "4")
    yield ward
    assert ward.manager.stop() == 0
    cluster.helm("uninstall", "headroom", "-n", NAMESPACE)
    cluster.kubectl("delete", "priorityclass", "koord-prod", "koord-mid", "koord-batch", "koord-free")
    for node in NODES:
        cluster.kubectl("delete", "nodemetric", node, "--ignore-not-found")
    cluster.kubectl("label", "node", *NODES, f"{LABEL}-")
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture
def ward(installed: Ward, capsys: pytest.CaptureFixture[str]) -> Ward:
    """The installation in good health."""
    installed.output = capsys
    for node in NODES:  # a report must not grow old while a busy machine is at other tests
        installed.stage.report(node, "4")
    installed.expect_health()
    return installed


def test_health(ward: Ward) -> None:
    """Nothing is wrong: the webhook really evaluates, and every node has an agent that reports."""
    said = [finding["message"] for finding in ward.findings()]
    assert any(message.startswith("The webhook answers") for message in said), said
    assert any(entry.startswith("2 nodes: each has an agent that is ready and reports") for entry in said), said


def test_rights_of_helm_test(ward: Ward, tmp_path: Path) -> None:
    """The account of `helm test` is refused nothing, uses every right that it has, and finds the same health."""
    objects = [entry for entry in rendered(ward.cluster, NAMESPACE, "tests/doctor-rbac.yaml") if entry]
    ward.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
    token = ward.kubectl("create", "token", "headroom-doctor").strip()
    config = yaml.safe_load(ward.cluster.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    (tmp_path / "login").write_text(yaml.safe_dump(config))
    account = f"system:serviceaccount:{NAMESPACE}:headroom-doctor"
    for right in READS:  # the API server knows of roles some time after they are made
        eventually(partial(_may, ward, account, right), f"{right} is allowed")
    said = ward.findings("--kubeconfig", str(tmp_path / "login"))
    assert not [message for message in said if message["severity"] == "error"]
    assert not [item for item in said if "lacks the right" in item["message"]]
    eyes = Stage(ward.cluster, NAMESPACE)
    eyes.user = account
    allowed = {("create", "authorization.k8s.io", "selfsubjectaccessreviews"), ("get", "", "")}

    def requested() -> set[tuple[str, str, str]]:
        return {(request.verb, request.group, request.resource) for request in eyes.requests()} - allowed

    rights = {(right.verb, right.group, right.resource) for right in READS}
    eventually(lambda: requested() == rights, lambda: f"{requested()} requested, of {rights}")
    ward.kubectl("delete", "-f", "-", stdin=yaml.safe_dump_all(objects))
    assert not [request for request in eyes.requests() if request.code == 403]


def _may(ward: Ward, user: str, right: Permission) -> bool:
    """Return whether an account may do that."""
    attributes = {"verb": right.verb, "group": right.group, "resource": right.resource}
    attributes |= {"namespace": NAMESPACE} if right.namespaced else {}
    if right.names or right == NAMESPACES:
        attributes["name"] = right.names[0] if right.names else NAMESPACE
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    body = {**kind, "spec": {"user": user, "resourceAttributes": attributes}}
    answer = ward.cluster.api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def test_process(installed: Ward) -> None:
    """As a process: exit code 0 where nothing is wrong but warnings at most, and 1 for a namespace without Headroom."""
    login = ["--kubeconfig", str(installed.cluster.kubeconfig)]
    command = [sys.executable, "-m", "kubectl_headroom", *login, "doctor", "-n", "nowhere-at-all"]
    done = subprocess.run(command, cwd=CHART.parents[1], check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    assert "There is no headroom-manager in namespace nowhere-at-all" in done.stdout
