"""Profiles on a real API server, which calls the manager by the chart's Service.

Endpoints cannot have an address of 127.0.0.0/8, so the loopback interface gets one more address.
"""

import json
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from crds.cluster_colocation_profile import PATH as PROFILES
from kubectl_headroom.__main__ import main
from manager.profiles.pod_schema import PATH as OPEN_API
from tests import rounds
from tests.crds.mid_cases import exact, random_pod, shortened
from tests.manager.profiles.made import SCHEMA_FILE, Json, known, made, schema
from tests.manager.stage import ROOT, Manager, Stage, prepared, rendered
from tests.support.mid_namespace import created, mid_namespace
from tests.support.waiting import eventually
from tools.devcluster import Cluster
from tools.devcluster.api import ApiError
from tools.devcluster.component import free_port

pytestmark = pytest.mark.cluster

NAMESPACE: Final = "profiles-test"
TEAM: Final = "profiles-test-team"
HOOKS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
ADDRESS: Final = "198.18.83.1"  # of a range that no network routes
SERVICE: Final = "headroom-manager-webhook"
POD: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"kind": "report"}},
    "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
    },
}
SPEC: Final[Json] = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": TEAM}},
    "selector": {"matchLabels": {"kind": "report"}},
    "priorityClassName": "koord-mid",
    "labels": {"profile": "reports"},
    "patch": {"spec": {"containers": [{"name": "c", "env": [{"name": "TIER", "value": "mid"}]}]}},
}


class Profiled:
    """A stage with the chart's webhooks and CRD, and managers that the API server reaches."""

    def __init__(self, stage: Stage, directory: Path) -> None:
        self.stage, self.cluster, self.api = stage, stage.cluster, stage.cluster.api
        self._login, self._directory = stage.login(directory / "kubeconfig"), directory
        self.managers: list[Manager] = []
        objects = rendered(self.cluster, NAMESPACE, "manager-webhook.yaml")
        shown = [item for item in objects if item["kind"] == "Service" or "Webhook" in item["kind"]]
        self.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(shown))

    def route(self, port: int) -> None:
        """Have the API server reach the manager of a port."""
        labels = {"kubernetes.io/service-name": SERVICE}
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": SERVICE, "namespace": NAMESPACE, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": True}}],
            "ports": [{"name": "webhook", "port": port, "protocol": "TCP"}],
        }
        self.cluster.apply(body)

    def manager(self, port: int = 0) -> Manager:
        port = port or free_port()
        if True not in [manager.healthy() for manager in self.managers]:
            self.route(port)
        flags = (f"--webhook-listen={ADDRESS}:{port}", "--webhook-profiles-configuration=headroom-colocation-profiles")
        name = f"manager-{len(self.managers)}"
        manager = Manager(self._login, self._directory / f"{name}.log", NAMESPACE, *flags, name=name)
        self.managers.append(manager)
        manager.start()
        return manager

    def put(self, name: str = "reports", **spec: Any) -> None:  # noqa: ANN401 - JSON
        body = made(name, **spec)
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps({**body, "metadata": {"name": name}}))

    def condition(self, name: str = "reports") -> tuple[str, str, str]:
        """Return status, reason and message of a profile's condition."""
        (condition,) = self.api.get(f"{PROFILES}/{name}").get("status", {}).get("conditions") or [{}]
        return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")

    def created(self, pod: Json = POD, namespace: str = TEAM) -> tuple[Json, str]:
        return created(self.cluster, pod, namespace)

    def profile_of(self, pod: Json = POD, namespace: str = TEAM) -> str:
        return str(self.created(pod, namespace)[0]["metadata"].get("labels", {}).get("profile", ""))

    def expect(self, holds: Callable[[], bool], description: str) -> None:
        eventually(holds, lambda: "\n".join([description, *(manager.log_text() for manager in self.managers)]), 40.0)

    def webhooks(self) -> list[str]:
        return [hook["name"] for hook in self.api.get(f"{HOOKS}/headroom-colocation-profiles").get("webhooks") or ()]


@contextmanager
def _address() -> Iterator[None]:
    subprocess.run(["ip", "address", "replace", f"{ADDRESS}/32", "dev", "lo"], check=True)
    yield
    subprocess.run(["ip", "address", "delete", f"{ADDRESS}/32", "dev", "lo"], check=True)


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    cluster.define(ROOT / "crds/cluster_colocation_profile.yaml")
    with _address(), prepared(cluster, NAMESPACE) as stage, mid_namespace(cluster, TEAM):
        cluster.api.merge(f"/api/v1/namespaces/{TEAM}", {"metadata": {"labels": {"headroom.dev/tier": None}}})
        yield stage


