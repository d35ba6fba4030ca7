"""Mid namespaces: the chart's policy and webhook, and the cases of the translation on a real API server."""

import json
import random
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from crds.mid_translation import to_mid
from crds.names import LABEL_TIER
from manager.profiles.profile import Profile
from manager.profiles.webhooks import webhooks
from manager.webhook.pods import PATH
from tests.charts.rendered import CHART, NAMESPACE, REGISTRY, Helm, Rendered, render
from tests.crds.mid_cases import Case, cases, exact, expanded, random_pod, shortened
from tests.support.mid_namespace import created, mid_namespace
from tests.support.waiting import eventually
from tools.devcluster import Cluster
from tools.devcluster.api import ApiError

Json = dict[str, Any]
MID: Final = "mid-namespace"
POLICY: Final = "midNamespaces.admission=policy"
WEBHOOK: Final = "midNamespaces.admission=webhook"
NAME: Final = "headroom-mid-namespaces"
KINDS: Final = ("MutatingWebhookConfiguration", "MutatingAdmissionPolicy")


def _kinds(chart: Rendered) -> list[str]:
    return [item["kind"] for item in chart.of_kind(*KINDS) if item["metadata"]["name"] == NAME]


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
    show = [
        flag for name in ("mid-namespaces", "mid-pods-policy") for flag in ("--show-only", f"templates/{name}.yaml")
    ]
    made = cluster.helm("template", "headroom", str(CHART), "-n", NAMESPACE, *show, *sets)
    cluster.kubectl("apply", "-f", "-", stdin=made)
    with mid_namespace(cluster, MID):
        probe = cases()[0].as_sent()
        eventually(lambda: _created(cluster, probe)[0]["spec"].get("priorityClassName") == "koord-mid", "it works")
        yield cluster
    cluster.kubectl("delete", "-f", "-", stdin=made)


def _created(cluster: Cluster, pod: Json, namespace: str = MID) -> tuple[Json, str]:
    return created(cluster, pod, namespace)


@pytest.mark.cluster
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_policy_and_function_have_the_same_results(policy: Cluster, case: Case) -> None:
    """The API server stores each pod as the function translates it, and kubectl prints the same warning."""
    pod, warnings = _created(policy, case.as_sent())
    if "differ" in case.warning:  # another policy rejects this one
        assert NOT_EQUAL in warnings
        return
    assert exact(shortened(pod)) == exact(case.becomes), warnings
    assert case.warning in warnings
    assert bool(case.warning) == ("Warning" in warnings)


MID_AMOUNTS: Final = {"kubernetes.io/mid-cpu": "500", "kubernetes.io/mid-memory": "64Mi"}
EQUAL: Final = {"requests": MID_AMOUNTS, "limits": MID_AMOUNTS}
NOT_EQUAL: Final = "a container has a request of kubernetes.io/mid-cpu without an equal limit"
PROD: Final = "the pod requests kubernetes.io/mid-* and has a Prod priority"
NATIVE: Final = "a container of this Mid pod has native requests; set requests of cpu and memory to 0"


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("pod", "rejection", "warning"),
    [
        ({"containers": [EQUAL]}, "", ""),
        ({"containers": [{"requests": {"cpu": "1", "memory": "1Gi"}}], "priorityClassName": "koord-prod"}, "", ""),
        ({"containers": [{"requests": MID_AMOUNTS}]}, NOT_EQUAL, ""),
        ({"containers": [{**EQUAL, "limits": {**MID_AMOUNTS, "kubernetes.io/mid-cpu": "600"}}]}, NOT_EQUAL, ""),
        ({"containers": [EQUAL], "initContainers": [{"requests": {"kubernetes.io/mid-cpu": "1"}}]}, NOT_EQUAL, ""),
        ({"containers": [EQUAL], "priorityClassName": "koord-prod"}, PROD, ""),
        ({"containers": [EQUAL], "labels": {"koordinator.sh/priority-class": "koord-prod"}}, PROD, ""),
        ({"containers": [{**EQUAL, "requests": {**MID_AMOUNTS, "cpu": "100m"}}]}, "", NATIVE),
        ({"containers": [EQUAL, {"limits": {"memory": "64Mi"}}]}, "", NATIVE),  # Kubernetes sets the request
        ({"containers": [{"requests": dict.fromkeys(MID_AMOUNTS, "0")}]}, "", ""),
    ],
)
def test_contradictory_mid_pods_are_rejected(policy: Cluster, pod: Json, rejection: str, warning: str) -> None:
    """Mid amounts with a Prod priority or without equal limits are rejected; native requests have a warning."""
    stored, text = _created(policy, expanded(pod), "default")
    assert bool(stored["spec"]) == (not rejection), text
    assert rejection in text
    assert warning in text
    assert ("headroom-mid-native-requests" in text) == bool(warning)


