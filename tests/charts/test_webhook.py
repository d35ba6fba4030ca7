from typing import Any

import pytest

from crds.names import CONFIG_MAP_NAME
from manager.settings import WebhookSettings
from manager.webhook.admission import HANDLER
from manager.webhook.service import served_names
from tests.charts.rendered import NAMESPACE, Helm, Rendered, render, rules

pytestmark = pytest.mark.helm

KINDS = ("ValidatingWebhookConfiguration", "Service", "Certificate", "Issuer")
HOOKS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
SETTINGS = WebhookSettings()
PODS_CONFIGURATION = "headroom-mid-namespaces"
PROFILES_CONFIGURATION = "headroom-colocation-profiles"
CERT_MANAGER = "manager.webhook.certificates=cert-manager"


def hook(chart: Rendered) -> dict[str, Any]:
    config, _ = chart.one("ValidatingWebhookConfiguration", SETTINGS.configuration_name)["webhooks"]
    return dict(config)


def flags(chart: Rendered) -> dict[str, str]:
    args = chart.container("headroom-manager/manager")["args"]
    return dict(arg.split("=", 1) for arg in args if arg.startswith("--webhook"))


def may(chart: Rendered) -> set[tuple[str, str, str, str]]:
    granted = rules(chart.one("ClusterRole", "headroom-manager")) | rules(chart.one("Role", "headroom-manager"))
    return {pod for pod in granted if pod[1] in {"secrets", *HOOKS}}


def test_only_our_config_is_reviewed(helm: Helm) -> None:
    """API servers send writes to the one ConfigMap for review, wait 5 s at most, and go on without an answer."""
    result = hook(render(helm))
    (rule,) = result["rules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE", "UPDATE"], ["configmaps"])
    assert result["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
    ours, not_by_manager = [condition["expression"] for condition in result["matchConditions"]]
    assert f'== "{CONFIG_MAP_NAME}"' in ours
    assert f'!= "system:serviceaccount:{NAMESPACE}:headroom-manager"' in not_by_manager
    assert (result["failurePolicy"], result["timeoutSeconds"], result["sideEffects"]) == ("Ignore", 5, "None")
    assert "objectSelector" not in result
    assert "caBundle" not in result["clientConfig"]  # an upgrade would take it away


def test_call_arrives(helm: Helm) -> None:
    chart = render(helm)
    service = hook(chart)["clientConfig"]["service"]
    assert service == {"name": SETTINGS.service_name, "namespace": NAMESPACE, "path": f"/{HANDLER}", "port": 443}
    spec = chart.one("Service", SETTINGS.service_name)["spec"]
    assert spec["ports"] == [{"name": "webhook", "port": 443, "targetPort": "webhook"}]
    pod = chart.one("Deployment", "headroom-manager")["spec"]["template"]["metadata"]["labels"]
    assert spec["selector"].items() <= pod.items()
    ports = {port["name"]: port["containerPort"] for port in chart.container("headroom-manager/manager")["ports"]}
    listener = {"--webhook-listen": f":{ports['webhook']}", "--webhook-certificates": "self"}
    profiles = {"--webhook-profiles-configuration": PROFILES_CONFIGURATION}
    assert flags(chart) == {**listener, **profiles, "--webhook-pods-configuration": PODS_CONFIGURATION}
    assert flags(render(helm, "midNamespaces.admission=policy")) == {**listener, **profiles}
    assert flags(render(helm, "midNamespaces.admission=policy", "colocationProfiles.enabled=false")) == listener


def test_profiles_are_reviewed(helm: Helm) -> None:
    """Edits of profiles are reviewed; their webhooks for pods are the manager's, so the chart has none to reset."""
    chart = render(helm)
    _, review = chart.one("ValidatingWebhookConfiguration", SETTINGS.configuration_name)["webhooks"]
    (rule,) = review["rules"]
    assert (rule["apiGroups"], rule["resources"]) == (["config.koordinator.sh"], ["clustercolocationprofiles"])
    assert (review["failurePolicy"], review["timeoutSeconds"]) == ("Ignore", 5)
    assert "webhooks" not in chart.one("MutatingWebhookConfiguration", PROFILES_CONFIGURATION)


def test_rights_are_by_name(helm: Helm) -> None:
    """The manager may write its own Secret and webhook configurations; with cert-manager it may read the Secret."""
    secret, configuration = SETTINGS.secret_name, SETTINGS.configuration_name
    group = "admissionregistration.k8s.io"
    profiles = {
        (group, "mutatingwebhookconfigurations", "list", ""),
        *((group, "mutatingwebhookconfigurations", verb, PROFILES_CONFIGURATION) for verb in ("get", "patch")),
    }
    assert may(render(helm)) == {
        *(("", "secrets", verb, secret) for verb in ("get", "create", "patch", "delete")),
        *((group, "validatingwebhookconfigurations", verb, configuration) for verb in ("get", "patch")),
        *((group, "mutatingwebhookconfigurations", verb, PODS_CONFIGURATION) for verb in ("get", "patch")),
        *profiles,
    }
    without = ("midNamespaces.admission=policy", "colocationProfiles.enabled=false")
    by_policy = {resource for _, resource, *_ in may(render(helm, *without))}
    assert by_policy == {"secrets", "validatingwebhookconfigurations"}
    assert may(render(helm, CERT_MANAGER)) == {("", "secrets", "get", secret), *profiles}


def test_cert_manager_makes_the_secret(helm: Helm) -> None:
    """A Certificate fills the manager's Secret, and its authority is injected; an issuer of one's own replaces ours."""
    chart = render(helm, CERT_MANAGER)
    assert flags(chart)["--webhook-certificates"] == "cert-manager"
    configuration = chart.one("ValidatingWebhookConfiguration", SETTINGS.configuration_name)
    injected = configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    spec = chart.one("Certificate", injected.removeprefix(f"{NAMESPACE}/"))["spec"]
    assert spec["secretName"] == SETTINGS.secret_name
    assert spec["dnsNames"] == list(served_names(SETTINGS.service_name, NAMESPACE, ""))
    issuer = chart.one("Issuer", spec["issuerRef"]["name"])["spec"]
    authority = chart.one("Certificate", "headroom-manager-webhook-ca")["spec"]
    assert (issuer["ca"]["secretName"], authority["isCA"]) == (authority["secretName"], True)
    issued = render(helm, CERT_MANAGER, "manager.webhook.issuer.name=corp", "manager.webhook.issuer.kind=ClusterIssuer")
    assert issued.of_kind("Issuer") == []
    (certificate,) = issued.of_kind("Certificate")
    assert certificate["spec"]["issuerRef"] == {"name": "corp", "kind": "ClusterIssuer"}


def test_can_be_left_out(helm: Helm) -> None:
    chart = render(helm, "manager.webhook.enabled=false")
    assert chart.of_kind(*KINDS) == []
    assert may(chart) == set()
    assert flags(chart) == {}
