"""`kubectl headroom doctor`: runs the checks one after another, and says what each found."""

import time
from collections.abc import AsyncIterator
from typing import Final

from headroom import kube
from headroom.cli.doctor import text
from headroom.cli.doctor.cluster import NotAllowed, NotDefined, Site
from headroom.cli.doctor.finding import Finding, Severity, error, info
from headroom.cli.doctor.installed import nowhere
from headroom.cli.doctor.registry import CHECKS, PREFLIGHT, Check, load
from headroom.cli.errors import FAILED

Told = tuple[str, Finding]  # name of the check, and what it says

_RIGHTS_PAGE: Final = "kubectl.md#doctor"


async def run(api: kube.ApiServer, *, namespace: str, config_name: str, preflight: bool, output: str) -> int:
    """Print what is wrong with the installation, or in the way of one.

    Args:
        api: the cluster.
        namespace: Headroom's.
        config_name: name of the colocation ConfigMap.
        preflight: look at what an install needs, before there is anything.
        output: "table", "wide", "json" or "yaml".

    Returns:
        The exit code: 1 with errors, 0 with warnings or less.
    """
    site = Site(api, namespace, config_name, lambda: time.time() - api.ahead_seconds)
    told = [each async for each in examine(site, preflight=preflight)]
    text.show(told, output, preflight=preflight)
    return FAILED if any(found.severity is Severity.ERROR for _, found in told) else 0


async def examine(site: Site, *, preflight: bool) -> AsyncIterator[Told]:
    """What all checks find, in their order; one thing alone where nothing of ours is there.

    Args:
        site: the cluster.
        preflight: those before an install.
    """
    if not preflight and (nothing := await nowhere(site)) is not None:
        yield "install", nothing
        return
    for name, where in (PREFLIGHT if preflight else CHECKS).items():
        async for found in _guarded(load(where), site):
            yield name, found


async def _guarded(check: Check, site: Site) -> AsyncIterator[Finding]:
    """What one check finds; what it may not read, and an API server that fails at it, is a finding, too."""
    try:
        async for found in check(site):
            yield found
    except NotAllowed as refused:
        right = refused.right
        where = f" in namespace {site.namespace}" if right.namespaced else ""
        message = f"Not looked at: this login lacks the right to {right}{where}."
        fix = "ask for that right, or run this with another --context"
        yield Finding(Severity.INFO, message, fix, _RIGHTS_PAGE, is_blind=True)
    except NotDefined as unknown:
        yield info(f"Not looked at: this cluster does not know {unknown.right.resource}.")
    except kube.ApiUnavailable as failure:
        if failure.status is None:
            raise
        yield error(f"Not looked at: {failure}.", "kubectl get --raw /readyz?verbose")
