"""The training step of a tick: train on schedule, save checkpoints, restore them at the start."""

import logging

from agent.metrics import Metrics
from agent.numerics.packing import CheckpointError
from agent.pod_metadata import PodMetadataStore
from agent.pods import PodRef
from agent.prediction.accuracy import Accuracy
from agent.series_index import SeriesIndexLimits
from agent.settings import TrainSettings
from agent.trainer.trainer import Trainer, TrainingSettings
from agent.tsdb.schema import StoreError
from agent.tsdb.tsdb import Tsdb

log = logging.getLogger(__name__)


class CheckpointedTrainer:
    """A trainer with its checkpoints in the store."""

    def __init__(self, store: Tsdb, settings: TrainSettings, metrics: Metrics | None = None, node: str = "") -> None:
        """Restores checkpoints; an unusable one is logged and skipped."""
        self._store = store
        self._metrics = metrics or Metrics()
        self._settings = settings
        self.trainer = Trainer(_training(settings))  # the learned histories
        self.accuracy = Accuracy()  # how good the predictions were
        self.pod_metadata = PodMetadataStore(node)  # the owners of the series in the store
        self._unsaved = False
        self._saved_at: float | None = None
        self._begun_at: float | None = None
        saved = store.load_checkpoints()
        for restore, lost in (
            (self.trainer.restore, "training restarts from scratch"),
            (self.accuracy.restore, "accuracy restarts from scratch"),
            (self.pod_metadata.restore, "pods that ended before now stay without a name"),
        ):
            try:
                restore(saved)
            except CheckpointError as error:
                log.error("%s; %s", error, lost)  # noqa: TRY400 - one line
        self.use(store)

    def use(self, store: Tsdb) -> None:
        """Continue with another store and the same histories."""
        self._store = store
        # The first prediction would report it only later.
        store.set_minute_retention(self.trainer.window_days)

    def step(self, now: float, pods: list[PodRef]) -> None:
        """Train if it is time."""
        self.trainer.update_pods(now, pods)
        self.trainer.fill(self._store)
        if not self._training_due(now):
            return
        with self._metrics.training_seconds.time():
            self.trainer.train(now, self._store, pods)
            self.pod_metadata.update(self.trainer.clock, pods)
        self._metrics.training_time.set(now)
        self._unsaved = True

    def _training_due(self, now: float) -> bool:
        """The first round runs early, so that the first report has data."""
        last, wait = self.trainer.trained_until, self._settings.interval_seconds
        if last is None:
            self._begun_at = now if self._begun_at is None else self._begun_at
            last, wait = self._begun_at, wait / 4
        return not 0 <= now - last < wait

    def save_due(self, now: float) -> bool:
        tried = self._saved_at
        return self._unsaved and (tried is None or not 0 <= now - tried < self._settings.checkpoint_seconds)

    def save(self, now: float) -> None:
        """Save a checkpoint. Raises StoreError: it cannot be written."""
        self._saved_at = now
        content = {**self.trainer.checkpoints(), **self.accuracy.checkpoint(), **self.pod_metadata.checkpoint()}
        try:
            with self._metrics.checkpoint_seconds.time():
                self._store.save_checkpoints(content, now)
        except StoreError:
            self._metrics.checkpoint_failures.inc()
            raise
        self._unsaved = False
        self._metrics.checkpoint_time.set(now)
        self._metrics.checkpoint_bytes.set(sum(map(len, content.values())))


def _training(settings: TrainSettings) -> TrainingSettings:
    return TrainingSettings(
        interval_seconds=settings.interval_seconds,
        catch_up_seconds=settings.catch_up_seconds,
        index_limits=SeriesIndexLimits(settings.pod_grace_seconds, settings.workload_seconds, settings.workloads),
    )
