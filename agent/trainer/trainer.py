"""Learning from the store: one training round per interval turns raw seconds into one sample for every entity."""

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from agent.numerics.aggregate import percentile_rows, table, total
from agent.numerics.arrays import FloatArray, IntArray
from agent.numerics.history import ResourceHistory, cpu_history, memory_history
from agent.numerics.packing import CheckpointError, pack, unpack
from agent.numerics.peaks import SLOT_SECONDS, SLOTS, SLOTS_PER_DAY
from agent.pods import PodRef
from agent.samples import CPU, MEMORY
from agent.series_index import CLASS_ENTITIES, FIXED, SeriesEntry, SeriesIndex, SeriesIndexLimits
from agent.trainer.window_blocks import WindowBlocks
from agent.tsdb.series import EMPTY, Series
from crds.codec import from_json, to_json
from crds.predict_policy import PredictPolicy

SAMPLE_PERCENTILE: Final = 0.9  # a training sample is this percentile of the raw seconds of its interval
_DAY_SECONDS: Final = 86400.0
_LONGEST_STEP: Final = 1.5
_ROUNDING: Final = 1e-6
_PREFIX: Final = "training/"
_INDEX: Final = _PREFIX + "roster"


class TrainingStore(Protocol):
    """The part of the store that the trainer reads."""

    def windows(self, metric: str, start: float, end: float) -> Mapping[str, Series]:
        """Raw samples with start < time <= end, by entity."""

    def averages(self, metric: str, start: float, end: float, entities: Collection[str]) -> Mapping[str, Series]:
        """5-minute averages of these entities, at the times their 5 minutes begin."""


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Parameters of training."""

    interval_seconds: float = 30.0  # time from one training round to the next [s]
    catch_up_seconds: float = 3600.0
    """After a restart, this much of the store is learned; older seconds are left out. [s]"""
    index_limits: SeriesIndexLimits = field(default_factory=SeriesIndexLimits)
    """The retention of pods and workloads."""


class Trainer:
    """Everything that was learned on this node, by resource and entity. Survives restarts through its checkpoints."""

    def __init__(self, settings: TrainingSettings | None = None) -> None:
        self.settings = settings or TrainingSettings()
        self.histories: dict[str, ResourceHistory] = {CPU: cpu_history(), MEMORY: memory_history()}
        self.trained_until: float | None = None
        self.policy: PredictPolicy | None = None
        """The prediction policy last in force, so that a restart does not fall back to the default one."""
        self.requested_policy: PredictPolicy | None = None
        """The last valid policy that a spec requested: it stays in force when the spec loses the field."""
        self._tick_seconds = 1.0
        self._last_tick: dict[str, float] = {}
        self._windows_known = False
        self._unfilled: list[tuple[str, float, float]] = []
        self._blocks = WindowBlocks()
        self._index = SeriesIndex(self.settings.index_limits, self)
        self._grow()

    def row(self, entity: str) -> int | None:
        """The row of the node, the system, a class or a pod in every history; None for a pod never seen."""
        return self._index.row(entity)

    def class_of(self, uid: str) -> str | None:
        """The class that a pod counts to; also of one that departed lately. None when it is not known."""
        entry = self._index.entries.get(uid)
        return entry.class_name or None if entry is not None else None

    def rows_by_kind(self) -> dict[str, IntArray]:
        """Rows of everything that was learned, by kind of owner (`SeriesEntry.kind`), each shape (N,)."""
        result: dict[str, list[int]] = {}
        for entry in self._index.entries.values():
            result.setdefault(entry.kind, []).append(entry.row)
        return {kind: np.array(rows, dtype=np.intp) for kind, rows in result.items()}

    def rows_by_workload(self) -> dict[str, IntArray]:
        """Rows of the pods of each workload and of its ended pods: workloads with pods, then the latest ended ones."""
        result: dict[str, list[SeriesEntry]] = {}
        for entry in self._index.entries.values():
            if entry.workload is not None:
                result.setdefault(entry.workload, []).append(entry)

        def order(workload: str) -> tuple[float, str]:
            return -max(math.inf if entry.present else entry.ended_at or 0.0 for entry in result[workload]), workload

        return {
            workload: np.array([entry.row for entry in result[workload]], dtype=np.intp)
            for workload in sorted(result, key=order)
        }

    def update_pods(self, now: float, pods: Sequence[PodRef]) -> None:
        """Take in which pods are on this node now [seconds since 1970].

        Called every tick: what a pod of a few seconds used has an owner then, too.
        """
        self._index.update(now, pods)
        self._grow()

    def train(self, now: float, store: TrainingStore, pods: Sequence[PodRef]) -> None:
        """A training round: learn the whole intervals that have ended since the last one.

        A missing measurement is skipped: an entity without samples gets none, and so does a class without pods. The
        intervals follow one another without regard to when this is called, so a restart in between changes nothing.

        Args:
            now: the time. [seconds since 1970]
            store: where the raw seconds are.
            pods: the pods on this node.
        """
        self.update_pods(now, pods)
        edges = self._edges(now)
        start, end = float(edges[0]), float(edges[-1])
        for metric, history in self.histories.items():
            if end <= start:
                break
            rows, ticks, values = self._table(history, store.windows(metric, start, end))
            bounds = np.searchsorted(ticks, edges, side="right")
            for edge, low, high in zip(edges[1:], bounds[:-1], bounds[1:], strict=True):
                self._train(history, rows, ticks[low:high], values[:, low:high], float(edge))
        if not self._windows_known:
            self._windows_known, self._unfilled = True, list(self._unknown_days(now))
        self.trained_until = end

    def fill(self, store: TrainingStore) -> bool:
        """Take one day of unknown 5-minute averages of one resource from the store, the latest first.

        Called every tick, so that none has to wait for weeks of them. There are none to take but after the agent was
        away for long, its clock was set back, or a policy looks further back than the one before it.

        Returns:
            Whether there was one to take.
        """
        if not self._unfilled:
            return False
        metric, start, end = self._unfilled.pop()
        for entity, averages in store.averages(metric, start, end, self._index.measured.entities).items():
            if (row := self.row(entity)) is not None:
                self.histories[metric].windows.fill(row, averages.times, averages.values)
        return True

    def evidence(self, row: int) -> float:
        """For how long the owner of a row was observed. [s]"""
        return max(float(history.observed[row]) for history in self.histories.values())

    def clear(self, row: int) -> None:
        """A row is given to a new owner."""
        self._grow()
        self._blocks.successors.discard(row)
        for history in self.histories.values():
            history.clear(row)

    def copy(self, source: int, target: int) -> None:
        """A row continues another's history."""
        self._grow()
        self._blocks.successors.add(target)
        for history in self.histories.values():
            history.copy(source, target)

    @property
    def clock(self) -> float:
        """The index's clock, which takes no part in jumps of the machine's. [s]"""
        return self._index.clock

    @property
    def window_days(self) -> float:
        """Return how far back 5-minute averages are kept. [days]"""
        return self.histories[CPU].windows.slots / SLOTS_PER_DAY

    def resize_windows(self, window_days: float) -> None:
        """Keep 5-minute averages for a policy's window, and never less than a week; the store has the older ones."""
        slots = max(SLOTS, math.ceil(window_days * SLOTS_PER_DAY))
        for history in self.histories.values():
            self._windows_known &= slots <= history.windows.slots
            history.windows.resize(slots)

    def checkpoints(self) -> dict[str, bytes]:
        """Everything that was learned, as bytes by name: the same bytes object as before where nothing changed."""
        entries = self._index.entries.values()
        rows = np.array([entry.row for entry in entries], dtype=np.intp)
        facts = {
            "series": self._index.to_json(),
            "trained_until": self.trained_until,
            "tick_seconds": self._tick_seconds,
            "policy": None if self.policy is None else to_json(self.policy),
            "requested": None if self.requested_policy is None else to_json(self.requested_policy),
            "windows_known": self._windows_known,
            "unfilled": self._unfilled,
        }
        blocks = self._blocks.content(self.histories, entries)
        return {
            _INDEX: pack(facts, {}),
            **{_PREFIX + metric: history.checkpoint(rows) for metric, history in self.histories.items()},
            **{_PREFIX + name: data for name, data in blocks.items()},
        }

    def restore(self, checkpoints: Mapping[str, bytes]) -> None:
        """Take over what `checkpoints` gave; other names are left alone, and nothing to restore is fine.

        Raises:
            CheckpointError: they are damaged or incomplete. The trainer is empty then, as a new one.
        """
        parts = {name.removeprefix(_PREFIX): data for name, data in checkpoints.items() if name.startswith(_PREFIX)}
        if not parts:
            return
        fresh = Trainer(self.settings)
        try:
            fresh._restore(parts)
        except KeyError as error:
            raise CheckpointError(f"the trainer's checkpoint {error} is missing") from error
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"the trainer's checkpoint cannot be used: {error}") from error
        vars(self).update(vars(fresh))
        self._index.histories = self

    def _restore(self, own: Mapping[str, bytes]) -> None:
        facts, _ = unpack(own[_INDEX.removeprefix(_PREFIX)])
        self._index.from_json(facts["series"])
        self._grow()
        rows = np.arange(self._index.rows, dtype=np.intp)
        for metric, history in self.histories.items():
            history.restore(own[metric], rows)
        # A checkpoint of an older version lacks the samples that were still to be read.
        restored = self._blocks.restore(own, self.histories, self._index.entries.values())
        self._windows_known = restored and bool(facts.get("windows_known", True))
        days = facts.get("unfilled", ())
        self._unfilled = [(metric, float(start), float(end)) for metric, start, end in days if metric in self.histories]
        self.trained_until = None if facts["trained_until"] is None else float(facts["trained_until"])
        self._tick_seconds = float(facts["tick_seconds"])
        self.policy = None if facts["policy"] is None else from_json(PredictPolicy, facts["policy"])
        requested = facts.get("requested")  # a checkpoint of an older version has none
        self.requested_policy = None if requested is None else from_json(PredictPolicy, requested)

    def _edges(self, now: float) -> FloatArray:
        """Bounds of the whole intervals to learn: one after a normal wait, several after a restart, or none yet."""
        interval, start = self.settings.interval_seconds, self.trained_until
        if start is None or start - now > interval:  # nothing was learned yet, or the clock was set back
            start = now - interval
            self._windows_known = False
        elif now - start > self.settings.catch_up_seconds + interval:
            start += interval * math.ceil((now - start - self.settings.catch_up_seconds) / interval)
            self._windows_known = False
        whole = max(math.floor((now - start) / interval + _ROUNDING), 0)
        return start + interval * np.arange(whole + 1, dtype=np.float64)

    def _train(
        self, history: ResourceHistory, rows: IntArray, ticks: FloatArray, values: FloatArray, now: float
    ) -> None:
        """A sample for each row, from the ticks of one interval."""
        if not ticks.size:
            return
        self._measure_ticks(history.resource, ticks)
        samples = percentile_rows(values, SAMPLE_PERCENTILE)
        measured = np.count_nonzero(~np.isnan(values), axis=1) * self._tick_seconds
        there = ~np.isnan(samples)
        history.windows.add(rows, ticks, values, self._tick_seconds)
        history.learn(rows[there], samples[there], now, measured[there])
        if history.resource == MEMORY:
            # Of pods alone: the system is derived, and its highest sample has the noise of two readings.
            pods = there & (rows >= len(FIXED))
            history.raise_highest(rows[pods], np.fmax.reduce(values[pods], axis=1), now)

    def _table(self, history: ResourceHistory, series: Mapping[str, Series]) -> tuple[IntArray, FloatArray, FloatArray]:
        """Rows, ticks and values of everything that has samples or should have, the classes' sums included."""
        measured_series = self._index.measured
        before = history.last[measured_series.rows] > -math.inf
        there = np.array([entity in series for entity in measured_series.entities], dtype=np.bool_)
        retained = there | (before & measured_series.present)
        retained[:2] = True  # the node and the system, measured or not
        result = [series.get(entity, EMPTY) for entity in itertools.compress(measured_series.entities, retained)]
        ticks, values = table([(series_data.times, series_data.values) for series_data in result])
        values = np.where((values >= 0.0) & (values < math.inf), values, np.nan)
        rows, classes = measured_series.rows[retained], measured_series.classes[retained]
        before, present = before[retained], measured_series.present[retained]
        sums = {
            name: total(values[own], before[own], present[own])
            for name in map(FIXED.index, CLASS_ENTITIES)
            if (own := classes == name).any()
        }
        return np.append(rows, list(sums)).astype(np.intp), ticks, np.vstack([values, *sums.values()])

    def _measure_ticks(self, metric: str, ticks: FloatArray) -> None:
        """Learn how far ticks are apart; where an interval has one alone, from the one before it."""
        before, self._last_tick[metric] = self._last_tick.get(metric, math.inf), float(ticks[-1])
        if ticks.size > 1:
            self._tick_seconds = float(np.sort(np.diff(ticks))[ticks.size // 2 - 1])
        elif 0.0 < ticks[0] - before <= _LONGEST_STEP * self.settings.interval_seconds:
            self._tick_seconds = float(ticks[0] - before)

    def _unknown_days(self, now: float) -> Iterator[tuple[str, float, float]]:
        """Resource, start and end of each day of the windows, oldest first."""
        length = self.histories[CPU].windows.slots * SLOT_SECONDS
        for day in np.arange(now - length, now, _DAY_SECONDS).tolist():
            for metric in self.histories:
                # One slot more than the day: the slot after a gap is left out, and the day's first one is none.
                yield metric, day - SLOT_SECONDS, min(day + _DAY_SECONDS, now)

    def _grow(self) -> None:
        have = len(self.histories[CPU].observed)
        if self._index.rows > have:
            rows = max(self._index.rows, have + have // 4, 32)
            for history in self.histories.values():
                history.grow(rows)
