"""Many pods at once against quotas, on the real kube-scheduler: no observed state is over a bound."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from scheduler_plugins.snapshot.in_flight import SETTLED_SECONDS, UNCONFIRMED_SECONDS
from tests.scheduler_plugins.extenders import Extender, configuration, profile, until
from tests.scheduler_plugins.quota_teams import CAPACITY_SCHEDULING, GPU, Observed, Team, give_gpus, teams
from tests.scheduler_plugins.stage import Stage
from tools.devcluster import Cluster
from tools.devcluster.process import Process

pytestmark = pytest.mark.cluster

NODES, GPUS = 10, 8
PODS, FEW = 200, 80
SCHEDULERS = ("burst-one", "burst-two")
MIN, MAX = {"burst-a": 12, "burst-b": 23}, {"burst-a": 17, "burst-b": 30}
"""The sum of max exceeds the sum of min: the pods reach either bound. [GPUs]"""
TOTAL = sum(MIN.values())
SLOW = 2  # requests per second of a kube-scheduler with delayed bindings


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    with Stage.open(cluster, "burst", NODES) as stage:
        give_gpus(stage, GPUS)
        yield stage


@pytest.fixture(scope="module")
def quotas(stage: Stage) -> Iterator[list[Team]]:
    with teams(stage, {name: (MIN[name], MAX[name]) for name in MIN}) as made:
        yield list(made.values())


@pytest.fixture
def pair(quotas: list[Team]) -> list[Team]:
    for team in quotas:
        team.clear()
    return quotas


@contextmanager
def scheduled(stage: Stage, *, slow: bool = False) -> Iterator[tuple[Extender, list[Process]]]:
    extender = stage.add_extender("extender-burst", profile(plugins=[CAPACITY_SCHEDULING]))
    extender.wait()
    for scheduler in SCHEDULERS:
        result = configuration("shortlist", scheduler, extender.url)
        result["extenders"][0]["ignorable"] = False
        component = stage.add_scheduler(scheduler, result)
        if slow:
            component.stop()
            path = stage.cluster.control_plane.directory / f"{scheduler}.yaml"
            written = yaml.safe_load(path.read_text(encoding="utf-8"))
            written["clientConnection"] |= {"qps": SLOW, "burst": SLOW}
            command = component.command(0)
            path.write_text(yaml.safe_dump(written), encoding="utf-8")
            component.command = lambda _, command=command: command  # type: ignore[misc]
            component.launch()
    running = [stage.schedulers[scheduler].process for scheduler in SCHEDULERS]
    try:
        yield extender, [process for process in running if process is not None]
    finally:
        for scheduler in SCHEDULERS:
            stage.schedulers.pop(scheduler).stop()
        extender.process.stop()
        stage.extenders.remove(extender)


def burst(processes: list[Process], namespaces: list[Team], pods: int = PODS) -> None:
    for process in processes:
        process.signal(signal.SIGSTOP)
    try:
        for number, team in enumerate(namespaces):
            each = range(pods // len(namespaces))
            team.create(*(team.pod(f"pod-{entry}", SCHEDULERS[(entry + number) % 2]) for entry in each))
    finally:
        for process in processes:
            process.signal(signal.SIGCONT)


def test_burst_stays_within_quotas(stage: Stage, pair: list[Team]) -> None:
    """Two kube-schedulers bind as many of 200 pods as quotas allow, and never more."""
    with scheduled(stage) as (_, processes), Observed.watching(stage, *pair) as observed:
        burst(processes, pair)
        until(lambda: sum(observed.used.values()) == TOTAL, lambda: f"all GPUs that are allowed in use: {observed}")
        # The next pods use exactly the freed resources.
        for turn in range(3):
            before = observed.bindings
            for team in pair:
                team.delete(*sorted(team.bound())[turn :: len(MIN) + 1])
            until(
                lambda before=before: observed.bindings > before and sum(observed.used.values()) == TOTAL,  # type: ignore[misc]
                lambda: f"all GPUs that are allowed in use again: {observed}",
            )
        first, second = pair
        second.clear()
        until(lambda: observed.used[first.name] == MAX[first.name], lambda: f"{first.name} using its max: {observed}")
    assert not observed.broken
    assert observed.most_together == TOTAL
    assert all(observed.most[name] <= MAX[name] for name in MAX), observed.most


def refused(namespaces: list[Team]) -> bool:
    waiting = [pod for team in namespaces for pod in team.read().values() if not pod["spec"].get("nodeName")]
    return all(
        any(condition["status"] == "False" for condition in pod["status"].get("conditions", ())) for pod in waiting
    )


@pytest.mark.long
def test_killed_extender_keeps_quotas(stage: Stage, pair: list[Team]) -> None:
    """The extender is killed and restarts before its admitted pods are bound: no binding exceeds a quota."""
    with scheduled(stage, slow=True) as (extender, processes), Observed.watching(stage, *pair) as observed:
        burst(processes, pair, FEW)
        until(lambda: observed.bindings, "a pod being bound")
        extender.kill()
        assert sum(observed.used.values()) < TOTAL  # others are in flight: their bindings take nine seconds
        extender.restart()
        until(lambda: sum(observed.used.values()) == TOTAL, lambda: f"all GPUs that are allowed in use: {observed}")
        until(lambda: refused(pair), "all others being refused")
    assert not observed.broken
    assert observed.most_together == TOTAL
    assert all(observed.most[name] <= MAX[name] for name in MAX), observed.most


def test_restart_with_a_backlog_blocks_for_seconds(stage: Stage, pair: list[Team]) -> None:
    """After a restart a namespace with a backlog and a max equal to the guarantee delays others only briefly.

    Until kube-scheduler has written the refusal of the other's pod, every pod of the backlog may be in flight.
    """
    large, other = pair
    nowhere = {"pool": "there-is-none"}
    with scheduled(stage) as (extender, _):
        stage.cluster.api.merge(large.quota, {"spec": {"max": {GPU: f"{TOTAL}"}}})
        large.known(MIN[large.name], TOTAL)
        try:
            large.create(*(large.pod(f"waits-{n}", SCHEDULERS[0], selector=nowhere) for n in range(FEW)))
            until(lambda: refused([large]), "the backlog being refused")
            extender.kill()
            extender.restart()
            other.create(other.pod("first", SCHEDULERS[0]))
            started = time.monotonic()
            until(other.bound, "the pod of the other namespace being bound")
            waited = time.monotonic() - started
        finally:
            stage.cluster.api.merge(large.quota, {"spec": {"max": {GPU: f"{MAX[large.name]}"}}})
    assert SETTLED_SECONDS < waited < UNCONFIRMED_SECONDS / 2
