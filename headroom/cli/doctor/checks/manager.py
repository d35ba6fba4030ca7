"""The manager: whether it runs, and whether one of its replicas writes."""

from collections.abc import AsyncIterator
from typing import Final

from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, error, named, ok, warning
from headroom.cli.doctor.installed import absent, pods, upgrade, workload
from headroom.cli.doctor.objects import MANAGER, PART, just_started, name, replicas
from headroom.cli.doctor.rights import LEASES
from manager.mid.explanation.lease import lease_of

_PAGE: Final = "troubleshooting.md"


async def check(site: Site) -> AsyncIterator[Finding]:
    """The manager's Deployment and its Lease."""
    deployment = await workload(site, MANAGER)
    if deployment is None:
        yield await absent(site, MANAGER, "nothing is published on Nodes, unless another manager does it")
        return
    ready, wanted = replicas(deployment)
    running = await pods(site, MANAGER)
    if not wanted:
        yield error(
            f"Deployment {site.namespace}/{MANAGER} is scaled to 0, so nothing is published on Nodes.",
            upgrade(site, by_hand=True),
            _PAGE,
        )
        return
    if ready < wanted:
        why = [f"{pod.name} ({pod.why or 'starting'})" for pod in running if not pod.ready]
        tell = warning if ready else error
        yield tell(
            f"{ready} of {wanted} replicas of the manager are ready; not ready: {named(why) or 'none is there'}.",
            f"kubectl -n {site.namespace} describe pods -l {PART}={MANAGER}",
            _PAGE,
        )
    leases = {name(each): each for each in await site.every(LEASES)}
    lease = lease_of(leases.get(MANAGER), site.now())
    if lease is None or not lease.held:
        yield (warning if just_started(running, site.now()) else error)(
            f"No replica of the manager leads: nobody holds the Lease {site.namespace}/{MANAGER}, so nothing is "
            "written.",
            f"kubectl -n {site.namespace} logs -l {PART}={MANAGER}",
            _PAGE,
        )
    elif ready >= wanted:
        yield ok(f"{ready} of {wanted} replicas of the manager are ready; {lease.holder} leads.")
