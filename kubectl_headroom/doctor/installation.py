"""The installation of Headroom, read from its workloads; all functions raise as `Cluster.list` and `Cluster.get` do."""

from collections.abc import Mapping
from typing import Any

from crds.colocation import DEFAULTS
from crds.names import CONFIG_MAP_KEY
from headroom import kube
from kubectl_headroom.doctor.cluster import Cluster, Forbidden, UnknownKind
from kubectl_headroom.doctor.finding import Finding, error, info, named
from kubectl_headroom.doctor.objects import COMPONENTS, SCHEDULER, name
from kubectl_headroom.doctor.permissions import CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, NAMESPACES
from manager.api import review

Json = Mapping[str, Any]


def components(cluster: Cluster) -> list[str]:
    return [component for component in COMPONENTS if cluster.workload(component) is not None]


def namespaces(cluster: Cluster) -> list[str]:
    every = [*cluster.list(DAEMON_SETS), *cluster.list(DEPLOYMENTS)]
    return sorted({str(workload["metadata"].get("namespace")) for workload in every if name(workload) in COMPONENTS})


def missing_component(cluster: Cluster, component: str, consequence: str) -> Finding:
    """The finding of a component that is not there: a choice where others are, else that nothing is installed."""
    if components(cluster):
        value = component.removeprefix("headroom-")
        return info(f"Our {value} is not installed ({value}.enabled: false): {consequence}.", docs="install.md")
    return installed_elsewhere(cluster, f"There is no {component} in namespace {cluster.namespace}: {consequence}.")


def installed_elsewhere(cluster: Cluster, message: str) -> Finding:
    """The error of something that is not there, with the namespace that Headroom is in, or what installs it."""
    foreign = namespaces(cluster)
    return error(
        f"{message}{f' Headroom is in {named(foreign)}.' if foreign else ''}",
        f"kubectl headroom doctor -n {foreign[0]}" if foreign else install(cluster),
        docs="install.md",
    )


def not_installed(cluster: Cluster) -> Finding | None:
    """Return the finding of a cluster without our namespace and without our workloads elsewhere.

    Returns:
        None where there is something, or where this login or this API server cannot show it.
    """
    try:
        if cluster.get(NAMESPACES, cluster.namespace) is not None or namespaces(cluster):
            return None
    except (Forbidden, UnknownKind, kube.ApiUnavailable):
        return None
    return error(
        f"Headroom is not installed: there is no namespace {cluster.namespace}, and no other has a workload of it. "
        "kubectl headroom doctor --preflight checks whether an install is possible.",
        install(cluster),
        docs="install.md",
    )


def install(cluster: Cluster) -> str:
    command = f"helm install headroom charts/headroom -n {cluster.namespace} --create-namespace"
    return f"{command} --set image.registry=REGISTRY"


def upgrade(cluster: Cluster, *settings: str, force: bool = False) -> str:
    """The command that installs the release again, with the values that it was installed with.

    Args:
        cluster: the cluster.
        settings: values that are to be others, such as "priorityClasses.create=true".
        force: whether to overwrite changes of other clients, which helm 4 refuses otherwise.
    """
    command = f"helm upgrade headroom charts/headroom -n {cluster.namespace} --reset-then-reuse-values"
    return " ".join([command, *(["--force-conflicts"] if force else []), *(f"--set {setting}" for setting in settings)])


def config_data(cluster: Cluster, config_map: str, key: str) -> str | None:
    """The text of a key of a ConfigMap in Headroom's namespace; None where there is none."""
    return ((cluster.get(CONFIG_MAPS, config_map) or {}).get("data") or {}).get(key)


def scheduler_config(cluster: Cluster) -> Json:
    """kube-scheduler's configuration in the cluster; empty where there is none that can be read as YAML."""
    import yaml  # noqa: PLC0415 - only readers of YAML pay for it

    try:
        data = yaml.safe_load(config_data(cluster, SCHEDULER, "kube-scheduler.yaml") or "")
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, Mapping) else {}


def scheduler_names(config: Json) -> tuple[str, ...]:
    profiles = mappings(config, "profiles")
    return tuple(str(profile["schedulerName"]) for profile in profiles if profile.get("schedulerName")) or (SCHEDULER,)


def mappings(config: Json, key: str) -> list[Json]:
    """Return the mappings of a list in a configuration; other items are skipped."""
    listed = config.get(key)
    return [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []


def scheduler_lease(config: Json) -> str:
    election = config.get("leaderElection")
    return str((election.get("resourceName") if isinstance(election, Mapping) else None) or SCHEDULER)


def degrade_seconds(cluster: Cluster) -> float:
    """Return the age from which a report no longer counts, by the cluster's strategy. [s]"""
    reviewed = review(config_data(cluster, cluster.config_name, CONFIG_MAP_KEY))
    minutes = reviewed.config.degrade_time_minutes if reviewed.config else None
    return 60.0 * float(minutes if minutes is not None else DEFAULTS.degrade_time_minutes or 0)
