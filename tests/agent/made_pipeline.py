"""A pipeline of made or recorded parts, for tests of the pipeline and of its reports."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic

from agent.collectors.base import Collector, Machine, Tick, resolve
from agent.metrics import Metrics
from agent.pipeline import Pipeline
from agent.pods import PodRef
from agent.reporter.reporter import ReportBuilder
from agent.samples import CPU, MEMORY, NODE, CollectionResult, Sample
from agent.settings import TrainSettings
from agent.sources.node import MachineNode
from agent.sources.pod import CgroupPods, ListedAndCgroupPods, PodSource
from agent.store_failover import StoreFailover
from agent.training import CheckpointedTrainer
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from tests.agent.recorded import RecordedMachine

START = 1_700_000_100.0
EACH_SECOND = TrainSettings(interval_seconds=1.0)


class Steady:
    """A node that uses half a core and a MiB (fake)."""

    def __init__(self, machine: Machine | None = None) -> None:
        """Do not inspect a machine."""

    def collect(self, tick: Tick) -> CollectionResult:
        samples = [Sample(CPU, NODE, tick.now, 0.5), Sample(MEMORY, NODE, tick.now, 1 << 20)]
        return CollectionResult(samples, pods_listed=True)


class NoPods:
    def __init__(self) -> None:
        self.synced, self.problem = True, ""

    def pods(self) -> list[PodRef]:
        return []

    async def run(self) -> None:
        """Nothing to follow."""


def made_pipeline(
    store: Path | StoreFailover,
    collectors: Mapping[str, Collector],
    pods: PodSource | None = None,
    settings: TrainSettings | None = None,
    metrics: Metrics | None = None,
    clock: Callable[[], float] = monotonic,
) -> Pipeline:
    """Make a pipeline whose database is in a folder, or is opened by a function."""
    shown, learn = metrics or Metrics(), settings or TrainSettings()

    def train(opened: Tsdb) -> CheckpointedTrainer:
        return CheckpointedTrainer(opened, learn, shown)

    if isinstance(store, Path):
        database = store / "t.db"
        store = StoreFailover(lambda: Tsdb.open(database, StoreSettings(block_ticks=60)))
    return Pipeline(dict(collectors), pods or NoPods(), store, train, shown, clock)


def recorded_reports(
    machine: RecordedMachine,
    folder: Path,
    listed: PodSource | None = None,
    collectors: Sequence[str] = ("node", "pod"),
) -> tuple[ReportBuilder, Pipeline, Metrics]:
    """Reports about a recorded machine after three ticks, and their sources."""
    parts, metrics = machine.machine(), Metrics("n1")
    parts.cgroups.locate()
    pods = CgroupPods(parts.cgroups) if listed is None else ListedAndCgroupPods(listed, parts.cgroups, lambda: START)
    pipeline = made_pipeline(folder, resolve(collectors, parts), pods, EACH_SECOND, metrics)
    for instant in ("t000", "t002", "t010"):
        machine.advance(instant)
        pipeline.run_once(START + machine.now)
    return ReportBuilder(pipeline, pods, MachineNode(parts.paths), metrics, None, parts.cgroups), pipeline, metrics
