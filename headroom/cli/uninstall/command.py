"""`kubectl headroom uninstall`: takes away what Headroom has written, after it has stopped; or lists it."""

import sys

from headroom import kube
from headroom.cli import live
from headroom.cli import output as outputs
from headroom.cli.errors import FAILED
from headroom.cli.uninstall import plan as uninstall_plan
from headroom.cli.uninstall import reading, services, stop, writing
from headroom.cli.uninstall.plan import Asked, Change, Found, Plan
from headroom.cli.uninstall.services import Service
from headroom.cli.uninstall.show import Report, show
from headroom.cli.uninstall.stop import Clock
from manager.inputs import PodInputs
from manager.mid.explanation.lease import lease_of


async def run(
    api: kube.ApiServer,
    namespace: str,
    config_name: str,
    asked: Asked,
    *,
    dry_run: bool,
    output: str = "table",
    clock: Clock | None = None,
) -> int:
    """Take away what Headroom has written, or list it.

    While Mid pods run on Nodes that offer Mid resources nothing is changed, unless that is asked for: Headroom goes on,
    and so do they.

    Args:
        api: the cluster.
        namespace: Headroom's.
        config_name: the user's colocation ConfigMap, of which one annotation is ours.
        asked: what the user asks for.
        dry_run: only list.
        output: one of `headroom.cli.output.FORMATS`.
        clock: how time passes.

    Returns:
        The exit code: 0, or 1 when something is left.

    Raises:
        CommandError: a manager or scheduler is at work that cannot be stopped from here.
    """
    clock = clock or Clock()
    found = await reading.find(api, namespace, config_name, asked)
    plan = uninstall_plan.plan(found, asked)
    if dry_run:
        return await _list(api, found, plan, asked, output)
    if asked.refuses(plan):
        show(Report((), plan, asked), output)
        return FAILED
    stopped = await _stop(api, namespace, services.MANAGER, clock)
    # The manager wrote until now, and Mid pods may have come: what is taken away is decided by what there is now.
    found = await reading.find(api, namespace, config_name, asked)
    decided = Asked(asked.force, True, asked.delete_config, asked.delete_priority_classes)
    plan = uninstall_plan.plan(found, decided)
    if decided.is_over(plan):
        stopped += await _stop(api, namespace, services.scheduler(found.scheduler), clock)
        # Until it ended it may have placed another one.
        found = await reading.find(api, namespace, config_name, asked)
        plan = uninstall_plan.plan(found, decided)
    outputs.line(f"Changing or removing {len(plan.changes)} objects", sys.stderr)
    outcomes = await writing.carry_out(api, plan.changes, clock)
    back = await _came_back(api, plan, decided)
    show(Report([*((each, "") for each in stopped), *outcomes], plan, decided, back), output)
    left = any(why for _, why in outcomes) or back or not decided.is_over(plan)
    return FAILED if left else 0


async def _stop(api: kube.ApiServer, namespace: str, service: Service, clock: Clock) -> list[Change]:
    replicas = await stop.stop(api, namespace, clock, service)
    return [_scaling(namespace, service, replicas)] if replicas else []


async def _list(api: kube.ApiServer, found: Found, plan: Plan, asked: Asked, output: str) -> int:
    if asked.refuses(plan):
        show(Report((), plan, asked, dry_run=True), output)
        return FAILED
    namespace = found.namespace
    deployment = await live.optional(api, services.MANAGER.deployment_path(namespace))
    first = _would_scale(namespace, services.MANAGER, deployment)
    lease = lease_of(found.lease, api.server_time())
    foreign = [stop.foreign(namespace, lease.holder)] if lease and lease.held and not first else []
    if asked.is_over(plan):
        first += _would_scale(namespace, services.scheduler(found.scheduler), found.scheduler)
    show(Report([(each, "") for each in (*first, *plan.changes)], plan, asked, foreign, dry_run=True), output)
    return FAILED if foreign or not asked.is_over(plan) else 0


def _would_scale(namespace: str, service: Service, deployment: stop.Json | None) -> list[Change]:
    replicas = stop.replicas(deployment) if deployment else 0
    return [_scaling(namespace, service, replicas)] if replicas else []


def _scaling(namespace: str, service: Service, replicas: int) -> Change:
    path = service.deployment_path(namespace)
    return Change("Deployment", f"{namespace}/{service.name}", f"scaled from {replicas} to 0", path)


async def _came_back(api: kube.ApiServer, plan: Plan, asked: Asked) -> list[str]:
    """What is there again after everything was taken away, and Mid pods that were placed meanwhile."""
    emptied = {each.name for each in plan.changes if each.kind == "Node"}
    if not asked.force:
        emptied -= {each.node for each in plan.busy}
    if not emptied:
        return []
    nodes, pods = await live.together(reading.offering_nodes(api), reading.mid_pods(api))
    known = {key for each in plan.busy for key in each.pods}
    again = [f"Node {each.name} offers Mid resources again" for each in nodes if each.name in emptied]
    found = [f"{each} (is another manager at work, perhaps one without --leader-elect?)" for each in again]
    return found + [
        f"Mid pod {pod.key} was placed on Node {pod.node} meanwhile: the kubelet would fail it at its next restart"
        for pod in pods
        if _is_new(pod, emptied, known)
    ]


def _is_new(pod: PodInputs, emptied: set[str], known: set[str]) -> bool:
    return pod.node in emptied and pod.key not in known
