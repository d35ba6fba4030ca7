"""A live Koordinator in the same cluster: what of it does the same work as a part of ours."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from headroom.cli.doctor.cluster import NotAllowed, NotDefined, Site
from headroom.cli.doctor.finding import Finding, info, named, ok, warning
from headroom.cli.doctor.installed import workload
from headroom.cli.doctor.node_metric import report
from headroom.cli.doctor.objects import AGENT, MANAGER, name
from headroom.cli.doctor.rights import (
    DAEMON_SETS,
    DEPLOYMENTS,
    KOORDINATOR_WEBHOOKS,
    MUTATING,
    NODE_METRICS,
    VALIDATING,
)

_PAGE: Final = "migration.md"
_AGENT: Final = "koordlet"
_MANAGER: Final = "koord-manager"
_OTHERS: Final = ("koord-scheduler", "koord-descheduler", "koord-device-daemon", "koord-yarn-operator")

Json = Mapping[str, Any]


async def check(site: Site) -> AsyncIterator[Finding]:
    """Koordinator's workloads and webhooks, by their names."""
    every = [*await site.every(DAEMON_SETS), *await site.every(DEPLOYMENTS)]
    found = {name(each): each for each in every if name(each) in {_AGENT, _MANAGER, *_OTHERS}}
    agent, manager = found.get(_AGENT), found.get(_MANAGER)
    if agent is not None:
        yield _same(agent, "writes the same NodeMetrics", AGENT, present=await workload(site, AGENT) is not None)
    if manager is not None:
        yield _same(
            manager,
            "writes the same NodeMetrics' specs and mid-cpu and mid-memory of the same Nodes",
            MANAGER,
            present=await workload(site, MANAGER) is not None,
        )
    others = sorted(_place(found[each]) for each in _OTHERS if each in found)
    if others:
        yield info(f"Koordinator's {named(others)} runs beside Headroom, and may.", docs=_PAGE, objects=others)
    async for each in _webhooks(site):
        yield each
    strange = await _foreign_writers(site)
    if strange and agent is None:
        yield warning(
            f"NodeMetrics are written by {named(strange)} as well as by our agents. Stop one of the two.",
            "kubectl get nodemetrics -o yaml --show-managed-fields",
            _PAGE,
            strange,
        )
    if not found and not strange:
        yield ok("No Koordinator runs in this cluster.")


def _place(obj: Json) -> str:
    return f"{obj['metadata'].get('namespace')}/{name(obj)}"


def _same(obj: Json, does: str, ours: str, *, present: bool) -> Finding:
    """A workload of Koordinator's that does what one of ours does."""
    kind = "daemonset" if name(obj) == _AGENT else "deployment"
    where = obj["metadata"].get("namespace")
    if not present:
        return info(f"Koordinator's {_place(obj)} {does} as our {ours} would.", docs=_PAGE)
    stop = (
        f"kubectl -n {where} scale deployment {name(obj)} --replicas=0"
        if kind == "deployment"
        else f"kubectl -n {where} delete daemonset {name(obj)}"
    )
    return warning(
        f"Koordinator's {_place(obj)} is alive and {does} as our {ours}: whoever writes last wins. Run one of the two.",
        stop,
        _PAGE,
        [_place(obj)],
    )


async def _webhooks(site: Site) -> AsyncIterator[Finding]:
    """Its admission webhooks."""
    for right, called in ((VALIDATING, KOORDINATOR_WEBHOOKS[0]), (MUTATING, KOORDINATOR_WEBHOOKS[1])):
        found = await site.one(right, called)
        if found is not None and found.get("webhooks"):
            yield info(
                f"Koordinator's webhook {called} is registered: it judges pods, quotas and the same config by its own "
                "rules.",
                docs=_PAGE,
            )


async def _foreign_writers(site: Site) -> list[str]:
    """Who else writes reports, by the API server's account; nobody where that may not be read."""
    try:
        reports = await site.every(NODE_METRICS, report)
    except (NotAllowed, NotDefined):
        return []
    writers = {writer for each in reports for writer in each.writers}
    return sorted(writers - {AGENT}) if AGENT in writers else []
