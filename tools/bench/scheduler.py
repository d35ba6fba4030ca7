"""`python -m tools.bench.scheduler`: pods per second through a real kube-scheduler, without extender and with ours.

Modes take turns in every round, forth and back, between two runs without an extender: one run says nothing on a
machine whose speed drifts, and a ratio is only good within a round. Prints Markdown, also when interrupted.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean, median
from typing import Final

from tools.bench import objects as made
from tools.bench.rows import NONE as NO_BUDGET
from tools.bench.rows import ROOT, Item, Row, Table, machine, short, text
from tools.bench.scheduler_binds import PATH, PATIENCE_SECONDS, Binds
from tools.bench.scheduler_parts import (
    NONE,
    NOTHING,
    SHORTLIST,
    WEIGHTED,
    Mode,
    Program,
    scheduler_name,
    start_extender,
    start_kube_scheduler,
)
from tools.devcluster import Cluster
from tools.devcluster.api import ApiClient
from tools.devcluster.commands import DevClusterError
from tools.devcluster.process import wait_until

NODES, ROUNDS, PODS = (1000, 5000), 3, 3000
MINUTES: Final = 30.0  # no run begins later than that
WORKERS: Final = 16
_COLLECT: Final = "/debug/pprof/heap?gc=1&debug=1"  # page of the API server that collects its garbage first
_LEAST_MS: Final = 0.002  # the least CPU time per pod of a step that a table shows [ms]
PROCESSES: Final = ("scheduler", "apiserver", "etcd", "extender")

PLAIN: Final = Mode(NONE, "no extender, kube-scheduler's own share of nodes", percentage=0)
SAMPLED: Final = Mode(NONE, "no extender")
MODES: Final[Mapping[str, Sequence[Mode]]] = {
    NONE: (PLAIN, SAMPLED),
    NOTHING: (
        Mode(NOTHING, "do-nothing extender, filter + prioritize"),
        Mode(NOTHING, "do-nothing extender, first 8 names", names=8),
    ),
    SHORTLIST: (Mode(SHORTLIST, "all plugins, `shortlist`"),),
    WEIGHTED: (Mode(WEIGHTED, "all plugins, `weighted`"),),
}
BUDGETS: Final = {SHORTLIST: ">= 1.0 x no extender", WEIGHTED: ">= 0.55 x no extender"}
REFERENCES: Final = {
    (1000, NOTHING): "0.56 [0.43, 0.60]; aiohttp 0.46",
    (5000, NOTHING): "0.58 [0.49, 0.73]",
    (1000, SHORTLIST): "1.21 [0.96, 1.49] of 4 names, ranking only",
    (5000, SHORTLIST): "1.28 [0.97, 1.63] of 4 names, ranking only",
    (1000, WEIGHTED): "0.53 [0.45, 0.63], ranking only",
    (5000, WEIGHTED): "0.59 [0.57, 0.59], ranking only",
}
"""Results of a prototype with a hand-written server on another machine of two cores, by nodes and kind of mode."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs to measure."""

    nodes: Sequence[int] = NODES  # numbers of nodes
    rounds: int = ROUNDS
    pods: int = PODS  # how many pods a run schedules
    kinds: Sequence[str] = tuple(MODES)
    profiled: bool = False  # whether Headroom's extender measures the steps of its work, which slows it down
    python: str = sys.executable  # the Python that runs the extender
    pace: float = 0.0  # how many pods arrive per second; 0: all are there before kube-scheduler starts [pods/s]

    def turn(self, number: int) -> list[Mode]:
        """Return the modes of a round: forth in even ones, back in odd ones, without extender at both ends."""
        modes = [mode for kind in self.kinds for mode in MODES[kind] if mode != PLAIN]
        modes = [
            replace(mode, profiled=self.profiled, python=self.python) if mode.kind in {SHORTLIST, WEIGHTED} else mode
            for mode in modes
        ]
        ends = [PLAIN] if NONE in self.kinds else []
        return [*ends, *(reversed(modes) if number % 2 else modes), *ends]

    @property
    def runs(self) -> int:
        """Return how many runs there are in all."""
        return len(self.nodes) * self.rounds * len(self.turn(0))


