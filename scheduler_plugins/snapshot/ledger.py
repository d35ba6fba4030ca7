"""The load of a node: measured usage, and the estimated usage of its pods beyond that."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add, sub
from typing import Final, NamedTuple

from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.report import NodeReport
from scheduler_plugins.snapshot.units import Usage, Vector

NEVER: Final = float("-inf")  # the time of a measurement that was never taken. [unix s]


@dataclass(frozen=True, slots=True)
class Assigned:
    """A pod on the node."""

    pod: PodRequest  # the pod
    timestamp: float  # when it was scheduled, as far as is known. [unix s]

    @property
    def estimated(self) -> Vector | None:
        return self.pod.estimate if any(self.pod.estimate) else None

    @property
    def deadline(self) -> float | None:
        """Until when its estimate counts although usage is reported, in unix seconds."""
        return self.pod.window.end(self.timestamp)


class Terms(NamedTuple):
    """The contribution of a pod to the sums of its node."""

    node_delta: Vector  # expected beyond the measured usage of the node
    prod_delta: Vector  # expected beyond the measured usage of the Prod pods
    estimated: Vector  # expected in all, measured or not
    prod_usage: Vector  # measured usage, if it is Prod both by its spec and by the report
    unreported: Vector
    """The estimate of resources that the report does not name: the node's agent and prediction may not know them."""


def terms(assigned: Assigned, report: NodeReport | None, updated: float, nothing: Vector) -> Terms:
    """Return the contribution of a pod to the sums of its node.

    An estimate counts beyond the measured usage while the measurement does not cover a whole report interval of the pod
    (`updated - interval < scheduled`), or within its forced window. A measured value above the estimate adds nothing.
    A resource that the report does not state of the pod counts with its estimate, as a pod that is not reported does.
    """
    pod = assigned.pod
    prod, expected = pod.prod, pod.estimate
    used = None if report is None else report.pods.get(pod.key)
    if report is None or used is None:
        return Terms(expected, expected if prod else nothing, expected, nothing, expected)
    deadline = assigned.deadline
    recent = updated - report.interval < assigned.timestamp
    missing = nothing if None not in used else _where_unknown(used, expected, nothing)
    measured = _known(used, nothing)
    beyond = missing
    if recent or (deadline is not None and deadline > updated):
        beyond = tuple([max(0, guess - usage) for guess, usage in zip(expected, measured, strict=True)])
    if not prod:
        return Terms(beyond, nothing, expected, nothing, missing)
    if pod.key in report.prod_pods:
        return Terms(beyond, beyond, expected, measured, missing)
    # The Prod sum holds no usage of a pod that the report calls something else: all of its estimate is missing there.
    return Terms(beyond, expected, expected, nothing, missing)


