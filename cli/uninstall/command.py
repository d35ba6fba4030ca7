"""`kubectl headroom uninstall`: takes away what the manager has written, after it has stopped; or lists it."""

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import kubeapi
from cli import live, manager_state, table
from cli.errors import FAILED
from cli.table import Cell, Column
from cli.uninstall import plan as uninstall_plan
from cli.uninstall import stopping
from cli.uninstall.plan import Busy, Change, Found, Plan
from cli.uninstall.stopping import Clock
from crds.names import LAST_GOOD_NAME
from manager.explain.lease import lease_of
from manager.facts import PodFacts

_AT_ONCE: Final = 16
"""So many writes at a time: 5,000 Nodes took a minute on two busy cores, and the API server has room for others."""
_ATTEMPTS: Final = 6
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 10.0
_MOST_PODS: Final = 5
_BOUND: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_COLUMNS: Final = (Column("KIND"), Column("NAME"), Column("WHAT"), Column("RESULT"))

Outcome = tuple[Change, str]
"""A change, and why it failed; empty when it is done."""


async def run(
    api: kubeapi.ApiServer,
    namespace: str,
    config_name: str,
    *,
    dry_run: bool,
    force: bool,
    output: str = "table",
    clock: Clock | None = None,
) -> int:
    """Take away what the manager has written, or list it.

    Args:
        api: the cluster.
        namespace: Headroom's.
        config_name: the user's colocation ConfigMap, of which one annotation is ours.
        dry_run: only list.
        force: also where Mid pods run.
        output: "table" or "json".
        clock: how time passes.

    Returns:
        The exit code: 0, or 1 when something is left.

    Raises:
        CommandError: a manager is at work that cannot be stopped from here.
    """
    clock = clock or Clock()
    if dry_run:
        return await _list(api, namespace, config_name, force=force, output=output)
    replicas = await stopping.stop(api, namespace, clock)
    plan = uninstall_plan.plan(await find(api, namespace, config_name), force=force)
    print(f"Changing or removing {len(plan.changes)} objects", file=sys.stderr)
    outcomes = await carry_out(api, plan.changes, clock)
    back = await _came_back(api, plan, force=force)
    done = [(_scaling(namespace, replicas), "")] if replicas else []
    _show([*done, *outcomes], plan, back, dry_run=False, force=force, output=output)
    left = any(why for _, why in outcomes) or back or (plan.busy and not force)
    return FAILED if left else 0


async def _list(api: kubeapi.ApiServer, namespace: str, config_name: str, *, force: bool, output: str) -> int:
    found = await find(api, namespace, config_name)
    plan = uninstall_plan.plan(found, force=force)
    deployment = await live.optional(api, manager_state.deployment_path(namespace))
    replicas = stopping.replicas(deployment) if deployment else 0
    first = [_scaling(namespace, replicas)] if replicas else []
    lease = lease_of(found.lease, time.time())
    refused = [stopping.foreign_manager(namespace, lease.holder)] if lease and lease.held and not replicas else []
    _show([(each, "") for each in (*first, *plan.changes)], plan, refused, dry_run=True, force=force, output=output)
    return FAILED if refused or (plan.busy and not force) else 0


def _scaling(namespace: str, replicas: int) -> Change:
    path = manager_state.deployment_path(namespace)
    return Change("Deployment", f"{namespace}/{manager_state.NAME}", f"scaled from {replicas} to 0", path)


async def find(api: kubeapi.ApiServer, namespace: str, config_name: str) -> Found:
    """Read what there is to take away; of large objects only what matters is kept."""
    nodes, metrics, pods, config_map, last_good, secret, lease = await live.together(
        _kept(api, kubeapi.paths.NODES, uninstall_plan.offering),
        _metrics(api),
        _kept(api, kubeapi.paths.PODS, uninstall_plan.mid_pod, fieldSelector=_BOUND),
        live.optional(api, kubeapi.paths.config_map(namespace, config_name)),
        live.optional(api, kubeapi.paths.config_map(namespace, LAST_GOOD_NAME)),
        live.optional(api, uninstall_plan.secret_path(namespace)),
        live.optional(api, kubeapi.paths.lease(namespace, manager_state.NAME)),
    )
    ours = [each for each in metrics if each is not None]
    foreign = len(metrics) - len(ours)
    return Found(namespace, nodes, ours, foreign, pods, config_map, last_good, secret, lease)


async def _kept(api: kubeapi.ApiServer, path: str, keep: Callable[[Any], Any], **params: str) -> list[Any]:
    found, _ = await api.list(path, params, keep)
    return [each for each in found if each is not None]


async def _metrics(api: kubeapi.ApiServer) -> list[Change | None]:
    try:
        found, _ = await api.list(live.NODE_METRICS, None, uninstall_plan.deletion_of_metric)
    except kubeapi.ApiError as error:
        if error.not_found:  # the definition is gone, and every NodeMetric with it
            return []
        raise
    return found


async def carry_out(api: kubeapi.ApiServer, changes: Sequence[Change], clock: Clock) -> list[Outcome]:
    """Make the changes, some at a time; one that fails stops no other. In the order of the changes."""
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(change: Change) -> Outcome:
        async with turn:
            return change, await _attempts(lambda: _make(api, change), clock)

    nodes = [each for each in changes if each.kind == "Node"]
    others = [each for each in changes if each.kind != "Node"]
    # Nodes come first: whatever interrupts this, what is left can be found and taken away by the next run.
    return [*await asyncio.gather(*map(one, nodes)), *await asyncio.gather(*map(one, others))]