QUICK: Final = Plan(nodes=(12,), rounds=1, pods=20)


@dataclass(frozen=True, slots=True)
class Run:
    """A run."""

    nodes: int
    round: int
    mode: Mode
    per_second: float  # pods bound per second, from the first to the last
    cpu_ms: Mapping[str, float]  # CPU time per pod of each process [ms]
    other: float  # CPU time of everything else on the machine, as a share of a core
    algorithm_ms: float | None  # what kube-scheduler's algorithm took per pod [ms]
    extender: Mapping[str, float] = field(default_factory=dict)  # the extender's own metrics, by name
    profile: Mapping[str, float] = field(default_factory=dict)  # CPU time of its steps per pod, if measured [ms]


def measure(plan: Plan) -> Iterator[Run]:
    """Run after run, on one cluster that grows; everything that is started ends with it.

    Raises:
        DevClusterError: The cluster did not start, or ended.
    """
    deadline = time.monotonic() + MINUTES * 60
    with Cluster(say=lambda _: None) as cluster:
        cluster.control_plane.scheduler.stop()
        cluster.control_plane.controller_manager.stop()  # it would find that no kubelet renews its Lease
        for kind in ("node_metric", "elastic_quota"):
            cluster.define(ROOT / "crds" / f"{kind}.yaml")
        cluster.api.request("POST", "/apis/apps/v1/namespaces/default/replicasets", made.replica_set())
        there = 0
        for count in sorted(plan.nodes):
            _grow(cluster, range(there, count))
            there = count
            _once(cluster, (count, -1, SAMPLED), min(plan.pods, 100))  # a first run is slower than all others
            for number in range(plan.rounds):
                for mode in plan.turn(number):
                    if time.monotonic() > deadline:
                        _log(f"{MINUTES:g} minutes are over: starting no further runs")
                        return
                    try:
                        run = _once(cluster, (count, number, mode), plan.pods, plan.pace)
                    except (DevClusterError, OSError) as error:
                        cluster.check()
                        _log(f"a run with {mode.title} failed: {error}")
                        continue
                    _log(f"{count:,} nodes, round {number + 1}, {mode.title}: {run.per_second:.0f} pods/s")
                    yield run


def part(*, quick: bool = False) -> Iterator[Item]:
    """Measure rates and ratios to no extender of the same round, and everything else as a table.

    Raises:
        DevClusterError: As `measure`, or a run is missing.
    """
    plan = QUICK if quick else Plan()
    runs = list(measure(plan))
    yield from items(runs)
    if len(runs) < plan.runs:
        raise DevClusterError(f"{plan.runs - len(runs)} of {plan.runs} runs are missing")


def _log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _grow(cluster: Cluster, numbers: range) -> None:
    """Make nodes that report."""
    now = time.time()
    cluster.api.create_all(("/api/v1/nodes", made.node(number, now, images=0)) for number in numbers)
    cluster.api.create_all((made.METRICS, made.node_metric(number)) for number in numbers)

    def write(number: int) -> None:
        cluster.api.merge(f"{made.metric_path(number)}/status", made.usage_report(number, now))

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(write, numbers))
    _log(f"{numbers.stop:,} nodes report after {time.time() - now:.0f} s")


