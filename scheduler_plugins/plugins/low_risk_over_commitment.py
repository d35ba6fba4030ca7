"""LowRiskOverCommitment: prefer nodes with limits that fit them, and with load below their requests.

A counterpart of Trimaran's plugin of that name: same arguments and numbers. Score only, it refuses nothing.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, Self

import numpy as np

from crds.priority import requests_mid
from scheduler_plugins import steps
from scheduler_plugins.framework.plugin import Problem, ProblemKind
from scheduler_plugins.numerics.overcommitment import limit_risks, load_risk, shares, used, widened
from scheduler_plugins.providers.spec import NODE_METRIC, TYPES, MetricProvider, ProviderSpec, is_url, without_login
from scheduler_plugins.snapshot.arrays import BoolArray, FloatArray, IntArray, Nodes, NodeState, Table, as_array
from scheduler_plugins.snapshot.estimate import is_best_effort, pod_totals
from scheduler_plugins.snapshot.ordinary import Prepared
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.report import LONGEST, NodeReport, Statistic, Utilisation
from scheduler_plugins.snapshot.units import Vector, round_half_away, round_half_up
from scheduler_plugins.steps.formula import Formula

NAME: Final = "LowRiskOverCommitment"  # how profiles and tables call it
RESOURCES: Final = ("cpu", "memory")  # its resources; the rows of its arrays

_DEFAULT_WEIGHT: Final = 0.5
_MOST: Final = 2**50
"""More than this, a pebibyte, counts as this, so that sums over 8,000 pods stay in 64 bits. [milli-cores, bytes]"""
_PERCENT: Final = 100.0
_UNITS: Final = ("Milli", "Bytes")
_REQUEST, _LIMIT, _BEST_EFFORT = slice(0, 2), slice(2, 4), 4  # columns of a pod's numbers, and of their sums


class Totals(NamedTuple):
    """The requests and limits of the pods of some nodes, shape (2, N): a row per resource. [milli-cores, bytes]"""

    request: IntArray  # requests; at most the capacity
    limit: IntArray  # Limits
    capacity: IntArray  # of the nodes


@dataclass(frozen=True)
class LowRiskOverCommitment:
    """The plugin; its fields are its arguments."""

    watcher_address: str = ""
    """URL of a load-watcher service; if given, the metrics are its own, and `metricProvider` has only its options
    (times, TLS, and a token where it names no type)."""
    metric_provider: MetricProvider = field(default_factory=MetricProvider)  # where the metrics come from otherwise
    smoothing_window_size: int = 5
    """The number of samples that a provider averages into one before it takes their deviation; only for providers that
    state it are corrected for it. At least 1. [samples]"""
    risk_limit_weights: Mapping[str, float] | None = None
    """Weight of the limits' risk beside the load's, per resource (cpu, memory); 0..1."""
    risk_limit_weight: float | None = None  # the same for resources without one of their own (0.5); 0..1
    best_effort_may_fill_node: bool = False
    """True if best-effort pods count as pods that may use their whole node: its limits are at least its capacity then,
    and best-effort pods are scored, too. False: they count as nothing, and score 0 everywhere, as upstream."""
    metric_expiration_seconds: int = 300  # age from which metrics are too old, and the limits alone count; 0: never [s]
    node_metric_aggregated_duration: float = LONGEST
    """Over which window NodeMetrics are read; 0s: the longest they report. [s, written as a Go duration]"""
    parity: bool = False
    """True if to treat metrics as upstream does: a node without any scores 0, old ones never expire, and Prometheus'
    certificate is not checked unless `metricProvider.insecureSkipVerify` is false."""

    # Arguments

    def defaulted(self) -> Self:
        """A copy in which every argument that was not given has its default."""
        provider = self.metric_provider
        if provider.insecure_skip_verify is None:
            # Upstream checks no certificate of Prometheus by default; a profile with an authority turns the check on.
            unchecked = self.parity and provider.type == "Prometheus" and not provider.ca_file
            provider = replace(provider, insecure_skip_verify=unchecked)
        weights = self.risk_limit_weights
        if self.risk_limit_weight is None:
            weights = dict.fromkeys(RESOURCES, _DEFAULT_WEIGHT) | dict(weights or {})
        return replace(self, metric_provider=provider, risk_limit_weights=weights)

    def problems(self) -> Sequence[Problem]:
        return tuple(_problems(self))

    def provider(self) -> ProviderSpec | None:
        """Return where the metrics come from; None: from NodeMetrics."""
        if not self.watcher_address and self.metric_provider.type in ("", NODE_METRIC):
            return None
        return ProviderSpec(self.metric_provider, self.watcher_address or None, self.parity)

    @cached_property
    def weights(self) -> FloatArray:
        """Weights of the limits' risk, shape (2,)."""
        weights = self.risk_limit_weights or {}
        rest = _DEFAULT_WEIGHT if self.risk_limit_weight is None else self.risk_limit_weight
        return np.array([weights.get(name, rest) for name in RESOURCES])

    @cached_property
    def _shares(self) -> tuple[FloatArray, FloatArray]:
        """The weights of the limits' and of the load's risk, shape (2, 1)."""
        return self.weights[:, None], 1 - self.weights[:, None]

    @cached_property
    def _load_weights(self) -> tuple[float, float]:
        cpu, memory = (1 - self.weights).tolist()
        return cpu, memory

    # Cached facts of pods and nodes

    def width(self) -> int:
        """Requests and limits of both resources, and whether the pod is best-effort."""
        return 5

    def amounts(self, pod: Mapping[str, Any]) -> Vector:
        """Requests and limits of one pod, a limit being at least the request.

        The limits of a Mid pod do not count beyond its requests: its node has published them as reclaimable.

        Raises QuantityError: a request or limit is not a quantity.
        """
        requests = pod_totals(pod, "requests")
        limits = requests if requests_mid(pod) else pod_totals(pod, "limits")
        amounts = (*requests, *map(max, limits, requests))
        return (*(min(amount, _MOST) for amount in amounts), int(is_best_effort(pod)))

    def dtype(self) -> np.dtype[Any]:
        """The fields of a node's record; two columns are cpu and memory."""
        return np.dtype(
            [
                ("capacity", np.int64, (2,)),
                ("known", np.bool_, (2,)),  # there are metrics of the resource
                ("mean", np.float64, (2,)),  # usage as a share of the capacity
                ("stdev", np.float64, (2,)),  # its deviation as measured
                ("deviation", np.float64, (2,)),  # the same before smoothing
                ("measured", np.bool_),  # there are metrics of the node
                ("measured_at", np.float64),  # end of their window; -inf: not stated, inf: there are none [unix s]
                ("load_risk", np.float64, (2,)),  # without pods in flight
                ("limit_slack", np.int64, (2,)),  # capacity without the limits of the bound pods
                ("score", np.int64),  # by the load's risk alone, while the metrics are fresh
            ]
        )

    def record(self, node: NodeState) -> tuple[Any, ...]:
        """A node's record. The load's risk does not depend on the pod in question, and so is made here."""
        measured = node.once(NAME, self._measured)
        sums, risks = node.sums[NAME], []
        for column, (capacity, known, mean, _, deviation) in enumerate(zip(*measured[:5], strict=True)):
            request, limit = min(sums[column], capacity), sums[_LIMIT][column]
            if self.best_effort_may_fill_node and sums[_BEST_EFFORT]:
                limit = max(limit, capacity)
            risks.append(load_risk(mean, deviation, request, limit, capacity) if known else 0.0)
        slack = tuple(
            [max(capacity - limit, -_MOST) for capacity, limit in zip(measured[0], sums[_LIMIT], strict=True)]
        )
        risk = max([weight * risk for weight, risk in zip(self._load_weights, risks, strict=True)])
        score = 0 if self.parity and not measured[5] else round_half_up(_PERCENT * (1 - risk))
        return *measured, tuple(risks), slack, score

    def _measured(self, node: NodeState) -> tuple[Any, ...]:
        """The record without the risk: it does not depend on the node's pods."""
        reported = self.provider() is None
        reading = self._reported(node) if reported else node.readings.get(NAME)
        window = self.smoothing_window_size if reading is not None and reading.smoothed else 1
        columns = []
        for resource, statistic in zip(RESOURCES, _statistics(reading), strict=True):
            capacity = node.own_allocatable.get(resource, 0)
            if statistic is None:
                columns.append((capacity, False, 0.0, 0.0, 0.0))
                continue
            amounts = (statistic.average, statistic.stdev)
            average, stdev = amounts if reported else (used(percent, capacity) for percent in amounts)
            mean, share = shares(average, stdev, capacity)
            columns.append((capacity, True, mean, share, widened(mean, share, window)))
        measured_at = np.inf if reading is None else reading.measured_at
        return *zip(*columns, strict=True), reading is not None, measured_at

    def _reported(self, node: NodeState) -> Utilisation | None:
        """The reading that the node's own report is: amounts in place of percents."""
        report = node.ledger.report
        if report is None or report.node_usage is None:
            return None
        average = report.aggregated_usage("avg", self.node_metric_aggregated_duration)
        if average is None:
            return None
        stdev = report.aggregated.get(("stdev", _window(report, self.node_metric_aggregated_duration)))
        order = node.ledger.rules.resources
        cpu, memory = (_statistic(average[row], stdev[row] if stdev else 0) for row in map(order.index, RESOURCES))
        return Utilisation(cpu, memory, -np.inf if report.update_time is None else report.update_time, smoothed=False)

    # Score

    def score(self, pod: PodRequest, nodes: Nodes) -> IntArray:
        """Return the absence of risk of the nodes, 0..100, shape (N,): 100 (1 - the larger risk of cpu and memory).

        A pod without requests and limits scores 0, unless `bestEffortMayFillNode` states that it may use
        everything. A Mid pod with native limits alone is scored by the risk of its node.
        """
        amounts = pod.amounts[NAME]
        if not self._is_scored(pod):
            return np.zeros(len(nodes), np.int64)
        table = nodes.tables[NAME]
        over = steps.any_exceeds(nodes.expected(NAME)[:, _LIMIT], table["limit_slack"], as_array(amounts)[_LIMIT])
        if not over and not self._some_stale(table, nodes.now):
            # No limits exceed a capacity, so that the risk does not depend on the pod.
            score: IntArray = table["score"]
            return score
        risk = self.risk(self.totals(nodes, amounts), self.load_risk(nodes))
        score = round_half_away(_PERCENT * (1 - np.maximum(*risk)))
        return np.where(table["measured"], score, 0) if self.parity else score

    def _is_scored(self, pod: PodRequest) -> bool:
        amounts = pod.amounts[NAME]
        may_fill = self.best_effort_may_fill_node if amounts[_BEST_EFFORT] else pod.requests_mid
        return may_fill or any(amounts[:_BEST_EFFORT])

    def totals(self, nodes: Nodes, more: Vector = (0, 0, 0, 0, 0)) -> Totals:
        """Return the sums of the nodes, and `more`: the numbers of a pod. Pods in flight count as bound ones."""
        capacity = nodes.tables[NAME]["capacity"].T
        sums = (nodes.bound(NAME) + nodes.expected(NAME) + as_array(more)).T
        request, limit = np.minimum(sums[_REQUEST], capacity), sums[_LIMIT]
        if self.best_effort_may_fill_node and np.count_nonzero(sums[_BEST_EFFORT]):
            limit = np.where(sums[_BEST_EFFORT] > 0, np.maximum(limit, capacity), limit)
        return Totals(request, limit, capacity)

    def load_risk(self, nodes: Nodes) -> FloatArray:
        """The load's risk, shape (2, N); 0 where nothing recent is known.

        It is the record's, made when the node changed, so that a decision costs no beta distribution: what pods in
        flight request is in it as soon as they are bound, some milliseconds later.
        """
        table = nodes.tables[NAME]
        risk: FloatArray = table["load_risk"].T
        fresh = self.fresh(table, nodes.now)
        return risk if np.count_nonzero(fresh) == len(fresh) else risk * fresh

    def risk(self, totals: Totals, load: FloatArray) -> FloatArray:
        """Both risks together, within 0 and 1, shape (2, N): weight * limits' risk + (1 - weight) * load's risk."""
        (of_limits, of_load), limits = self._shares, limit_risks(*totals)
        risk: FloatArray = of_load * load
        return np.minimum(np.maximum(of_limits * limits + risk, 0.0), 1.0) if np.count_nonzero(limits) else risk

    def _some_stale(self, table: Table, now: float) -> bool:
        """Return whether some nodes have metrics that no longer count."""
        if self.parity or not self.metric_expiration_seconds:
            return False
        return not now - table.least("measured_at") < self.metric_expiration_seconds

    def fresh(self, table: Table, now: float) -> BoolArray:
        """Return which nodes have metrics that still count, shape (N,)."""
        if self.parity or not self.metric_expiration_seconds:
            return table["measured"]
        fresh: BoolArray = now - table["measured_at"] < self.metric_expiration_seconds
        return fresh

    def formula(self) -> Formula:
        """The score of the record: where metrics are recent, and limits do not exceed the capacity."""
        expires = self.metric_expiration_seconds and not self.parity
        return Formula(
            first=_LIMIT.start,
            slack="limit_slack",
            time="measured_at" if expires else "",
            seconds=self.metric_expiration_seconds,
            score="score",
        )

    def prepare(self, pod: PodRequest, _nodes: Nodes) -> Prepared:
        """The limits of the pod."""
        return pod.amounts[NAME][_LIMIT] if self._is_scored(pod) else None

    def explain(self, pod: PodRequest, nodes: Nodes) -> Sequence[Mapping[str, Any]]:
        """Return per node the sums, the metrics, and the risks behind the score."""
        table, totals = nodes.tables[NAME], self.totals(nodes, pod.amounts[NAME])
        load, fresh = self.load_risk(nodes), self.fresh(table, nodes.now)
        risks = (limit_risks(*totals), load, self.risk(totals, load))
        return [
            {
                "metrics": _state(table.record(row), fresh=bool(fresh[row])),
                "ageSeconds": _age(table.record(row), nodes.now),
                **{
                    name: _explained(
                        column,
                        [int(part[column, row]) for part in totals],
                        [float(table[part][row, column]) for part in ("mean", "stdev")],
                        [float(part[column, row]) for part in risks],
                        known=bool(table["known"][row, column]),
                    )
                    for column, name in enumerate(RESOURCES)
                },
            }
            for row in range(len(nodes))
        ]


