"""The chart's policies on a real API server: agents limited to their own node, their queue, users' rights."""

import base64
import http.client
import json
import ssl
import subprocess
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest
import yaml

from tests.charts.rendered import CHART, REGISTRY
from tests.manager.stage import METRICS
from tests.support.waiting import eventually
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

NAMESPACE: Final = "chart-policies"
AGENT: Final = f"system:serviceaccount:{NAMESPACE}:headroom-agent"
SETTINGS: Final = (REGISTRY, "manager.replicas=0", "scheduler.replicas=0", "agent.nodeSelector.no=node")
QUOTA: Final = ("scheduling.x-k8s.io", "elasticquotas")
METRIC: Final = ("slo.koordinator.sh", "nodemetrics")


@dataclass(frozen=True)
class Answer:
    status: int
    message: str
    flow_schema: str  # the uid of the FlowSchema by which it queued the request


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with the chart and a NodeMetric for each of its nodes; no pod runs."""
    sets = [flag for setting in SETTINGS for flag in ("--set", setting)]
    cluster.helm("install", "headroom", str(CHART), "-n", NAMESPACE, "--create-namespace", *sets)
    for node in cluster.kwok.names:
        metric = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": node}}
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(metric))
    yield cluster
    for node in cluster.kwok.names:
        cluster.api.request("DELETE", f"{METRICS}/{node}")
    cluster.helm("uninstall", "headroom", "-n", NAMESPACE, "--no-hooks")
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def _token(cluster: Cluster, node: str) -> str:
    """A token as kubelet gets it for an agent's pod on a node."""
    spec = {"nodeName": node, "serviceAccountName": "headroom-agent", "tolerations": [{"operator": "Exists"}]}
    spec["containers"] = [{"name": "agent", "image": "none"}]
    name = f"agent-on-{node}"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
    made = cluster.api.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={name}", f"--bound-object-uid={made['metadata']['uid']}")
    return cluster.kubectl("-n", NAMESPACE, "create", "token", "headroom-agent", *bound).strip()


def ask(cluster: Cluster, token: str, method: str, path: str, body: Any = None) -> Answer:  # noqa: ANN401 - JSON
    config = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = base64.b64decode(config["certificate-authority-data"]).decode()
    url = urllib.parse.urlsplit(config["server"])
    context = ssl.create_default_context(cadata=authority)
    connection = http.client.HTTPSConnection(url.hostname or "", url.port, timeout=60, context=context)
    try:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        parsed = json.loads(answer.read())
        schema = answer.getheader("X-Kubernetes-PF-FlowSchema-UID", "")
        return Answer(answer.status, str(parsed.get("message", "")), schema)
    finally:
        connection.close()


EARLY: Final = "2026-01-01T00:00:00Z"
LATE: Final = "2026-01-02T00:00:00Z"


def _report(cluster: Cluster, token: str, node: str, when: str = LATE) -> Answer:
    body = {"status": {"updateTime": when}}
    return ask(cluster, token, "PATCH", f"{METRICS}/{node}/status", body)


def test_agent_writes_its_own_node_alone(installed: Cluster) -> None:
    """An agent's report about its own node is stored; about another, or with a token of no pod, it is refused."""
    local, other = installed.kwok.names[:2]
    token = _token(installed, local)
    reason = f"the agent of node {local} may not write the NodeMetric of {other}"
    # Until the API server knows the account's role, it refuses for want of that.
    eventually(lambda: reason in _report(installed, token, other, EARLY).message, "the policy is in force")
    refused = _report(installed, token, other)
    assert (refused.status, reason in refused.message) == (403, True)
    assert _report(installed, token, local) == Answer(200, "", refused.flow_schema)
    assert installed.api.get(f"{METRICS}/{local}")["status"]["updateTime"] == LATE
    assert installed.api.get(f"{METRICS}/{other}").get("status", {}).get("updateTime") != LATE
    loose = installed.kubectl("-n", NAMESPACE, "create", "token", "headroom-agent").strip()
    refused = _report(installed, loose, local)
    assert (refused.status, "is bound to no pod on a node" in refused.message) == (403, True)


