"""`kubectl headroom top nodes`: what each node uses, what Prod will need, and what of the rest is sold."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cli.table import Cell, Column, Row
from crds import names
from crds.pod import is_terminal, pod_requests
from crds.quantity import QuantityError, value
from manager.explain import amounts
from manager.explain.report import Amount, Report, read

COLUMNS: Final = (
    Column("NODE"),
    Column("CPU", ">"),
    Column("CPU%", ">"),
    Column("MEMORY", ">"),
    Column("MEMORY%", ">"),
    Column("PROD PEAK", ">"),
    Column("RECLAIMABLE", ">"),
    Column("MID", ">"),
    Column("MID REQUESTED", ">"),
    Column("PREDICTION"),
    Column("REPORTED", ">"),
)
_LATE_REPORTS: Final = 3
_DEFAULT_INTERVAL_SECONDS: Final = 60
_HOT_PERCENT: Final = 80


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node."""

    name: str
    """Name of the node."""
    allocatable: Amount
    """What pods may request there."""
    report: Report
    """What its agent says."""
    mid: Amount
    """Published Mid resources; None where the Node has no such key."""
    mid_requested: Amount
    """What bound Mid pods request."""


def node_rows(nodes: Iterable[Any], node_metrics: Iterable[Any], pods: Iterable[Any], now: float) -> list[NodeRow]:
    """One row per node, by name.

    Args:
        nodes: Nodes as JSON.
        node_metrics: NodeMetrics as JSON.
        pods: Pods as JSON.
        now: the time to measure ages from. [unix s]
    """
    reports = {metric["metadata"]["name"]: read(metric, now) for metric in node_metrics}
    requested = _mid_requested(pods)
    rows = []
    for node in nodes:
        name = node["metadata"]["name"]
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        rows.append(
            NodeRow(
                name=name,
                allocatable=Amount.of(allocatable),
                report=reports.get(name, Report()),
                mid=_mid(allocatable),
                mid_requested=requested.get(name, Amount(0, 0)),
            )
        )
    return sorted(rows, key=lambda row: row.name)


def _mid(resources: Mapping[str, Any]) -> Amount:
    cpu, memory = resources.get(names.MID_CPU), resources.get(names.MID_MEMORY)
    return Amount(None if cpu is None else value(cpu), None if memory is None else value(memory))


def _mid_requested(pods: Iterable[Any]) -> dict[str, Amount]:
    totals: dict[str, Amount] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if not node or is_terminal(pod):
            continue
        try:
            requests = pod_requests(pod)
        except QuantityError:  # the API server admits no such pod
            continue
        known = totals.get(node, Amount(0, 0))
        totals[node] = Amount(
            (known.cpu_milli or 0) + value(requests.get(names.MID_CPU, 0)),
            (known.memory_bytes or 0) + value(requests.get(names.MID_MEMORY, 0)),
        )
    return totals


def cells(row: NodeRow) -> Row:
    """A row of the table."""
    used, report = row.report.usage, row.report
    cpu_share = amounts.percent(used.cpu_milli, row.allocatable.cpu_milli)
    memory_share = amounts.percent(used.memory_bytes, row.allocatable.memory_bytes)
    return (
        Cell(row.name, "bold"),
        Cell(amounts.cpu(used.cpu_milli)),
        Cell(cpu_share, _heat(cpu_share)),
        Cell(amounts.memory(used.memory_bytes)),
        Cell(memory_share, _heat(memory_share)),
        _pair(report.prod_peak),
        _pair(report.reclaimable),
        _pair(row.mid),
        _pair(row.mid_requested if row.mid != Amount() or row.mid_requested != Amount(0, 0) else Amount()),
        Cell(report.prediction, "green" if report.prediction == "ready" else "yellow"),
        Cell(amounts.age(report.age_seconds), "red" if late(report) else ""),
    )


def _pair(amount: Amount) -> Cell:
    return Cell(amounts.pair(amount.cpu_milli, amount.memory_bytes))


def _heat(share: str) -> str:
    return "red" if share != amounts.NOTHING and int(share.removesuffix("%")) >= _HOT_PERCENT else ""


def late(report: Report) -> bool:
    """Whether three reports in a row are missing."""
    interval = report.interval_seconds or _DEFAULT_INTERVAL_SECONDS
    return report.age_seconds is not None and report.age_seconds > _LATE_REPORTS * interval


def as_json(rows: Sequence[NodeRow]) -> list[dict[str, Any]]:
    """The rows for programs; units stand in the names, null is not known."""
    return [
        {
            "node": row.name,
            "allocatable": row.allocatable.as_json(),
            "usage": row.report.usage.as_json(),
            "prodPeak": row.report.prod_peak.as_json(),
            "reclaimable": row.report.reclaimable.as_json(),
            "mid": row.mid.as_json(),
            "midRequested": row.mid_requested.as_json(),
            "prediction": row.report.prediction,
            "reportAgeSeconds": row.report.age_seconds,
        }
        for row in rows
    ]
