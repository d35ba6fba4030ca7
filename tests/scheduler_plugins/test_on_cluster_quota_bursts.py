"""Many pods at once against quotas, on the real kube-scheduler: no observed state is over a bound."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from devcluster import Cluster
from devcluster.process import Process
from tests.scheduler_plugins.extenders import configuration, profile, until
from tests.scheduler_plugins.quota_teams import CAPACITY_SCHEDULING, Observed, Team, give_gpus, teams
from tests.scheduler_plugins.stage import Stage
from tests.scheduler_plugins.troubled import FORGET

pytestmark = pytest.mark.cluster

NODES, GPUS = 10, 8
PODS = 200
SCHEDULERS = ("burst-one", "burst-two")
MIN, MAX = {"burst-a": 12, "burst-b": 23}, {"burst-a": 17, "burst-b": 30}
"""Both max together are more than both min: either bound is reached. [GPUs]"""
TOTAL = sum(MIN.values())
TROUBLED = "tests.scheduler_plugins.troubled"


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Ten nodes with GPUs, far more than the quotas allow."""
    with Stage.open(cluster, "burst", NODES) as stage:
        give_gpus(stage, GPUS)
        yield stage


@pytest.fixture(scope="module")
def quotas(stage: Stage) -> Iterator[list[Team]]:
    """Two namespaces with quotas."""
    with teams(stage, {name: (MIN[name], MAX[name]) for name in MIN}) as made:
        yield list(made.values())


@pytest.fixture
def pair(quotas: list[Team]) -> list[Team]:
    """The same without pods."""
    for team in quotas:
        team.clear()
    return quotas


@contextmanager
def scheduled(stage: Stage, *flags: str) -> Iterator[list[Process]]:
    """Two kube-schedulers that ask one extender.

    Args:
        stage: where.
        flags: of an extender in trouble; none: the one that ships.
    """
    name = "burst" + "".join(flags)
    module = TROUBLED if flags else "scheduler_plugins"
    extender = stage.add_extender(
        f"extender-{name}", profile(plugins=[CAPACITY_SCHEDULING]), module=module, flags=flags
    )
    extender.wait()
    for scheduler in SCHEDULERS:
        found = configuration("shortlist", scheduler, extender.url)
        found["extenders"][0]["ignorable"] = False
        stage.add_scheduler(scheduler, found)
    running = [stage.schedulers[scheduler].process for scheduler in SCHEDULERS]
    try:
        yield [process for process in running if process is not None]
    finally:
        for scheduler in SCHEDULERS:
            stage.schedulers.pop(scheduler).stop()
        extender.process.stop()
        stage.extenders.remove(extender)


def burst(processes: list[Process], *namespaces: Team) -> None:
    """Have all pods wait in the same moment, half of each namespace's for each kube-scheduler."""
    for process in processes:
        process.signal(signal.SIGSTOP)
    try:
        for number, team in enumerate(namespaces):
            each = range(PODS // len(namespaces))
            team.create(*(team.pod(f"pod-{one}", SCHEDULERS[(one + number) % 2]) for one in each))
    finally:
        for process in processes:
            process.signal(signal.SIGCONT)


def test_burst_stays_within_quotas(stage: Stage, pair: list[Team]) -> None:
    """Of 200 pods that two kube-schedulers place at once, as many are bound as quotas allow, and at no moment more."""
    with scheduled(stage) as processes, Observed.watching(stage, *pair) as seen:
        burst(processes, *pair)
        until(lambda: sum(seen.used.values()) == TOTAL, lambda: f"all GPUs that are allowed in use: {seen}")
        # What becomes free is used again, by whoever comes first, and no more than that.
        for turn in range(3):
            before = seen.bindings
            for team in pair:
                team.delete(*sorted(team.bound())[turn :: len(MIN) + 1])
            until(
                lambda before=before: seen.bindings > before and sum(seen.used.values()) == TOTAL,  # type: ignore[misc]
                lambda: f"all GPUs that are allowed in use again: {seen}",
            )
        first, second = pair
        second.clear()
        until(lambda: seen.used[first.name] == MAX[first.name], lambda: f"{first.name} using its max: {seen}")
    assert not seen.broken
    assert seen.most_together == TOTAL
    assert all(seen.most[name] <= MAX[name] for name in MAX), seen.most


def test_burst_needs_tentative_charges(stage: Stage, pair: list[Team]) -> None:
    """An extender that forgets whom it answered for lets the same pods exceed the quotas: the watch would see it."""
    with scheduled(stage, FORGET) as processes, Observed.watching(stage, *pair) as seen:
        burst(processes, *pair)
        until(lambda: seen.most_together > TOTAL, lambda: f"more GPUs in use than allowed: {seen}")
