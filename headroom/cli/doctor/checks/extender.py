"""The extender: whether kube-scheduler beside it can reach it. Its readiness probe asks it over that very loopback."""

from collections.abc import AsyncIterator
from typing import Final

from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, count, error, info, ok, warning
from headroom.cli.doctor.installed import pods, scheduler_config, workload
from headroom.cli.doctor.objects import SCHEDULER, ContainerState, Pod

_CONTAINER: Final = "extender"
_CHECK: Final = "check"
_PAGE: Final = "scheduler.md"
_MANY_RESTARTS: Final = 5


async def check(site: Site) -> AsyncIterator[Finding]:
    """Each replica's extender."""
    if await workload(site, SCHEDULER) is None:
        yield info("The scheduler is not installed, so there is no extender.", docs=_PAGE)
        return
    running = await pods(site, SCHEDULER)
    states = [(pod, each) for pod in running for each in pod.states if each.name == _CONTAINER]
    refused = [(pod, each) for pod in running for each in pod.states if each.name == _CHECK and not each.ready]
    for pod, state in refused:
        yield error(
            f"{pod.name}: its profile or flags are wrong, so neither kube-scheduler nor extender starts: "
            f"{state.why or 'still checking'}.",
            f"kubectl -n {site.namespace} logs {pod.name} -c {_CHECK}",
            _PAGE,
        )
    deaf = [(pod, each) for pod, each in states if not each.ready and (pod, each) not in refused]
    ignored = await _is_ignorable(site)
    for pod, state in deaf if not refused else ():
        meanwhile = "pods are placed without it meanwhile" if ignored else "pods that ask for the scheduler wait"
        yield error(
            f"{pod.name}: the extender does not answer on loopback ({state.why or 'not ready yet'}); {meanwhile}.",
            f"kubectl -n {site.namespace} logs {pod.name} -c {_CONTAINER}{' --previous' if state.restarts else ''}",
            _PAGE,
        )
    for found in _restarts(site, states):
        yield found
    if states and not deaf and not refused:
        yield ok(f"{count(len(states), 'extender')} answering on loopback.")
    elif not states and not refused:
        yield info("No pod of the scheduler runs yet, so no extender answers.", docs=_PAGE)


async def _is_ignorable(site: Site) -> bool:
    """Whether kube-scheduler goes on without it."""
    listed = (await scheduler_config(site)).get("extenders")
    extenders = listed if isinstance(listed, list) else []
    return any(isinstance(each, dict) and each.get("ignorable") for each in extenders)


def _restarts(site: Site, states: list[tuple[Pod, ContainerState]]) -> list[Finding]:
    """Extenders that were started again and again."""
    return [
        warning(
            f"{pod.name}: the extender was started again {state.restarts} times.",
            f"kubectl -n {site.namespace} logs {pod.name} -c {_CONTAINER} --previous",
            _PAGE,
        )
        for pod, state in states
        if state.restarts >= _MANY_RESTARTS
    ]