async def _attempts(make: Callable[[], Awaitable[None]], clock: Clock) -> str:
    """Why it failed after several attempts; empty when it is done."""
    pause, why = _FIRST_PAUSE_SECONDS, ""
    for attempt in range(_ATTEMPTS):
        asked = 0.0
        try:
            await make()
        except kubeapi.ApiUnavailable as error:
            why, asked = str(error), error.retry_after or 0.0
        except kubeapi.ApiError as error:
            if not error.conflict:
                return str(error)
            why = str(error)
        else:
            return ""
        if attempt < _ATTEMPTS - 1:
            await clock.sleep(max(pause * random.uniform(0.5, 1.0), asked))  # noqa: S311 - it spreads attempts
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
    return why


async def _make(api: kubeapi.ApiServer, change: Change) -> None:
    try:
        if change.patch is not None:
            await api.patch(change.path, change.patch)
        else:
            await api.delete(change.path, {"preconditions": {"uid": change.uid}} if change.uid else None)
    except kubeapi.ApiError as error:
        if not error.not_found:  # else somebody was faster
            raise


async def _came_back(api: kubeapi.ApiServer, plan: Plan, *, force: bool) -> list[str]:
    """What is there again after everything was taken away, and Mid pods that were placed meanwhile."""
    emptied = {each.name for each in plan.changes if each.kind == "Node"} - {
        each.node for each in plan.busy if not force
    }
    if not emptied:
        return []
    nodes, pods = await live.together(
        _kept(api, kubeapi.paths.NODES, uninstall_plan.offering),
        _kept(api, kubeapi.paths.PODS, uninstall_plan.mid_pod, fieldSelector=_BOUND),
    )
    known = {key for each in plan.busy for key in each.pods}
    again = [f"Node {each.name} offers Mid resources again" for each in nodes if each.name in emptied]
    found = [f"{each} (is another manager at work, perhaps one without --leader-elect?)" for each in again]
    return found + [
        f"Mid pod {pod.key} was placed on Node {pod.node} meanwhile: the kubelet would fail it at its next restart"
        for pod in pods
        if _is_new(pod, emptied, known)
    ]


def _is_new(pod: PodFacts, emptied: set[str], known: set[str]) -> bool:
    return pod.node in emptied and pod.key not in known


def _show(
    outcomes: Sequence[Outcome], plan: Plan, back: Sequence[str], *, dry_run: bool, force: bool, output: str
) -> None:
    if output == "json":
        print(json.dumps(_as_json(outcomes, plan, back, dry_run=dry_run, force=force), indent=2))
        return
    if outcomes:
        rows = [(*_cells(change), _result(why, dry_run=dry_run)) for change, why in outcomes]
        table.write(_COLUMNS, rows, sys.stdout)
    for line in (*_sentences(outcomes, plan, dry_run=dry_run, force=force), *back):
        print(line)


def _cells(change: Change) -> tuple[Cell, ...]:
    return Cell(change.kind), Cell(change.name, "bold"), Cell(change.what)


def _result(why: str, *, dry_run: bool) -> Cell:
    if why:
        return Cell(f"failed: {why}", "red")
    return Cell("would be done" if dry_run else "done", "yellow" if dry_run else "green")


def _sentences(outcomes: Sequence[Outcome], plan: Plan, *, dry_run: bool, force: bool) -> list[str]:
    said = [_of_busy(each, force=force, dry_run=dry_run) for each in plan.busy]
    if plan.busy and not force:
        said.append(
            "Let these Mid pods end, or delete them, and run this again; --force takes the resources away all the "
            "same, and a kubelet that restarts then fails the pods."
        )
    if plan.foreign:
        said.append(f"{plan.foreign} NodeMetrics that the manager did not write stay.")
    failed = sum(1 for _, why in outcomes if why)
    if failed:
        said.append(f"{failed} of {len(outcomes)} changes failed: run this again, it goes on where it stopped.")
    if not outcomes and not plan.busy:
        said.append("Nothing is left of the manager's writes.")
    elif dry_run:
        said.append("Nothing was changed: this is a dry run.")
    return said


def _of_busy(busy: Busy, *, force: bool, dry_run: bool) -> str:
    more = f" and {len(busy.pods) - _MOST_PODS} more" if len(busy.pods) > _MOST_PODS else ""
    pods = f"{', '.join(busy.pods[:_MOST_PODS])}{more}"
    if force:
        return (
            f"Node {busy.node} {'would lose' if dry_run else 'lost'} the resources of Mid pods that still run: {pods}."
        )
    return f"Node {busy.node} keeps what Mid pods bought that still run there: {pods}."


def _as_json(
    outcomes: Sequence[Outcome], plan: Plan, back: Sequence[str], *, dry_run: bool, force: bool
) -> dict[str, Any]:
    return {
        "kind": "Uninstall",
        "version": 1,
        "dryRun": dry_run,
        "changes": [
            {
                "kind": change.kind,
                "name": change.name,
                "what": change.what,
                "done": not dry_run and not why,
                "error": why or None,
            }
            for change, why in outcomes
        ],
        "nodesWithMidPods": [
            {
                "node": each.node,
                "pods": list(each.pods),
                "kept": None if force else {"cpuMilli": each.bought.cpu, "memoryBytes": each.bought.memory},
            }
            for each in plan.busy
        ],
        "foreignNodeMetrics": plan.foreign,
        "problems": list(back),
    }
