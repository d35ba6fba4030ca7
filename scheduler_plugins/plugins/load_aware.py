"""LoadAwareScheduling: refuse nodes above their usage thresholds, prefer nodes with little load.

A counterpart of Koordinator's plugin of that name: same arguments, annotations and numbers. `usePrediction` is ours.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import or_, sub
from typing import Any, Final, TypeAlias

import numpy as np

from crds import names
from scheduler_plugins import steps
from scheduler_plugins.framework.verdict import PASSES, Refusal, Verdict
from scheduler_plugins.plugins.load_aware_arguments import LoadAwareArguments, custom_thresholds
from scheduler_plugins.plugins.load_aware_explanation import Account, Group, explanation
from scheduler_plugins.snapshot.arrays import BoolArray, FloatArray, IntArray, Nodes, NodeState, Table, as_array
from scheduler_plugins.snapshot.ledger import NodeLedger
from scheduler_plugins.snapshot.ordinary import Prepared
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.report import LONGEST
from scheduler_plugins.snapshot.units import INT64_MAX, Vector, round_half_away
from scheduler_plugins.steps.formula import NO_GROUP, Formula

NAME: Final = "LoadAwareScheduling"  # how profiles and tables call it
EXPIRED: Final = "node(s) nodeMetric expired"  # reason for refusing a node whose report is too old

_Statistic: TypeAlias = tuple[str, float]  # an aggregation: its type, and its duration [s]

_PERCENT: Final = 100
_BY_MORE: Final = -2  # in place of a `Group`: that depends on more than the node and the slack
_DOUBLE_SLACK: Final = 42
"""A percentage of doubles is off by less than 2^-44 in three roundings; this much of the allocatable is 2^-35 %."""


@dataclass(frozen=True)
class LoadAware(LoadAwareArguments):
    """The plugin; its fields are its arguments."""

    # A node's record

    def dtype(self) -> np.dtype[Any]:
        """The fields of a node's record; amounts are per resource, as in the load rules."""
        shape = (len(self.resources),)
        return np.dtype(
            [
                ("allocatable", np.int64, shape),
                ("divisor", np.int64, shape),  # the same; the largest number, by which nothing is left, without a score
                ("limit", np.int64, shape),  # thresholds in percent, for every pod
                ("prod_limit", np.int64, shape),  # the same for Prod pods, where by_prod is set
                ("updated", np.float64),  # time of the report; -inf: no agent has written one [unix s]
                ("reported", np.bool_),  # there is a report to compare
                ("measured", np.bool_, shape),  # whether usage of the resource is known, for the filter
                ("used", np.bool_, shape),  # the same whatever is aggregated, as for Prod pods among themselves
                ("scored", np.bool_),  # the same of every resource that weighs in the score, of a node with a report
                ("aggregated", np.bool_),  # limit and load are of the aggregated group
                ("by_prod", np.bool_),  # Prod pods have their own thresholds here
                ("group", np.int8),  # evaluates by the slack; `NO_GROUP` without report or threshold, or `_BY_MORE`
                ("load", np.int64, shape),  # measured and expected, that the filter compares
                ("slack", np.int64, shape),  # how much more passes whatever the filter compares
                ("spare", np.int64, shape),  # allocatable without the load that the score compares
                ("prod_load", np.int64, shape),  # the part of the Prod pods
                *(
                    [
                        ("peak_load", np.int64, shape),  # predicted and expected; measured where nothing is predicted
                        ("peaked", np.bool_, shape),  # where that is known
                        ("predicted", np.float64),  # time of the prediction; -inf: without a usable one [unix s]
                    ]
                    if self.use_prediction
                    else []
                ),
            ]
        )

    def record(self, node: NodeState) -> tuple[Any, ...]:
        """A node's record."""
        ledger, (statistic, scored, ceilings, lasting) = node.ledger, node.once(NAME, self._lasting)
        load, peak = ledger.load(statistic), self._peak(ledger) if self.use_prediction else ()
        score_load = load if scored == statistic else ledger.load(scored)
        compared = load, ledger.prod_load, *peak[:1]
        slacks = [map(sub, most, each) for most, each in zip(ceilings, compared, strict=True) if most]
        slack = tuple(map(min, zip(*slacks, strict=True)))
        return *lasting, load, slack, tuple(map(sub, lasting[0], score_load)), ledger.prod_load, *peak

    def _lasting(
        self, node: NodeState
    ) -> tuple[_Statistic | None, _Statistic | None, tuple[Vector, ...], tuple[Any, ...]]:
        """Return the parts of the record that do not depend on the pods of the node.

        The aggregations of the loads that the filter and the score compare, the usage, the Prod usage and the predicted
        peak up to which the node passes (empty: not compared), and the record up to the loads.
        """
        ledger, report, resources = node.ledger, node.ledger.report, self.resources
        thresholds = self.thresholds(node.annotations)
        group = thresholds.aggregated
        limit = group.usage_thresholds if group.filters else thresholds.usage
        statistic = (group.usage_aggregation_type, group.usage_aggregated_duration) if group.filters else None
        by_score = self.aggregated
        scored = (by_score.score_aggregation_type, by_score.score_aggregated_duration) if by_score else ("", LONGEST)
        scored_statistic = scored if scored[0] else None
        allocatable, limits = _vector(resources, node.allocatable), _vector(resources, limit)
        measured, prod_limit = ledger.measured(statistic), _vector(resources, thresholds.prod)
        ceilings = (
            _ceilings(limits, measured, allocatable),
            _ceilings(prod_limit, ledger.measured(), allocatable) if any(prod_limit) else (),
            *([_ceilings(limits, self._peak(ledger)[1], allocatable)] if self.use_prediction else []),
        )
        # Without a time no agent has written it. Without a check of the age, its usage counts nevertheless.
        reported = report is not None and (report.update_time is not None or self.filter_expired_node_metrics is False)
        scores = reported and all(map(or_, ledger.measured(scored_statistic), self._weightless))
        evaluates = int(Group.AGGREGATED if group.filters else Group.USAGE) if reported and any(limits) else NO_GROUP
        record = (
            allocatable,
            tuple([amount if scores and amount else INT64_MAX for amount in allocatable]),
            limits,
            prod_limit,
            -np.inf if report is None or report.update_time is None else report.update_time,
            reported,
            measured,
            ledger.measured(),
            scores,
            group.filters,
            any(prod_limit),
            _BY_MORE if self.use_prediction or any(prod_limit) or max(allocatable) >> _DOUBLE_SLACK else evaluates,
        )
        return statistic, scored_statistic, ceilings, record

    @cached_property
    def _weightless(self) -> tuple[bool, ...]:
        weights = self.resource_weights or {}
        return tuple([not weights.get(name) and not self.dominant_resource_weight for name in self.resources])

    @cached_property
    def _weights(self) -> IntArray:
        return np.array(_vector(self.resources, self.resource_weights), np.int64)

    @cached_property
    def _weight(self) -> int:
        return int(self._weights.sum())

    def annotation_problems(self, annotations: Mapping[str, str]) -> Sequence[str]:
        problem = custom_thresholds(annotations)[1]
        return [problem] if problem else []

    def _peak(self, ledger: NodeLedger) -> tuple[Vector, tuple[bool, ...], float]:
        """Predicted peak with the pods that it cannot know yet, where it is known, and the time of the prediction.

        A resource without a peak counts as measured. -inf where there is no prediction, or none that can be acted on.
        """
        load, known, report = ledger.load(), ledger.measured(), ledger.report
        prediction = report.prediction if report else None
        if report is None or prediction is None or prediction.time is None or not prediction.peak:
            return load, known, -np.inf
        if not report.conditions.get(names.CONDITION_PREDICTION_READY, True):
            return load, known, -np.inf
        peak = prediction.peak
        columns = zip(self.resources, load, ledger.sums.unreported, strict=True)
        loads = tuple([peak[name] + more if name in peak else used for name, used, more in columns])
        peaked = tuple([name in peak or has for name, has in zip(self.resources, known, strict=True)])
        return loads, peaked, prediction.time

    # Filter and score

    def filter(self, pod: PodRequest, nodes: Nodes) -> Verdict:
        """Refuse nodes whose usage, with this pod, would exceed a threshold, and nodes with an old report."""
        passes = Verdict.all_pass(len(nodes), refusals(self.resources))
        if pod.of_daemon_set:
            return passes
        table, landed = nodes.tables[NAME], nodes.most_in_flight
        some_over = steps.any_exceeds(landed, table["slack"], as_array(pod.estimate))
        some_expired = self.filter_expired_node_metrics and self._some_expired(table, nodes.now)
        if not (some_over or some_expired):
            return passes
        left, landed = table["slack"] - as_array(pod.estimate), nodes.in_flight if some_over else landed
        over = landed > left
        expired = self.expired(table, nodes.now) if some_expired else np.zeros(len(nodes), np.bool_)
        rows = np.flatnonzero(over.any(axis=1) | expired)
        refused, groups = np.full(len(nodes), PASSES, np.int64), table["group"][rows]
        # One more than the slack may be half a percent above the threshold, see `ceiling`.
        if groups.min(initial=0) > _BY_MORE and not (landed == left + 1).any():
            refused[rows] = self._evaluate(groups != NO_GROUP, expired[rows], over[rows], groups)
        else:
            account = self._account(pod, nodes if len(rows) == len(nodes) else nodes.take(rows))
            refused[rows] = self._evaluate(account.checked, account.expired, account.over, account.groups())
        return Verdict(refused, refusals(self.resources))

    def _evaluate(self, checked: BoolArray, expired: BoolArray, over: BoolArray, groups: IntArray) -> IntArray:
        """Indices into the refusals, shape (N,), of what `Account` has by these names."""
        refuses = self.enable_schedule_when_node_metrics_expired is False
        by_age = len(Group) * len(self.resources) if refuses else PASSES
        exceeded = groups * len(self.resources) + over.argmax(axis=1)
        refused: IntArray = np.where(over.any(axis=1), exceeded, PASSES)
        return np.where(checked, np.where(expired, by_age, refused), PASSES)

    def formula(self) -> Formula | None:
        """The filter by the slack, and the score by the load: where no report is old, and no prediction counts."""
        seconds = self.node_metric_expiration_seconds
        if self.use_prediction:
            return None
        return Formula(
            slack="slack",
            group="group",
            time="" if seconds is None else "updated",
            seconds=seconds if seconds and seconds > 0 else math.inf,
            spare="spare" if self.scoring_enabled else "",
            divisor="divisor",
            weights=tuple(self._weights.tolist()),
            dominant=self.dominant_resource_weight,
        )

    def prepare(self, pod: PodRequest, _nodes: Nodes) -> Prepared:
        """The estimated usage of the pod."""
        special = pod.of_daemon_set or (pod.prod and self.score_according_prod_usage)
        return False if special else pod.estimate

    def explain(self, pod: PodRequest, nodes: Nodes) -> Sequence[Mapping[str, Any]]:
        return explanation(self, pod, nodes, self._account(pod, nodes), self.score(pod, nodes))

    def _account(self, pod: PodRequest, nodes: Nodes) -> Account:
        """Return the numbers of the filter."""
        table = nodes.tables[NAME]
        by_prod, aggregated = table["by_prod"] & pod.prod, table["aggregated"]
        by_peak = self.by_peak(table, nodes.now) & ~aggregated & ~by_prod
        limit, load, measured = table["limit"], table["load"] + nodes.in_flight, table["measured"]
        if by_prod.any():
            limit = np.where(by_prod[:, None], table["prod_limit"], limit)
            load = np.where(by_prod[:, None], table["prod_load"] + nodes.in_flight_prod, load)
            measured = np.where(by_prod[:, None], table["used"], measured)
        if by_peak.any():
            load = np.where(by_peak[:, None], table["peak_load"] + nodes.in_flight, load)
            measured = np.where(by_peak[:, None], table["peaked"], measured)
        load = load + as_array(pod.estimate)
        percent = usage_percent(load, table["allocatable"])
        return Account(
            by_prod=by_prod,
            aggregated=aggregated & ~by_prod,
            by_peak=by_peak,
            limit=limit,
            load=load,
            percent=percent,
            over=measured & (limit != 0) & (table["allocatable"] != 0) & (percent > limit),
            checked=limit.any(axis=1) & table["reported"],
            expired=self.expired(table, nodes.now) & (self.filter_expired_node_metrics is True),
            known=measured,
        )

    def expired(self, table: Table, now: float) -> BoolArray:
        """Return the nodes with an old report, shape (N,)."""
        limit, updated = self.node_metric_expiration_seconds, table["updated"]
        if limit is None:
            return np.zeros(len(updated), np.bool_)
        age: FloatArray = now - updated
        return np.greater_equal(age, limit) if limit > 0 else np.isinf(age)

    def _some_expired(self, table: Table, now: float) -> bool:
        """Return whether any of some nodes has an old report."""
        limit = self.node_metric_expiration_seconds
        if limit is None:
            return False
        age = now - table.least("updated")
        return age >= limit if limit > 0 else age == np.inf

    def all_expired(self, nodes: Nodes) -> str:
        """Return the problem where the age of reports refuses all nodes; "" otherwise."""
        if self.enable_schedule_when_node_metrics_expired or not self.filter_expired_node_metrics or not len(nodes):
            return ""
        table = nodes.tables[NAME]
        looked_at = table["reported"] & (table["limit"].any(axis=1) | table["by_prod"])
        if not np.all(looked_at & self.expired(table, nodes.now)):
            return ""
        age = nodes.now - table["updated"].max()
        return f"all {len(nodes)} nodes are refused: the latest of their NodeMetrics is {age:.0f} s old, do agents run?"

    def without_agent(self, nodes: Nodes) -> int:
        """Return the number of nodes without a report of an agent: they pass unchecked, with score 0."""
        return int(np.isinf(nodes.tables[NAME]["updated"]).sum())

    def by_peak(self, table: Table, now: float) -> BoolArray:
        """Return the nodes with a usable prediction, shape (N,)."""
        if not self.use_prediction:
            return np.zeros(len(table["updated"]), np.bool_)
        fresh: BoolArray = now - table["predicted"] < self.prediction_expiration_seconds
        return fresh

    def score(self, pod: PodRequest, nodes: Nodes) -> IntArray:
        """Return how much of a node would be left, 0..100, shape (N,).

        score = (sum of weight * free% over resources + dominantResourceWeight * least free%) // sum of weights

        Free percents are truncated: 79.5 and 80 with weights 1 and 1 give (79 + 80) // 2 = 79.
        """
        table = nodes.tables[NAME]
        if not self.scoring_enabled:
            return np.zeros(len(nodes), np.int64)
        spare, divisor = self._spare(pod, nodes)
        free = np.maximum(spare - as_array(pod.estimate), 0) * _PERCENT // divisor
        weights, dominant = self._weights, self.dominant_resource_weight
        weighted: IntArray = free @ weights
        if dominant:
            weighted += np.minimum(free.min(axis=1), _PERCENT) * dominant
        score: IntArray = weighted // (self._weight + dominant)
        return score * ~self.expired(table, nodes.now) if self._some_expired(table, nodes.now) else score

    def _spare(self, pod: PodRequest, nodes: Nodes) -> tuple[IntArray, IntArray]:
        """Return the spare amounts of each node without the pod, and their divisors, shape (N, R)."""
        table = nodes.tables[NAME]
        if pod.prod and self.score_according_prod_usage:
            measured = (table["used"] | self._weightless).all(axis=1) & table["reported"]
            spare = table["allocatable"] - table["prod_load"] - nodes.in_flight_prod
        elif self.use_prediction:
            by_peak = self.by_peak(table, nodes.now)
            peaked = (table["peaked"] | self._weightless).all(axis=1) & table["reported"]
            measured = np.where(by_peak, peaked, table["scored"])
            at_peak = table["allocatable"] - table["peak_load"]
            spare = np.where(by_peak[:, None], at_peak, table["spare"]) - nodes.in_flight
        else:
            return table["spare"] - nodes.in_flight, table["divisor"]
        return spare, np.where(measured[:, None] & (table["allocatable"] != 0), table["allocatable"], INT64_MAX)


