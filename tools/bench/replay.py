"""A month of real machines, replayed from sample to Node: agent, NodeMetric, manager, and the Node's amounts.

The machines of the trace in the repository are packed on 40 nodes at random, as in the backtest; some of these nodes
are replayed. Prod pods request all of a node, so without Headroom nothing is left to publish. Time goes in steps of
five minutes, as the trace does: the agent's own code learns, predicts and reports, the manager's own code calculates
and decides what to write; only clock, cgroups and API server are replaced. Then it is counted how often more was
published than stayed free.
"""

import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray
from agent.pods import PodRef
from agent.samples import CPU
from crds.colocation import ColocationStrategy
from crds.predict_policy import PredictPolicy, ResourceOverride
from crds.priority import PriorityBand, QoS
from kubectl_headroom.backtest import sources
from kubectl_headroom.backtest.trace import Trace
from tools.bench.data import BITBRAINS
from tools.bench.replay_node import STEP_SECONDS, TICKS, UNITS, Agent, Node, Policy, Publisher
from tools.bench.rows import Table

MACHINES: Final = 40  # nodes that the trace's machines are packed on
SEED: Final = 0  # of the packing
STEPS_PER_DAY, STEPS_PER_HOUR = 288, 12
MINUTES_PER_STEP: Final = 5
HORIZONS: Final = {"now": 0, "15 min": 3, "1 h": 12, "6 h": 72, "24 h": STEPS_PER_DAY}
"""The horizon over which free amounts are compared. [steps]"""
STATIC_PERCENT: Final = 60  # the fixed share: about the predictions' average
DEFAULT, HARD = "default", "default, a hard month"

Figures = dict[str, float]


def replay(node: Node, policies: Sequence[Policy], database: Path, problems: Mapping[int, str]) -> list[Publisher]:
    """Replay one node from its first step to its last.

    Args:
        node: The node.
        policies: The policies to compare.
        database: Where the agent keeps its samples.
        problems: What goes wrong by step: "restart" or "silent" of the agent, or "no api".

    Returns:
        One publisher for each policy, with all that it wrote.
    """
    publishers = [Publisher(policy, node) for policy in policies]
    agent = Agent(node, database, list({repr(policy.predict): policy.predict for policy in policies}.values()))
    before = ""
    for step in range(len(node.usage[CPU])):
        now, problem = node.start + step * STEP_SECONDS + TICKS[-1], problems.get(step, "")
        if problem in ("restart", "silent") and problem != before:
            agent.stop(now - STEP_SECONDS)
        if problem != "silent":
            agent.learn(step)
        for publisher in publishers:
            publisher.api_up = problem != "no api"
            publisher.run_until(now)
            if before == "no api" and publisher.api_up:
                publisher.advance(now)  # the manager's own retry comes before the agent's report
        if problem not in ("silent", "no api"):
            for predict_policy, report in agent.report(now):
                for publisher in publishers:
                    if publisher.policy.predict == predict_policy:
                        publisher.reported(now, report)
        before = problem
    agent.stop(now)
    return publishers


def hard_month(days: float) -> dict[int, str]:
    """Return a restart a day; and by turns, every second day, two hours without the agent or the API server."""
    problems: dict[int, str] = {}
    for day in range(1, int(days)):
        begin = day * STEPS_PER_DAY
        problems[begin + 10 * STEPS_PER_HOUR] = "restart"
        if day % 2 == 0:
            away = range(begin + 14 * STEPS_PER_HOUR, begin + 16 * STEPS_PER_HOUR)
            problems |= dict.fromkeys(away, "silent" if day % 4 == 0 else "no api")
    return problems


def score(node: Node, publisher: Publisher, resource: str) -> Figures:
    """Count one resource on one node, minute by minute, without the first day and the last. [cores or bytes]"""
    free, unit = node.free(resource), UNITS[resource]
    first, last = STEPS_PER_DAY, len(free) - STEPS_PER_DAY
    minutes = node.start + 60.0 * np.arange(first * MINUTES_PER_STEP, last * MINUTES_PER_STEP, dtype=np.float64)
    published = publisher.published(minutes, resource).reshape(-1, MINUTES_PER_STEP)
    missing = np.maximum(published - free[first:last, None], 0.0)
    times = np.array([when for when, _, _ in publisher.written])
    changes = np.diff(publisher.published(times, resource), prepend=0.0)
    changes = changes[(times >= minutes[0]) & (times < minutes[-1] + 60.0)]
    turns, days = np.diff(np.sign(changes[changes != 0.0])), (last - first) / STEPS_PER_DAY
    allocatable = node.resources.allocatable[resource]
    return {
        **{
            name: float((published > _least(free, ahead)[first:last, None] + 1e-6).mean())
            for name, ahead in HORIZONS.items()
        },
        "missing": float(missing[missing > 0.0].mean()) / unit if missing.any() else np.nan,
        "published": float(published.mean()) / unit,
        "used": float((allocatable - free)[first:last].mean()) / unit,
        "allocatable": allocatable / unit,
        "writes": np.count_nonzero(changes) / days,
        "turns": np.count_nonzero(turns) / days,
    }


