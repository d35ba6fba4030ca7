"""`python -m tools.bench.placement`: where pods are put, by the usage of the nodes that follows, on replayed traces.

A week of simulated nodes whose pods use what real machines used; see `placement_pods` for who they are. Each policy
gets the same pods. Deterministic for a seed. Prints a Markdown table.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import mean, stdev

import numpy as np

from scheduler_plugins.framework.shortlist import Shortlist
from tools.bench.placement_agents import STEP_SECONDS, SYSTEM_CORES, Agent
from tools.bench.placement_pods import CORES, DAILY, DAY_STEPS, STEPS, FloatArray, Pod, population
from tools.bench.placement_policies import Policy, Scheduler
from tools.bench.rows import Item, Row, Table, markdown

START = 1_735_689_600.0  # 2025-01-01T00:00:00Z [unix s]
NODES, SEEDS, WORKERS = 24, 3, 2
WARM_UP_DAYS = 2  # days that do not count: until then nobody has seen a night on which to base a prediction
DELAY_SECONDS = 30.0  # a pod comes so long after the reports [s]
HOT = 0.65  # LoadAware's default threshold

DEFAULT = Policy("default scheduler (model)")
POLICIES = (
    DEFAULT,
    Policy("LoadAware, `shortlist`", load_aware=True, shortlist=Shortlist()),
    Policy("LoadAware, `weighted`", load_aware=True),
    Policy("LoadAware with prediction, `shortlist`", load_aware=True, prediction=True, shortlist=Shortlist()),
    Policy("LoadAware with prediction, `weighted`", load_aware=True, prediction=True),
)
HEADER = (
    "policy",
    "p99 of nodes' CPU utilisation [%]",
    "node-hours above 65 % [%]",
    "highest node, mean over time [%]",
    "spread between nodes (standard deviation) [points]",
    "mean utilisation [%]",
    "waiting pods, mean",
    "hot node-hours, of the first line's on the same pods [%]",
)
HOT_COLUMN = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a policy."""

    utilisation: FloatArray
    """CPU that the pods of each node want, in units of its capacity, shape (steps, N), after the warm-up."""
    waiting: float  # Pods that waited for a node, mean over time

    def figures(self) -> list[float]:
        """In the order of the table's columns."""
        used = self.utilisation * 100.0
        return [
            float(np.percentile(used, 99)),
            float((self.utilisation > HOT).mean() * 100.0),
            float(used.max(axis=1).mean()),
            float(used.std(axis=1).mean()),
            float(used.mean()),
            self.waiting,
        ]


