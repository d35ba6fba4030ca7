"""The extender under exactly its own rights of the chart: no request is forbidden, and no right is unused.

In a pod of the chart it shares its account with kube-scheduler, which has more rights; here it has only its own role.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.audited import audited
from tests.manager.stage import Request, rendered
from tests.manager.test_rights import Right, _all_rights
from tests.scheduler_plugins.extenders import configuration, profile, until
from tests.scheduler_plugins.stage import Stage, Usage
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

NAME: Final = "extender-rights"
ACCOUNT: Final = "headroom-scheduler"
EXCUSED: Final = {
    "events patch": "an event that is there already is counted on; it takes a restart, or half an hour",
    "leases get": "kube-scheduler's, which decides in its Lease which replica schedules",
    "leases update": "the same",
    "pods delete": "for reclaim.disruptionBudgets: count alone; else evictions go through pods/eviction",
    "resourceclaims list": "for CapacityScheduling with deviceClasses alone",
    "resourceclaims watch": "the same",
    "resourceclaimtemplates list": "the same",
    "resourceclaimtemplates watch": "the same",
    "nodes.metrics.k8s.io list": "for LowRiskOverCommitment with metricProvider.type KubernetesMetricsServer alone",
}
"""Rights that the test below does not use, each with its reason."""
WATCHED: Final = {"pods", "nodes", "nodemetrics", "elasticquotas", "poddisruptionbudgets", "namespaces"}
LENT_TO: Final = f"{NAME}-borrower"  # a namespace that uses more than its min
QUOTAS: Final = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/elasticquotas"


def _key(right: Right) -> str:
    return f"{right.resource}{'.metrics.k8s.io' if right.group == 'metrics.k8s.io' else ''} {right.verb}"


def unused(granted: list[Right], requests: list[Request]) -> list[str]:
    left = [pod for pod in granted if not any(pod.is_used_by(request) for request in requests)]
    return [str(entry) for entry in left if _key(entry) not in EXCUSED]


def _own(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the account, the extender's own roles and their bindings, without the cluster's kube-scheduler."""
    return [item for item in objects if item["metadata"]["name"] == ACCOUNT]


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    with Stage.open(cluster, NAME, 2) as stage:
        objects = yaml.safe_dump_all(_own(rendered(cluster, NAME, "scheduler-rbac.yaml")))
        cluster.kubectl("apply", "-f", "-", stdin=objects)
        cluster.create_namespace(LENT_TO)
        yield stage
        for namespace in (NAME, LENT_TO):
            cluster.api.request("DELETE", QUOTAS.format(namespace))
        cluster.api.request("DELETE", f"/api/v1/namespaces/{LENT_TO}")
        cluster.kubectl("delete", "-f", "-", stdin=objects)


def _login(stage: Stage, path: Path) -> Path:
    config = yaml.safe_load(stage.cluster.kubeconfig.read_text())
    token = stage.cluster.kubectl("create", "token", ACCOUNT, "-n", NAME, "--duration=1h").strip()
    for user in config["users"]:
        user["user"] = {"token": token}
    path.write_text(yaml.safe_dump(config))
    return path


def _requests(stage: Stage) -> list[Request]:
    mark = f'"username":"system:serviceaccount:{NAME}:{ACCOUNT}"'
    return [Request.from_event(event) for event in audited(stage.cluster, mark)]


def _watched(stage: Stage) -> bool:
    return {request.resource for request in _requests(stage) if request.verb == "watch"} >= WATCHED


def _borrow(stage: Stage, node: str) -> None:
    """Give both namespaces a quota, wait for the extender, and let one borrow the other's min on one node."""
    api = stage.cluster.api
    for namespace, cores in ((NAME, 10), (LENT_TO, 2)):
        spec = {"min": {"cpu": f"{cores}", "memory": "64Gi"}, "max": {"cpu": "64"}}
        kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": {"name": "quota"}}
        api.request("POST", QUOTAS.format(namespace), {**kind, "spec": spec})
    borrowed = stage.pod("borrows", cpu="8", node=node)
    borrowed["metadata"]["namespace"] = LENT_TO
    api.request("POST", f"/api/v1/namespaces/{LENT_TO}/pods", borrowed)
    (extender,) = stage.extenders
    for namespace, cores in ((NAME, 10), (LENT_TO, 2)):
        texts = f"the extender knowing the quota of {namespace}"
        until(lambda namespace=namespace, cores=cores: extender.bounds(namespace, "cpu") == (cores, 64), texts)  # type: ignore[misc]
    stage.seen()


def _has_request(stage: Stage, verb: str, what: str) -> bool:
    return any((request.verb, request.resource) == (verb, what) for request in _requests(stage))


def test_rights_are_needed_and_enough(stage: Stage, tmp_path: Path) -> None:
    """No request of the extender is forbidden, and it uses every right of the chart."""
    login = _login(stage, tmp_path / "kubeconfig")
    flags = [f"--kubeconfig={login}", f"--reclaim-for={NAME}"]
    extender = stage.add_extender("extender-with-rights", profile(), flags=flags)
    stage.add_scheduler(NAME, configuration("shortlist", NAME, extender.url))
    stage.wait()
    node = stage.nodes[0]
    stage.settle({node: 30})
    stage.create(stage.pod("p", NAME, selector={"kubernetes.io/hostname": node}))
    stage.refused("p", "node(s) cpu usage exceed threshold")
    until(lambda: any(request.resource == "events" for request in _requests(stage)), "an event being written")
    extender.quiet()
    stage.report({node: Usage(2)})
    assert stage.placed("p") == [node]
    until(lambda: any(request.verb == "patch" for request in _requests(stage)), "the requeue in the audit log")
    _borrow(stage, node)
    stage.create(stage.pod("q", NAME, cpu="5", selector={"kubernetes.io/hostname": node}))
    assert stage.placed("q") == [node]
    until(lambda: _has_request(stage, "create", "pods/eviction"), "the eviction in the audit log")
    until(lambda: _has_request(stage, "patch", "elasticquotas/status"), "the quotas' status being written")
    extender.process.stop()
    until(lambda: _watched(stage), "the end of the watches")
    requests = _requests(stage)
    assert not [request for request in requests if request.code in {401, 403}]
    granted = _all_rights(_own(rendered(stage.cluster, NAME, "scheduler-rbac.yaml")))
    assert len(granted) >= 20
    assert unused(granted, requests) == [], "unused rights: remove them from the role, or excuse them"


def test_unused_right_is_named(stage: Stage) -> None:
    extra = Right("", "", "pods", "create", ())
    assert unused([extra], _requests(stage)) == ["create pods"]