def _statistic(average: int | None, stdev: int | None) -> Statistic | None:
    """None: the report does not state the resource. A deviation that it does not state is 0."""
    return None if average is None else Statistic(average, stdev or 0)


def _window(report: NodeReport, duration: float) -> float:
    """The window that an average of this duration is of."""
    if duration != LONGEST:
        return duration
    return max((window for kind, window in report.aggregated if kind == "avg"), default=LONGEST)


def _statistics(reading: Utilisation | None) -> tuple[Statistic | None, Statistic | None]:
    return (None, None) if reading is None else (reading.cpu, reading.memory)


def _state(record: Any, *, fresh: bool) -> str:  # noqa: ANN401 - a record of the table
    if not record["measured"]:
        return "missing"
    return "fresh" if fresh else "stale"


def _age(record: Any, now: float) -> float | None:  # noqa: ANN401 - a record of the table
    age = now - float(record["measured_at"])
    return round(age, 1) if np.isfinite(age) else None


def _explained(
    column: int, totals: list[int], shares: list[float], risks: list[float], *, known: bool
) -> Mapping[str, Any]:
    unit = _UNITS[column]
    request, limit, capacity = totals
    mean, stdev = (round(_PERCENT * share, 2) if known else None for share in shares)
    limits, load, both = (round(risk, 4) for risk in risks)
    return {
        f"request{unit}": request,
        f"limit{unit}": limit,
        f"capacity{unit}": capacity,
        "averagePercent": mean,
        "stdevPercent": stdev,
        "limitRisk": limits,
        "loadRisk": load,
        "risk": both,
    }


