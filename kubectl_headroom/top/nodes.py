"""`kubectl headroom top nodes`: usage, predicted Prod peak, and Mid resources of each node."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from crds import names
from crds.colocation import DEFAULTS
from crds.priority import PriorityBand, tier
from crds.quantity import QuantityError, milli_value, value
from headroom.cluster.pod import is_terminal, pod_key, pod_requests
from kubectl_headroom.output import listed
from kubectl_headroom.table import Cell, Column, Row
from manager.api import EXPIRED as EXPIRED_REASONS
from manager.api import Amount, Report, amounts, waste
from manager.api import read_node_metric as read

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
    Column("MID USED", ">", wide=True),
    Column("WASTE", ">"),
    Column("PREDICTION"),
    Column("REPORTED", ">"),
    Column("PROD REQUESTED", ">", wide=True),
    Column("ALLOCATABLE", ">", wide=True),
    Column("PODS", ">", wide=True),
)
READY: Final = "ready"  # what a report's prediction is called that can be acted on
EXPIRED: Final = "expired"  # what a report's prediction is called that is too old to count: nothing is published by it
_EXPIRED_SECONDS: Final = (DEFAULTS.degrade_time_minutes or 0) * 60
"""A report older than this does not count, unless the manager counts it. [s]"""
_LATE_REPORTS: Final = 3
_DEFAULT_INTERVAL_SECONDS: Final = 60
_HOT_PERCENT: Final = 80


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node."""

    name: str  # name of the node
    allocatable: Amount  # what pods may request there
    report: Report  # the agent's report
    mid: Amount  # published Mid resources; None where the Node has no such key
    mid_requested: Amount  # what bound Mid pods request
    mid_used: Amount  # what these use; None before a report has them
    prod_requested: Amount  # what bound Prod pods request

    @property
    def waste(self) -> Amount:
        """The part of the Prod requests that is neither needed nor published; None without prediction or Node."""
        has_peak = self.report.prediction == READY and self.allocatable != Amount()
        peak = self.report.prod_peak if has_peak else Amount()
        return Amount(
            _wasted(self.prod_requested.cpu_milli, peak.cpu_milli, self.mid.cpu_milli),
            _wasted(self.prod_requested.memory_bytes, peak.memory_bytes, self.mid.memory_bytes),
        )


def _wasted(requested: int | None, peak: int | None, published: int | None) -> int | None:
    result = waste(requested, peak, published)
    return None if result is None else int(result)


def unused(whole: Amount, used: Amount) -> Amount:
    """Return the rest of an amount, at least 0; None where either is unknown."""
    return Amount(_left(whole.cpu_milli, used.cpu_milli), _left(whole.memory_bytes, used.memory_bytes))


def _left(whole: int | None, used: int | None) -> int | None:
    return None if whole is None or used is None else max(0, whole - used)


def node_rows(
    nodes: Iterable[Any], node_metrics: Iterable[Any], pods: Iterable[Any] | None, now: float
) -> list[NodeRow]:
    """A row per node, by name.

    Args:
        nodes: Nodes as JSON.
        node_metrics: NodeMetrics as JSON.
        pods: Pods as JSON; `None`: they may not be read.
        now: the time to measure ages from. [unix s]
    """
    reports = {metric["metadata"]["name"]: _counted(metric, now) for metric in node_metrics}
    requested, used, prod = _of_pods(pods or (), reports)
    nothing = Amount() if pods is None else Amount(0, 0)
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
                mid_requested=requested.get(name, nothing),
                mid_used=used.get(name, Amount()),
                prod_requested=prod.get(name, nothing),
            )
        )
    return sorted(rows, key=lambda row: row.name)


def _counted(metric: Mapping[str, Any], now: float) -> Report:
    """Return a NodeMetric's report; without its prediction where that is too old, as in the manager.

    How old it may be (`degradeTimeMinutes`) is not on the object; whether the manager counts it is.
    """
    report, texts = read(metric, now), published(metric)
    old = report.age_seconds is not None and report.age_seconds > _EXPIRED_SECONDS
    if texts.get("reason") in EXPIRED_REASONS or (old and texts.get("status") != "True"):
        return replace(report, prediction=EXPIRED, prod_peak=Amount(), reclaimable=Amount())
    return report


def published(metric: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a NodeMetric's condition MidPublished; empty without one."""
    status = metric.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, Mapping) and condition.get("type") == names.CONDITION_MID_PUBLISHED:
            return condition
    return {}


def _mid(resources: Mapping[str, Any]) -> Amount:
    cpu, memory = resources.get(names.MID_CPU), resources.get(names.MID_MEMORY)
    return Amount(None if cpu is None else value(cpu), None if memory is None else value(memory))


_Sums = dict[str, Amount]


