"""The shortage of Mid resources, and its duration. Unknown inputs count in favour of running pods."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Self

from manager.calculators.base import Result
from manager.calculators.mid import calculate
from manager.inputs import Amounts, Measured, NodeInputs, PodInputs, Resource, total
from manager.inputs.amounts import NOTHING
from manager.mid.eviction.selection import beyond_requests, subtract


@dataclass(frozen=True, slots=True)
class Shortage:
    """The arithmetic of one reconciliation. [milli-cores, bytes]"""

    requested: Amounts = NOTHING
    calculated: Amounts = NOTHING  # what may be published, at least
    terminating: Amounts = NOTHING
    released: Amounts = NOTHING  # usage beyond requests that ends with terminating pods, and with those that have ended
    usage: Mapping[str, Amounts] = field(default_factory=dict)  # usage of pods by "namespace/name"

    @property
    def deficit(self) -> Amounts:
        return subtract(self.requested, self.calculated)

    @property
    def short(self) -> Amounts:
        return subtract(self.deficit, self.terminating + self.released)

    @property
    def resources(self) -> tuple[Resource, ...]:
        return tuple(resource for resource in Resource if self.deficit[resource])

    def only(self, which: Amounts) -> Self:
        amounts = (self.requested[resource] if which[resource] else 0 for resource in Resource)
        return replace(self, requested=Amounts(*amounts))

    def without(self, pod: PodInputs) -> Self:
        """Return the shortage when one more pod is terminating."""
        released = self.released + beyond_requests(pod, self.usage)
        return replace(self, terminating=self.terminating + pod.mid_requests, released=released)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A Mid pod that ended, with its usage beyond its requests when it was last reported. [milli-cores, bytes]"""

    pod: PodInputs
    beyond: Amounts = NOTHING
    ended: float = 0.0  # when its end was observed [s]


def shortage(
    inputs: NodeInputs, result: Result, tombstones: Iterable[Tombstone], terminating: Iterable[PodInputs]
) -> Shortage | None:
    """Return the shortage that a fresh report proves; `None` when it proves none.

    Unknown inputs evict no pod. A report that is missing, too old, or of an agent that reports that it
    does not measure proves nothing, nor does a node that is in shadow mode or disabled. Missing usage
    counts as none, and Reclaimable that is missing or not ready counts as unlimited: then only what the node
    really uses can show a shortage.

    Args:
        inputs: of the formula.
        result: of the formula.
        tombstones: Mid pods that have left but are still in the reported usage.
        terminating: the terminating Mid pods.
    """
    report = inputs.report
    if report is None or result.degraded or inputs.strategy.shadow or not report.collecting:
        return None
    ended = list(tombstones)
    favoured = calculate(_in_favour(inputs, [tombstone.pod for tombstone in ended])) if result.deficit else result
    released = total(tombstone.beyond for tombstone in ended)
    proven = Shortage(favoured.requested, favoured.calculated, released=released, usage=report.pod_usage)
    return reduce(Shortage.without, terminating, proven)


def unknown_inputs(inputs: NodeInputs) -> tuple[str, ...]:
    """The inputs that are unknown although a report is there, which therefore protect the Mid pods; a sentence each."""
    report = inputs.report
    if report is None:
        return ()
    result = (
        [] if report.collecting else ["the agent reports that it does not measure this node (condition Collecting)"]
    )
    if not _is_known(report.node_usage):
        result.append("the usage of the node is not reported")
    elif report.own_agent and not _is_known(report.system_usage):
        result.append("the usage of the system is not reported")
    if not report.prediction_ready:
        result.append("the prediction is not ready (condition PredictionReady)")
    elif not _is_known(report.reclaimable):
        result.append("what can be reclaimed of Prod pods is not reported")
    return tuple(result)


def unproven_deficit(inputs: NodeInputs, result: Result, seen: Shortage | None) -> Amounts:
    """The part of a deficit for which no pod is evicted, because it follows from unknown inputs."""
    if result.degraded or inputs.strategy.shadow or not unknown_inputs(inputs):
        return NOTHING
    return subtract(result.deficit, seen.deficit if seen else NOTHING)


