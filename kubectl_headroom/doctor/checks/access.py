"""The permissions of this login before an install."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from kubectl_headroom.doctor.cluster import Cluster
from kubectl_headroom.doctor.finding import Finding, count, error, named, ok

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
    """Return whether this login may create what `helm install` creates."""
    kinds = [*((cluster.namespace, *kind) for kind in _NAMESPACED), *(("", *kind) for kind in _CLUSTER_SCOPED)]
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


def _denied(requests: Sequence[Mapping[str, Any]], answers: Sequence[bool]) -> list[str]:
    return [_text(**request) for request, allowed in zip(requests, answers, strict=True) if not allowed]


def _text(verb: str, group: str, resource: str, namespace: str) -> str:
    return f"{verb} {resource}{f'.{group}' if group else ''}{f' in {namespace}' if namespace else ''}"
