"""`kubectl headroom top`: reads, then prints a table or JSON."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeVar

from headroom import kube
from headroom.cluster.pod import is_terminal, pod_key
from kubectl_headroom import live, table
from kubectl_headroom import output as outputs
from kubectl_headroom.errors import CommandError
from kubectl_headroom.live import Json
from kubectl_headroom.tenant import ALL_PODS, Denied
from kubectl_headroom.top import nodes as top_nodes
from kubectl_headroom.top import pods as top_pods

_NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"


Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Place:
    """Pods of which namespace."""

    namespace: str | None = None  # of this one; None: of that of the login's context
    everywhere: bool = False  # of all

    def chosen(self, api: kube.ApiServer) -> str | None:
        """The namespace; None: all."""
        return None if self.everywhere else live.namespace_of(api, self.namespace)


async def nodes(
    api: kube.ApiServer,
    names: Sequence[str],
    output: str,
    order: str = "name",
    labels: str | None = None,
    *,
    headers: bool = True,
) -> None:
    """Print what nodes use and publish.

    Args:
        api: the cluster.
        names: the nodes; none: all.
        output: one of `kubectl_headroom.output.CHOICES`.
        order: name, or one of `top.nodes.ORDERS`.
        labels: label selector of the nodes; None for all.
        headers: whether the table has its titles and its total.

    Raises:
        CommandError: there is no such node, or the cluster does not know NodeMetrics.
    """
    denied = Denied()
    if not names:
        result, metrics, bound = await live.together(
            denied.unless("Nodes", live.objects(api, kube.paths.NODES, **_having(labels)), None),
            denied.unless("NodeMetrics", live.node_metrics(api), []),
            denied.unless(ALL_PODS, _pods(api, None, None), None),
        )
        if result is None and (labels or not metrics):
            raise CommandError(denied.note("there is nothing to show"))
        result = [{"metadata": metric["metadata"]} for metric in metrics] if result is None else result
    else:
        count, requests = (
            len(names),
            (
                *(denied.unless("Nodes", live.node(api, name), {"metadata": {"name": name}}) for name in names),
                *(denied.unless("NodeMetrics", live.node_metric(api, name), None) for name in names),
                *(denied.unless(ALL_PODS, _pods(api, None, name), None) for name in names),
            ),
        )
        objects = await live.together(*requests)
        result, metrics = objects[:count], [metric for metric in objects[count : 2 * count] if metric]
        bound = None if ALL_PODS in denied else list(chain.from_iterable(objects[2 * count :]))
    rows = top_nodes.node_rows(result, metrics, bound, api.server_time())
    _print_problems(row.report.problem for row in rows)
    rows = _sorted(rows, top_nodes.ORDERS.get(order))
    if not outputs.is_for_people(output):
        outputs.show(top_nodes.as_json(rows), output, headers=headers)
        return
    if not rows:
        outputs.nothing()
        return
    shown = [top_nodes.cells(row) for row in rows]
    shown += [top_nodes.total(rows)] if headers and len(rows) > 1 else []
    table.write(top_nodes.COLUMNS, shown, wide=output == outputs.WIDE, headers=headers)
    if denied:
        outputs.notes([denied.note("amounts that need them are a dash")], headers=headers)


async def pods(
    api: kube.ApiServer,
    place: Place,
    node: str | None,
    output: str,
    order: str = "name",
    labels: str | None = None,
    names: Sequence[str] = (),
    *,
    headers: bool = True,
) -> None:
    """Print what pods use and request.

    Args:
        api: the cluster.
        place: of which namespace.
        node: only pods on this node, or None for all.
        output: one of `kubectl_headroom.output.CHOICES`.
        order: name, or one of `top.pods.ORDERS`.
        labels: label selector of the pods; None for all.
        names: the pods; none: all.
        headers: whether the table has its titles.

    Raises:
        CommandError: there is no such node or pod, a named pod has no node, or the cluster does not know NodeMetrics.
    """
    namespace, denied = place.chosen(api), Denied()
    if names:
        where = live.namespace_of(api, namespace)
        result = await live.together(*(live.pod(api, where, name) for name in names))
        metrics = await _metrics_of(api, result, denied)
    elif node is None:
        reports = denied.unless("NodeMetrics", live.node_metrics(api), [])
        result, metrics = await live.together(_pods(api, namespace, None, labels), reports)
    else:
        result, metric, _ = await live.together(
            _pods(api, namespace, node),
            denied.unless("NodeMetrics", live.node_metric(api, node), None),
            denied.unless("Nodes", live.node(api, node), None),
        )
        metrics = [metric] if metric else []
    rows = _sorted(top_pods.pod_rows(result, metrics, api.server_time()), top_pods.ORDERS.get(order))
    if not outputs.is_for_people(output):
        outputs.show(top_pods.as_json(rows), output, headers=headers)
    elif rows:
        shown = [top_pods.cells(row) for row in rows]
        table.write(top_pods.COLUMNS, shown, wide=output == outputs.WIDE, headers=headers)
        if denied:
            outputs.notes([denied.note("usage is a dash")], headers=headers)
    else:
        outputs.nothing(namespace)


async def _metrics_of(api: kube.ApiServer, pods: Sequence[Json], denied: Denied) -> list[Json]:
    """Return the NodeMetrics of the nodes that pods run on.

    Raises:
        CommandError: a pod runs on none.
    """
    for pod in pods:
        if not pod["spec"].get("nodeName") or is_terminal(pod):
            raise CommandError(
                f"Pod {pod_key(pod)} does not run on a node: kubectl headroom explain pod {pod['metadata']['name']} "
                f"-n {pod['metadata']['namespace']}"
            )
    nodes = sorted({pod["spec"]["nodeName"] for pod in pods})
    reports = (denied.unless("NodeMetrics", live.node_metric(api, name), None) for name in nodes)
    return [metric for metric in await live.together(*reports) if metric]


async def _pods(api: kube.ApiServer, namespace: str | None, node: str | None, labels: str | None = None) -> list[Json]:
    selector = f"{_NOT_ENDED},spec.nodeName={node}" if node else _NOT_ENDED
    path = kube.paths.pods(namespace) if namespace else kube.paths.PODS
    return await live.objects(api, path, fieldSelector=selector, **_having(labels))


def _having(labels: str | None) -> dict[str, str]:
    return {"labelSelector": labels} if labels else {}


def _sorted(rows: list[Row], key: Callable[[Row], float] | None) -> list[Row]:
    return rows if key is None else sorted(rows, key=key, reverse=True)


def _print_problems(problems: Iterable[str | None]) -> None:
    for problem in problems:
        if problem:
            outputs.line(f"kubectl headroom: {problem}", sys.stderr)