@pytest.fixture
def profiled(stage: Stage, tmp_path: Path) -> Iterator[Profiled]:
    profiled = Profiled(stage, tmp_path)
    try:
        yield profiled
        codes = [manager.stop() for manager in profiled.managers]
        text = "".join(manager.log_text() for manager in profiled.managers)
        assert set(codes) <= {0, -signal.SIGKILL}, text
        assert "Traceback" not in text
        assert "orbidden" not in text
    finally:
        for manager in profiled.managers:
            manager.stop(signal.SIGKILL)
        stage.cluster.kubectl("delete", "clustercolocationprofiles", "--all")
        for name in ("headroom-colocation-profiles", "koord"):
            with suppress(ApiError):
                stage.cluster.api.request("DELETE", f"{HOOKS}/{name}")


def test_selected_pods_become_mid(profiled: Profiled, capsys: pytest.CaptureFixture[str]) -> None:
    """New pods of the selected namespaces with the selected labels get everything of the profile, and become Mid."""
    profiled.manager()
    profiled.put(**SPEC)
    profiled.expect(lambda: profiled.profile_of() == "reports", "the profile applies")
    pod, _ = profiled.created()
    (container,) = pod["spec"]["containers"]
    assert pod["spec"]["priorityClassName"] == "koord-mid"
    assert container["resources"]["requests"]["kubernetes.io/mid-cpu"] == "500"
    assert container["resources"]["limits"]["cpu"] == "500m"
    assert container["env"] == [{"name": "TIER", "value": "mid"}]
    other = {**POD, "metadata": {"name": "p", "labels": {"kind": "web"}}}
    assert profiled.created(other)[0]["spec"].get("priorityClassName") is None
    for namespace in ("default", "kube-system", NAMESPACE):
        assert profiled.profile_of(namespace=namespace) == ""
    assert profiled.condition() == ("True", "Applied", "New pods that it selects are changed.")
    result, warnings = profiled.created({**POD, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    assert "profile reports: the pod is left unchanged: none of its containers has a request" in warnings
    assert "profile" not in result["metadata"]["labels"]
    login = ("--kubeconfig", str(profiled.cluster.kubeconfig))
    assert main(["profile", "list", "-o", "json", *login]) == 0
    (row,) = json.loads(capsys.readouterr().out)["items"]
    assert (row["metadata"]["name"], row["inForce"], row["pods"]) == ("reports", True, 0)
    file = profiled.cluster.kubeconfig.with_name("pod.json")
    file.write_text(json.dumps(POD))
    assert main(["profile", "explain", "-f", str(file), "-n", TEAM, *login]) == 0
    text = capsys.readouterr().out
    assert "+  priorityClassName: koord-mid" in text
    assert "kubernetes.io/mid-cpu: '500'" in text


def test_profile_with_faults_is_refused_or_skipped(profiled: Profiled) -> None:
    """The webhook refuses it with its fields; one that was stored without a manager is named by condition and event."""
    first = profiled.manager()
    with pytest.raises(Exception, match=r"spec\.priorityClassName: the cluster has no PriorityClass") as refusal:
        profiled.put("bad", **{**SPEC, "priorityClassName": "koord-mdi", "patch": {"spec": {"hostNetwork": "yes"}}})
    assert "did you mean koord-mid?" in str(refusal.value)
    first.stop(signal.SIGKILL)
    profiled.put("bad", **{**SPEC, "patch": {"spec": {"hostNetwork": "yes"}}})
    profiled.put("good", **{**SPEC, "labels": {"profile": "good"}})
    assert profiled.profile_of() == ""  # without a manager pods are admitted unchanged
    profiled.manager()
    profiled.expect(lambda: profiled.condition("good")[0] == "True", "the sound one is in force")
    profiled.expect(lambda: profiled.profile_of() == "good", "the sound one applies")
    status, reason, message = profiled.condition("bad")
    assert (status, reason) == ("False", "Invalid")
    assert message == 'No pod is changed: spec.patch.spec.hostNetwork: must be boolean, got "yes".'
    assert "hostNetwork" in profiled.stage.expect_event("ProfileNotInForce", "bad", "default")
    assert profiled.webhooks() == ["good.profiles.headroom.dev"]
    profiled.put("bad", **{**SPEC, "patch": {"spec": {"hostNetwork": False}}})
    profiled.expect(lambda: profiled.condition("bad")[0] == "True", "the corrected one is in force")


def test_beside_koordinator_webhooks_are_off(profiled: Profiled) -> None:
    """While Koordinator has a webhook for pods, Headroom has none, admits every profile, and says so."""
    profiled.manager()
    profiled.put(**SPEC)
    profiled.expect(lambda: profiled.webhooks() == ["reports.profiles.headroom.dev"], "the webhook is there")
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": "mpod-create.koordinator.sh",
        "clientConfig": {"url": "https://127.0.0.1:1/mutate-pod"},
        "rules": [rule],
        "objectSelector": {"matchLabels": {"no": "pod"}},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    profiled.cluster.apply({**body, "metadata": {"name": "koord"}, "webhooks": [hook]})
    profiled.put(**SPEC, annotations={"touched": "1"})
    profiled.expect(lambda: profiled.webhooks() == [], "the webhook is gone")
    profiled.expect(lambda: profiled.condition()[1] == "Koordinator", "the condition names Koordinator")
    profiled.put("any", priorityClassName="of-koordinator")
    profiled.cluster.kubectl("delete", "clustercolocationprofile", "any")
    profiled.api.request("DELETE", f"{HOOKS}/koord")
    profiled.put(**SPEC, annotations={"touched": "2"})
    profiled.expect(lambda: profiled.profile_of() == "reports", "the profile applies again")


def test_definition_of_koordinator_is_used(profiled: Profiled) -> None:
    """Koordinator's CRD drops conditions: profiles work, events name faults, and the manager does not write forever."""
    definition = yaml.safe_load((ROOT / "crds/cluster_colocation_profile.yaml").read_text())
    version = definition["spec"]["versions"][0]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    properties["status"] = {"type": "object"}
    properties["spec"]["properties"]["patch"] = {"x-kubernetes-preserve-unknown-fields": True}
    version.pop("additionalPrinterColumns")
    profiled.cluster.kubectl("replace", "-f", "-", stdin=json.dumps(definition))
    try:
        profiled.manager()
        profiled.put(**SPEC)
        profiled.expect(lambda: profiled.profile_of() == "reports", "the profile applies")
        profiled.put(**SPEC, annotations={"touched": "1"})
        profiled.expect(lambda: profiled.created()[0]["metadata"].get("annotations") == {"touched": "1"}, "edits apply")
        writes = [
            request for request in profiled.stage.requests() if request.resource == "clustercolocationprofiles/status"
        ]
        assert len([request for request in writes if request.name == "reports"]) < 20
        assert "conditions" not in profiled.api.get(f"{PROFILES}/reports").get("status", {})
    finally:
        profiled.cluster.kubectl("replace", "-f", str(ROOT / "crds/cluster_colocation_profile.yaml"))


def test_standby_serves_and_takes_over(profiled: Profiled) -> None:
    """The replica that does not lead changes pods, too; when the leader is gone, it writes the webhooks."""
    leader = profiled.manager()
    eventually(leader.is_leader, "the first one leads")
    port = free_port()
    standby = profiled.manager(port)
    profiled.put(**SPEC)
    profiled.expect(lambda: profiled.profile_of() == "reports", "the profile applies")
    profiled.route(port)
    leader.stop(signal.SIGKILL)
    profiled.expect(lambda: profiled.profile_of() == "reports", "the standby applies it")
    profiled.expect(standby.is_leader, "the standby leads")
    profiled.put("second", **{**SPEC, "selector": {"matchLabels": {"kind": "web"}}, "labels": {"profile": "web"}})
    web = {**POD, "metadata": {"name": "p", "labels": {"kind": "web"}}}
    profiled.expect(lambda: profiled.profile_of(web) == "web", "the new leader writes the webhook")


def test_random_pods_are_accepted(profiled: Profiled) -> None:
    """The API server accepts random pods with the profile as without it, with the function's result.

    300 pods; in `make soak` 10,000.
    """
    profiled.manager()
    spec = {**SPEC, "selector": None, "patch": {"spec": {"terminationGracePeriodSeconds": 5}}}
    profiled.put(**spec)
    state, choices, accepted = known(made("reports", **spec)), random.Random(36), 0  # noqa: S311 - no secret
    profiled.expect(lambda: profiled.profile_of() == "reports", "the profile applies")
    for _ in range(10_000 if rounds.SOAK else 300):
        pod = random_pod(choices)
        try:
            plain = profiled.api.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
        except ApiError:
            continue
        expected = dict(state.apply("reports", {**pod, "spec": plain["spec"]}).pod)

        def result(pod: Json = pod) -> Json:
            path = f"/api/v1/namespaces/{TEAM}/pods?dryRun=All"
            return exact(shortened(profiled.api.request("POST", path, pod)))

        accepted += 1
        eventually(lambda: result() == exact(shortened(expected)), lambda: f"{pod} becomes {expected}")  # noqa: B023
    assert accepted > 50


def test_schema_is_that_of_the_server(cluster: Cluster) -> None:
    """The schema of the tests is what an API server describes, but for descriptions and defaults."""
    described = cluster.api.get(OPEN_API)["components"]["schemas"]
    stored = json.loads(SCHEMA_FILE.read_text())["components"]["schemas"]
    assert schema() is not None
    for name, content in stored.items():
        assert set(content.get("properties", {})) == set(described[name].get("properties", {})), name
    keys = ("x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy", "type")
    spec = "io.k8s.api.core.v1.PodSpec"
    for name, content in stored[spec]["properties"].items():
        assert {key: content.get(key) for key in keys} == {
            key: described[spec]["properties"][name].get(key) for key in keys
        }, name
