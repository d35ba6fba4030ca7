"""Requests of the chart's service accounts, by the API server's audit log, and their granted rights."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from tests.audited import audited
from tests.charts.rendered import Rendered
from tests.manager.stage import Request
from tests.manager.test_rights import Right, _all_rights
from tools.devcluster import Cluster

ACCOUNTS: Final = ("headroom-agent", "headroom-manager", "headroom-scheduler", "headroom-uninstall", "headroom-doctor")
"""The service accounts; the objects that give them rights begin with the same name."""
_REFUSED: Final = (401, 403)
_GRANTING: Final = ("clusterrolebindings", "clusterroles", "rolebindings", "roles", "serviceaccounts")
_BETWEEN_DELETIONS: Final = timedelta(seconds=10)  # helm takes far less from one of these to the next
_AT_THE_SAME_TIME: Final = timedelta(seconds=1)  # a request may arrive before the deletion, and be authorized after it
_CREATED: Final = 201
_OF_EVERYBODY: Final = ("selfsubjectaccessreviews", "selfsubjectreviews")  # what every login may ask: about itself
_OF_THE_CLUSTER: Final = "kube-scheduler"
"""Its rights are roles of the cluster, which the chart binds: they follow its version."""


def requests(cluster: Cluster, namespace: str) -> dict[str, list[Request]]:
    """Requests of each account so far.

    Helm deletes the rights of a pod while it ends; a denial from then on is no missing right.
    """
    result: dict[str, list[Request]] = {account: [] for account in ACCOUNTS}
    prefix, deleted = f"system:serviceaccount:{namespace}:", withdrawn(cluster)
    for event in audited(cluster, prefix):
        request = Request.from_event(event)
        account = request.user.removeprefix(prefix)
        ended = account in deleted and request.at > deleted[account] - _AT_THE_SAME_TIME
        if account != request.user and not (ended and request.code in _REFUSED):
            result.setdefault(account, []).append(request)
    return result


def withdrawn(cluster: Cluster) -> dict[str, datetime]:
    """When helm last began to delete what gives each account its rights: one object after another."""
    begun: dict[str, datetime] = {}
    last: dict[str, datetime] = {}
    for event in audited(cluster, '"verb":"delete"', '"headroom-'):
        request = Request.from_event(event)
        account = request.name.removesuffix("-events")
        if request.resource in _GRANTING and request.code not in _REFUSED:
            if account not in last or request.at - last[account] > _BETWEEN_DELETIONS:
                begun[account] = request.at
            last[account] = request.at
    return begun


def granted(chart: Rendered) -> dict[str, list[Right]]:
    objects = chart.of_kind("Role", "ClusterRole")
    names = {account: {account, f"{account}-events"} for account in ACCOUNTS}
    return {
        account: _all_rights([item for item in objects if item["metadata"]["name"] in names[account]])
        for account in ACCOUNTS
    }


def refused(requested: Mapping[str, Iterable[Request]]) -> list[str]:
    """Requests that the API server denied, with their account."""
    return [
        f"{account}: {request.verb} {request.resource} {request.namespace}/{request.name}"
        for account, requests in requested.items()
        for request in requests
        if request.code in _REFUSED
    ]


def beyond(rights: Iterable[Right], requests: Iterable[Request]) -> list[str]:
    """Requests that no rule of the chart covers: what allowed them is no part of it, and may be missing elsewhere."""
    rights = list(rights)
    return sorted(
        {
            f"{entry.verb} {entry.resource}{f'.{entry.group}' if entry.group else ''} {entry.namespace}/{entry.name}"
            for entry in requests
            if entry.resource and entry.resource not in _OF_EVERYBODY and not entry.agent.startswith(_OF_THE_CLUSTER)
            if not any(_covers(right, entry) for right in rights)
        }
    )


def unused(rights: Iterable[Right], requests: Iterable[Request], excused: Mapping[str, str]) -> list[str]:
    """Rights that no request needed, and that nothing excuses."""
    requests = list(requests)
    left = (right for right in rights if not any(_needs(request, right) for request in requests))
    return [str(entry) for entry in left if key(entry) not in excused]


def key(right: Right) -> str:
    return f"{right.verb} {right.resource}{f'.{right.group}' if right.group else ''}"


def _covers(right: Right, request: Request) -> bool:
    # The right to use a name counts for requests that name it; lists and watches name it in their field selector.
    named = not right.names or request.name in right.names or request.verb in {"list", "watch"}
    place = not right.namespace or request.namespace == right.namespace
    return (right.group, right.resource, right.verb) == (request.group, request.resource, request.verb) and (
        named and place
    )


def _needs(request: Request, right: Right) -> bool:
    if _covers(right, request):
        return True
    # An apply of a missing object is a creation, which the audit log calls a patch.
    made = request.verb == "patch" and request.code == _CREATED and right.verb == "create"
    return made and (right.group, right.resource) == (request.group, request.resource)
