"""What doctor reads and what it expects of others, compared with the roles that the chart renders."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest

from headroom.cli.doctor.objects import COMPONENTS
from headroom.cli.doctor.permissions import AGENTS_QUEUE, NODE_STATUS_POLICY, OWN_NODE_POLICY
from headroom.cli.doctor.registry import READS
from headroom.cli.doctor.service_accounts import Installed, PolicyRule, policy_rules
from tests.charts.rendered import NAMESPACE, Helm, Rendered, render

Row = tuple[str, str, str, str, str]
"""Namespace (empty: all), group, resource, verb, name (empty: any)."""

DOCTOR: Final = "headroom-doctor"


def _granted(objects: Iterable[Mapping[str, Any]], namespace: str) -> set[Row]:
    return {
        (
            role["metadata"].get("namespace", namespace) if role["kind"] == "Role" else "",
            group,
            resource,
            verb,
            name,
        )
        for role in objects
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or [""]
    }


def _roles(chart: Rendered, account: str) -> list[Mapping[str, Any]]:
    """The roles of the chart that are bound to an account."""
    bound = Counter(
        (binding["roleRef"]["kind"], binding["metadata"].get("namespace"), binding["roleRef"]["name"])
        for binding in chart.of_kind("RoleBinding", "ClusterRoleBinding")
        if any(subject["name"] == account for subject in binding.get("subjects") or ())
    )
    return [role for role in chart.of_kind("Role", "ClusterRole") if bound[_identity(role)]]


def _identity(role: Mapping[str, Any]) -> tuple[str, str | None, str]:
    namespace = role["metadata"].get("namespace") if role["kind"] == "Role" else None
    return role["kind"], namespace, role["metadata"]["name"]


@pytest.mark.helm
def test_helm_test_may_read_just_that(helm: Helm) -> None:
    """The account of `helm test` has exactly the rights that doctor uses."""
    wanted = {
        (NAMESPACE if right.namespaced else "", right.group, right.resource, right.verb, name)
        for right in READS
        for name in ((NAMESPACE,) if right.resource == "namespaces" else right.names or ("",))
    }
    assert _granted(_roles(render(helm), DOCTOR), NAMESPACE) == wanted


@pytest.mark.helm
@pytest.mark.parametrize("version", ["v1.31.4", "v1.32.0"])
def test_safeguards_are_those_of_the_chart(helm: Helm, version: str) -> None:
    """What doctor misses when it is gone is what the chart makes: under these names, and from that Kubernetes on."""
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    chart = render(helm, kube_version=version)
    names = {NODE_STATUS_POLICY} | ({OWN_NODE_POLICY} if version == "v1.32.0" else set())
    found = {kind: {each["metadata"]["name"] for each in chart.of_kind(kind)} for kind in kinds}
    assert found == dict.fromkeys(kinds, names)
    for kind in ("FlowSchema", "PriorityLevelConfiguration"):
        assert {each["metadata"]["name"] for each in chart.of_kind(kind)} == {AGENTS_QUEUE}
    assert {each["metadata"]["name"] for each in chart.of_kind("NetworkPolicy")} == {"headroom", *COMPONENTS}


def _wanted(grant: PolicyRule) -> set[Row]:
    return {(grant.namespace, grant.group, grant.resource, verb, grant.name) for verb in grant.verbs.split()}


@pytest.mark.helm
@pytest.mark.parametrize(
    ("settings", "how"),
    [
        ([], Installed(NAMESPACE)),
        (["manager.webhook.enabled=false"], Installed(NAMESPACE, certificates="")),
        (["manager.webhook.certificates=cert-manager"], Installed(NAMESPACE, certificates="cert-manager")),
        (["priorityClasses.create=false"], Installed(NAMESPACE, priority_classes=False)),
        (["configMap.name=mine", "scheduler.name=ours"], Installed(NAMESPACE, config_name="mine", lease="ours")),
    ],
)
def test_accounts_need_what_the_chart_grants(helm: Helm, settings: list[str], how: Installed) -> None:
    """What doctor expects each service account to be allowed is what the chart grants it, no less and no more."""
    chart = render(helm, *settings)
    for account, expected in policy_rules(how).items():
        wanted = set[Row]().union(*map(_wanted, expected))
        assert _granted(_roles(chart, account), NAMESPACE) == wanted, account
