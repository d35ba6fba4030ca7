"""The learner's place in the tick: train when it is time, save what was learned, restore it at the start."""

import logging

from agent.numerics.packing import CheckpointError
from agent.pods import PodRef
from agent.roster import RosterLimits
from agent.settings import LearnSettings
from agent.store.tsdb import Tsdb
from agent.training import Learner, TrainingSettings

log = logging.getLogger(__name__)


class Learning:
    """A learner whose knowledge lives in the store."""

    def __init__(self, store: Tsdb, settings: LearnSettings) -> None:
        """Restores what was saved; what cannot be used is left out with one line in the log."""
        self._store = store
        self._settings = settings
        self.learner = Learner(_training(settings))
        """What was learned."""
        self._saved_at: float | None = None
        self._begun_at: float | None = None
        try:
            self.learner.restore(store.load_checkpoints())
        except CheckpointError as error:
            log.error("%s; learning begins anew", error)  # noqa: TRY400 - one line

    def step(self, now: float, pods: list[PodRef]) -> None:
        """Train and save if it is time.

        Args:
            now: The tick's time. [seconds since 1970]
            pods: The pods on this node.

        Raises:
            StoreError: What was learned cannot be saved; tried again at the next interval.
        """
        if not self._is_time(now):
            return
        self.learner.observe(now, self._store, pods)
        if self._saved_at is None or not 0 <= now - self._saved_at < self._settings.checkpoint_seconds:
            self._saved_at = now
            self.save(now)

    def _is_time(self, now: float) -> bool:
        """The first round comes early, so that the first report has something to say."""
        last, wait = self.learner.trained_until, self._settings.interval_seconds
        if last is None:
            self._begun_at = now if self._begun_at is None else self._begun_at
            last, wait = self._begun_at, wait / 4
        return not 0 <= now - last < wait

    def save(self, now: float) -> None:
        """Save what was learned.

        Raises:
            StoreError: It cannot be written.
        """
        self._store.save_checkpoints(self.learner.checkpoints(), now)


def _training(settings: LearnSettings) -> TrainingSettings:
    return TrainingSettings(
        interval_seconds=settings.interval_seconds,
        catch_up_seconds=settings.catch_up_seconds,
        roster=RosterLimits(settings.pod_grace_seconds, settings.workload_seconds, settings.workloads),
    )
