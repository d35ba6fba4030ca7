"""The manager under exactly the rights of the chart: it is refused nothing, and it has no right that it never uses."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from crds import shadow_accounts
from crds.cluster_colocation_profile import PATH as PROFILES
from manager.cleanup import PRIORITY_CLASSES
from tests.manager.profiles.made import made
from tests.manager.stage import (
    CONFIG_MAP,
    CPU,
    METRICS,
    PUBLISHED,
    ROOT,
    Manager,
    Request,
    Stage,
    prepared,
    rendered,
    rights,
)
from tests.support.waiting import eventually
from tools.devcluster import Cluster
from tools.devcluster.component import free_port

pytestmark = pytest.mark.cluster

NAMESPACE: Final = "rights-test"
EXCUSED: Final = {
    "nodemetrics get": "needed for the web page, which tests/manager/web/test_in_browser.py opens",
    "nodemetrics create": "needed to apply a missing object, which the audit log calls patch",
    "secrets create": "the same",
    "priorityclasses create": "the same",
    "secrets delete": "needed on API servers that guard owner references (OwnerReferencesPermissionEnforcement)",
    "events patch": "an event that is repeated is counted at most once a minute, which is longer than this test",
}
"""Rights that the story below does not use, each with its reason."""
OURS: Final = ("kopf", "headroom")


@dataclass(frozen=True)
class Right:
    """A verb on one resource, as one rule of a role allows it."""

    namespace: str
    group: str
    resource: str
    verb: str
    names: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.resource} {self.verb}"

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        named = f" named {', '.join(self.names)}" if self.names else ""
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}{named}{where}"

    def is_used_by(self, request: Request) -> bool:
        return (
            (request.group, request.resource, request.verb) == (self.group, self.resource, self.verb)
            and (not self.names or request.name in self.names)
            and (not self.namespace or request.namespace == self.namespace)
        )


def _all_rights(objects: list[dict[str, Any]]) -> list[Right]:
    return [
        Right(item["metadata"].get("namespace", ""), group, resource, verb, tuple(rule.get("resourceNames", ())))
        for item in objects
        if item["kind"] in {"Role", "ClusterRole"}
        for rule in item["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def unused(granted: list[Right], requests: list[Request]) -> list[str]:
    left = [pod for pod in granted if not any(pod.is_used_by(request) for request in requests)]
    return [str(entry) for entry in left if entry.key not in EXCUSED]


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    cluster.define(ROOT / "crds/cluster_colocation_profile.yaml")
    with prepared(cluster, NAMESPACE) as stage:
        parts = ("manager-webhook.yaml", "mid-namespaces.yaml")
        webhook = yaml.safe_dump_all([item for part in parts for item in rendered(cluster, NAMESPACE, part)])
        cluster.kubectl("apply", "-f", "-", stdin=webhook)
        yield stage
        cluster.kubectl("delete", "-f", "-", stdin=webhook)
        cluster.kubectl("delete", "clustercolocationprofile", NAMESPACE, "--ignore-not-found")


@pytest.fixture
def manager(stage: Stage, tmp_path: Path) -> Iterator[Manager]:
    flags = ["--webhook-listen=127.0.0.1:" + str(free_port()), "--webhook-certificates=self"]
    flags += ["--create-priority-classes", "--webhook-pods-configuration=headroom-mid-namespaces"]
    flags += ["--webhook-profiles-configuration=headroom-colocation-profiles"]
    stage.cluster.kubectl("delete", "priorityclass", *PRIORITY_CLASSES, "--ignore-not-found")
    login = stage.login(tmp_path / "kubeconfig")
    manager = Manager(login, tmp_path / "manager.log", NAMESPACE, *flags)
    manager.start()
    yield manager
    assert manager.stop() == 0
    assert "Traceback" not in manager.log_text()


def _mid_pod(stage: Stage, name: str, node: str) -> str:
    amounts = {CPU: "2500", "kubernetes.io/mid-memory": "1Gi"}
    requests, limits = {**amounts, "cpu": "0", "memory": "0"}, {**amounts, "cpu": "2500m", "memory": "1Gi"}
    container = {"name": "c", "image": "none", "resources": {"requests": requests, "limits": limits}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"koordinator.sh/priority-class": "koord-mid"}},
        "spec": {"nodeName": node, "tolerations": [{"operator": "Exists"}], "containers": [container]},
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    stage.cluster.api.request("POST", path, pod)
    stage.cluster.api.merge(f"{path}/{name}/status", {"status": {"phase": "Running"}})
    return f"{path}/{name}"


def _expect_no_trace(obj: Mapping[str, Any]) -> None:
    metadata = obj["metadata"]
    assert not metadata.get("finalizers"), metadata
    assert not [key for key in metadata.get("annotations", {}) if any(word in key for word in OURS)], metadata


def _evicts(stage: Stage) -> bool:
    stage.report("story", "1")
    return any(request.resource == "pods/eviction" for request in stage.requests())


def _story(stage: Stage) -> None:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE, "never": "set"}}
    body = {**made(NAMESPACE, namespaceSelector=selector, labels={"a": "b"}), "metadata": {"name": NAMESPACE}}
    stage.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(body))
    path = f"{PROFILES}/{NAMESPACE}"
    eventually(lambda: "conditions" in stage.found(path).get("status", {}), "the profile is in force")
    stage.configure(stage.config)
    stage.add_node("story")
    stage.report("story", "4")
    stage.expect_cpu("story", "4k")
    shadow = {"name": "shadow", "nodeSelector": {"matchLabels": {"trial": NAMESPACE}}, **PUBLISHED, "mode": "shadow"}
    stage.configure({"nodeConfigs": [shadow, *stage.config["nodeConfigs"]]})
    stage.add_node("story-shadow", trial=NAMESPACE)
    stored = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{shadow_accounts.name_of('story-shadow')}"
    eventually(lambda: "story-shadow" in stage.found(stored).get("data", {}), "the account is kept")
    stage.configure("{")
    stage.expect_event("ColocationConfigInvalid", CONFIG_MAP)
    eviction = {"mode": "on", "afterSeconds": 0, "maxPerNodePerMinute": 10}
    stage.configure({"nodeConfigs": [{**stage.config["nodeConfigs"][0], "midEviction": eviction}]})
    path = _mid_pod(stage, "mid", "story")
    stage.report("story", "1")
    stage.expect_cpu("story", "2500")
    stage.expect_event("MidDeficit", "story", "default")
    _expect_no_trace(stage.cluster.api.get("/api/v1/nodes/story"))
    _expect_no_trace(stage.cluster.api.get(path))
    eventually(lambda: _evicts(stage), "the Mid pod is to be evicted")
    stage.cluster.kubectl("label", "node", "story", "type=virtual-kubelet")
    eventually(lambda: not stage.found(f"{METRICS}/story"), "an excluded node has no NodeMetric")
    stage.cluster.kubectl("delete", "pod", "mid", "-n", NAMESPACE, "--force", "--grace-period=0", "--ignore-not-found")


def test_rights_are_needed_and_enough(stage: Stage, manager: Manager) -> None:
    _story(stage)
    assert "orbidden" not in manager.log_text()
    granted = _all_rights(rights(stage.cluster, NAMESPACE))
    assert len(granted) > 20
    left: list[str] = []

    def all_used() -> bool:  # the audit log has the last request a bit later
        left[:] = unused(granted, stage.requests())
        return not left

    eventually(all_used, lambda: f"rights that nothing uses: take them out of the role, or excuse them: {left}")
    assert not [request for request in stage.requests() if request.code in {401, 403}]


def test_unused_right_is_named(stage: Stage) -> None:
    """A right beyond the need is found: the test above can fail."""
    extra = Right("", "apps", "deployments", "delete", ())
    assert unused([extra], stage.requests()) == ["delete deployments.apps"]
    named = Right(NAMESPACE, "", "configmaps", "get", ("another",))
    assert unused([named], stage.requests()) == ["get configmaps named another in rights-test"]
