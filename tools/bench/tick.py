"""A tick of the agent with 110 pods: how long it takes, and which step takes how much of it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from agent.collectors import COLLECTORS
from agent.collectors.base import Machine, resolve
from agent.host.cgroup import CgroupTree, detect
from agent.host.procfs import HostPaths
from agent.metrics import Metrics
from agent.pipeline import Pipeline
from agent.settings import TrainSettings
from agent.sources.pod import CgroupPods
from agent.store_failover import StoreFailover
from agent.training import CheckpointedTrainer
from agent.tsdb.tsdb import Tsdb
from tools.bench.costs import Timings, total
from tools.bench.machine import replayed
from tools.bench.rows import NONE, Row
from tools.bench.workload import PODS

TICKS, QUICK_TICKS = 1500, 40
WARM_UP = 10
START = 1_735_689_600.0


class _Clock:
    """A clock that is moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def measure(*, quick: bool = False) -> Iterator[Row]:
    """Ticks one after the other, with a second of simulated time between them."""
    ticks = QUICK_TICKS if quick else TICKS
    with tempfile.TemporaryDirectory() as folder:
        machine, clock, metrics = replayed(Path(folder) / "host"), _Clock(), Metrics()
        pipeline = _pipeline(HostPaths.under(machine.directory), clock, Path(folder) / "agent.db", metrics)
        times, warm_up = Timings(), Timings()
        for number in range(WARM_UP + ticks):
            machine.advance(1.0)
            clock.now += 1.0
            with (times if number >= WARM_UP else warm_up).one():
                pipeline.run_once(START + clock.now)
        samples, gaps = total(metrics.samples), total(metrics.gaps)
        pipeline.close(START + clock.now)
    per_tick = samples / (WARM_UP + ticks)
    what = f"tick, {PODS} pods, {per_tick:.0f} samples each ({gaps:.0f} gaps in {WARM_UP + ticks} ticks)"
    yield Row(what, str(times), NONE, "koordlet collects each second")
    steps = ", ".join(f"{name} {mean * 1000:.2f}" for name, mean in _steps(metrics))
    yield Row("mean cost of its steps, maintenance of the store included", f"{steps} [ms]")


def _pipeline(paths: HostPaths, clock: _Clock, database: Path, metrics: Metrics) -> Pipeline:
    cgroups = CgroupTree(detect(paths.cgroup))
    cgroups.locate()
    return Pipeline(
        resolve(tuple(COLLECTORS), Machine(paths, cgroups, clock, 100.0)),
        CgroupPods(cgroups),
        StoreFailover(lambda: Tsdb.open(database)),
        lambda store: CheckpointedTrainer(store, TrainSettings()),
        metrics,
    )


def _steps(metrics: Metrics) -> list[tuple[str, float]]:
    """Steps and their mean time per tick, the costliest first. [s]"""
    family = next(iter(metrics.step_seconds.collect()))
    sums = {sample.labels["step"]: sample.value for sample in family.samples if sample.name.endswith("_sum")}
    ticks = next(
        sample.value for sample in next(iter(metrics.tick_seconds.collect())).samples if sample.name.endswith("_count")
    )
    return sorted(((name, total / ticks) for name, total in sums.items()), key=lambda step: -step[1])
