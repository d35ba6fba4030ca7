"""The highest usage of each workload over all nodes, from the reports of their agents. No I/O, no clock.

The maximum counts, so a node can only raise it. A workload is known by the evidence of several nodes: each of them
counts for at most its share, `workloadHistoryPodDays` / `workloadHistoryNodes`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from crds.predict_policy import PredictPolicy
from crds.quantity import QuantityError, format_bytes, format_milli_cores, milli_value, value
from crds.workload_history import MOST_WORKLOADS, WorkloadUsage, parse_usage

_DIGITS: Final = 5  # binary digits of an amount that is handed out: it is rounded up by at most 1/16
_MIB: Final = 1 << 20
_DAY_HOURS: Final = 24

Usage = tuple[int, int, int]
"""CPU, memory and observed time. [milli-cores, MiB, h]"""


@dataclass(slots=True)
class WorkloadHistories:
    """The reports of all nodes. A NodeMetric keeps its report, so the first list after a start has all of them."""

    dropped: int = 0  # workloads in reports that could not be used, since the start
    _usage: dict[str, dict[str, Usage]] = field(default_factory=dict)  # by id of the workload, then by node
    _reports: dict[str, tuple[tuple[str, ...], tuple[int, int] | None]] = field(default_factory=dict)
    """The last report of each node, and the capacity that it was checked against. [milli-cores, bytes]"""
    _cold: dict[str, tuple[str, ...]] = field(default_factory=dict)  # ids of workloads with cold pods, by node

    def put(self, node: str, lines: object, capacity: Mapping[str, Any]) -> None:
        """Replace the report of a node. Malformed usage, and usage above the capacity, is dropped.

        A report counts once the capacity of its node is known: a NodeMetric may arrive before its Node.
        """
        self._put(node, tuple(map(str, lines[:MOST_WORKLOADS])) if isinstance(lines, list) else (), capacity)

    def put_capacity(self, node: str, capacity: Mapping[str, Any]) -> None:
        """Check the report of a node, if there is one, against its capacity, which is empty for a deleted Node."""
        if node in self._reports:
            self._put(node, self._reports[node][0], capacity)

    def _put(self, node: str, lines: tuple[str, ...], capacity: Mapping[str, Any]) -> None:
        most = _amounts(capacity)
        if self._reports.get(node) == (lines, most):
            return
        self.drop(node)
        self._reports[node] = lines, most
        workloads = self._usable(lines, most) if most is not None else []
        for usage in workloads:
            if usage.hours and usage.cpu_milli and usage.memory_mib:
                self._usage.setdefault(usage.id, {})[node] = usage.cpu_milli, usage.memory_mib, usage.hours
        self._cold[node] = tuple(sorted({usage.id for usage in workloads if usage.cold}))

    def drop(self, node: str) -> None:
        """Drop the report of a node, if there is one."""
        lines, _ = self._reports.pop(node, ((), None))
        for line in lines:
            workload, _, _ = line.partition(" ")
            nodes = self._usage.get(workload, {})
            nodes.pop(node, None)
            if not nodes:
                self._usage.pop(workload, None)
        self._cold.pop(node, None)

    def needed(self, node: str, policy: PredictPolicy) -> dict[str, dict[str, str]]:
        """The histories for the cold pods of a node, by id of the workload, as `spec.workloadHistory` has them."""
        if not policy.use_workload_history:
            return {}
        histories = {workload: self._history(workload, policy) for workload in self._cold.get(node, ())}
        return {workload: history for workload, history in histories.items() if history is not None}

    def _history(self, workload: str, policy: PredictPolicy) -> dict[str, str] | None:
        """The highest usage of a workload; None while there is too little evidence of it."""
        usages = self._usage.get(workload, {}).values()
        wanted, nodes = _DAY_HOURS * (policy.workload_history_pod_days or 1), policy.workload_history_nodes or 2
        if sum(min(usage[2] * nodes, wanted) for usage in usages) < wanted * nodes:
            return None
        cpu, memory = (_rounded_up(max(usage[place] for usage in usages)) for place in (0, 1))
        return {"cpu": format_milli_cores(cpu), "memory": format_bytes(memory * _MIB)}

    def _usable(self, lines: Sequence[str], most: tuple[int, int]) -> list[WorkloadUsage]:
        result = []
        for line in lines:
            try:
                usage = parse_usage(line)
            except ValueError:
                self.dropped += 1
                continue
            if usage.cpu_milli > most[0] or usage.memory_mib * _MIB > most[1] + _MIB:
                self.dropped += 1
            else:
                result.append(usage)
        return result


def _amounts(capacity: Mapping[str, Any]) -> tuple[int, int] | None:
    """CPU and memory of a node; None while they are unknown. [milli-cores, bytes]"""
    try:
        return milli_value(capacity["cpu"]), value(capacity["memory"])
    except (KeyError, QuantityError):
        return None


def _rounded_up(amount: int) -> int:
    """Return an amount with few digits, so that a slightly higher usage changes no NodeMetric."""
    shift = max(amount.bit_length() - _DIGITS, 0)
    return -(-amount >> shift) << shift