MID: Final = {"kubernetes.io/mid-cpu": "1500", "kubernetes.io/mid-memory": "1073741825"}
ALLOWED: Final[dict[str, Any]] = {
    "both": {"status": {"capacity": MID, "allocatable": MID}},
    "one": {"status": {"capacity": {"kubernetes.io/mid-cpu": "7"}, "allocatable": {"kubernetes.io/mid-cpu": "7"}}},
    "none": {"status": {part: dict.fromkeys(MID) for part in ("capacity", "allocatable")}},
}
REFUSED: Final[dict[str, Any]] = {
    "native CPU": {"status": {"capacity": {"cpu": "1000"}, "allocatable": {"cpu": "1000"}}},
    "native CPU beside ours": {"status": {"capacity": MID, "allocatable": {**MID, "cpu": "1000"}}},
    "less memory": {"status": {"allocatable": {"memory": "1Gi"}}},
    "no pods": {"status": {"allocatable": {"pods": None}}},
    "a GPU": {"status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}}},
    "another of Kubernetes' own": {"status": {"capacity": {"kubernetes.io/batch-cpu": "1"}}},
    "everything gone": {"status": {"capacity": None}},
    "a condition": {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
    "no conditions": {"status": {"conditions": None}},
    "an address": {"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}},
    "kubelet's port": {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 4444}}}},
    "the kernel": {"status": {"nodeInfo": {"kernelVersion": "9"}}},
    "images": {"status": {"images": [{"names": ["evil"], "sizeBytes": 1}]}},
    "volumes": {"status": {"volumesAttached": [{"name": "v", "devicePath": "/dev/sda"}]}},
    "a label": {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
    "an annotation": {"metadata": {"annotations": {"node.koordinator.sh/raw-allocatable": "{}"}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/never"]}},
}


def _hook_account(cluster: Cluster) -> None:
    """The uninstall hook's objects, as helm makes them."""
    template = "templates/hooks/uninstall-rbac.yaml"
    made = cluster.helm("template", "headroom", str(CHART), "-n", NAMESPACE, "--show-only", template, "--set", REGISTRY)
    cluster.kubectl("-n", NAMESPACE, "apply", "-f", "-", stdin=made)


@pytest.mark.parametrize("account", ["headroom-manager", "headroom-uninstall"])
def test_nodes_keep_all_but_mid(installed: Cluster, account: str) -> None:
    """With the account's own token Mid resources of a Node can be written and taken away, and nothing else of it."""
    if account == "headroom-uninstall":
        _hook_account(installed)
    token = installed.kubectl("-n", NAMESPACE, "create", "token", account).strip()
    path = f"/api/v1/nodes/{installed.kwok.names[0]}/status"
    eventually(lambda: ask(installed, token, "PATCH", path, ALLOWED["both"]).status == 200, "the account may write")
    port, dry = REFUSED["kubelet's port"], f"{path}?dryRun=All"  # the policy permits a value that is stored already
    eventually(lambda: ask(installed, token, "PATCH", dry, port).status == 403, "the policy is in force")
    answers = {name: ask(installed, token, "PATCH", path, body) for name, body in REFUSED.items()}
    assert {name: answer.status for name, answer in answers.items() if answer.status != 403} == {}
    assert all("headroom-node-status" in answer.message for answer in answers.values())
    for name, body in ALLOWED.items():
        assert ask(installed, token, "PATCH", path, body).status == 200, name
        status = installed.api.get(path)["status"]
        for part, wanted in body["status"].items():
            assert {key: status[part].get(key) for key in wanted} == wanted, name


TEMPLATED: Final = {
    "pods": ("v1", "Pod"),
    "replicationcontrollers": ("v1", "ReplicationController"),
    "deployments": ("apps/v1", "Deployment"),
    "statefulsets": ("apps/v1", "StatefulSet"),
    "jobs": ("batch/v1", "Job"),
    "cronjobs": ("batch/v1", "CronJob"),
}


def _mid(kind: str, version: str, **amounts: str) -> dict[str, Any]:
    """A pod, or an object with a template of it, with amounts of Mid resources."""
    resources = {f"kubernetes.io/mid-{name}": amount for name, amount in amounts.items()}
    container = {"name": "c", "image": "none", "resources": {"limits": resources, "requests": resources}}
    spec = {"containers": [container], "restartPolicy": "Never" if "batch" in version else "Always"}
    template = {"metadata": {"labels": {"app": "m"}}, "spec": spec}
    selector = {"selector": {"matchLabels": {"app": "m"}}}
    bodies: dict[str, dict[str, Any]] = {
        "Pod": spec,
        "ReplicationController": {"selector": {"app": "m"}, "template": template},
        "Job": {"template": template},
        "CronJob": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": template}}},
        "Deployment": {**selector, "template": template},
        "StatefulSet": {**selector, "template": template, "serviceName": "s"},
    }
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "mid", "namespace": NAMESPACE},
        "spec": bodies[kind],
    }


@pytest.mark.parametrize("resource", TEMPLATED)
def test_implausible_mid_amounts_are_warned_of(installed: Cluster, resource: str) -> None:
    """`kubernetes.io/mid-cpu: 500m` in a pod or template is admitted, and kubectl prints a warning; 500 has none."""
    version, kind = TEMPLATED[resource]

    def warnings(**amounts: str) -> str:
        words = [str(installed.binaries.path("kubectl")), "create", "--dry-run=server", "-f", "-"]
        stdin = json.dumps(_mid(kind, version, **amounts))
        ended = subprocess.run(
            words, input=stdin, env=installed.environment, capture_output=True, text=True, check=True, timeout=60
        )
        return str(ended.stderr)

    eventually(lambda: "mid-cpu 500m is probably too little" in warnings(cpu="500m"), "the policy is in force")
    wrong = warnings(cpu="1500m", memory="128m")
    assert "it counts milli-cores: write 500 for half a core" in wrong
    assert "kubernetes.io/mid-memory 128m is probably too little; it counts bytes" in wrong
    assert "probably" not in warnings(cpu="500", memory="64Mi")
    assert "probably" not in warnings(cpu="0", memory="0")


def test_others_write_as_before(installed: Cluster) -> None:
    """The policy is about agents alone: every other account with the right writes any NodeMetric."""
    body = {"metadata": {"labels": {"edited-by": "another-writer"}}}
    assert installed.api.merge(f"{METRICS}/{installed.kwok.names[0]}", body)["metadata"]["labels"]


def test_agents_queue_by_themselves(installed: Cluster) -> None:
    """The API server puts agents' requests into their own flow, and other requests into another."""
    flows = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
    ours = installed.api.get(f"{flows}/headroom-agents")["metadata"]["uid"]
    agent = installed.kubectl("-n", NAMESPACE, "create", "token", "headroom-agent").strip()
    path = f"{METRICS}/{installed.kwok.names[0]}"
    eventually(
        lambda: ask(installed, agent, "GET", path).flow_schema == ours,
        "the agents' requests are in a flow of their own",
    )
    manager = installed.kubectl("-n", NAMESPACE, "create", "token", "headroom-manager").strip()
    assert ask(installed, manager, "GET", path).flow_schema not in {ours, ""}

    def conditions() -> dict[str, str]:
        status = installed.api.get(f"{flows}/headroom-agents").get("status", {})
        return {condition["type"]: condition["status"] for condition in status.get("conditions", ())}

    eventually(lambda: conditions() == {"Dangling": "False"}, lambda: f"the flow has its queue: {conditions()}")


def _may(cluster: Cluster, user: str, verb: str, kind: tuple[str, str], namespace: str) -> bool:
    attributes = {"namespace": namespace, "verb": verb, "group": kind[0], "resource": kind[1]}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    body = {**review, "spec": {"user": user, "resourceAttributes": attributes}}
    answer = cluster.api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def test_people_have_rights(installed: Cluster) -> None:
    """A user who may view a namespace reads its quotas, a user with the role writes them, and not every admin does."""
    for role in ("view", "edit", "admin"):
        binding = (f"{role}-user", f"--clusterrole={role}", f"--user={role}-user")
        installed.kubectl("-n", NAMESPACE, "create", "rolebinding", *binding)
    chosen = ("quota-user", "--clusterrole=headroom-quota-admin", "--user=quota-user")
    installed.kubectl("-n", NAMESPACE, "create", "rolebinding", *chosen)
    installed.kubectl("create", "clusterrolebinding", NAMESPACE, "--clusterrole=view", "--user=watcher")
    try:
        reads, writes = ("get", "list", "watch"), ("create", "update", "patch", "delete")
        everywhere = ("view-user", "edit-user", "admin-user")
        # Each of the cluster's roles gets ours some time after the install.
        granted = [
            *((who, verb, QUOTA, NAMESPACE) for who in everywhere for verb in reads),
            *(("quota-user", verb, QUOTA, NAMESPACE) for verb in writes),
            *(("watcher", verb, METRIC, "") for verb in reads),
        ]
        for pod in granted:
            eventually(partial(_may, installed, *pod), f"{pod} is allowed")
        assert not any(_may(installed, who, verb, QUOTA, NAMESPACE) for who in everywhere for verb in writes)
        assert not any(_may(installed, "admin-user", verb, QUOTA, "default") for verb in (*reads, *writes))
        assert not any(_may(installed, "watcher", verb, METRIC, "") for verb in writes)
        assert not _may(installed, "admin-user", "get", METRIC, "")
    finally:
        installed.kubectl("delete", "clusterrolebinding", NAMESPACE)