def _least(free: FloatArray, ahead: int) -> FloatArray:
    """Return the least free amount in each step and in so many after it, shape (T,)."""
    padded = np.append(free, np.full(ahead, np.inf))
    least: FloatArray = np.lib.stride_tricks.sliding_window_view(padded, ahead + 1).min(axis=1)
    return least


def measure(*, quick: bool = False) -> Iterator[Table]:
    """Replay on all processors; a line for each resource and policy."""
    count, days = (1, 2.25) if quick else (6, 30.0)
    jobs = [(node, hard) for node in _nodes(count, days) for hard in (False, True)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(jobs)), mp_context=context) as pool:
        scores: dict[tuple[str, str], list[Figures]] = {}
        for result in pool.map(_scores, *zip(*jobs, strict=True)):
            for key, figures in result.items():
                scores.setdefault(key, []).append(figures)
    fleet = {key: _together(matches) for key, matches in scores.items()}
    head = [
        "resource",
        "policy",
        "used by Prod",
        "published",
        "of allocatable",
        *(f"over, {name}" for name in HORIZONS),
    ]
    cells = [
        [
            *(resource, name, _amount(resource, one["used"]), _amount(resource, one["published"])),
            f"{one['published'] / one['allocatable']:.1%}",
            *(f"{one[horizon]:.2%}" for horizon in HORIZONS),
            *(_amount(resource, one["missing"]), f"{one['writes']:.0f}", f"{one['turns']:.1f}"),
        ]
        for (resource, name), one in sorted(fleet.items(), key=lambda item: item[0][0])
    ]
    title = (
        f"Bitbrains, August 2013: {count} of {MACHINES} nodes, {days:g} days through agent, NodeMetric, manager and "
        "its writes; each policy with its usual margin. Over: share of the time in which more Mid was published than "
        "stayed free for so long"
    )
    yield Table(title, [[*head, "missing then", "writes a day", "turns a day"], *cells])


def _policies() -> list[Policy]:
    """Return the compared policies: the default policy, N-sigma, Koordinator's rule, and a fixed share."""
    plain = ResourceOverride()
    models = [
        Policy(name, PredictPolicy(model=name, parameters={}, cpu=plain, memory=plain))
        for name in ("nsigma-v2", "percentile")
    ]
    share = ColocationStrategy(
        enable=True,
        mid_reclaim_mode="static",
        mid_static_cpu_reserved_percent=STATIC_PERCENT,
        mid_static_memory_reserved_percent=STATIC_PERCENT,
    )
    return [Policy(DEFAULT), *models, Policy("static", strategy=share)]


def _scores(node: Node, hard: bool) -> dict[tuple[str, str], Figures]:  # noqa: FBT001 - called by map
    """Replay one node in a process of its own; the figures by resource and policy."""
    problems = hard_month(len(node.usage[CPU]) / STEPS_PER_DAY) if hard else {}
    with tempfile.TemporaryDirectory(prefix="headroom-replay-") as folder:
        publishers = replay(node, [Policy(HARD)] if hard else _policies(), Path(folder) / "agent.db", problems)
    return {
        (resource, publisher.policy.name): score(node, publisher, resource)
        for publisher in publishers
        for resource in UNITS
    }


def _nodes(count: int, days: float) -> list[Node]:
    traces: dict[str, Trace] = {
        trace.resource: trace
        for trace in sources.read("trace", [str(BITBRAINS)], sources.Options(), lambda _share, _what: None)
    }
    cpu, memory = traces["cpu"], traces["memory"]
    names = [name for name in cpu.names if name in set(memory.names)]
    steps = min(round(days * STEPS_PER_DAY), cpu.steps)
    machine = np.random.default_rng(SEED).permutation(len(names)) % MACHINES
    nodes = []
    for number in range(count):
        present = [name for name, at in zip(names, machine, strict=True) if at == number]
        columns: dict[str, list[int]] = {
            trace.resource: [trace.names.index(name) for name in present] for trace in (cpu, memory)
        }
        usage = {key: np.nan_to_num(traces[key].usage[:steps, places]) for key, places in columns.items()}
        limits = {key: traces[key].limits[places] * UNITS[key] for key, places in columns.items()}
        pods = []
        for place, name in enumerate(present):
            requests = {key: round(float(limits[key][place])) for key in limits}
            uid, workload = f"{number:04d}-{name}", f"replayed/StatefulSet/{name}"
            pods.append(PodRef(uid, "replayed", name, PriorityBand.PROD, QoS.LS, requests, requests, workload=workload))
        nodes.append(Node(f"node-{number}", float(cpu.times[0]), usage, pods))
    return nodes


def _together(scores: Sequence[Figures]) -> Figures:
    """Return the figures of all nodes: sums of amounts, means of the others."""
    sums = ("published", "used", "allocatable")
    values = {key: np.array([score[key] for score in scores]) for key in scores[0]}
    return {
        key: float(result.sum()) if key in sums else float(np.nanmean(result)) if not np.isnan(result).all() else 0.0
        for key, result in values.items()
    }


def _amount(resource: str, amount: float) -> str:
    return f"{amount:.3g} cores" if resource == CPU else f"{amount / (1 << 30):.3g} GiB"
