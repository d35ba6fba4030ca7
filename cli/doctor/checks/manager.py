"""The manager: whether it runs, and whether one of its replicas writes."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from cli import manager_state
from cli.doctor.checks.nodes import name
from cli.doctor.finding import Finding, error, ok
from cli.doctor.rights import DEPLOYMENTS, LEASES
from cli.doctor.site import Site
from manager.explain.lease import lease_of

_PAGE: Final = "troubleshooting.md"


async def check(site: Site) -> AsyncIterator[Finding]:
    """The manager's Deployment and its Lease."""
    deployments = {name(each): each for each in await site.ours(DEPLOYMENTS)}
    deployment = deployments.get(manager_state.NAME)
    if deployment is None:
        yield error(
            f"There is no Deployment {site.namespace}/{manager_state.NAME}, so nothing is published on Nodes.",
            f"helm install headroom charts/headroom -n {site.namespace} --create-namespace; "
            "if it is elsewhere, give -n NAMESPACE",
            "install.md",
        )
        return
    ready, wanted = replicas(deployment)
    if ready < wanted or not wanted:
        yield error(
            f"{ready} of {wanted} replicas of the manager are ready.",
            f"kubectl -n {site.namespace} describe pods -l app.kubernetes.io/name={manager_state.NAME}",
            _PAGE,
        )
    leases = {name(each): each for each in await site.every(LEASES)}
    lease = lease_of(leases.get(manager_state.NAME), site.now())
    if lease is None or not lease.held:
        yield error(
            f"No replica of the manager leads: nobody holds the Lease {site.namespace}/{manager_state.NAME}.",
            f"kubectl -n {site.namespace} logs -l app.kubernetes.io/name={manager_state.NAME}",
            _PAGE,
        )
    elif ready >= wanted > 0:
        yield ok(f"{ready} of {wanted} replicas of the manager are ready; {lease.holder} leads.")


def replicas(workload: Mapping[str, Any]) -> tuple[int, int]:
    """How many replicas of a Deployment are ready, and how many there should be; the API's own default is one."""
    wanted = (workload.get("spec") or {}).get("replicas")
    return int((workload.get("status") or {}).get("readyReplicas") or 0), 1 if wanted is None else int(wanted)