def _problems(args: LowRiskOverCommitment) -> Iterator[Problem]:
    yield from _provider_problems(args)
    if args.smoothing_window_size < 1:
        yield _invalid("smoothingWindowSize", f"{args.smoothing_window_size}: must be at least 1")
    for name, weight in (args.risk_limit_weights or {}).items():
        if not 0 <= weight <= 1:
            yield _invalid(f"riskLimitWeights.{name}", f"{weight:g}: must be from 0 to 1")
        close = difflib.get_close_matches(name.lower(), RESOURCES, n=1)
        if close and name not in RESOURCES:
            yield Problem(f"riskLimitWeights.{name}", ProblemKind.NOT_SUPPORTED, f'did you mean "{close[0]}"?')
    if args.risk_limit_weight is not None and not 0 <= args.risk_limit_weight <= 1:
        yield _invalid("riskLimitWeight", f"{args.risk_limit_weight:g}: must be from 0 to 1")
    if args.metric_expiration_seconds < 0:
        yield _invalid("metricExpirationSeconds", f"{args.metric_expiration_seconds}: must not be negative")
    if args.node_metric_aggregated_duration < 0:
        yield _invalid(
            "nodeMetricAggregatedDuration", f"{args.node_metric_aggregated_duration:g}s: must not be negative"
        )


def _provider_problems(args: LowRiskOverCommitment) -> Iterator[Problem]:
    kind = args.metric_provider.type
    if args.watcher_address:
        if not is_url(args.watcher_address):
            address = without_login(args.watcher_address)
            yield _invalid("watcherAddress", f"{address!r}: must be a URL, as in http://load-watcher:2020")
    elif kind and kind not in TYPES:
        text = f"invalid MetricProvider.Type, got {kind}: supported are {', '.join(TYPES)}"
        yield Problem("metricProvider.type", ProblemKind.NOT_SUPPORTED, text)
    for name, message in args.metric_provider.mistakes():
        yield _invalid(f"metricProvider.{name}", message)


def _invalid(name: str, message: str) -> Problem:
    return Problem(name, ProblemKind.INVALID, message)
