"""A month of real machines, replayed from sample to Node: agent, NodeMetric, manager, and what the Nodes then have.

The machines of the trace in the repository are packed on 40 nodes at random, as in the backtest; some of these nodes
are replayed. Prod pods request all of a node, so without Headroom nothing is left to publish. Of every five minutes the
agent's own code learns, predicts and reports, the manager's own code calculates and decides what to write; only clock,
cgroups and API server are replaced. Then it is counted how often more was published than stayed free.

`python -m tools.bench.replay` prints the table as Markdown; `--nodes`, `--days` and `--picture FILE.svg` go with it.
"""

import argparse
import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from crds.colocation import ColocationStrategy
from crds.predict_policy import PredictPolicy, ResourceOverride
from headroom.backtest import sources
from headroom.backtest.trace import PodLifetime, Trace
from tools.bench import replay_picture, results
from tools.bench.machine import ROOT
from tools.bench.measurement import Grid, Item, Measurement
from tools.bench.replay_node import UNITS, ReplayedNode, nodes_of
from tools.bench.replay_picture import Line
from tools.bench.replay_publisher import Variant
from tools.bench.replay_run import STEPS_PER_DAY, Schedule, replay
from tools.bench.replay_score import HORIZONS, Fleet, NodeScore, score, together

DATA: Final = ROOT / "tools/bench" / "data" / "bitbrains-rnd-2013-08"
MACHINES: Final = 40  # Nodes that the trace's machines are packed on
SEED: Final = 0  # of the packing
STATIC_PERCENT: Final = 60  # what the fixed share is: about what the predictions publish on average
DEFAULT, HARD = "default", "default, a hard month"
GIB: Final = 1 << 30
_NOT_OVERRIDDEN: Final = ResourceOverride()


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is replayed."""

    nodes: int = 6  # how many of the nodes
    days: float = 30.0
    """How much of the month; more than two days, for the first is warm-up and the last is what is looked ahead to."""


FULL, QUICK = Plan(), Plan(nodes=1, days=2.25)


def variants() -> list[Variant]:
    """What is compared: the default policy, N-sigma, Koordinator's rule, and a fixed share."""
    share = ColocationStrategy(
        enable=True,
        mid_reclaim_mode="static",
        mid_static_cpu_reserved_percent=STATIC_PERCENT,
        mid_static_memory_reserved_percent=STATIC_PERCENT,
    )
    return [Variant(DEFAULT), _of_model("nsigma-v2"), _of_model("percentile"), Variant("static", strategy=share)]


def _of_model(name: str) -> Variant:
    """A model with its own parameters and usual margin for both resources, and the default cold period."""
    return Variant(name, PredictPolicy(model=name, parameters={}, cpu=_NOT_OVERRIDDEN, memory=_NOT_OVERRIDDEN))


def measure(*, quick: bool = False) -> Iterator[Item]:
    """The rows of the default policy, the table of all, and a picture of one node."""
    plan = QUICK if quick else FULL
    fleets, lines = run(plan)
    yield from rows(fleets, plan)
    yield grid(fleets, plan)
    yield replay_picture.draw(lines)


def run(plan: Plan) -> tuple[list[Fleet], list[Line]]:
    """Replay the plan's nodes on all processors; what came out, and one node's course for the picture."""
    nodes = _nodes(plan)
    jobs = [_Job(node, hard) for node in nodes for hard in (False, True)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(jobs)), mp_context=context) as pool:
        found = list(pool.map(_replayed, jobs))
    calm = [one for job, (scores, _) in zip(jobs, found, strict=True) if not job.hard for one in scores]
    hard = [one for job, (scores, _) in zip(jobs, found, strict=True) if job.hard for one in scores]
    return together([*calm, *hard]), found[0][1]


@dataclass(frozen=True, slots=True)
class _Job:
    """One run of one node."""

    node: ReplayedNode
    hard: bool


def _replayed(job: _Job) -> tuple[list[NodeScore], list[Line]]:
    """Runs in a process of its own."""
    days = job.node.steps / STEPS_PER_DAY
    chosen = [Variant(HARD)] if job.hard else variants()
    schedule = Schedule.of_days(days) if job.hard else None
    with tempfile.TemporaryDirectory(prefix="headroom-replay-") as folder:
        publishers = replay(job.node, chosen, Path(folder) / "agent.db", schedule)
    scores = [score(job.node, publisher, resource) for publisher in publishers for resource in UNITS]
    return scores, replay_picture.lines_of(job.node, publishers)


def _nodes(plan: Plan) -> list[ReplayedNode]:
    cpu, memory = common(sources.read("trace", [str(DATA)], sources.Options(), lambda _share, _what: None))
    steps = min(round(plan.days * STEPS_PER_DAY), cpu.steps)
    machine = np.random.default_rng(SEED).permutation(cpu.series) % MACHINES
    lifetimes = [PodLifetime(series, int(machine[series]), 0, steps) for series in range(cpu.series)]
    chosen = [lifetime for lifetime in lifetimes if lifetime.machine < plan.nodes]
    return nodes_of(_cut(cpu, steps), _cut(memory, steps), chosen)


