"""`kubectl headroom top`: reads, then prints a table or JSON."""

import json
import sys
import time
from collections.abc import Iterable
from typing import Final

import kubeapi
from cli import live, table
from cli.errors import CommandError
from cli.live import Json
from cli.top import nodes as top_nodes
from cli.top import pods as top_pods
from crds.names import MID_CPU, MID_MEMORY

_NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"


async def nodes(api: kubeapi.ApiServer, only: str | None, output: str) -> None:
    """Print what nodes use and sell.

    Args:
        api: the cluster.
        only: name of one node, or None for all.
        output: "table" or "json".

    Raises:
        CommandError: there is no such node, or the cluster does not know NodeMetrics.
    """
    if only is None:
        found, metrics = await live.together(live.objects(api, kubeapi.paths.NODES), live.node_metrics(api))
    else:
        one, metric = await live.together(live.node(api, only), live.node_metric(api, only))
        found, metrics = [one], [metric] if metric else []
    rows = top_nodes.node_rows(found, metrics, await _mid_pods(api, found, only), time.time())
    if not rows:
        raise CommandError("The cluster has no nodes.")
    _print_problems(row.report.problem for row in rows)
    if output == "json":
        _print_json(top_nodes.as_json(rows))
    else:
        table.write(top_nodes.COLUMNS, [top_nodes.cells(row) for row in rows])


async def _mid_pods(api: kubeapi.ApiServer, found: list[Json], only: str | None) -> list[Json]:
    """The pods that may hold Mid resources; none where no node offers any, which spares reading them all."""
    allocatable = [(node.get("status") or {}).get("allocatable") or {} for node in found]
    if not any(MID_CPU in resources or MID_MEMORY in resources for resources in allocatable):
        return []
    return await _pods(api, None, only)


async def pods(api: kubeapi.ApiServer, namespace: str | None, node: str | None, output: str) -> None:
    """Print what pods use and request.

    Args:
        api: the cluster.
        namespace: only pods of this namespace, or None for all.
        node: only pods on this node, or None for all.
        output: "table" or "json".

    Raises:
        CommandError: there is no such node or no such pod, or the cluster does not know NodeMetrics.
    """
    if node is None:
        found, metrics = await live.together(_pods(api, namespace, None), live.node_metrics(api))
    else:
        requests = (_pods(api, namespace, node), live.node_metric(api, node), live.node(api, node))
        found, metric, _ = await live.together(*requests)
        metrics = [metric] if metric else []
    rows = top_pods.pod_rows(found, metrics, time.time())
    if output == "json":
        _print_json(top_pods.as_json(rows))
    elif rows:
        table.write(top_pods.COLUMNS, [top_pods.cells(row) for row in rows])
    else:
        where = f" in namespace {namespace}" if namespace else ""
        raise CommandError(f"No pod runs{where}{f' on node {node}' if node else ''}.")


async def _pods(api: kubeapi.ApiServer, namespace: str | None, node: str | None) -> list[Json]:
    selector = f"{_NOT_ENDED},spec.nodeName={node}" if node else _NOT_ENDED
    return await live.objects(
        api, kubeapi.paths.pods(namespace) if namespace else kubeapi.paths.PODS, fieldSelector=selector
    )


def _print_json(data: object) -> None:
    print(json.dumps(data, indent=2))


def _print_problems(problems: Iterable[str | None]) -> None:
    for problem in problems:
        if problem:
            print(f"kubectl headroom: {problem}", file=sys.stderr)