def _once(cluster: Cluster, which: tuple[int, int, Mode], pods: int, pace: float = 0.0) -> Run:
    """Make pods, then start the extender, then kube-scheduler, and wait until all are bound.

    Args:
        cluster: Where.
        which: Number of nodes, round and mode.
        pods: How many.
        pace: As `Plan.pace`; above 0 the pods arrive after kube-scheduler has started.

    Raises:
        DevClusterError: Something ended, or not all pods were bound in time.
        OSError: Something did not answer.
    """
    mode = which[2]
    names = [item["metadata"]["name"] for item in cluster.api.get(PATH)["items"]]
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda name: cluster.api.request("DELETE", f"{PATH}/{name}?gracePeriodSeconds=0"), names))
    pending = made.pending_pods(pods, scheduler_name())
    if not pace:
        cluster.api.create_all((PATH, pod) for pod in pending)
    # A collection takes 0.4 s of CPU or more, and how many a run has must not depend on the runs before it.
    cluster.api.get(_COLLECT)
    plane = cluster.control_plane
    programs = {"apiserver": plane.apiserver.process, "etcd": plane.etcd.process}
    pids = {name: process.pid for name, process in programs.items() if process}
    binds, running = Binds(cluster.api, pods), list[Program]()
    try:
        extender = None
        if mode.kind != NONE:
            extender = start_extender(cluster, mode)
            running.append(extender)
            pids["extender"] = extender.process.pid
        scheduler = start_kube_scheduler(cluster, mode, extender.url if extender else "")
        running.append(scheduler)
        binds.follow({**pids, "scheduler": scheduler.process.pid})
        if pace:
            _arrive(cluster.api, pending, pace)
        processes = [program.process for program in running]
        wait_until(partial(binds.wait, 0.1), f"{pods} pods being bound", PATIENCE_SECONDS, processes, 0.1)
        spent = binds.spent()
        return Run(
            *which,
            per_second=binds.per_second,
            cpu_ms={name: spent[name] for name in PROCESSES if name in spent},
            other=spent["other"],
            algorithm_ms=scheduler.algorithm_ms(),
            extender=extender.figures() if extender else {},
            profile=extender.profile() if extender else {},
        )
    finally:
        for program in reversed(running):
            program.process.stop()


def _arrive(api: ApiClient, pods: Iterator[made.Json], pace: float) -> None:
    """Create pods one by one, so many per second."""
    began = time.monotonic()
    for number, pod in enumerate(pods):
        time.sleep(max(began + number / pace - time.monotonic(), 0.0))
        api.request("POST", PATH, pod)


def items(runs: Sequence[Run]) -> Iterator[Item]:
    """Rates, ratios and CPU per pod by number of nodes and mode, then a table of everything."""
    groups: dict[tuple[int, Mode], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.nodes, run.mode), []).append(run)
    for (nodes, mode), result in groups.items():
        what = f"pods per second on the real kube-scheduler, {nodes:,} nodes, {mode.title}"
        rates, ratios = _spread([run.per_second for run in result], "{:.0f}"), _ratios(result, runs, PLAIN)
        if mode.kind == NONE or not ratios:
            yield Row(what, f"{rates} pods/s")
            continue
        reference = NO_BUDGET if mode.names else REFERENCES.get((nodes, mode.kind), NO_BUDGET)
        measured = f"{_spread(ratios, '{:.2f}')} x no extender ({rates} pods/s)"
        yield Row(what, measured, BUDGETS.get(mode.kind, NO_BUDGET), reference, median(ratios))
        if mode.kind == SHORTLIST and (same := _ratios(result, runs, SAMPLED)):
            measured = f"{_spread(same, '{:.2f}')} x no extender"
            yield Row(f"{what}, beside the same node sampling", measured, ">= 0.8 x", value=median(same))
            spent = median([run.cpu_ms["extender"] for run in result])
            yield Row(
                f"CPU of the extender per pod, {nodes:,} nodes, {mode.title}",
                f"{spent:.2f} ms",
                "<= 0.9 ms",
                value=spent,
            )
    head: tuple[str, ...] = (
        "nodes",
        "mode",
        "runs",
        "pods/s, median [min, max]",
        "ratio to no extender of the same round",
    )
    head += ("to the same node sampling", "scheduling algorithm [ms]")
    head += (f"CPU per pod: {' / '.join(PROCESSES)} [ms]", "extender", "rest of the machine [% of a core]")
    for (nodes, mode), result in groups.items():
        if mode.profiled:
            yield _profile(nodes, mode, result)
    cells = [_cells(nodes, mode, result, runs) for (nodes, mode), result in groups.items()]
    yield Table("Of all runs. A ratio is to the mean of the runs with no extender of the same round:", [head, *cells])


