"""The highest usage of each workload over all nodes, from the reports of their agents. No I/O, no clock.

The maximum counts, so a node can only raise it. A workload is known by the evidence of several nodes: none of them
makes it known alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from crds.predict_policy import PredictPolicy
from crds.quantity import QuantityError, format_bytes, format_milli_cores, milli_value, value
from crds.workload_history import LEAST_HOURS, LONGEST_HOURS, MOST_WORKLOADS, WorkloadUsage, parse_usage

_DIGITS: Final = 5  # binary digits of an amount that is handed out: it is rounded up by at most 1/16
_MIB: Final = 1 << 20
_DAY_HOURS: Final = 24

Usage = tuple[int, int, int]
"""CPU, memory and observed time. [milli-cores, MiB, h]"""
_NONE: Final[Usage] = 0, 0, 0

_Report = tuple[str, tuple[int, int] | None]
"""The lines of a report, and the capacity of its node, if known. [milli-cores, bytes]"""


@dataclass(slots=True)
class WorkloadHistories:
    """The reports of all nodes. A NodeMetric keeps its report, so the first list after a start has all of them."""

    dropped: int = 0  # workloads in reports that could not be used, since the start
    _usage: dict[str, dict[str, Usage]] = field(default_factory=dict)  # by id of the workload, then by node
    _highest: dict[str, Usage] = field(default_factory=dict)  # the maxima over nodes that were needed, by id
    _reports: dict[str, _Report] = field(default_factory=dict)  # the last report of each node
    _cold: dict[str, tuple[str, ...]] = field(default_factory=dict)  # ids of workloads with cold pods, by node

    def put(self, node: str, lines: object, capacity: Mapping[str, Any]) -> None:
        """Replace the report of a node. Malformed usage, and usage above the capacity, is dropped.

        A report counts once the capacity of its node is known: a NodeMetric may arrive before its Node.
        """
        text = "\n".join(map(str, lines[:MOST_WORKLOADS])) if isinstance(lines, list) else ""
        self._put(node, (text, _amounts(capacity)))

    def put_capacity(self, node: str, capacity: Mapping[str, Any]) -> None:
        """Check the report of a node, if there is one, against its capacity, which is empty for a deleted Node."""
        if node in self._reports:
            self._put(node, (self._reports[node][0], _amounts(capacity)))

    def drop(self, node: str) -> None:
        """Drop the report of a node, if there is one."""
        self._put(node, ("", None))
        del self._reports[node], self._cold[node]

    def needed(self, node: str, policy: PredictPolicy) -> dict[str, dict[str, str]]:
        """The histories for the cold pods of a node, by id of the workload, as `spec.workloadHistory` has them."""
        if not policy.use_workload_history:
            return {}
        histories = {workload: self._history(workload, policy) for workload in self._cold.get(node, ())}
        return {workload: history for workload, history in histories.items() if history is not None}

    def _history(self, workload: str, policy: PredictPolicy) -> dict[str, str] | None:
        """The highest usage of a workload; None while there is too little evidence of it."""
        if workload not in self._usage:
            return None
        usages = self._usage[workload].values()
        if workload not in self._highest:
            self._highest[workload] = _largest(usages)
        cpu, memory, longest = self._highest[workload]
        if longest < LONGEST_HOURS or not _is_known(usages, policy):
            return None
        return {"cpu": format_milli_cores(_rounded_up(cpu)), "memory": format_bytes(_rounded_up(memory) * _MIB)}

    def _put(self, node: str, report: _Report) -> None:
        before = self._reports.get(node)
        if report == before:
            return
        old, new = _lines(before[0]) if before else set(), _lines(report[0])
        if before and before[1] == report[1]:  # the other lines were checked by the same capacity
            old, new = old - new, new - old
        stale = {line.partition(" ")[0] for line in old}
        usages = {usage.id: usage for usage in self._usable(sorted(new), report[1])}
        for workload in stale - usages.keys():
            self._replace(workload, node, _NONE)
        for workload, usage in usages.items():
            self._replace(workload, node, (usage.cpu_milli, usage.memory_mib, usage.hours))
        self._reports[node] = report
        cold = {*self._cold.get(node, ())} - stale | {usage.id for usage in usages.values() if usage.cold}
        self._cold[node] = tuple(sorted(cold))

    def _replace(self, workload: str, node: str, usage: Usage) -> None:
        """Replace the usage of a workload on a node. Its maximum remains valid unless this node had it and has less."""
        usages = self._usage.setdefault(workload, {})
        before, present = usages.pop(node, _NONE), usage if all(usage) else _NONE
        if any(present):
            usages[node] = present
        highest = self._highest.pop(workload, None)
        if not usages:
            del self._usage[workload]
        elif highest and all(now >= was or was < most for now, was, most in zip(present, before, highest, strict=True)):
            self._highest[workload] = _largest((highest, present))

    def _usable(self, lines: Iterable[str], most: tuple[int, int] | None) -> Iterator[WorkloadUsage]:
        if most is None:
            return
        for line in lines:
            try:
                usage = parse_usage(line)
            except ValueError:
                self.dropped += 1
                continue
            if usage.cpu_milli > most[0] or usage.memory_mib * _MIB > most[1] + _MIB:
                self.dropped += 1
            else:
                yield usage


def _lines(text: str) -> set[str]:
    return set(text.split("\n")[:MOST_WORKLOADS]) if text else set()


def _amounts(capacity: Mapping[str, Any]) -> tuple[int, int] | None:
    """CPU and memory of a node; None while they are unknown. [milli-cores, bytes]"""
    try:
        return milli_value(capacity["cpu"]), value(capacity["memory"])
    except (KeyError, QuantityError):
        return None


def _largest(usages: Iterable[Usage]) -> Usage:
    cpu, memory, hours = map(max, zip(*usages, strict=True))
    return cpu, memory, hours


def _is_known(usages: Iterable[Usage], policy: PredictPolicy) -> bool:
    """Return whether there is enough evidence on enough nodes."""
    lacking_hours = _DAY_HOURS * (policy.workload_history_pod_days or 1)
    lacking_nodes = policy.workload_history_nodes or 2
    for _, _, hours in usages:
        lacking_hours -= hours
        lacking_nodes -= hours >= LEAST_HOURS
        if lacking_hours <= 0 and lacking_nodes <= 0:
            return True
    return False


def _rounded_up(amount: int) -> int:
    """Return an amount with few digits, so that a slightly higher usage changes no NodeMetric."""
    shift = max(amount.bit_length() - _DIGITS, 0)
    return -(-amount >> shift) << shift
