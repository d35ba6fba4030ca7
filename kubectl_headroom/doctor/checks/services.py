"""The Deployments: their replicas and leaders, the scheduler's profile, rivals and extender."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubectl_headroom.doctor.cluster import Cluster
from kubectl_headroom.doctor.finding import Finding, Severity, count, error, info, named, ok, warning
from kubectl_headroom.doctor.installation import (
    config_data,
    mappings,
    missing_component,
    scheduler_config,
    scheduler_lease,
    scheduler_names,
    upgrade,
)
from kubectl_headroom.doctor.objects import (
    COMPONENT,
    MANAGER,
    SCHEDULER,
    Pod,
    just_started,
    name,
    pod_template,
)
from kubectl_headroom.doctor.permissions import CONFIG_MAPS, DEPLOYMENTS, LEASES
from manager.api import lease_of

Json = Mapping[str, Any]

_STOCK_SCHEDULER: Final = "default-scheduler"
_SCHEDULER_PAGE: Final = "scheduler.md"
_EXTENDER: Final = "extender"  # the container
_PROFILE_CHECK: Final = "check"  # the init container that reads flags and profile
_MANY_RESTARTS: Final = 5


def _replicas(deployment: Json) -> tuple[int, int]:
    """Return how many replicas are ready, and how many there should be; the API's own default is one."""
    wanted = (deployment.get("spec") or {}).get("replicas")
    return int((deployment.get("status") or {}).get("readyReplicas") or 0), 1 if wanted is None else int(wanted)


def _missing_replicas(cluster: Cluster, deployment: Json, pods: Sequence[Pod], consequence: str) -> Iterator[Finding]:
    """A Deployment that is scaled to 0, and replicas that are not ready."""
    ready, wanted = _replicas(deployment)
    component = name(deployment)
    if not wanted:
        message = f"Deployment {cluster.namespace}/{component} is scaled to 0{consequence}."
        yield error(message, upgrade(cluster, force=True))
    elif ready < wanted:
        waiting = [f"{pod.name} ({pod.why or 'starting'})" for pod in pods if not pod.ready]
        yield Finding(
            Severity.WARNING if ready else Severity.ERROR,
            f"{ready} of {wanted} replicas of the {component.removeprefix('headroom-')} are ready; not ready: "
            f"{named(waiting) or 'none is there'}.",
            f"kubectl -n {cluster.namespace} describe pods -l {COMPONENT}={component}",
        )


def _no_leader(cluster: Cluster, component: str, pods: Sequence[Pod], message: str, container: str = "") -> Finding:
    """The finding of a Lease that is not held: an error, but for the first minute of a component."""
    return Finding(
        Severity.WARNING if just_started(pods, cluster.now()) else Severity.ERROR,
        message,
        f"kubectl -n {cluster.namespace} logs -l {COMPONENT}={component}{container}",
    )


def manager(cluster: Cluster) -> Iterator[Finding]:
    """Return whether the manager runs, and whether one of its replicas leads."""
    deployment = cluster.workload(MANAGER)
    if deployment is None:
        yield missing_component(cluster, MANAGER, "nothing is published on Nodes, unless another manager does it")
        return
    ready, wanted = _replicas(deployment)
    pods = cluster.pods(MANAGER)
    yield from _missing_replicas(cluster, deployment, pods, ", so nothing is published on Nodes")
    if not wanted:
        return
    lease = lease_of(next((lease for lease in cluster.list(LEASES) if name(lease) == MANAGER), None), cluster.now())
    if lease is None or not lease.held:
        where = f"{cluster.namespace}/{MANAGER}"
        message = f"No replica of the manager leads: the Lease {where} has no holder, so nothing is written."
        yield _no_leader(cluster, MANAGER, pods, message)
    elif ready >= wanted:
        yield ok(f"{ready} of {wanted} replicas of the manager are ready; {lease.holder} leads.")


def scheduler(cluster: Cluster) -> Iterator[Finding]:
    """Return whether pods with our schedulerName get one scheduler, and only one."""
    deployment = cluster.workload(SCHEDULER)
    if deployment is None:
        message = "The scheduler is not installed: pods are placed as before, regardless of load."
        yield info(message, docs=_SCHEDULER_PAGE)
        return
    config = scheduler_config(cluster)
    problems = [
        *_missing_replicas(cluster, deployment, cluster.pods(SCHEDULER), ": pods with its schedulerName stay pending"),
        *_profile(cluster),
        *_rivals(cluster, scheduler_names(config)),
        *_scheduler_leader(cluster, scheduler_lease(config)),
    ]
    yield from problems
    if not problems:
        ready, wanted = _replicas(deployment)
        yield ok(f"{ready} of {wanted} replicas of {named(scheduler_names(config))} are ready, and one leads.")


