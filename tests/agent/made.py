"""Factories of pods and samples, and a store that returns them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from agent.numerics.arrays import FloatArray, IntArray
from agent.numerics.peaks import SLOT_SECONDS, PeakWindows
from agent.pods import PodRef
from agent.prediction.node import NodeResources
from agent.samples import CPU, MEMORY, NODE, SYS
from agent.trainer.trainer import Trainer, TrainingSettings
from agent.tsdb.series import EMPTY, Points, Series
from crds.priority import PriorityBand, QoS

START = 1_700_000_000.0
GIB = 1 << 30
INTERVAL = 30.0
FACTS = NodeResources({CPU: 15_500, MEMORY: 30 * GIB}, {CPU: 16_000, MEMORY: 32 * GIB})


class MadeStore:
    """A store in memory: constant or listed values, one a second."""

    def __init__(self) -> None:
        self.content: dict[tuple[str, str], Series] = {}
        self.five_minutes: dict[str, dict[str, Series]] = {}

    def put(self, metric: str, entity: str, start: float, values: Sequence[float] | FloatArray) -> None:
        """Append values, the first one second after the start; NaN leaves a hole."""
        times = np.arange(start + 1.0, start + 1.0 + len(values))
        new = np.asarray(values, dtype=np.float64)
        old = self.content.get((metric, entity), EMPTY)
        there = ~np.isnan(new)
        self.content[metric, entity] = Series(
            np.concatenate([old.times, times[there]]), np.concatenate([old.values, new[there]])
        )

    def windows(self, metric: str, start: float, end: float) -> Mapping[str, Series]:
        """Samples with start < time <= end, by entity."""
        result = {name: self.window(metric, name, start, end) for kind, name in self.content if kind == metric}
        return {name: series for name, series in result.items() if series.times.size}

    def window(self, metric: str, entity: str, start: float, end: float) -> Series:
        series = self.content.get((metric, entity), EMPTY)
        low, high = np.searchsorted(series.times, (start, end), side="right")
        return Series(series.times[low:high], series.values[low:high])

    def minutes(
        self, metric: str, start: float, end: float, entities: Collection[str] | None = None
    ) -> Mapping[str, Points]:
        """1-minute points of all that was put in, of minutes with start <= begin < end."""
        begins = {one: series.times // 60 * 60 for one, series in self.content.items()}
        there = {one: (start <= times) & (times < end) for one, times in begins.items()}
        return {
            name: Points.of(np.rint(series.times[local] * 1000).astype(np.int64), series.values[local])
            for (kind, name), series in self.content.items()
            if kind == metric and (entities is None or name in entities)
            for local in [there[kind, name]]
        }

    def averages(self, metric: str, start: float, end: float, entities: Collection[str]) -> Mapping[str, Series]:
        """The 5-minute averages that a test has put in, of periods with start <= begin < end."""
        del entities
        return {name: _cut(series, start, end) for name, series in self.five_minutes.get(metric, {}).items()}


def _cut(series: Series, start: float, end: float) -> Series:
    low, high = np.searchsorted(series.times, (start, end), side="left")
    return Series(series.times[low:high], series.values[low:high])


def pod(
    name: str,
    cpu: int = 1000,
    memory: int = GIB,
    *,
    band: PriorityBand = PriorityBand.PROD,
    limits: Mapping[str, int] | None = None,
    workload: str | None = None,
    terminal: bool = False,
    qos: QoS = QoS.LS,
) -> PodRef:
    """Make a pod of namespace shop whose uid is its name; a request of 0 counts as none."""
    requests = {key: amount for key, amount in ((CPU, cpu), (MEMORY, memory)) if amount}
    return PodRef(
        name, "shop", name, band, qos, requests, limits or {}, str(band), workload=workload, terminal=terminal
    )


@dataclass(slots=True)
class Machine:
    """A node that goes through training rounds: usage in, trainer up to date."""

    trainer: Trainer
    store: MadeStore
    now: float = START

    def rounds(
        self,
        count: int,
        usage: Mapping[str, float],
        pods: Sequence[PodRef],
        *,
        system: float = 0.0,
        memory: bool = True,
    ) -> None:
        """Some rounds of constant usage: that many cores, and as many GiB, by pod; all pods measured."""
        values_of_all = {**usage, SYS: system, NODE: system + sum(usage.values())}
        for _ in range(count):
            for entity, cores in values_of_all.items():
                self.store.put(CPU, entity, self.now, [cores] * int(INTERVAL))
                if memory:
                    self.store.put(MEMORY, entity, self.now, [cores * GIB] * int(INTERVAL))
            self.now += INTERVAL
            self.trainer.train(self.now, self.store, pods)

    def cores(self, entity: str, what: str = "means") -> float:
        """A moment of an entity's CPU: means, highest, counts …; of a pod never seen it is 0."""
        row = self.trainer.row(entity)
        return 0.0 if row is None else float(getattr(self.trainer.histories[CPU].moments, what)[row])


def machine() -> Machine:
    return Machine(Trainer(), MadeStore())


class SlotStore:
    """A store that holds one 5-minute slot at a time, a tick a minute: days pass in a second."""

    def __init__(self) -> None:
        self.content: dict[str, dict[str, Series]] = {}

    def windows(self, metric: str, start: float, end: float) -> Mapping[str, Series]:
        result = self.content.get(metric, {})
        return {name: series for name, series in result.items() if start < series.times[0] <= end}

    def averages(self, metric: str, start: float, end: float, entities: Collection[str]) -> Mapping[str, Series]:
        del metric, start, end, entities
        return {}


SLOT = 300.0
SLOT_START = 1_700_000_100.0  # A 5-minute slot begins here


@dataclass(slots=True)
class LongRun:
    """A node that goes through days, a training round for each 5-minute slot."""

    trainer: Trainer = field(default_factory=lambda: Trainer(TrainingSettings(interval_seconds=SLOT)))
    store: SlotStore = field(default_factory=SlotStore)
    now: float = SLOT_START

    def slot(self, usage: Mapping[str, float], pods: Sequence[PodRef], system: float = 0.0) -> None:
        """A slot of constant usage: that many cores, and as many GiB, by pod."""
        self.measured({**usage, SYS: system, NODE: system + sum(usage.values())}, pods)

    def measured(self, values_of_all: Mapping[str, float], pods: Sequence[PodRef]) -> None:
        """A slot in which these were measured, by entity."""
        times = self.now + np.arange(30.0, SLOT, 60.0)
        for metric, scale in ((CPU, 1.0), (MEMORY, float(GIB))):
            self.store.content[metric] = {
                entity: Series(times, np.full(len(times), cores * scale)) for entity, cores in values_of_all.items()
            }
        self.now += SLOT
        self.trainer.train(self.now, self.store, pods)

    def hours(self, count: float, usage: Mapping[str, float], pods: Sequence[PodRef], system: float = 0.0) -> None:
        for _ in range(round(count * 12)):
            self.slot(usage, pods, system)


def highest(windows: PeakWindows, rows: IntArray, seconds: float) -> FloatArray:
    """Each row's own highest average in the window, NaN where there is none."""
    result: FloatArray = np.fmax.reduce(windows.recent(rows, seconds), axis=1, initial=np.nan).astype(np.float64)
    return result


def covered_seconds(windows: PeakWindows, rows: IntArray, seconds: float) -> FloatArray:
    """Return how much of the window each row has averages for. [s]"""
    result: FloatArray = SLOT_SECONDS * np.count_nonzero(~np.isnan(windows.recent(rows, seconds)), axis=1)
    return result