def _vector(resources: Sequence[str], amounts: Mapping[str, int] | None) -> tuple[int, ...]:
    by_resource = amounts or {}
    return tuple([by_resource.get(name, 0) for name in resources])


def _ceilings(limits: Vector, known: tuple[bool, ...], allocatable: Vector) -> Vector:
    """Return the `ceiling` of each resource; a usage that is not known passes."""
    return tuple([ceiling(limit * has, most) for limit, has, most in zip(limits, known, allocatable, strict=True)])


def usage_percent(load: IntArray, allocatable: IntArray) -> IntArray:
    """Load in percent of allocatable, used/total*100 rounded half away from zero; 0 where there is nothing to use."""
    total = np.where(allocatable == 0, 1, allocatable).astype(np.float64)
    return np.where(allocatable == 0, 0, round_half_away(load.astype(np.float64) / total * _PERCENT))


@lru_cache(maxsize=64)
def refusals(resources: tuple[str, ...]) -> tuple[Refusal, ...]:
    """All that a node may be refused for, whether it occurs or not: pods of an earlier run are known by it."""
    return (*(Refusal(group.reason(name), by_load=True) for group in Group for name in resources), Refusal(EXPIRED))


def ceiling(limit: int, allocatable: int) -> int:
    """Return a load up to which `usage_percent` is not above a threshold, INT64_MAX where every load passes.

    Up to 4 TiB it is the last such load but for one that is half a percent above the threshold, which doubles may round
    down. Above 4 TiB it lies a 2^-42nd of the allocatable lower, since doubles are less exact there. 65 % of 100 cores,
    in milli-cores: 65499, as 65500 rounds to 66 %; 28 %: 28499, although 28500 passes, too.

    Args:
        limit: the threshold; 0: not checked. [%, 0..100]
        allocatable: of the node; 0: not checked. [0..2^53]
    """
    if not limit or not allocatable:
        return INT64_MAX
    return ((2 * limit + 1) * allocatable - 1) // (2 * _PERCENT) - (allocatable >> _DOUBLE_SLACK)
