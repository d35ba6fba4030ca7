"""Duration of a training round: samples of one interval in, histograms and moments of everything up to date.

The store's query is not part of it (the reference leaves it out too). Also the duration of the default model's peak.
"""

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from agent.numerics.peaks import SLOT_SECONDS, SLOTS_PER_DAY
from agent.pods import PodRef
from agent.prediction.policy import resolve
from agent.predictors.base import ClassView
from agent.samples import CPU
from agent.series_index import FIXED
from agent.trainer.trainer import Trainer
from agent.tsdb.series import Series
from crds.priority import PriorityBand, QoS
from tools.bench.costs import Timings
from tools.bench.rows import Row

INTERVAL_SECONDS = 30
ROUNDS, QUICK_ROUNDS = 200, 5
WARM_UP, QUICK_WARM_UP = 20, 1
BUDGET_MILLISECONDS = {250: 2.0}
REFERENCE_MILLISECONDS = {50: 0.013, 110: 0.028, 250: 0.065}
START = 1_700_000_000.0
GIB = 1 << 30
PEAK_PODS, PEAK_BUDGET_MILLISECONDS = 110, 5.0


class NextInterval:
    """A store that always holds the same next interval, made beforehand."""

    def __init__(self, entities: list[str]) -> None:
        self.entities = entities
        self.content: dict[str, dict[str, Series]] = {}

    def fill(self, start: float, random: np.random.Generator) -> None:
        """Make the samples of the interval that begins at `start`."""
        ticks = np.arange(start + 1.0, start + 1.0 + INTERVAL_SECONDS)
        for metric, scale in (("cpu", 1.0), ("memory", GIB)):
            noise = random.uniform(0.1 * scale, 2.0 * scale, (len(self.entities), INTERVAL_SECONDS))
            self.content[metric] = {e: Series(ticks, row) for e, row in zip(self.entities, noise, strict=True)}

    def windows(self, metric: str, start: float, end: float) -> Mapping[str, Series]:
        """The interval, for any argument."""
        del start, end
        return self.content[metric]

    def averages(self, metric: str, start: float, end: float, entities: Collection[str]) -> Mapping[str, Series]:
        """Nothing from before."""
        del metric, start, end, entities
        return {}


def rounds(pod_count: int, count: int = ROUNDS, warm_up: int = WARM_UP) -> Timings:
    """Durations of the rounds with that many pods."""
    bands = (PriorityBand.PROD, PriorityBand.PROD, PriorityBand.MID, PriorityBand.BATCH)
    pods = [
        PodRef(f"uid-{n}", "shop", f"pod-{n}", bands[n % len(bands)], QoS.LS, {"cpu": 1000, "memory": GIB})
        for n in range(pod_count)
    ]
    store, trainer, random = (
        NextInterval(["node", "sys", *(pod.uid for pod in pods)]),
        Trainer(),
        np.random.default_rng(7),
    )
    now, durations, first = START, Timings(), Timings()
    for number in range(count + warm_up):
        store.fill(now, random)
        now += INTERVAL_SECONDS
        with (durations if number >= warm_up else first).one():
            trainer.train(now, store, pods)
    return durations


def peaks(pod_count: int, count: int) -> Timings:
    """Durations of the default model's peak of so many pods, with a full window of 14 days."""
    trainer, policy, random = Trainer(), resolve(None), np.random.default_rng(7)
    trainer.resize_windows(policy.window_days)
    history, model, durations = trainer.histories[CPU], policy.models[CPU], Timings()
    rows = np.arange(len(FIXED), len(FIXED) + pod_count)
    history.grow(len(FIXED) + pod_count)
    slots = round(policy.window_days * SLOTS_PER_DAY)
    starts = START + SLOT_SECONDS * np.arange(slots, dtype=np.float64)
    history.windows.add(rows, starts, random.uniform(0.1, 2.0, (pod_count, slots)), SLOT_SECONDS)
    history.observed[rows] = slots * SLOT_SECONDS
    for _ in range(count):
        with durations.one():
            model.model.peak(ClassView(history, FIXED.index("prod"), rows, np.ones(pod_count)), model.margin)
    return durations


def measure(*, quick: bool = False) -> Iterator[Row]:
    """Rounds with few and many pods; the query of the store is left out."""
    for pods, reference in REFERENCE_MILLISECONDS.items():
        durations = rounds(pods, QUICK_ROUNDS, QUICK_WARM_UP) if quick else rounds(pods)
        budget = BUDGET_MILLISECONDS.get(pods)
        yield Row(
            f"one training round, {pods} pods, both resources, without the store's query",
            str(durations),
            "none" if budget is None else f"<= {budget:g} ms",
            f"koordlet (Go) {reference} ms",
            None if budget is None else durations.milliseconds(50),
        )
    durations = peaks(PEAK_PODS, QUICK_ROUNDS if quick else ROUNDS)
    yield Row(
        f"peak of {PEAK_PODS} pods by the default model, one resource, a full window of 14 days",
        str(durations),
        f"<= {PEAK_BUDGET_MILLISECONDS:g} ms",
        "none",
        durations.milliseconds(50),
    )
