"""How Headroom is installed, read from its workloads."""

from collections.abc import Mapping
from typing import Any, Final

from crds.colocation import DEFAULTS
from crds.names import CONFIG_MAP_KEY
from headroom import kube
from headroom.cli import manager_state
from headroom.cli.doctor.cluster import NotAllowed, Site
from headroom.cli.doctor.finding import Finding, error, info, named
from headroom.cli.doctor.objects import AGENT, MANAGER, PARTS, SCHEDULER, Pod, name, pod
from headroom.cli.doctor.rights import CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, NAMESPACES, PODS
from headroom.cli.doctor.service_accounts import Installed
from manager.config.parse import review

Json = Mapping[str, Any]

SCHEDULER_CONFIG: Final = "headroom-scheduler"
"""ConfigMap with the configurations of kube-scheduler and of the extender."""


async def workload(site: Site, part: str) -> Json | None:
    """The Deployment or DaemonSet of a part; None where there is none.

    Raises:
        NotAllowed: they may not be listed.
    """
    found = await site.ours(DAEMON_SETS if part == AGENT else DEPLOYMENTS)
    return next((each for each in found if name(each) == part), None)


async def absent(site: Site, part: str, then: str) -> Finding:
    """What to say of a part that is not there: a choice where others are, else that nothing is installed.

    Args:
        site: the cluster.
        part: which one.
        then: what that means.

    Raises:
        NotAllowed: workloads may not be listed.
    """
    if any([await workload(site, other) is not None for other in PARTS]):
        name_of_value = part.removeprefix("headroom-")
        return info(
            f"Our {name_of_value} is not installed ({name_of_value}.enabled: false): {then}.", docs="install.md"
        )
    others = await places(site)
    return error(
        f"There is no {part} in namespace {site.namespace}: {then}."
        f"{f' Headroom is in {named(others)}.' if others else ''}",
        f"kubectl headroom doctor -n {others[0]}" if others else install(site),
        "install.md",
    )


async def places(site: Site) -> list[str]:
    """The namespaces in which there are workloads of ours.

    Raises:
        NotAllowed: workloads may not be listed.
    """
    every = [*await site.every(DAEMON_SETS), *await site.every(DEPLOYMENTS)]
    return sorted({str(each["metadata"].get("namespace")) for each in every if name(each) in PARTS})


async def nowhere(site: Site) -> Finding | None:
    """The one thing to say of a cluster that has neither our namespace nor a workload of ours in any other.

    Returns:
        None where there is something, or where this login may not know.
    """
    try:
        if await site.one(NAMESPACES, site.namespace) is not None or await places(site):
            return None
    except NotAllowed:
        return None
    except kube.ApiUnavailable as failure:
        if failure.status is None:
            raise
        return None
    return error(
        f"Headroom is not installed: there is no namespace {site.namespace}, and no other has a workload of it. "
        "kubectl headroom doctor --preflight says whether anything is in the way of an install.",
        install(site),
        "install.md",
    )


def install(site: Site) -> str:
    """The command that installs the chart."""
    return f"helm install headroom charts/headroom -n {site.namespace} --create-namespace"


def upgrade(site: Site, *settings: str, by_hand: bool = False) -> str:
    """The command that installs the release again, with the values that it was installed with.

    Args:
        site: the cluster.
        settings: values that are to be others, such as "priorityClasses.create=true".
        by_hand: whether it is to undo what somebody changed past helm, which helm 4 refuses otherwise.
    """
    words = ["helm upgrade headroom charts/headroom", f"-n {site.namespace}", "--reset-then-reuse-values"]
    return " ".join([*words, *(["--force-conflicts"] if by_hand else []), *(f"--set {each}" for each in settings)])


async def pods(site: Site, part: str) -> list[Pod]:
    """The pods of a part that are not ending.

    Raises:
        NotAllowed: they may not be listed.
    """
    found: list[Pod] = [each for each in await site.every(PODS, pod) if each.part == part and not each.ending]
    return found


async def config_name(site: Site) -> str:
    """Name of the colocation ConfigMap: the one that the manager reads, else the one that was given.

    Raises:
        NotAllowed: Deployments may not be listed.
    """
    return manager_state.flag(await workload(site, MANAGER), "--config-name") or site.config_name


async def scheduler_config(site: Site) -> Json:
    """kube-scheduler's configuration in the cluster; empty where there is none that can be read as YAML.

    Raises:
        NotAllowed: the ConfigMap may not be read.
    """
    import yaml  # noqa: PLC0415 - only who reads YAML pays for it

    found = await site.one(CONFIG_MAPS, SCHEDULER_CONFIG)
    try:
        data = yaml.safe_load(((found or {}).get("data") or {}).get("kube-scheduler.yaml") or "")
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, Mapping) else {}


def scheduler_names(config: Json) -> tuple[str, ...]:
    """The names under which kube-scheduler takes pods."""
    listed = config.get("profiles")
    profiles = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    return tuple(str(each["schedulerName"]) for each in profiles if each.get("schedulerName")) or (SCHEDULER,)


def scheduler_lease(config: Json) -> str:
    """The Lease in which kube-scheduler's replicas agree who schedules."""
    election = config.get("leaderElection")
    return str((election.get("resourceName") if isinstance(election, Mapping) else None) or SCHEDULER)


async def installed(site: Site) -> Installed:
    """How it is installed, as far as that decides about rights.

    Raises:
        NotAllowed: something of it may not be read.
    """
    found = {part: await workload(site, part) for part in PARTS}
    manager = found[MANAGER]
    serves = manager_state.flag(manager, "--webhook-listen") is not None
    return Installed(
        namespace=site.namespace,
        config_name=await config_name(site),
        pods_from=manager_state.flag(found[AGENT], "--pods-from") or "api",
        certificates=(manager_state.flag(manager, "--webhook-certificates") or "self") if serves else "",
        leases=(scheduler_lease(await scheduler_config(site)),),
        parts=tuple(part for part in PARTS if found[part] is not None),
    )


async def degrade_seconds(site: Site) -> float:
    """How old a report may be before nothing is published any more, by the cluster's strategy. [s]

    Raises:
        NotAllowed: the ConfigMap may not be read.
    """
    found = await site.one(CONFIG_MAPS, await config_name(site))
    judged = review(((found or {}).get("data") or {}).get(CONFIG_MAP_KEY))
    own = judged.config.degrade_time_minutes if judged.config else None
    return 60.0 * float(own if own is not None else DEFAULTS.degrade_time_minutes or 0)