def _in_favour(inputs: NodeInputs, tombstones: Iterable[PodInputs]) -> NodeInputs:
    """The inputs with everything unknown in favour of the Mid pods; never a lower result."""
    report = inputs.report
    if report is None:
        return inputs
    measured = report.reclaimable if report.prediction_ready else Measured()
    reclaimable = Measured(*(_or(measured[resource], inputs.allocatable[resource]) for resource in Resource))
    usage, system = report.node_usage, report.system_usage
    if not (_is_known(usage) and (_is_known(system) or not report.own_agent)):
        usage = system = Measured(0, 0)
    favoured = replace(report, reclaimable=reclaimable, node_usage=usage, system_usage=system)
    return replace(inputs, report=favoured, mid_own=_mid_own(inputs, tombstones))


def _is_known(measured: Measured) -> bool:
    return all(measured[resource] is not None for resource in Resource)


def _or(amount: int | None, instead: int | None) -> int | None:
    return instead if amount is None else amount


def _mid_own(inputs: NodeInputs, tombstones: Iterable[PodInputs]) -> Amounts:
    """Return the usage of Mid pods up to their requests, including ended ones that are in the reported usage.

    Without them their usage would count as that of other pods until the report's window has passed, and one eviction
    would lead to the next.
    """
    report = inputs.report
    if report is None:
        return inputs.mid_own
    if report.own_agent:
        allocated = total([inputs.mid_requests, *(pod.mid_requests for pod in tombstones)])
        return Amounts(
            *(
                min(_or(report.mid_usage[resource], allocated[resource]) or 0, allocated[resource])
                for resource in Resource
            )
        )
    both = ((report.pod_usage.get(pod.key, NOTHING), pod.mid_requests) for pod in tombstones)
    left = (Amounts(*(min(used[resource], wanted[resource]) for resource in Resource)) for used, wanted in both)
    return total([inputs.mid_own, *left])


@dataclass(slots=True)
class Tombstones:
    """The Mid pods of a node between reconciliations, and those that have left."""

    _present: dict[str, Tombstone] = field(default_factory=dict)
    _left: list[Tombstone] = field(default_factory=list)

    def update(self, pods: Mapping[str, PodInputs], usage: Mapping[str, Amounts], now: float) -> None:
        self._left += [replace(tombstone, ended=now) for uid, tombstone in self._present.items() if uid not in pods]
        self._present = {uid: Tombstone(pod, beyond_requests(pod, usage)) for uid, pod in pods.items()}

    def still_reported(self, reported_at: float, window_seconds: float) -> list[Tombstone]:
        """Return the pods that ended within the time of a report; earlier ones are dropped.

        Args:
            reported_at: when the report was sent, on the clock of `update`. [s]
            window_seconds: of how much time before that its usage is the mean. [s]
        """
        self._left = [tombstone for tombstone in self._left if tombstone.ended > reported_at - window_seconds]
        return list(self._left)


@dataclass(slots=True)
class ShortageTimer:
    """Since when each resource has been short without a break. [s]"""

    since: dict[Resource, float] = field(default_factory=dict)

    def update(self, short: Amounts, now: float) -> None:
        self.since = {resource: self.since.get(resource, now) for resource in Resource if short[resource] > 0}

    def due(self, short: Amounts, after_seconds: float, confirmed_at: float, now: float) -> Amounts:
        """The part of a shortage that has lasted for longer than a time, and that a later report has confirmed.

        Args:
            short: the present shortage.
            after_seconds: how long it must have lasted. [s]
            confirmed_at: when the present report was received: one report alone evicts no pod. [s]
            now: the clock of all of them. [s]
        """
        proven = [each for each, since in self.since.items() if now - since >= after_seconds and confirmed_at > since]
        return Amounts(*(short[resource] if resource in proven else 0 for resource in Resource))

    def next_due(self, after_seconds: float, now: float) -> float | None:
        """In how many seconds the next resource will have been short for a time; `None` when none will."""
        waits = [since + after_seconds - now for since in self.since.values()]
        return min((wait for wait in waits if wait > 0), default=None)
