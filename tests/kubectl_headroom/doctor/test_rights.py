"""The permissions that doctor reads, compared with the roles that the chart renders."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest

from kubectl_headroom.doctor.permissions import NAMESPACES
from kubectl_headroom.doctor.registry import READS
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
        for name in ((NAMESPACE,) if right == NAMESPACES else right.names or ("",))
    }
    assert _granted(_roles(render(helm), DOCTOR), NAMESPACE) == wanted
