"""A tick: collect, derive, store, learn. Each step is timed and counted; none stops the others."""

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from agent import derived
from agent.collectors.base import Collector, Incomplete, NoData, Tick
from agent.metrics import Metrics
from agent.pods import PodRef
from agent.report_metrics import show_store
from agent.samples import CPU, MEMORY, NODE, NOT_FINITE, CollectionResult, Missing
from agent.sources.pod import PodSource
from agent.store_failover import StoreFailover
from agent.training import CheckpointedTrainer
from agent.tsdb.schema import StoreError
from agent.tsdb.tsdb import Tsdb

log = logging.getLogger(__name__)

STORE: Final = "store"  # the step that writes samples
DATABASE: Final = "database"  # the step that returns from memory to the database
SAVE: Final = "save"  # the step that writes the training state
_SIZE_EVERY_TICKS = 30
_BEFORE_SECONDS = 0.001


class Pipeline:
    """The steps of a collect interval, in order."""

    def __init__(
        self,
        collectors: dict[str, Collector],
        pods: PodSource,
        failover: StoreFailover,
        make_trainer: Callable[[Tsdb], CheckpointedTrainer],
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Opens the store. Raises StoreNewer: the database was written by a newer version."""
        self._collectors = collectors
        self._pods = pods
        self._failover = failover
        self._make_trainer = make_trainer
        self._metrics = metrics
        self._clock = clock
        self.store = failover.open()  # the database, or the store in memory that replaces it
        self.training = make_trainer(self.store)  # the learned histories
        self.failing: dict[str, str] = {}  # failed steps and their reasons, for the condition Collecting
        self.missing: list[Missing] = []  # the missing values of the last tick
        self.last_tick: float | None = None  # when the last tick stored something. [seconds since 1970]
        self.ticked_at: float | None = None  # when the last tick ended, by the clock that only runs forward. [s]
        self.node_measured_at: float | None = None
        """When node CPU and memory were last measured in one tick, by that clock. [s]"""
        self.store_failing_since: float | None = None
        """Since when samples cannot be written, by that clock; None when they are. [s]"""
        self._ticks = 0
        self._begun: float | None = None
        self._metrics_seen: set[str] = set()
        self._no_data: dict[str, str] = {}  # by collector, why this machine has nothing for it
        self._store_failures: set[str] = set()  # steps that the database made fail
        self._outage = ""  # the present outage of the database, for the log; empty without one

    @property
    def store_problem(self) -> str:
        """Return why samples cannot be written; empty when they are."""
        return self.failing.get(DATABASE) or self.failing.get(STORE, "")

    def run_once(self, now: float) -> None:
        """A tick; never raises for what a machine, a disk or a pod can do."""
        pods = list(self._pods.pods())
        with self._metrics.tick_seconds.time():
            collected = self._collect(Tick(now, pods))
            with self._step("derive"):
                collected.extend(derived.system(collected, now))
            self._count(collected)
            self._store(now, collected)
            with self._step("learn"):
                self._train(now, pods)
            if self.training.save_due(now):  # a step that does nothing must not count as one that works again
                with self._step(SAVE):
                    self.training.save(now)
            if not self.store.problem:
                with self._step("maintain"):
                    self.store.maintain(now)
        self._ticks += 1
        self.ticked_at = self._clock()

    def close(self, now: float) -> None:
        """Save a checkpoint, and close the database."""
        with self._step(SAVE):
            self.training.save(now)
        self._failover.close()
        self.store.close()

    def _store(self, now: float, collected: CollectionResult) -> None:
        """Store the tick; while the database is away, see whether it has come back."""
        with self._step(STORE):
            self.store.append(now, collected.samples)
            self.last_tick = now
        with self._step(DATABASE):
            self._fail_back(now, collected)
        if not self.store_problem:
            self.store_failing_since = None
        elif self.store_failing_since is None:
            self.store_failing_since = self._clock()

    def _fail_back(self, now: float, collected: CollectionResult) -> None:
        """Return from memory to the database, when it can be opened again."""
        if not self._failover.problem:
            return
        self._begun = now - _BEFORE_SECONDS if self._begun is None else self._begun
        self._metrics_seen.update(sample.metric for sample in collected.samples)
        database = self._failover.step(now, self.store, self._metrics_seen, self._begun)
        if database is None:
            raise StoreError(f"{self._failover.problem}. Samples stay in memory until it can be opened")
        self.store.close()
        self.store, self._begun = database, None
        if self._failover.restored or not database.load_checkpoints():
            self.training.use(database)
            self.training.save(now)
        else:  # weeks of history, of which this run knows nothing: the copied samples are learned from there on
            self.training = self._make_trainer(database)

    def _train(self, now: float, pods: list[PodRef]) -> None:
        if self._pods.synced:  # before the first list every pod would look like one that has gone
            self.training.step(now, pods)

    def _collect(self, tick: Tick) -> CollectionResult:
        collected = CollectionResult()
        for name, collector in self._collectors.items():
            with self._step(name):
                try:
                    result = collector.collect(tick)
                except NoData as lacking:
                    self._log_no_data(name, str(lacking))
                    continue
                result.missing += [
                    Missing(sample.metric, sample.entity, NOT_FINITE)
                    for sample in result.samples
                    if not math.isfinite(sample.value)
                ]
                result.samples = [sample for sample in result.samples if math.isfinite(sample.value)]
                collected.extend(result)
                if result.problem:
                    raise Incomplete(result.problem)
        return collected

    def _log_no_data(self, name: str, why: str) -> None:
        """Log once that this machine has nothing for a collector, and again for another reason."""
        if self._no_data.get(name) != why:
            log.info("%s has no data: %s", name, why)
            self._no_data[name] = why

    def _count(self, collected: CollectionResult) -> None:
        self.missing = collected.missing
        measured = {sample.metric for sample in collected.samples if sample.entity == NODE}
        if {CPU, MEMORY} <= measured:
            self.node_measured_at = self._clock()
        self._metrics.samples.inc(len(collected.samples))
        for gap in collected.missing:
            self._metrics.gaps.labels(gap.metric, gap.reason).inc()
        if self._ticks % _SIZE_EVERY_TICKS == 0:
            with self._step("size"):
                show_store(self._metrics, self.store.size())

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """Time one step. Its failure is counted, logged once, and ignored."""
        started = time.perf_counter()
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the outer runner: no step may stop the others
            self._failed(name, error)
        else:
            self._worked(name)
        finally:
            self._metrics.step_seconds.labels(name).observe(time.perf_counter() - started)

    def _failed(self, name: str, error: Exception) -> None:
        kind = type(error).__name__
        self._metrics.failures.labels(name, kind).inc()
        expected = isinstance(error, OSError | ValueError | RuntimeError)
        text = str(error) if expected else f"{kind}: {error}"
        known, self.failing[name] = self.failing.get(name), text
        if isinstance(error, StoreError):
            self._store_failed(name, known, text)
        elif known != text:
            log.error("%s failed: %s", name, text, exc_info=None if expected else error)

    def _store_failed(self, name: str, known: str | None, text: str) -> None:
        """Log an outage of the database once, however many steps it makes fail, and again when its reason changes."""
        self._store_failures.add(name)
        shown = DATABASE if name == DATABASE else STORE
        if not self._outage or (name == self._outage and known not in (None, text)):
            self._outage = self._outage or shown
            log.error("%s failed: %s", self._outage, text)

    def _worked(self, name: str) -> None:
        """Log that a step works again; of an outage of the database, once no step fails because of it."""
        if self.failing.pop(name, None) is None:
            return
        if name in self._store_failures:
            self._store_failures.remove(name)
            if self._store_failures:
                return
            name, self._outage = self._outage, ""
        log.info("%s works again", name)
