"""A real API server is killed or stopped again and again, for some seconds, below agents, manager and extender.

Pods come and go right before each outage, before any service observes them, and right after it. Within three minutes
every agent has to report just the pods that its node has, the Node has to have what `explain` calculates, the extender
has to know the same pods, and a new pod has to be placed through it; none of them may have ended, and measuring goes on
all the while.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from agent.samples import CPU, NODE
from agent.tsdb.tsdb import Tsdb
from tools.devcluster.api import ApiError
from tools.devcluster.commands import DevClusterError
from tools.devcluster.process import wait_until
from tools.soak.loop import NODES, Loop
from tools.soak.progress import Progress, run
from tools.soak.trend import Trend

FEWEST, MOST = 3, 100  # restarts
LONGEST_OUTAGE_SECONDS = 10.0
PATIENCE_SECONDS = 180.0
STOP_SECONDS = 20.0  # how long a service may take to end
LAST_SHARE = 0.8  # of the time, after which no other outage begins
SETTLED = 3  # restarts after which memory is compared: caches and connections are made by then
MIB_A_RESTART = 1.0
GAP_SECONDS = 30.0
"""The agents measure once a second; a machine that starts an API server beside them holds them up for a while."""


@dataclass(slots=True)
class Observations:
    """The observations, restart after restart."""

    restarts: int = 0  # how many there were
    outages: list[tuple[float, float]] = field(default_factory=list)  # their beginnings and ends [seconds since 1970]
    took: list[float] = field(default_factory=list)  # how long after each everything was as it should be [s]
    withdrawn: list[str] = field(default_factory=list)  # where a node had nothing when the API server was back
    memory: dict[str, list[float]] = field(default_factory=lambda: {"manager": [], "extender": []})
    """After each restart. [MiB]"""


class UnsettledError(Exception):
    """Something did not become as it should be."""


def _quietly(probe: Callable[[], bool]) -> bool:
    """An answer; no while the API server refuses, as it does for a moment after its start."""
    try:
        return probe()
    except ApiError:
        return False


def outage(loop: Loop, seen: Observations, chance: random.Random) -> None:
    """Run one of them, with its preparation and its checks.

    Raises:
        UnsettledError: Something was not as it should be after three minutes.
        DevClusterError: A service has ended, or the API server did not come back.
    """
    number = seen.restarts
    loop.add_pod(f"before-{number}", NODES[number % 2])
    if number > 1:
        loop.remove_pod(f"before-{number - 2}")
    began = time.time()
    if number % 2:
        loop.cluster.apiserver.stop()
    else:
        loop.cluster.apiserver.kill()
    time.sleep(chance.uniform(0, LONGEST_OUTAGE_SECONDS))  # the outage itself, not a wait for anything
    loop.cluster.apiserver.start()
    back = time.time()
    seen.outages.append((began, back))
    seen.withdrawn += [f"{node} after restart {number + 1}" for node in NODES if not loop.mid(node)]
    loop.add_pod(f"after-{number}")
    if number > 1:
        loop.remove_pod(f"after-{number - 2}")
    for what, holds in _wanted(loop, back):
        left = PATIENCE_SECONDS - (time.time() - back)
        try:
            wait_until(lambda holds=holds: _quietly(holds), what, left, list(loop.processes.values()), 0.25)  # type: ignore[misc]
        except DevClusterError as error:
            if not all(process.running for process in loop.processes.values()):
                raise
            raise UnsettledError(f"restart {number + 1}: {str(error).splitlines()[0]}") from error
    seen.restarts += 1
    seen.took.append(time.time() - back)
    for name, values in seen.memory.items():
        values.append(loop.memory_mib(name))


def _wanted(loop: Loop, back: float) -> Iterator[tuple[str, Callable[[], bool]]]:
    """The checks after an outage that ended at a time [seconds since 1970], the cheapest first."""
    yield "placing every pod", lambda: not loop.pods()[""]
    for node in NODES:
        yield (
            f"a report of {node} with the pods that it has",
            lambda node=node: loop.reported(node)[0] >= int(back) and loop.reported(node)[1] == loop.pods()[node],  # type: ignore[misc]
        )
        yield f"the extender knowing the pods of {node}", lambda node=node: loop.known(node) == loop.pods()[node]  # type: ignore[misc]
    yield "the extender being healthy", loop.healthy
    for node in NODES:
        yield f"{node} having what explain says", lambda node=node: loop.explained(node)  # type: ignore[misc]


def trial(progress: Progress) -> None:
    """Restart an API server below everything."""
    seed = progress.seed
    chance, observed, problem = random.Random(seed), Observations(), ""  # noqa: S311 - no secret
    progress.log(f"starting the cluster; seed {seed}")
    with Loop.open() as loop:
        try:
            while observed.restarts < MOST and progress.left(LAST_SHARE if observed.restarts >= FEWEST else 1.0) > 0:
                progress.log(f"restart {observed.restarts + 1} begins")
                outage(loop, observed, chance)
                progress.log(f"restart {observed.restarts}: everything as it should be after {observed.took[-1]:.0f} s")
        except (UnsettledError, DevClusterError) as error:
            problem = str(error)
            loop.cluster.keep_logs()
        codes = {name: process.stop(STOP_SECONDS) for name, process in loop.processes.items()}
        broken = [name for name in loop.processes if "Traceback" in loop.log_text(name)]
        gaps = {node: _gap(loop, node, observed) for node in NODES}
    slowest = f"{observed.restarts} restarts, the slowest took {max(observed.took, default=0):.0f} s"
    if not problem and observed.restarts < FEWEST:
        problem = f"the time was enough for {observed.restarts} restarts, which is less than {FEWEST}"
    progress.check("everything is as it should be again within three minutes", problem or slowest, passed=not problem)
    withdrawn = ", ".join(observed.withdrawn) or "it always did"
    progress.check("a node goes on having Mid resources", withdrawn, passed=not observed.withdrawn)
    ended = ", ".join(f"{name} with {code}" for name, code in codes.items() if code) or "all with 0"
    progress.check("every service ends in order", ended, passed=not any(codes.values()))
    progress.check("no service says a traceback", ", ".join(broken) or "none did", passed=not broken)
    result = ", ".join(f"{node} {gap:.1f} s" for node, gap in gaps.items())
    progress.check(
        f"agents measure on: no gap above {GAP_SECONDS:.0f} s", result, passed=max(gaps.values()) <= GAP_SECONDS
    )
    _check_growth(progress, observed)


def _gap(loop: Loop, node: str, seen: Observations) -> float:
    """The longest time without a sample of a node's CPU, from before the first outage until after the last. [s]"""
    if not seen.outages:
        return 0.0
    with Tsdb.open(next(loop.data(node).glob("*.db"))) as store:
        times = store.window(CPU, NODE, seen.outages[0][0] - GAP_SECONDS, seen.outages[-1][1] + GAP_SECONDS).times
    return float(np.diff(times).max()) if len(times) > 1 else float("inf")


def _check_growth(progress: Progress, seen: Observations) -> None:
    for name, values in seen.memory.items():
        trend = Trend.of(range(len(values[SETTLED:])), values[SETTLED:])
        if trend is None:
            progress.log(f"too few restarts to evaluate whether the memory of the {name} grows with them")
            continue
        claim = f"memory of the {name} does not grow with restarts: at most {MIB_A_RESTART:g} MiB each"
        progress.check(claim, f"{trend.slope:+.2f} ({trend.level:.0f})", passed=trend.slope <= MIB_A_RESTART)


if __name__ == "__main__":
    run(trial)