def _of_pods(pods: Iterable[Any], reports: Mapping[str, Report]) -> tuple[_Sums, _Sums, _Sums]:
    """By node: what its Mid pods request, what these use as far as it was reported, and what its Prod pods request."""
    requested: _Sums = {}
    used: _Sums = {}
    prod: _Sums = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if not node or is_terminal(pod):
            continue
        try:
            requests = pod_requests(pod)
        except QuantityError:  # the API server admits no such pod
            continue
        band = tier(pod)
        if band is PriorityBand.PROD:
            native = Amount(milli_value(requests.get("cpu", 0)), value(requests.get("memory", 0)))
            prod[node] = plus(prod.get(node, Amount()), native)
        elif band is PriorityBand.MID:
            amount = Amount(value(requests.get(names.MID_CPU, 0)), value(requests.get(names.MID_MEMORY, 0)))
            requested[node] = plus(requested.get(node, Amount()), amount)
            measured = (reports.get(node, Report()).pods or {}).get(pod_key(pod))
            if measured is not None:
                used[node] = plus(used.get(node, Amount()), measured)
    return requested, used, prod


def plus(one: Amount, other: Amount) -> Amount:
    return Amount(_sum(one.cpu_milli, other.cpu_milli), _sum(one.memory_bytes, other.memory_bytes))


def _sum(one: int | None, other: int | None) -> int | None:
    return one if other is None else (one or 0) + other


def total(rows: Sequence[NodeRow]) -> Row:
    """Return a row of sums over all nodes with known amounts."""
    allocatable, used = _all(row.allocatable for row in rows), _all(row.report.usage for row in rows)
    ready = sum(row.report.prediction == READY for row in rows)
    cpu_share, memory_share = (_share(rows, which) for which in ("cpu_milli", "memory_bytes"))
    return (
        Cell(f"(all {len(rows)})"),
        Cell(amounts.cpu(used.cpu_milli)),
        Cell(cpu_share, _heat(cpu_share)),
        Cell(amounts.memory(used.memory_bytes)),
        Cell(memory_share, _heat(memory_share)),
        _pair(_all(row.report.prod_peak for row in rows)),
        _pair(_all(row.report.reclaimable for row in rows)),
        _pair(_all(row.mid for row in rows)),
        _pair(_all(_shown_requests(row) for row in rows)),
        _pair(_all(row.mid_used for row in rows)),
        _pair(_all(row.waste for row in rows)),
        Cell(f"{ready} ready"),
        Cell(""),
        _pair(_all(row.prod_requested for row in rows)),
        _pair(allocatable),
        Cell(str(sum(len(row.report.pods or ()) for row in rows))),
    )


def _all(found: Iterable[Amount]) -> Amount:
    whole = Amount()
    for condition in found:
        whole = plus(whole, condition)
    return whole


def _share(rows: Sequence[NodeRow], which: str) -> str:
    """Usage in percent of what can be allocated, over the nodes of which both are known."""
    pairs = [(getattr(row.report.usage, which), getattr(row.allocatable, which)) for row in rows]
    complete = [(used, whole) for used, whole in pairs if used is not None and whole is not None]
    return amounts.percent(sum(used for used, _ in complete), sum(whole for _, whole in complete))


ORDERS: Final[Mapping[str, Callable[[NodeRow], float]]] = {
    "cpu": lambda row: row.report.usage.cpu_milli or 0,
    "memory": lambda row: row.report.usage.memory_bytes or 0,
    "waste": lambda row: max(
        (row.waste.cpu_milli or 0) / (row.allocatable.cpu_milli or 1),
        (row.waste.memory_bytes or 0) / (row.allocatable.memory_bytes or 1),
    ),
}
"""Return the key of `--sort-by`, largest first; equal rows stay in the order of their names."""


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
        _pair(_shown_requests(row)),
        _pair(row.mid_used),
        _pair(row.waste),
        Cell(report.prediction, "green" if report.prediction == READY else "yellow"),
        Cell(amounts.age(report.age_seconds), "red" if late(report) else ""),
        _pair(row.prod_requested),
        _pair(row.allocatable),
        Cell(amounts.NOTHING if report.pods is None else str(len(report.pods))),
    )


def _shown_requests(row: NodeRow) -> Amount:
    return row.mid_requested if row.mid != Amount() or row.mid_requested != Amount(0, 0) else Amount()


def _pair(amount: Amount) -> Cell:
    return Cell(amounts.pair(amount.cpu_milli, amount.memory_bytes))


def _heat(share: str) -> str:
    return "red" if share != amounts.NOTHING and int(share.removesuffix("%")) >= _HOT_PERCENT else ""


def late(report: Report) -> bool:
    interval = report.interval_seconds or _DEFAULT_INTERVAL_SECONDS
    return report.age_seconds is not None and report.age_seconds > _LATE_REPORTS * interval


def as_json(rows: Sequence[NodeRow]) -> dict[str, Any]:
    """Return the rows for programs; names contain the units, null is unknown."""
    items = [
        {
            "metadata": {"name": row.name},
            "node": row.name,
            "allocatable": row.allocatable.as_json(),
            "usage": row.report.usage.as_json(),
            "prodPeak": row.report.prod_peak.as_json(),
            "reclaimable": row.report.reclaimable.as_json(),
            "mid": row.mid.as_json(),
            "midRequested": row.mid_requested.as_json(),
            "midUsed": row.mid_used.as_json(),
            "prodRequested": row.prod_requested.as_json(),
            "waste": row.waste.as_json(),
            "prediction": row.report.prediction,
            "reportAgeSeconds": row.report.age_seconds,
        }
        for row in rows
    ]
    return listed("NodeUsage", items)
