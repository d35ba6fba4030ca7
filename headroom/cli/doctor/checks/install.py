"""Before an install: whether this login may create what the chart brings."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, count, error, named, ok

_PAGE: Final = "install.md"
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
_CLUSTER: Final = (
    ("", "namespaces"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("scheduling.k8s.io", "priorityclasses"),
    (_RBAC, "clusterroles"),
    (_RBAC, "clusterrolebindings"),
)


async def check(site: Site) -> AsyncIterator[Finding]:
    """Ask the API server about the rights that `helm install` takes."""
    asked = [_create(group, resource, site.namespace) for group, resource in _NAMESPACED]
    asked += [_create(group, resource, "") for group, resource in _CLUSTER]
    answers = await site.i_may(asked)
    lacking = [_named(request) for request, allowed in zip(asked, answers, strict=True) if not allowed]
    if lacking:
        yield error(
            f"This login may not {named(lacking)}, which helm install takes.",
            "have a cluster administrator install it, or use another --context",
            _PAGE,
            lacking,
        )
        return
    # Who grants a right must have it, or be allowed to grant more than that.
    anything = {"verb": "*", "group": "*", "resource": "*"}
    raise_rights = {"verb": "escalate", "group": _RBAC, "resource": "clusterroles"}
    if not any(await site.i_may([anything, raise_rights])):
        yield error(
            "This login may create roles, but not with rights that it lacks itself, and the chart's have some.",
            "have a cluster administrator install it (ClusterRole cluster-admin), or use another --context",
            _PAGE,
        )
        return
    yield ok(f"This login may create all {count(len(asked), 'kind')} of objects that the chart brings.")


def _create(group: str, resource: str, namespace: str) -> Mapping[str, Any]:
    return {"verb": "create", "group": group, "resource": resource, "namespace": namespace}


def _named(request: Mapping[str, Any]) -> str:
    where = f" in {request['namespace']}" if request["namespace"] else ""
    group = f".{request['group']}" if request["group"] else ""
    return f"create {request['resource']}{group}{where}"