def _profile(cluster: Cluster) -> Iterator[Finding]:
    """Report faults of the extender's profile."""
    place = f"ConfigMap {cluster.namespace}/{SCHEDULER}"
    if cluster.get(CONFIG_MAPS, SCHEDULER) is None:
        yield error(f"There is no {place}, without which no scheduler starts.", upgrade(cluster))
        return
    text = config_data(cluster, SCHEDULER, "profile.yaml")
    if text is None:
        return
    from scheduler_plugins.api import ProfileError, parse_profile  # noqa: PLC0415 - only its users pay

    try:
        parse_profile(str(text), f"The profile of {place}")
    except ProfileError as wrong:
        yield error(f"{wrong} Correct scheduler.profile in the values.", f"{upgrade(cluster)} -f values.yaml")


def _rivals(cluster: Cluster, names: tuple[str, ...]) -> Iterator[Finding]:
    """Other schedulers that take the same pods."""
    if _STOCK_SCHEDULER in names:
        yield warning(
            f"Our scheduler takes the name {_STOCK_SCHEDULER}, as the cluster's own does: both place the same pods, "
            "against each other, unless the cluster's own is off.",
            upgrade(cluster, f"scheduler.name={SCHEDULER}"),
        )
    flags = ("scheduler-name", "leader-elect-resource-name")
    for deployment in cluster.list(DEPLOYMENTS):
        namespace, called = deployment["metadata"].get("namespace"), name(deployment)
        containers = (pod_template(deployment).get("spec") or {}).get("containers") or ()
        words = [
            word
            for container in containers
            for word in (*(container.get("command") or ()), *(container.get("args") or ()))
        ]
        command = " ".join(map(str, words))
        same = [called for called in names if any(f"{flag}={called}" in command for flag in flags)]
        if same and (namespace, called) != (cluster.namespace, SCHEDULER):
            yield warning(
                f"Deployment {namespace}/{called} runs a scheduler of the same name, {named(same)}: both place the "
                "same pods, against each other. Stop it, or give scheduler.name another value.",
                f"kubectl -n {namespace} scale deployment {called} --replicas=0",
            )


def _scheduler_leader(cluster: Cluster, called: str) -> Iterator[Finding]:
    """Return whether one of our replicas schedules."""
    lease = lease_of(next((lease for lease in cluster.list(LEASES) if name(lease) == called), None), cluster.now())
    where = f"{cluster.namespace}/{called}"
    pods = cluster.pods(SCHEDULER)
    if lease is None or not lease.held:
        message = f"No scheduler leads: the Lease {where} has no holder, so pods with its schedulerName stay pending."
        yield _no_leader(cluster, SCHEDULER, pods, message, " -c kube-scheduler")
    elif not any(lease.holder.startswith(pod.name) for pod in pods):
        yield warning(
            f"The Lease {where} is held by {lease.holder}, which is none of our pods: another scheduler runs under "
            "this name. Find it and stop it.",
            f"kubectl get pods -A | grep {lease.holder.partition('_')[0]}",
        )


def extender(cluster: Cluster) -> Iterator[Finding]:
    """Report whether kube-scheduler can reach the extender in its pod, by the extender's readiness probe."""
    if cluster.workload(SCHEDULER) is None:
        yield info("The scheduler is not installed, so there is no extender.", docs=_SCHEDULER_PAGE)
        return
    states = [(pod, state) for pod in cluster.pods(SCHEDULER) for state in pod.states]
    extenders = [(pod, state) for pod, state in states if state.name == _EXTENDER]
    refused = [(pod, state) for pod, state in states if state.name == _PROFILE_CHECK and not state.ready]
    silent = [(pod, state) for pod, state in extenders if not state.ready]
    logs = f"kubectl -n {cluster.namespace} logs"
    for pod, state in refused:
        yield error(
            f"{pod.name}: its profile or flags are wrong, so neither kube-scheduler nor extender starts: "
            f"{state.why or 'still checking'}.",
            f"{logs} {pod.name} -c {_PROFILE_CHECK}",
        )
    ignorable = any(mapping.get("ignorable") for mapping in mappings(scheduler_config(cluster), "extenders"))
    meanwhile = "pods are placed without it meanwhile" if ignorable else "pods with its schedulerName wait"
    for pod, state in silent if not refused else ():
        yield error(
            f"{pod.name}: the extender does not answer on loopback ({state.why or 'not ready yet'}); {meanwhile}.",
            f"{logs} {pod.name} -c {_EXTENDER}{' --previous' if state.restarts else ''}",
        )
    for pod, state in extenders:
        if state.restarts >= _MANY_RESTARTS:
            message = f"{pod.name}: the extender was started again {state.restarts} times."
            yield warning(message, f"{logs} {pod.name} -c {_EXTENDER} --previous")
    if extenders and not silent and not refused:
        yield ok(f"{count(len(extenders), 'extender')} answering on loopback.")
    elif not extenders and not refused:
        yield info("No pod of the scheduler runs yet, so no extender answers.", docs=_SCHEDULER_PAGE)
