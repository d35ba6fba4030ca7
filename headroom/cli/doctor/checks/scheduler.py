"""The second scheduler: kube-scheduler itself, its name, its Lease and the profile of its extender."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, error, info, named, ok, warning
from headroom.cli.doctor.installed import (
    SCHEDULER_CONFIG,
    pods,
    scheduler_config,
    scheduler_lease,
    scheduler_names,
    upgrade,
    workload,
)
from headroom.cli.doctor.objects import PART, SCHEDULER, Pod, just_started, name, replicas, words
from headroom.cli.doctor.rights import CONFIG_MAPS, DEPLOYMENTS, LEASES
from manager.mid.explanation.lease import lease_of

_PAGE: Final = "scheduler.md"
_STOCK: Final = "default-scheduler"

Json = Mapping[str, Any]


async def check(site: Site) -> AsyncIterator[Finding]:
    """Whether pods that ask for our scheduler get one, and only one."""
    deployment = await workload(site, SCHEDULER)
    if deployment is None:
        yield info("The scheduler is not installed: pods are placed as before, without a look at the load.", docs=_PAGE)
        return
    config = await scheduler_config(site)
    problems = [*_running(site, deployment, await pods(site, SCHEDULER)), *await _profile(site)]
    problems += _rivals(site, config, await site.every(DEPLOYMENTS))
    problems += await _leader(site, config)
    for problem in problems:
        yield problem
    if not problems:
        ready, wanted = replicas(deployment)
        yield ok(f"{ready} of {wanted} replicas of {named(scheduler_names(config))} are ready, and one leads.")


def _running(site: Site, deployment: Json, running: Sequence[Pod]) -> Iterator[Finding]:
    """Replicas that are not ready; what is wrong with the extender in them is told by its own check."""
    ready, wanted = replicas(deployment)
    if not wanted:
        yield error(
            f"Deployment {site.namespace}/{SCHEDULER} is scaled to 0: pods that ask for it stay pending.",
            upgrade(site, by_hand=True),
            _PAGE,
        )
    elif ready < wanted:
        why = [f"{pod.name} ({pod.why or 'starting'})" for pod in running if not pod.ready]
        yield (warning if ready else error)(
            f"{ready} of {wanted} replicas of the scheduler are ready; not ready: {named(why) or 'none is there'}.",
            f"kubectl -n {site.namespace} describe pods -l {PART}={SCHEDULER}",
            _PAGE,
        )


async def _profile(site: Site) -> list[Finding]:
    """What is wrong with the extender's profile."""
    found = await site.one(CONFIG_MAPS, SCHEDULER_CONFIG)
    text = ((found or {}).get("data") or {}).get("profile.yaml")
    place = f"ConfigMap {site.namespace}/{SCHEDULER_CONFIG}"
    if found is None:
        return [error(f"There is no {place}, without which no scheduler starts.", upgrade(site), _PAGE)]
    if text is None:
        return []
    try:
        from scheduler_plugins.profile import ProfileError, parse_profile  # noqa: PLC0415 - only who needs it pays
    except ModuleNotFoundError as absent:
        return [info(f"The profile was not checked: it needs {absent.name}.", "pip install 'headroom[scheduler]'")]
    try:
        parse_profile(str(text), f"The profile of {place}")
    except ProfileError as wrong:
        return [error(f"{wrong} Correct scheduler.profile in the values.", f"{upgrade(site)} -f values.yaml", _PAGE)]
    except ModuleNotFoundError as absent:
        return [info(f"The profile was not checked: it needs {absent.name}.", "pip install 'headroom[scheduler]'")]
    return []


def _rivals(site: Site, config: Json, deployments: Sequence[Json]) -> Iterator[Finding]:
    """Other schedulers that take the same pods."""
    names = scheduler_names(config)
    if _STOCK in names:
        yield warning(
            f"Our scheduler takes the name {_STOCK}, as the cluster's own does: both place the same pods, against each "
            "other, unless the cluster's own is off.",
            upgrade(site, f"scheduler.name={SCHEDULER}"),
            _PAGE,
        )
    for each in deployments:
        where = each["metadata"].get("namespace")
        said = " ".join(words(each))
        same = [one for one in names if f"scheduler-name={one}" in said or f"leader-elect-resource-name={one}" in said]
        if same and (where, name(each)) != (site.namespace, SCHEDULER):
            yield warning(
                f"Deployment {where}/{name(each)} runs a scheduler of the same name, {named(same)}: both place the "
                "same pods, against each other. Stop it, or give scheduler.name another value.",
                f"kubectl -n {where} scale deployment {name(each)} --replicas=0",
                _PAGE,
            )


async def _leader(site: Site, config: Json) -> list[Finding]:
    """Whether one of our replicas schedules."""
    wanted = scheduler_lease(config)
    leases = {name(each): each for each in await site.every(LEASES)}
    lease = lease_of(leases.get(wanted), site.now())
    running = await pods(site, SCHEDULER)
    if lease is None or not lease.held:
        return [
            (warning if just_started(running, site.now()) else error)(
                f"No scheduler leads: nobody holds the Lease {site.namespace}/{wanted}, so pods that ask for it stay "
                "pending.",
                f"kubectl -n {site.namespace} logs -l {PART}={SCHEDULER} -c kube-scheduler",
                _PAGE,
            )
        ]
    if not any(lease.holder.startswith(pod.name) for pod in running):
        return [
            warning(
                f"The Lease {site.namespace}/{wanted} is held by {lease.holder}, which is none of our pods: another "
                "scheduler runs under this name. Find it and stop it.",
                f"kubectl get pods -A | grep {lease.holder.partition('_')[0]}",
                _PAGE,
            )
        ]
    return []