def common(traces: Sequence[Trace]) -> tuple[Trace, Trace]:
    """CPU and memory of the series that both have, in the same order."""
    by_resource = {trace.resource: trace for trace in traces}
    cpu, memory = by_resource["cpu"], by_resource["memory"]
    both = [name for name in cpu.names if name in set(memory.names)]
    return _of(cpu, both), _of(memory, both)


def _of(trace: Trace, names: Sequence[str]) -> Trace:
    places = {name: place for place, name in enumerate(trace.names)}
    own = [places[name] for name in names]
    return Trace(
        trace.resource,
        trace.times,
        trace.step_seconds,
        trace.usage[:, own],
        trace.limits[own],
        tuple(names),
        source=trace.source,
    )


def _cut(trace: Trace, steps: int) -> Trace:
    return Trace(
        trace.resource,
        trace.times[:steps],
        trace.step_seconds,
        trace.usage[:steps],
        trace.limits,
        trace.names,
        source=trace.source,
    )


def rows(fleets: Sequence[Fleet], plan: Plan) -> Iterator[Measurement]:
    """What the default policy published, and how safely, beside the others."""
    for resource in UNITS:
        by_name = {one.variant: one for one in fleets if one.resource == resource}
        own, hard = by_name[DEFAULT], by_name[HARD]
        where = f"{own.nodes} nodes, {plan.days:g} days"
        others = [one for name, one in by_name.items() if name not in (DEFAULT, HARD)]
        yield Measurement(
            f"replay: Mid {resource} published by the default policy as it ships, on average; {where}",
            _amounts(own),
            reference="; ".join(f"{one.variant} {_share(one)}" for one in others),
        )
        yield Measurement(
            f"replay: time in which more Mid {resource} was published than was free, then than stayed free 1 h, 24 h",
            _over(own),
            reference="; ".join(f"{one.variant} {_over(one)}" for one in others),
        )
        yield Measurement(
            f"replay: the same of {resource} with a restart of the agent a day, and 2 h without agent or API server "
            "every second day",
            f"{_over(hard)}, {_share(hard)} published",
        )
        yield Measurement(
            f"replay: writes of Mid {resource} to a Node a day, and how often their direction changed",
            f"{own.writes_per_day:.0f}, {own.turns_per_day:.1f}",
            reference="; ".join(f"{one.variant} {one.writes_per_day:.0f}, {one.turns_per_day:.1f}" for one in others),
        )


def grid(fleets: Sequence[Fleet], plan: Plan) -> Grid:
    """Everything that was counted."""
    head = ["resource", "policy", "published", "of allocatable"]
    head += [f"over, {name}" for name in HORIZONS]
    head += ["missing then", "writes a day", "turns a day"]
    cells = [
        [
            one.resource,
            one.variant,
            _amount(one.resource, one.published),
            f"{one.published / one.allocatable:.1%}",
            *(f"{share:.2%}" for share in one.over.values()),
            _amount(one.resource, one.missing),
            f"{one.writes_per_day:.0f}",
            f"{one.turns_per_day:.1f}",
        ]
        for one in sorted(fleets, key=lambda one: list(UNITS).index(one.resource))
    ]
    title = (
        f"Bitbrains, August 2013: {plan.nodes} of {MACHINES} nodes, {plan.days:g} days through agent, NodeMetric, "
        "manager and its writes; each policy with its usual margin. Over: share of the time in which more Mid was "
        "published than stayed free for so long"
    )
    return Grid(title, [head, *cells])


def _amount(resource: str, amount: float) -> str:
    return f"{amount:.3g} cores" if resource == "cpu" else f"{amount / GIB:.3g} GiB"


def _amounts(one: Fleet) -> str:
    used = _amount(one.resource, one.used)
    all_of_it = _amount(one.resource, one.allocatable)
    return (
        f"{_amount(one.resource, one.published)} ({_share(one)}) of {all_of_it} that Prod requested, {used} of it used"
    )


def _share(one: Fleet) -> str:
    return f"{one.published / one.allocatable:.1%}"


def _over(one: Fleet) -> str:
    return f"{one.over['now']:.2%}, {one.over['1 h']:.2%}, {one.over['24 h']:.2%}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.replay", description=__doc__)
    parser.add_argument("--nodes", type=int, choices=range(1, MACHINES + 1), metavar="N", default=FULL.nodes)
    parser.add_argument("--days", type=float, default=FULL.days, help="of the 30 that there are; more than 2")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw the first node's last week")
    options = parser.parse_args(arguments)
    if options.picture and not options.picture.parent.is_dir():
        parser.error(f"--picture: there is no folder {options.picture.parent}")
    if not options.days > 2:  # noqa: PLR2004 - warm-up, and what is looked ahead to
        parser.error("--days: the first day is warm-up and the last is looked ahead to, so give more than 2")
    plan = Plan(options.nodes, options.days)
    fleets, lines = run(plan)
    found = grid(fleets, plan)
    print(f"{found.title}.\n\n{results.markdown(found.cells)}")
    if options.picture:
        options.picture.write_text(replay_picture.draw(lines).svg, encoding="utf-8")


if __name__ == "__main__":
    main()
