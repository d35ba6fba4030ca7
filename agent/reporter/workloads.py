"""The usage of this node's workloads, for the cold pods of the same workloads on other nodes. Pure."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray, IntArray
from agent.numerics.history import ResourceHistory
from agent.pods import PodRef
from agent.predictors.base import ClassView
from agent.samples import CPU, MEMORY
from agent.trainer.trainer import Trainer
from crds.workload_history import LONGEST_REPORT, MOST_HOURS, MOST_WORKLOADS, WorkloadUsage, whole_mib, workload_id

_HOUR_SECONDS: Final = 3600.0
_LINE_OVERHEAD: Final = 3  # quotes and comma of JSON [bytes]
_ROUNDING: Final = 1e-6


def workload_lines(trainer: Trainer, pods: Sequence[PodRef], cold: Collection[str]) -> tuple[str, ...]:
    """The usage of each workload with measured pods, at most `LONGEST_REPORT`: those with cold pods first.

    `pods` are those on this node, `cold` the titles of cold ones. Workloads without pods follow, the latest first.
    """
    here = [pod for pod in pods if not pod.terminal]
    present = Counter(pod.workload or "" for pod in here)
    lacking = Counter(pod.workload or "" for pod in here if pod.title in cold)
    rows = trainer.rows_by_workload()
    order = sorted(rows, key=lambda workload: (-min(lacking[workload], 1), -min(present[workload], 1)))
    lines: list[str] = []
    size = 2
    for line in _lines(trainer, [(workload, rows[workload]) for workload in order], present, lacking):
        size += len(line) + _LINE_OVERHEAD
        if size > LONGEST_REPORT or len(lines) == MOST_WORKLOADS:
            break
        lines.append(line)
    return tuple(lines)


def _lines(
    trainer: Trainer, workloads: Sequence[tuple[str, IntArray]], present: Counter[str], lacking: Counter[str]
) -> Iterator[str]:
    owners = np.repeat(np.arange(len(workloads)), [len(rows) for _, rows in workloads])
    rows = np.concatenate([rows for _, rows in workloads]) if workloads else np.empty(0, dtype=np.intp)
    histories = trainer.histories
    highest = {name: _largest(_highest(history, rows), owners, len(workloads)) for name, history in histories.items()}
    observed = np.minimum.reduce([history.observed[rows] for history in histories.values()])
    hours = _largest(observed, owners, len(workloads)) / _HOUR_SECONDS
    for place, (workload, _) in enumerate(workloads):
        cpu, memory = float(highest[CPU][place]), float(highest[MEMORY][place])
        if hours[place] > 0.0 and 0.0 < cpu < math.inf and 0.0 < memory < math.inf:
            yield str(
                WorkloadUsage(
                    workload_id(workload),
                    math.ceil(cpu * 1000 - _ROUNDING),
                    whole_mib(memory),
                    min(int(hours[place]), MOST_HOURS),
                    present[workload],
                    lacking[workload],
                )
            )
        elif lacking[workload]:  # not measured yet
            yield str(WorkloadUsage(workload_id(workload), 0, 0, 0, present[workload], lacking[workload]))


def _highest(history: ResourceHistory, rows: IntArray) -> FloatArray:
    """Return the highest 5-minute average of each row in the last week; of memory, the highest second."""
    highest = ClassView(history, 0, rows, np.zeros(len(rows))).windows().highest[0]
    return np.where(np.isnan(highest), 0.0, highest)


def _largest(values: FloatArray, owners: IntArray, count: int) -> FloatArray:
    result = np.zeros(count)
    np.maximum.at(result, owners, values)
    return result