class NodeLedger:
    """The pods and the report of one node, and the sums over them, kept up to date term by term."""

    __slots__ = ("_nothing", "_pods", "report", "rules", "sums", "update_time")

    def __init__(self, rules: LoadRules) -> None:
        self.rules = rules  # how load is counted
        self._nothing: Vector = (0,) * len(rules.resources)
        self._pods: dict[str, Assigned] = {}
        self.sums = Terms(*(self._nothing,) * len(Terms._fields))  # over all pods
        self.report: NodeReport | None = None  # the node's last report; None when it has no NodeMetric
        self.update_time = NEVER  # time of the last report that had one. [unix s]

    @property
    def empty(self) -> bool:
        return self.report is None and not self._pods

    @property
    def pods(self) -> Mapping[str, Assigned]:
        return self._pods

    def terms_of(self, uid: str) -> Terms:
        """Return the contribution of a pod, calculated from the pod and the report."""
        return terms(self._pods[uid], self.report, self.update_time, self._nothing)

    @property
    def prod_usage(self) -> Vector:
        """Measured usage of the Prod pods that are still present, and of the system where the rules include it."""
        system = self.report.system_usage if self.report and self.rules.prod_includes_system else None
        return _plus(self.sums.prod_usage, _known(system, self._nothing)) if system else self.sums.prod_usage

    @property
    def prod_load(self) -> Vector:
        return _plus(self.prod_usage, self.sums.prod_delta)

    def load(self, aggregation: tuple[str, float] | None = None) -> Vector:
        """Return the node's usage, measured and estimated; without a measurement the sum of all estimates."""
        base = self._base(aggregation)
        if base is None:
            return self.sums.estimated
        loaded = _plus(_known(base, self._nothing), self.sums.node_delta)
        return loaded if None not in base else _known(_where_known(base, loaded), self.sums.estimated)

    def measured(self, aggregation: tuple[str, float] | None = None) -> tuple[bool, ...]:
        """Return the resources of which the node's usage is known, as `load` counts it.

        Koordinator uses estimates where a whole aggregation is missing; one that lacks a resource leaves
        that resource unknown.
        """
        plain, base = self._base(None), self._base(aggregation)
        if plain is None:
            return (False,) * len(self._nothing)
        pairs = zip(plain, plain if base is None else base, strict=True)
        return tuple([one is not None and other is not None for one, other in pairs])

    def _base(self, aggregation: tuple[str, float] | None) -> Usage | None:
        if self.report is None:
            return None
        return self.report.node_usage if aggregation is None else self.report.aggregated_usage(*aggregation)

    def relief(self, uids: Iterable[str]) -> Vector:
        """Return the usage of some of the node's pods: the measured one, else the estimate."""
        report = self.report.pods if self.report is not None else {}
        pods = [self._pods[uid].pod for uid in uids if uid in self._pods]
        return _sum((_known(report.get(pod.key, pod.estimate), pod.estimate) for pod in pods), self._nothing)

    def left_behind(self, uids: Iterable[str], measured: Mapping[str, int]) -> Vector:
        """Return the part of some pods' measured usage that belongs to ended ones."""
        here = self.relief(uids)
        return tuple(
            [max(0, measured.get(name, 0) - less) for name, less in zip(self.rules.resources, here, strict=True)]
        )

    def prod_relief(self, uids: Iterable[str]) -> Vector:
        counted = [self.terms_of(uid) for uid in uids if uid in self._pods]
        return _sum((_plus(pod.prod_usage, pod.prod_delta) for pod in counted), self._nothing)

    def assign(self, pod: PodRequest, now: float) -> None:
        """Put a pod on the node, or replace its entry.

        A pod without a time of scheduling was scheduled now, unless nothing of it that matters changed.
        """
        former, since = self._pods.get(pod.uid), pod.scheduled_at
        if since is None:
            unchanged = former is not None and former.pod.fingerprint == pod.fingerprint
            since = former.timestamp if former and unchanged else now
        self.unassign(pod.uid)
        self._pods[pod.uid] = Assigned(pod, since)
        self.sums = Terms(*map(_plus, self.sums, self.terms_of(pod.uid)))

    def unassign(self, uid: str) -> None:
        """Take a pod off the node. Its measured usage stays in the node's until the next report."""
        if uid not in self._pods:
            return
        gone = self.terms_of(uid)
        del self._pods[uid]
        self.sums = Terms(*map(_minus, self.sums, gone))

    def receive(self, report: NodeReport | None) -> None:
        """Replace the report (None: the NodeMetric is gone) and recalculate all pods."""
        self.report = report
        if report is None:
            self.update_time = NEVER
        elif report.update_time is not None:
            self.update_time = report.update_time
        updated, nothing = self.update_time, self._nothing
        counted = [terms(entry, report, updated, nothing) for entry in self._pods.values()]
        sums = (tuple(map(sum, zip(*vectors, strict=True))) for vectors in zip(*counted, strict=True))
        self.sums = Terms(*sums) if counted else Terms(*(nothing,) * len(Terms._fields))


def _sum(vectors: Iterable[Vector], nothing: Vector) -> Vector:
    return reduce(_plus, vectors, nothing)


def _known(usage: Usage, instead: Vector) -> Vector:
    return tuple([other if amount is None else amount for amount, other in zip(usage, instead, strict=True)])


def _where_known(usage: Usage, amounts: Vector) -> Usage:
    return tuple([None if known is None else amount for known, amount in zip(usage, amounts, strict=True)])


def _where_unknown(usage: Usage, amounts: Vector, instead: Vector) -> Vector:
    triples = zip(usage, amounts, instead, strict=True)
    return tuple([amount if known is None else other for known, amount, other in triples])


def _plus(left: Vector, right: Vector) -> Vector:
    return tuple(map(add, left, right))


def _minus(left: Vector, right: Vector) -> Vector:
    return tuple(map(sub, left, right))
