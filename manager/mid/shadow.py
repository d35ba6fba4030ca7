"""Shadow mode's account: what a node would have published, and how often that would have been too much. Pure.

A node in shadow mode writes to a Node that exists only here, by the same rules as to the real one: decreases at once,
increases after they held, requests of running Mid pods never removed. Each full report then evaluates the amounts
published since the report before it, as far back as the report's averages reach
(`metricAggregateDurationSeconds`), per resource and in integers:

    reserved = max(system usage + Prod host applications, capacity - allocatable, annotation reservation)
    used     = usage of the pods above Mid; without a value from the agent, node usage - system usage - midOwn
    free     = max(capacity - reserved - used, 0)                            what Mid pods could have had
    too much = max(published - free, 0)

Free CPU is at most the idle part of the shared pool, as in the formula (`manager.calculators.mid`).

With 16 cores of which 15 are allocatable, 1 in use by the system and 9 by Prod pods: free = 16 - 1 - 9 = 6 cores, and
a published amount of 7 was 1 core too much for all the time that it was there. Half the time counts half.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Self

from crds.node_metric import ShadowAccount
from crds.quantity import milli_value, value
from manager.calculators.base import Result
from manager.inputs import Amounts, NodeInputs, Resource
from manager.inputs.reading import parse_time
from manager.mid import publish

_MOST_INTERVALS: Final = 100
_MILLI: Final = 1000
_LATEST: Final = datetime.max.replace(tzinfo=UTC).timestamp() - 1.0


def free_for_mid(inputs: NodeInputs) -> Amounts | None:
    """Return the free resources of Mid pods by a report; `None` when it has no usage."""
    report = inputs.report
    if report is None or any(report.node_usage[resource] is None for resource in Resource):
        return None
    return Amounts(*(_free(inputs, resource) for resource in Resource))


def _free(inputs: NodeInputs, resource: Resource) -> int:
    report = inputs.report
    if report is None:
        return 0
    allocatable = inputs.allocatable[resource] or 0
    stated = inputs.capacity[resource]
    capacity = allocatable if stated is None else stated
    system = report.system_usage[resource] or 0
    reserved = max(system + report.prod_host_usage[resource], capacity - allocatable, inputs.reservation[resource])
    used = report.prod_usage[resource]
    if used is None:
        used = max((report.node_usage[resource] or 0) - system - inputs.mid_own[resource], 0)
    free = max(capacity - reserved - used, 0)
    if resource is Resource.CPU and report.exclusive_cpu:
        return report.shared_idle(free, capacity - reserved)
    return free


@dataclass(frozen=True, slots=True)
class Account:
    """The Mid amounts that a node in shadow mode would have published."""

    since: float  # when the account began [unix s]
    observed: int = 0  # the time that reports could evaluate [ms]
    published_total: Amounts = Amounts()  # noqa: RUF009 - a frozen value
    """Published amounts, summed over that time. [milli-cores * ms, bytes * ms]"""
    too_much: Amounts = Amounts()  # noqa: RUF009 - a frozen value
    """For how long it was too much. [ms]"""
    worst: Amounts = Amounts()  # noqa: RUF009 - a frozen value
    """By how much at worst. [milli-cores, bytes]"""

    @property
    def mean(self) -> Amounts:
        """Mean of the published amounts; zero before anything was evaluated. [milli-cores, bytes]"""
        return Amounts(
            *(self.published_total[resource] // self.observed if self.observed else 0 for resource in Resource)
        )

    def add(self, published: Amounts, free: Amounts, milliseconds: int) -> "Account":
        """The account after some time with a published amount and an amount that was free."""
        over = [max(published[resource] - free[resource], 0) for resource in Resource]
        return replace(
            self,
            observed=self.observed + milliseconds,
            published_total=self.published_total
            + Amounts(*(published[resource] * milliseconds for resource in Resource)),
            too_much=self.too_much + Amounts(*(milliseconds if excess else 0 for excess in over)),
            worst=Amounts(*(max(self.worst[each], more) for each, more in zip(Resource, over, strict=True))),
        )


class ShadowSimulation:
    """A node in shadow mode, between reconciliations.

    Args:
        account: the account so far.
        published: the amounts that it would publish; `None` for none.
        now: a clock that never jumps. [s]
    """

    def __init__(self, account: Account, published: Amounts | None, now: float) -> None:
        self.account = account
        self._published = {
            resource: publish.PublishedAmount(None if published is None else published[resource])
            for resource in Resource
        }
        self._writer = publish.PublishState()
        self._intervals: list[tuple[float, Amounts]] = [(now, self._amounts())]
        self._last_report: float | None = None
        self._first = True

    @property
    def published(self) -> Amounts | None:
        """Return the amounts to publish now; `None` when the Node would not have the resources."""
        return None if all(amount.amount is None for amount in self._published.values()) else self._amounts()

    def _amounts(self) -> Amounts:
        return Amounts(*(self._published[resource].amount or 0 for resource in Resource))

    def observe(self, inputs: NodeInputs, active: Result, window_seconds: float, now: float) -> float | None:
        """Evaluate the time until now if a report has come, and then decide what would be written.

        Args:
            inputs: of the formula.
            active: the result for a node in active mode.
            window_seconds: of how much time a report's usage is the mean. [s]
            now: a clock that never jumps. [s]

        Returns:
            In how many seconds an increase that waits would be written; `None` when none waits. [s]
        """
        reported = inputs.report.update_time if inputs.report else None
        if reported is not None and reported != self._last_report:
            self._last_report = reported
            free = free_for_mid(inputs)
            # The first report was evaluated by an earlier simulation, or covers the time before.
            if free is not None and active.degraded is None and not self._first:
                self._charge(free, now - window_seconds, now)
            self._intervals = [(now, self._amounts())]
        self._first = False
        decision = publish.decide(
            self._published,
            active.desired,
            inputs.strategy,
            self._writer,
            now,
            active.requested,
            expired=active.expired,
        )
        self._writer = decision.state
        if decision.writes:
            self._writer = publish.state_after_writes(decision, now)
            self._published.update({each: publish.PublishedAmount(amount) for each, amount in decision.writes.items()})
            self._intervals = [*self._intervals, (now, self._amounts())][-_MOST_INTERVALS:]
        return None if decision.requeue_at is None else decision.requeue_at - now

    def _charge(self, free: Amounts, begin: float, now: float) -> None:
        ends = [start for start, _ in self._intervals[1:]]
        for (start, published), end in zip(self._intervals, [*ends, now], strict=True):
            seconds = end - max(start, begin)
            if seconds > 0:
                self.account = self.account.add(published, free, round(seconds * _MILLI))

    def to_status(self, now: float) -> ShadowAccount:
        """Return the account in its stored form."""
        account = self.account
        return ShadowAccount(
            since=_text(account.since),
            time=_text(now),
            observed_seconds=account.observed // _MILLI,
            offered=None if self.published is None else _quantities(self.published),
            mean=_quantities(account.mean),
            too_much_seconds={resource.value: account.too_much[resource] // _MILLI for resource in Resource},
            worst_excess=_quantities(account.worst),
        )


@dataclass(frozen=True, slots=True)
class StoredAccount:
    """An account as it was found."""

    account: Account
    published: Amounts | None  # what would have been published
    written_at: float  # when it was written [unix s]

    @classmethod
    def of(cls, found: ShadowAccount) -> Self | None:
        """A stored account; `None` when it is impossible."""
        try:
            observed = (found.observed_seconds or 0) * _MILLI
            too_much = found.too_much_seconds or {}
            account = Account(
                since=parse_time(found.since or ""),
                observed=observed,
                published_total=Amounts(*(mean * observed for mean in _pair(found.mean))),
                too_much=Amounts(*(too_much.get(resource.value, 0) * _MILLI for resource in Resource)),
                worst=Amounts(*_pair(found.worst_excess)),
            )
            published = None if found.offered is None else Amounts(*_pair(found.offered))
            stored = cls(account, published, parse_time(found.time or ""))
        except ValueError:
            return None
        return stored if stored._is_possible() else None

    def _is_possible(self) -> bool:
        """Return whether the account is possible; the definition cannot check all of it."""
        account, published = self.account, self.published or Amounts()
        amounts = (account.published_total, account.too_much, account.worst, published)
        smallest = min(*(amount[resource] for amount in amounts for resource in Resource), account.observed)
        if not (smallest >= 0 and 0 <= account.since <= _LATEST):
            return False
        return all(account.too_much[resource] <= account.observed for resource in Resource)


def _pair(amounts: Mapping[str, str] | None) -> tuple[int, int]:
    by_resource = amounts or {}
    return milli_value(by_resource.get("cpu", 0)), value(by_resource.get("memory", 0))


def _quantities(amounts: Amounts) -> dict[str, str]:
    return {"cpu": f"{amounts.cpu}m", "memory": str(amounts.memory)}


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