def _profile(nodes: int, mode: Mode, runs: Sequence[Run]) -> Table:
    steps = {step: median([run.profile.get(step, 0.0) for run in runs]) for run in runs for step in run.profile}
    shown = sorted((step for step in steps if steps[step] >= _LEAST_MS), key=lambda step: -steps[step])
    cells = [(step, f"{steps[step]:.3f}") for step in shown]
    title = f"CPU per pod of the extender by step, {nodes:,} nodes, {mode.title}, the measuring included:"
    return Table(title, [("step", "median [ms]"), *cells])


def _cells(nodes: int, mode: Mode, found: Sequence[Run], runs: Sequence[Run]) -> list[str]:
    spent = [_median([run.cpu_ms[name] for run in found if name in run.cpu_ms]) for name in PROCESSES]
    own = {key: [run.extender[key] for run in found if key in run.extender] for run in found for key in run.extender}
    return [
        f"{nodes:,}",
        mode.title,
        str(len(found)),
        _spread([run.per_second for run in found], "{:.0f}"),
        _spread(_ratios(found, runs, PLAIN), "{:.2f}"),
        _spread(_ratios(found, runs, SAMPLED), "{:.2f}"),
        _median([run.algorithm_ms for run in found if run.algorithm_ms is not None]),
        " / ".join(spent),
        ", ".join(f"{key} {_median(values)}" for key, values in own.items()),
        _median([run.other * 100 for run in found]),
    ]


def _ratios(found: Sequence[Run], runs: Sequence[Run], base: Mode) -> list[float]:
    """Return the rates beside the mean rate of the base mode in the same round."""
    bases: dict[tuple[int, int], list[float]] = {}
    for run in runs:
        if run.mode == base:
            bases.setdefault((run.nodes, run.round), []).append(run.per_second)
    return [run.per_second / fmean(rates) for run in found if (rates := bases.get((run.nodes, run.round)))]


def _spread(values: Sequence[float], form: str) -> str:
    """Return median, smallest and largest; a dash for nothing."""
    if not values:
        return "-"
    return f"{form.format(median(values))} [{form.format(min(values))}, {form.format(max(values))}]"


def _median(values: Sequence[float]) -> str:
    return short(median(values) if values else None)


def _numbers(words: str) -> list[int]:
    if not all(word.isascii() and word.isdigit() and int(word) for word in words.split(",")):
        raise argparse.ArgumentTypeError(f"{words!r}: write numbers like 1000,5000")
    return [int(word) for word in words.split(",")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print.

    Returns:
        The exit status: 1 when some runs are missing.
    """
    parser = argparse.ArgumentParser(prog="python -m tools.bench.scheduler", description=__doc__)
    parser.add_argument("--nodes", type=_numbers, default=NODES, help="numbers of nodes, such as 1000,5000")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds ({ROUNDS})")
    parser.add_argument("--pods", type=int, default=PODS, help=f"pods of a run ({PODS})")
    parser.add_argument("--modes", default=",".join(MODES), help=f"some of {', '.join(MODES)}")
    parser.add_argument("--pace", type=float, default=0.0, help="pods that arrive per second (all are there)")
    parser.add_argument("--python", default=sys.executable, help="the Python that runs the extender (this one)")
    parser.add_argument("--profile", action="store_true", help="measure the steps of the extender's work")
    options = parser.parse_args(arguments)
    kinds = options.modes.split(",")
    if unknown := set(kinds) - set(MODES):
        parser.error(f"no mode named {', '.join(sorted(unknown))}: choose from {', '.join(MODES)}")
    rounds, pods, pace = max(options.rounds, 1), max(options.pods, 2), max(options.pace, 0.0)
    plan, runs = Plan(options.nodes, rounds, pods, kinds, options.profile, options.python, pace), list[Run]()
    try:
        for run in measure(plan):
            runs.append(run)
    except (DevClusterError, OSError, KeyboardInterrupt) as error:
        _log(f"starting no further runs: {error or 'interrupted'}")
    # The rate of paced pods is that of their arrival, so it has no budget.
    shown = [item for item in items(runs) if isinstance(item, Table) or not plan.pace]
    print(f"{machine()}; {plan.pods} pods a run.\n\n{text(shown)}")
    return 0 if len(runs) == plan.runs else 1


if __name__ == "__main__":
    sys.exit(main())
