"""`kubectl headroom top pods`: the usage of each pod and its requests."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from crds import names
from crds.priority import PriorityBand, requests_mid, tier
from crds.quantity import QuantityError, milli_value, value
from headroom.cluster.pod import is_terminal, pod_key, pod_requests
from headroom.cluster.pod import workload as owner
from kubectl_headroom.output import listed
from kubectl_headroom.table import Cell, Column, Row
from kubectl_headroom.top.nodes import unused
from manager.api import Amount, amounts
from manager.api import read_node_metric as read

COLUMNS: Final = (
    Column("NAMESPACE"),
    Column("POD"),
    Column("NODE"),
    Column("BAND"),
    Column("CPU", ">"),
    Column("REQUEST", ">"),
    Column("CPU%", ">"),
    Column("MEMORY", ">"),
    Column("REQUEST", ">"),
    Column("MEMORY%", ">"),
    Column("WASTE", ">"),
    Column("WORKLOAD", wide=True),
    Column("PRIORITY", ">", wide=True),
)


@dataclass(frozen=True, slots=True)
class PodRow:
    """A pod that is bound to a node and has not ended."""

    namespace: str  # its namespace
    name: str  # its name
    node: str  # the node it runs on
    band: PriorityBand  # its tier in every sum
    usage: Amount  # mean over the reporting window; None before its node has reported it
    requested: Amount  # native requests; those of a Mid pod are its Mid resources
    workload: str  # its controller, such as "Deployment cart"; empty: none
    priority: int  # its priority

    @property
    def waste(self) -> Amount:
        return unused(self.requested, self.usage)


def pod_rows(pods: Iterable[Any], node_metrics: Iterable[Any], now: float) -> list[PodRow]:
    """A row per bound pod that has not ended, by namespace and name.

    Args:
        pods: Pods as JSON.
        node_metrics: NodeMetrics as JSON.
        now: the time to measure ages from. [unix s]
    """
    usage = {metric["metadata"]["name"]: read(metric, now).pods or {} for metric in node_metrics}
    rows = []
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if not node or is_terminal(pod):
            continue
        metadata, band = pod["metadata"], tier(pod)
        rows.append(
            PodRow(
                namespace=metadata["namespace"],
                name=metadata["name"],
                node=node,
                band=band,
                usage=usage.get(node, {}).get(pod_key(pod), Amount()),
                requested=_requested(pod),
                workload=workload(pod),
                priority=(pod.get("spec") or {}).get("priority") or 0,
            )
        )
    return sorted(rows, key=lambda row: (row.namespace, row.name))


def _requested(pod: Any) -> Amount:  # noqa: ANN401 - a Pod as JSON
    try:
        requests = pod_requests(pod)
    except QuantityError:  # the API server admits no such pod
        return Amount()
    if requests_mid(pod):
        return Amount(value(requests.get(names.MID_CPU, 0)), value(requests.get(names.MID_MEMORY, 0)))
    return Amount(milli_value(requests.get("cpu", 0)), value(requests.get("memory", 0)))


def workload(pod: Any) -> str:  # noqa: ANN401 - a Pod as JSON
    """Return a pod's controller: "StatefulSet db"; for a ReplicaSet its Deployment, as far as the names show it."""
    return " ".join(owner(pod) or ())


ORDERS: Final[Mapping[str, Callable[[PodRow], float]]] = {
    "cpu": lambda row: row.usage.cpu_milli or 0,
    "memory": lambda row: row.usage.memory_bytes or 0,
    "waste": lambda row: max(
        (row.waste.cpu_milli or 0) / (row.requested.cpu_milli or 1),
        (row.waste.memory_bytes or 0) / (row.requested.memory_bytes or 1),
    ),
}
"""Return the key of `--sort-by`, largest first; equal rows stay in the order of their names."""


def cells(row: PodRow) -> Row:
    """A row of the table."""
    used, requested = row.usage, row.requested
    cpu_share = amounts.percent(used.cpu_milli, requested.cpu_milli)
    memory_share = amounts.percent(used.memory_bytes, requested.memory_bytes)
    return (
        Cell(row.namespace),
        Cell(row.name, "bold"),
        Cell(row.node),
        Cell(row.band.removeprefix("koord-")),
        Cell(amounts.cpu(used.cpu_milli)),
        Cell(amounts.cpu(requested.cpu_milli)),
        Cell(cpu_share),
        Cell(amounts.memory(used.memory_bytes)),
        Cell(amounts.memory(requested.memory_bytes)),
        Cell(memory_share),
        Cell(amounts.pair(row.waste.cpu_milli, row.waste.memory_bytes)),
        Cell(row.workload),
        Cell(str(row.priority)),
    )


def as_json(rows: Sequence[PodRow]) -> dict[str, Any]:
    """Return the rows for programs; names contain the units, null is unknown."""
    items = [
        {
            "metadata": {"namespace": row.namespace, "name": row.name},
            "namespace": row.namespace,
            "pod": row.name,
            "node": row.node,
            "band": row.band.value,
            "usage": row.usage.as_json(),
            "requested": row.requested.as_json(),
            "waste": row.waste.as_json(),
            "workload": row.workload or None,
            "priority": row.priority,
        }
        for row in rows
    ]
    return listed("PodUsage", items)