def simulate(policy: Policy, nodes: int, seed: int, steps: int = STEPS, daily: float = DAILY) -> Outcome:
    """A week of a policy.

    In each step pods leave and come, then the step passes and the nodes report what was used in it. A pod that finds no
    node tries again in every step, and lives as long as it would have.
    """
    names = [f"node-{number:03d}" for number in range(nodes)]
    scheduler, agents = Scheduler(policy, names, seed), [Agent(name, policy.prediction) for name in names]
    coming, waiting = list(reversed(population(nodes, seed, steps, daily))), []
    there: list[dict[int, tuple[Pod, int]]] = [{} for _ in names]
    used, waited = np.zeros((steps, nodes)), np.zeros(steps)
    for step in range(steps):
        now = START + step * STEP_SECONDS + DELAY_SECONDS
        for row, pods in enumerate(there):
            for pod, ends in [each for each in pods.values() if each[1] <= step]:
                del there[row][pod.number], ends
                scheduler.leave(pod, row)
        while coming and coming[-1].begins <= step:
            waiting.append(coming.pop())
        still = []
        for pod in waiting:
            row_found = scheduler.place(pod, now)
            if row_found is None:
                still.append(pod)
            else:
                there[row_found][pod.number] = (pod, step + pod.ends - pod.begins)
        waiting, waited[step] = still, len(still)
        for row, pods in enumerate(there):
            running = [pod for pod, _ in pods.values()]
            used[step, row] = sum(pod.cpu[step] for pod in running) + SYSTEM_CORES
            if policy.load_aware:
                scheduler.cache.put_node_metric(agents[row].report(step, now - DELAY_SECONDS + STEP_SECONDS, running))
    counted = slice(min(WARM_UP_DAYS * DAY_STEPS, steps // 2), None)
    return Outcome(used[counted] / CORES, float(waited[counted].mean()))


def lines(figures: Mapping[str, Sequence[Sequence[float]]]) -> list[list[str]]:
    """The cells of the table: mean over the seeds, and their standard deviation.

    Args:
        figures: title of a policy -> per seed the figures of an `Outcome`.
    """
    cells = []
    base = sum(one[HOT_COLUMN] for one in next(iter(figures.values())))
    for title, found in figures.items():
        columns = list(zip(*found, strict=True))
        hot = sum(columns[HOT_COLUMN])
        shares = [f"{mean(each):.1f} ± {stdev(each) if len(each) > 1 else 0.0:.1f}" for each in columns]
        cells.append([title, *shares, f"{hot / base * 100:.0f}" if base else "-"])
    return [list(HEADER), *cells]


Asked = tuple[Policy, int, int, int, float]  # arguments of `simulate`


def part(*, quick: bool = False) -> Iterator[Item]:
    """What `make bench` shows of it: hot node-hours beside those of the default scheduler's model, and a table."""
    nodes, seeds, steps = (2, 1, DAY_STEPS) if quick else (NODES, SEEDS, STEPS)
    found = _simulated([(policy, nodes, seed, steps, DAILY) for policy in POLICIES for seed in range(seeds)])
    base = sum(one[HOT_COLUMN] for one in found[DEFAULT.title])
    for title, figures in found.items():
        hot = sum(one[HOT_COLUMN] for one in figures)
        ratio = f"{hot / base:.2f} x the default's, " if base and title != DEFAULT.title else ""
        what = f"node-hours above {HOT:.0%} of CPU, {nodes} nodes, {title}"
        yield Row(what, f"{ratio}{hot / len(figures):.1f} % of all")
    days = steps / DAY_STEPS
    yield Table(
        f"{nodes} nodes of {CORES} cores, {days:g} days, mean ± deviation of {seeds} populations:", lines(found)
    )


def _simulated(asked: Sequence[Asked]) -> dict[str, list[list[float]]]:
    """Title of a policy -> per seed the figures of an `Outcome`."""
    with ProcessPoolExecutor(WORKERS) as pool:
        found = list(pool.map(_figures, asked))
    by_title: dict[str, list[list[float]]] = {}
    for (policy, *_), figures in zip(asked, found, strict=True):
        by_title.setdefault(policy.title, []).append(figures)
    return by_title


def _figures(asked: Asked) -> list[float]:
    return simulate(*asked).figures()


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.placement", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES, help=f"how many nodes ({NODES})")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many populations ({SEEDS})")
    parser.add_argument("--days", type=float, default=STEPS / DAY_STEPS, help="how long, 7 at most")
    parser.add_argument("--sizes", default="", help="sizes of the shortlist to compare beside, such as 1,4,16,64")
    parser.add_argument("--daily", type=float, default=DAILY, help=f"share of pods with a daily rhythm ({DAILY:g})")
    options = parser.parse_args(arguments)
    steps = int(options.days * DAY_STEPS)
    if min(options.nodes, options.seeds, steps) < 1 or steps > STEPS or not 0 <= options.daily <= 1:
        parser.error("there have to be nodes, seeds, up to seven days, and a share from 0 to 1")
    sizes = [int(part) for part in options.sizes.split(",") if part]
    more = [
        Policy(f"LoadAware, the best {size}", load_aware=True, shortlist=Shortlist(size, share=0.0)) for size in sizes
    ]
    policies = [*POLICIES, *(policy for policy in more if policy not in POLICIES)]
    asked = [
        (policy, options.nodes, seed, steps, options.daily) for policy in policies for seed in range(options.seeds)
    ]
    print(f"{options.nodes} nodes of {CORES} cores, {options.days:g} days in steps of 5 minutes; of the pods", end=" ")
    print(f"{options.daily:.0%} have a daily rhythm. Mean ± standard deviation over {options.seeds} populations.\n")
    print(markdown(lines(_simulated(asked))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