@pytest.mark.cluster
def test_limit_ranges_and_quotas_count_native_amounts(policy: Cluster) -> None:
    """Defaults of a LimitRange are translated, its `min` rejects, and quotas count the native limits."""
    pod = expanded({"containers": [{}]})
    limits = {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}}

    def limit_range(**more: Json) -> None:
        metadata = {"name": "range", "namespace": MID}
        policy.apply(
            {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [{**limits, **more}]}}
        )

    limit_range()
    try:
        eventually(lambda: "kubernetes.io/mid-cpu" in json.dumps(_created(policy, pod)), "the defaults apply")
        (container,) = shortened(_created(policy, pod)[0])["containers"]
        amounts = {"kubernetes.io/mid-cpu": "500", "kubernetes.io/mid-memory": "1Gi"}
        assert container["requests"] == {**amounts, "cpu": "0", "memory": "0"}
        assert container["limits"] == {**amounts, "cpu": "1", "memory": "1Gi"}
        limit_range(min={"cpu": "100m"})
        eventually(lambda: "minimum cpu usage" in _created(policy, pod)[1], "the minimum rejects")
    finally:
        policy.kubectl("-n", MID, "delete", "limitrange", "range")
    hard = {"requests.cpu": "0", "limits.cpu": "1"}
    metadata = {"name": "quota", "namespace": MID}
    policy.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    try:
        fits = expanded({"containers": [{"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}]})
        eventually(lambda: bool(_created(policy, fits)[0]["spec"]), "a pod within the quota is admitted")
        over = expanded({"containers": [{"requests": {"cpu": "500m"}, "limits": {"cpu": "1001m"}}]})
        eventually(lambda: "exceeded quota" in _created(policy, over)[1], "a limit beyond the quota is rejected")
    finally:
        policy.kubectl("-n", MID, "delete", "resourcequota", "quota")


@pytest.mark.cluster
@pytest.mark.long
def test_random_pods_are_never_rejected_by_their_translation(policy: Cluster) -> None:
    """An API server accepts 10,000 random pods of a Mid namespace as of another one, with the function's result."""
    choices, accepted = random.Random(37), 0  # noqa: S311 - no secret
    for _ in range(10_000):
        pod = random_pod(choices)
        result = to_mid(pod)
        if any("differ" in warning for warning in result.warnings):
            continue  # rejected for its unequal Mid limits
        dry = "pods?dryRun=All"
        try:
            plain = policy.api.request("POST", f"/api/v1/namespaces/default/{dry}", pod)
        except ApiError:
            continue
        accepted += 1
        stored = policy.api.request("POST", f"/api/v1/namespaces/{MID}/{dry}", pod)
        defaulted = {**pod, "spec": plain["spec"]}
        assert exact(shortened(stored)) == exact(shortened(dict(to_mid(defaulted).pod))), pod
    assert accepted > 1000


@pytest.mark.helm
def test_each_rule_can_be_turned_off(helm: Helm) -> None:
    """A value of the chart removes each rule, and its policy with the last one."""

    def texts(*settings: str) -> str:
        kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
        return json.dumps(render(helm, *(f"admissionPolicy.{setting}=false" for setting in settings)).of_kind(*kinds))

    assert all(rule in texts() for rule in (NOT_EQUAL, PROD, NATIVE))
    assert PROD not in texts("midPriority")
    assert NOT_EQUAL in texts("midPriority")
    assert NOT_EQUAL not in texts("midLimits")
    assert NATIVE not in texts("midNativeRequests")
    assert "headroom-mid-pods" not in texts("midPriority", "midLimits")


@pytest.mark.helm
def test_webhooks_of_profiles_are_like_those_of_namespaces(helm: Helm) -> None:
    """The manager writes webhooks of profiles with the chart's rules, conditions, timeout and excluded namespaces."""
    (chart,) = render(helm, WEBHOOK).one("MutatingWebhookConfiguration", NAME)["webhooks"]
    (profile,) = webhooks([Profile("mid")], NAMESPACE, chart["clientConfig"]["service"]["name"])
    differing = {"name", "clientConfig", "namespaceSelector", "objectSelector"}
    assert {key: profile[key] for key in profile if key not in differing} == {
        key: chart[key] for key in chart if key not in differing
    }
    excluded = chart["namespaceSelector"]["matchExpressions"]
    assert profile["namespaceSelector"] == {"matchExpressions": excluded}
