"""`python -m tools.bench.scheduler`: pods per second through a real kube-scheduler, without extender and with ours.

Modes take turns in every round, forth and back, between two runs without an extender: one run says nothing on a
machine whose speed drifts, and a ratio is only good within a round. Prints a Markdown table, also when interrupted.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from tools.bench import scheduler_objects as made
from tools.bench.rows import ROOT, Item, Table, markdown
from tools.bench.scheduler_binds import Binds
from tools.bench.scheduler_parts import (
    NONE,
    NOTHING,
    SHORTLIST,
    WEIGHTED,
    Extender,
    KubeScheduler,
    Mode,
    scheduler_name,
)
from tools.bench.scheduler_table import PROCESSES, Run, lines, measurements
from tools.devcluster import Cluster
from tools.devcluster.commands import DevClusterError
from tools.devcluster.process import wait_until

NODES = (1000, 5000)
ROUNDS, PODS, MINUTES = 5, 500, 25.0
SHORT = 8  # as many names as the shipped shortlist has of a group at least, from an extender that does nothing
PATIENCE_SECONDS = 180
WORKERS = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    nodes: Sequence[int]  # numbers of nodes
    modes: Sequence[Mode]  # what takes turns
    rounds: int  # how often
    pods: int  # how many pods a run schedules
    minutes: float  # when to begin no further run


def measure(plan: Plan) -> Iterator[Run]:
    """Run after run, on one cluster that grows; everything that is started ends with it.

    Raises:
        DevClusterError: the cluster did not start, or ended.
    """
    deadline = time.monotonic() + plan.minutes * 60
    with Cluster(say=_quiet) as cluster:
        cluster.control_plane.scheduler.stop()
        cluster.control_plane.controller_manager.stop()  # it would find that no kubelet renews its Lease
        for kind in ("node_metric", "elastic_quota"):
            cluster.define(ROOT / "crds" / f"{kind}.yaml")
        there = 0
        for count in sorted(plan.nodes):
            _grow(cluster, there, count)
            there = count
            _once(cluster, (count, -1, Mode(NONE)), min(plan.pods, 100))  # a first run is slower than all others
            for number in range(plan.rounds):
                for mode in turn(plan.modes, number):
                    if time.monotonic() > deadline:
                        _tell(f"{plan.minutes:g} minutes are over: no more runs")
                        return
                    try:
                        yield _once(cluster, (count, number, mode), plan.pods)
                    except (DevClusterError, OSError) as error:
                        cluster.check()
                        _tell(f"a run with {mode.title} failed: {error}")


def part(*, quick: bool = False) -> Iterator[Item]:
    """What `make bench` shows of it: rates, ratios to no extender of the same round, and everything else as a table.

    Raises:
        DevClusterError: as `measure`, or a run is missing.
    """
    plan = _plan(["--quick"] if quick else [])
    runs = list(measure(plan))
    yield from measurements(runs)
    title = (
        f"Of all runs, {plan.pods} pods each. A ratio is to the mean of the runs with no extender of the same round:"
    )
    yield Table(title, lines(runs))
    if len(runs) < expected(plan):
        raise DevClusterError(f"{expected(plan) - len(runs)} of {expected(plan)} runs are missing")


def expected(plan: Plan) -> int:
    """How many runs there are in all."""
    return len(plan.nodes) * sum(len(turn(plan.modes, each)) for each in range(plan.rounds))


def turn(modes: Sequence[Mode], number: int) -> list[Mode]:
    """The order of a round: forth in even ones, back in odd ones, and without extender at both ends."""
    order = list(modes if number % 2 == 0 else reversed(modes))
    plain = [mode for mode in modes if mode.kind == NONE]
    return [*plain[:1], *(mode for mode in order if mode not in plain[:1]), *plain[:1]]


def _quiet(_: str) -> None:
    """Progress of the cluster is not what people wait for here."""


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _grow(cluster: Cluster, first: int, end: int) -> None:
    """Make nodes that report."""
    now, numbers = time.time(), range(first, end)
    cluster.api.create_all(("/api/v1/nodes", made.node(number)) for number in numbers)
    cluster.api.create_all((made.METRICS, made.node_metric(number)) for number in numbers)

    def write(number: int) -> None:
        cluster.api.merge(f"{made.METRICS}/{made.name(number)}/status", made.report(number, now))

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(write, numbers))
    _tell(f"{end:,} nodes report after {time.time() - now:.0f} s")


def _once(cluster: Cluster, which: tuple[int, int, Mode], pods: int) -> Run:
    """One run: pods first, then the extender, then kube-scheduler.

    Args:
        cluster: where.
        which: number of nodes, round and mode.
        pods: how many.

    Raises:
        DevClusterError: something ended, or not all pods were bound in time.
        OSError: something did not answer.
    """
    path, mode = f"/api/v1/namespaces/{made.NAMESPACE}/pods", which[2]
    _clear(cluster, path)
    cluster.api.create_all((path, pod) for pod in made.pods(pods, scheduler_name()))
    plane, running = cluster.control_plane, []
    known = {"apiserver": plane.apiserver, "etcd": plane.etcd}
    pids = {name: one.process.pid for name, one in known.items() if one.process}
    binds = Binds(cluster.api, made.NAMESPACE, pods, PATIENCE_SECONDS)
    try:
        extender = None if mode.kind == NONE else Extender.start(cluster, mode)
        if extender is not None:
            running.append(extender.process)
            pids["extender"] = extender.process.pid
        scheduler = KubeScheduler.start(cluster, mode, extender.url if extender else "")
        running.append(scheduler.process)
        binds.follow({**pids, "scheduler": scheduler.process.pid})
        wait_until(partial(binds.wait, 0.1), f"{pods} pods being bound", PATIENCE_SECONDS, running, 0.1)
        spent = binds.spent()
        return Run(
            *which,
            per_second=binds.per_second,
            cpu_ms={name: spent[name] for name in PROCESSES if name in spent},
            other=spent["other"],
            algorithm_ms=scheduler.algorithm_ms(),
            extender=extender.figures() if extender else {},
        )
    finally:
        for process in reversed(running):
            process.stop()


def _clear(cluster: Cluster, path: str) -> None:
    """Take all pods away."""
    query = "gracePeriodSeconds=0"
    names = [item["metadata"]["name"] for item in cluster.api.get(path)["items"]]
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda name: cluster.api.request("DELETE", f"{path}/{name}?{query}"), names))


def modes_of(kinds: Sequence[str], sizes: Sequence[int], percentages: Sequence[int | None]) -> list[Mode]:
    """What takes turns: every kind, `shortlist` once for each size, all of them once for each share of nodes.

    With the shipped share alone, no extender runs twice: as kube-scheduler comes, which is what all is compared with,
    and with the shipped share of nodes.
    """
    every = {
        NONE: [Mode(NONE, percentage=0), Mode(NONE)] if list(percentages) == [None] else [Mode(NONE)],
        NOTHING: [Mode(NOTHING), Mode(NOTHING, SHORT)],
        SHORTLIST: [Mode(SHORTLIST, size) for size in sizes],
        WEIGHTED: [Mode(WEIGHTED)],
    }
    plain = [mode for kind in kinds for mode in every[kind]]
    return [mode if share is None else Mode(mode.kind, mode.size, share) for share in percentages for mode in plain]


def _numbers(text: str) -> list[int]:
    if not all(part.isascii() and part.isdigit() for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r}: write numbers like 1,4,8")
    return [int(part) for part in text.split(",")]


def _plan(arguments: Sequence[str] | None) -> Plan:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.scheduler", description=__doc__)
    kinds = (NONE, NOTHING, SHORTLIST, WEIGHTED)
    parser.add_argument("--nodes", type=_numbers, default=NODES, help="numbers of nodes, such as 1000,5000")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds ({ROUNDS})")
    parser.add_argument("--pods", type=int, default=PODS, help=f"pods of a run ({PODS})")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"begin no run after this time ({MINUTES:g})")
    parser.add_argument("--modes", default=",".join(kinds), help=f"some of {', '.join(kinds)}")
    parser.add_argument("--sizes", type=_numbers, default=[0], help="sizes of the shortlist; 0: the shipped one")
    text = "percentageOfNodesToScore, several numbers; without: the shipped one"
    parser.add_argument("--percentages", type=_numbers, default=[None], help=text)
    parser.add_argument("--quick", action="store_true", help="a few nodes and pods, to see that everything runs")
    options = parser.parse_args(arguments)
    chosen = options.modes.split(",")
    if unknown := set(chosen) - set(kinds):
        parser.error(f"no mode named {', '.join(sorted(unknown))}: choose from {', '.join(kinds)}")
    nodes, rounds, pods = (options.nodes, options.rounds, options.pods) if not options.quick else ([12], 1, 20)
    if min(rounds, pods - 1, *nodes) < 1:
        parser.error("there have to be nodes, a round, and two pods at least")
    return Plan(nodes, modes_of(chosen, options.sizes, options.percentages), rounds, pods, options.minutes)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print.

    Returns:
        The exit status: 1 when some runs are missing.
    """
    plan, began, runs = _plan(arguments), time.monotonic(), []
    complete = False
    try:
        for run in measure(plan):
            runs.append(run)
            _tell(f"{run.nodes:,} nodes, round {run.round + 1}, {run.mode.title}: {run.per_second:.0f} pods/s")
        complete = len(runs) == expected(plan)
    except (DevClusterError, OSError, KeyboardInterrupt) as error:
        _tell(f"no more runs: {error or 'interrupted'}")
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    print(f"{machine}; {plan.pods} pods a run; {(time.monotonic() - began) / 60:.0f} minutes in all.\n")
    print(markdown(lines(runs)))
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
