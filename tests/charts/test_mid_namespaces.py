"""Mid namespaces: the chart's policy and webhook, and the cases of the translation on a real API server."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from crds.names import LABEL_TIER
from crds.priority import VALUES
from manager.settings import WebhookSettings
from manager.webhook.pods import PATH
from tests.charts.rendered import CHART, NAMESPACE, REGISTRY, Helm, Rendered, render
from tests.crds.mid_cases import Case, cases, shortened
from tests.support.waiting import eventually
from tools.devcluster import Cluster

Json = dict[str, Any]
MID: Final = "mid-namespace"
POLICY: Final = "midNamespaces.admission=policy"
WEBHOOK: Final = "midNamespaces.admission=webhook"
NAME: Final = WebhookSettings().pods_configuration_name
KINDS: Final = ("MutatingWebhookConfiguration", "MutatingAdmissionPolicy")


def _kinds(chart: Rendered) -> list[str]:
    return [item["kind"] for item in chart.of_kind(*KINDS)]


@pytest.mark.helm
def test_webhook_is_called_for_pods_of_mid_namespaces_alone(helm: Helm) -> None:
    """API servers send new pods of labelled namespaces, wait 2 s at most, and go on without an answer."""
    chart = render(helm, WEBHOOK)
    assert _kinds(chart) == ["MutatingWebhookConfiguration"]
    (hook,) = chart.one("MutatingWebhookConfiguration", NAME)["webhooks"]
    (rule,) = hook["rules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE"], ["pods"])
    assert hook["namespaceSelector"] == {
        "matchLabels": {LABEL_TIER: "mid"},
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", NAMESPACE]}
        ],
    }
    assert (hook["failurePolicy"], hook["timeoutSeconds"], hook["sideEffects"]) == ("Ignore", 2, "None")
    assert hook["clientConfig"]["service"]["path"] == f"/{PATH}"
    assert "caBundle" not in hook["clientConfig"]


@pytest.mark.helm
def test_one_of_policy_and_webhook_is_installed(helm: Helm) -> None:
    """`auto` is the policy where the API server has such policies from Kubernetes 1.36 on, else the webhook."""
    assert _kinds(render(helm, POLICY)) == ["MutatingAdmissionPolicy"]
    assert _kinds(render(helm, kube_version="v1.35.0")) == ["MutatingWebhookConfiguration"]
    assert _kinds(render(helm, WEBHOOK, "manager.webhook.enabled=false")) == []
    assert _kinds(render(helm, POLICY, "midNamespaces.enabled=false")) == []
    flags = ("--kube-version", "v1.36.2", "--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")
    text = helm("template", "headroom", str(CHART), *flags, "--set", REGISTRY)
    assert _kinds(Rendered(tuple(item for item in yaml.safe_load_all(text) if item))) == ["MutatingAdmissionPolicy"]


@pytest.fixture(scope="module")
def policy(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with the policy, a Mid namespace, and the classes that the cases name."""
    sets = [flag for setting in (REGISTRY, POLICY) for flag in ("--set", setting)]
    show = ("--show-only", "templates/mid-namespaces.yaml")
    made = cluster.helm("template", "headroom", str(CHART), "-n", NAMESPACE, *show, *sets)
    cluster.kubectl("apply", "-f", "-", stdin=made)
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MID, "labels": {LABEL_TIER: "mid"}}})
    values = {"reports": 7100, "important": 100, **{band.value: low for band, (low, _) in VALUES.items()}}
    for name, value in values.items():
        metadata = {"name": name}
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}
        cluster.apply({**body, "preemptionPolicy": "Never"})
    overhead = {"podFixed": {"cpu": "100m", "memory": "64Mi"}}
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "with-overhead"}}
    cluster.apply({**runtime, "handler": "h", "overhead": overhead})
    account = f"/api/v1/namespaces/{MID}/serviceaccounts/default"
    eventually(lambda: bool(cluster.api.get(account)), "the namespace has its account")
    probe = cases()[0].as_sent()
    eventually(lambda: _created(cluster, probe)[0]["spec"].get("priorityClassName") == "koord-mid", "the policy works")
    yield cluster
    cluster.kubectl("delete", "-f", "-", stdin=made)
    cluster.kubectl("delete", "namespace", MID, "--wait=false")
    cluster.kubectl("delete", "priorityclass", *values)
    cluster.kubectl("delete", "runtimeclass", "with-overhead")


def _created(cluster: Cluster, pod: Json) -> tuple[Json, str]:
    """Return a pod as the API server would store it, and the warnings of kubectl."""
    words = [str(cluster.binaries.path("kubectl")), "-n", MID, "create", "--dry-run=server", "-o", "json", "-f", "-"]
    ended = subprocess.run(
        words, input=json.dumps(pod), env=cluster.environment, capture_output=True, text=True, check=False, timeout=60
    )
    return (json.loads(ended.stdout) if ended.stdout else {"spec": {}}), ended.stderr


@pytest.mark.cluster
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_policy_and_function_have_the_same_results(policy: Cluster, case: Case) -> None:
    """The API server stores each pod as the function translates it, and kubectl prints the same warning."""
    pod, warnings = _created(policy, case.as_sent())
    result = shortened(pod)
    assert pod["spec"], warnings
    assert result == case.becomes
    assert case.warning in warnings
    assert bool(case.warning) == ("Warning" in warnings)
