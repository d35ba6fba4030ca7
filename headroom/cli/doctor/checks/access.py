"""Permissions: of this login before an install, and of each service account after it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from headroom.cli.doctor.cluster import Cluster
from headroom.cli.doctor.finding import Finding, count, error, named, ok
from headroom.cli.doctor.installation import installed, upgrade
from headroom.cli.doctor.objects import SCHEDULER
from headroom.cli.doctor.permissions import REVIEWS
from headroom.cli.doctor.service_accounts import KUBE_SCHEDULER, policy_rules

_RBAC: Final = "rbac.authorization.k8s.io"
_NAMESPACED: Final = (
    ("", "serviceaccounts"),
    ("", "configmaps"),
    ("", "secrets"),
    ("", "services"),
    ("apps", "deployments"),
    ("apps", "daemonsets"),
    (_RBAC, "roles"),
    (_RBAC, "rolebindings"),
)
_CLUSTER_SCOPED: Final = (
    ("", "namespaces"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("scheduling.k8s.io", "priorityclasses"),
    (_RBAC, "clusterroles"),
    (_RBAC, "clusterrolebindings"),
)


async def install(cluster: Cluster) -> AsyncIterator[Finding]:
    """Whether this login may create what `helm install` creates."""
    kinds = [*((cluster.namespace, *each) for each in _NAMESPACED), *(("", *each) for each in _CLUSTER_SCOPED)]
    requests = [
        {"verb": "create", "group": group, "resource": resource, "namespace": namespace}
        for namespace, group, resource in kinds
    ]
    denied = _denied(requests, await cluster.i_may(requests))
    # Who grants a permission must have it, or be allowed to grant more than that.
    anything = {"verb": "*", "group": "*", "resource": "*"}
    escalate = {"verb": "escalate", "group": _RBAC, "resource": "clusterroles"}
    if denied:
        fix = "have a cluster administrator install it, or use another --context"
        yield error(f"This login may not {named(denied)}, which helm install takes.", fix, denied)
    elif not any(await cluster.i_may([anything, escalate])):
        yield error(
            "This login may create roles, but not with rights that it lacks itself, and the chart's have some.",
            "have a cluster administrator install it (ClusterRole cluster-admin), or use another --context",
        )
    else:
        yield ok(f"This login may create all {count(len(requests), 'kind')} of objects that the chart brings.")


async def rights(cluster: Cluster) -> AsyncIterator[Finding]:
    """Whether each service account may do what its service does."""
    own = cluster.namespace
    for component, needed in policy_rules(installed(cluster)).items():
        rules = [*needed, *(KUBE_SCHEDULER if component == SCHEDULER else ())]
        requests = [request for rule in rules for request in rule.resource_attributes()]
        user = {
            "user": f"system:serviceaccount:{own}:{component}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{own}", "system:authenticated"],
        }
        denied = _denied(requests, await cluster.may(REVIEWS, user, requests))
        if denied:
            message = f"Service account {own}/{component} may not {named(denied)}."
            yield error(message, upgrade(cluster, force=True), denied)
        else:
            yield ok(f"Service account {own}/{component} has {count(len(requests), 'right')}, all that it needs.")


def _denied(requests: Sequence[Mapping[str, Any]], answers: Sequence[bool]) -> list[str]:
    return [_text(**request) for request, allowed in zip(requests, answers, strict=True) if not allowed]


def _text(verb: str, group: str, resource: str, namespace: str, subresource: str = "", name: str = "") -> str:
    kind = f"{resource}/{subresource}" if subresource else resource
    suffix = f"{f'.{group}' if group else ''}{f' {name}' if name else ''}{f' in {namespace}' if namespace else ''}"
    return f"{verb} {kind}{suffix}"
