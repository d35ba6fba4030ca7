"""What the runs of the scheduler's benchmark come to, as a table and a drawing. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from tools.bench.rows import Row, short
from tools.bench.scheduler_parts import NONE, NOTHING, SHORTLIST, WEIGHTED, Mode

BUDGETS: Final = {SHORTLIST: ">= 1.0 x no extender", WEIGHTED: ">= 0.55 x no extender"}
REFERENCES: Final = {
    (1000, NONE): "307 [201, 471] pods/s",
    (5000, NONE): "224 [188, 230] pods/s",
    (1000, NOTHING): "0.56 [0.43, 0.60]; aiohttp 0.46",
    (5000, NOTHING): "0.58 [0.49, 0.73]",
    (1000, SHORTLIST): "1.21 [0.96, 1.49] of 4 names, ranking only",
    (5000, SHORTLIST): "1.28 [0.97, 1.63] of 4 names, ranking only",
    (1000, WEIGHTED): "0.53 [0.45, 0.63], ranking only",
    (5000, WEIGHTED): "0.59 [0.57, 0.59], ranking only",
}
"""What a prototype with a hand-written server reached on another machine of two cores, by nodes and kind of mode."""
HEADER: Final = (
    "nodes",
    "mode",
    "runs",
    "pods/s, median [min, max]",
    "ratio to no extender of the same round",
    "budget",
    "reference",
    "scheduling algorithm [ms]",
    "CPU per pod: scheduler / apiserver / etcd / extender [ms]",
    "extender",
    "rest of the machine [% of a core]",
)
PROCESSES: Final = ("scheduler", "apiserver", "etcd", "extender")


@dataclass(frozen=True, slots=True)
class Run:
    """One run."""

    nodes: int  # number of nodes
    round: int  # in which round
    mode: Mode  # how it was scheduled
    per_second: float  # Pods bound per second
    cpu_ms: Mapping[str, float]  # CPU time per pod of each process [ms]
    other: float  # CPU time of everything else on the machine, as a share of a core
    algorithm_ms: float | None  # what kube-scheduler's algorithm took per pod [ms]
    extender: Mapping[str, float] = field(default_factory=dict)  # what the extender says of itself, by name


def lines(runs: Iterable[Run]) -> list[list[str]]:
    """The cells of the table: a line for each number of nodes and mode, in the order in which they first ran."""
    found = _by_mode(runs)
    bases = _bases(found)
    return [list(HEADER), *(_line(nodes, mode, each, bases) for (nodes, mode), each in found.items())]


def measurements(runs: Sequence[Run]) -> list[Row]:
    """A line for each number of nodes and mode: pods per second without extender, ratios to that with one."""
    made = []
    for (nodes, mode), found in _by_mode(runs).items():
        what = f"pods per second on the real kube-scheduler, {nodes:,} nodes, {mode.title}"
        rates = spread([run.per_second for run in found], "{:.0f}")
        reference = _reference(nodes, mode)
        if mode.kind == NONE:
            made.append(Row(what, rates, reference=reference))
            continue
        ratios = _ratios(found, _bases(_by_mode(runs)))
        text = f"{spread(ratios, '{:.2f}')} x no extender ({rates} pods/s)"
        made.append(Row(what, text, BUDGETS.get(mode.kind, "none"), reference, _median(ratios)))
    return made


def _by_mode(runs: Iterable[Run]) -> dict[tuple[int, Mode], list[Run]]:
    found: dict[tuple[int, Mode], list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.nodes):
        found.setdefault((run.nodes, run.mode), []).append(run)
    return found


def _ratios(runs: Iterable[Run], bases: Mapping[tuple[int, int], float]) -> list[float]:
    return [run.per_second / base for run in runs if (base := bases.get((run.nodes, run.round)))]


def _reference(nodes: int, mode: Mode) -> str:
    own = 0 if mode.kind == NONE else None
    shipped = mode.percentage == own and not (mode.kind == NOTHING and mode.size)
    return REFERENCES.get((nodes, mode.kind), "none") if shipped else "none"


def _bases(found: Mapping[tuple[int, Mode], Sequence[Run]]) -> dict[tuple[int, int], float]:
    """Mean rate of the runs without extender, by number of nodes and round.

    Where it ran with several shares of nodes, kube-scheduler's own (0) counts, else the shipped one, else the first.
    """
    bases: dict[tuple[int, int], list[float]] = {}
    for nodes in {nodes for nodes, _ in found}:
        plain = [mode for count, mode in found if count == nodes and mode.kind == NONE]
        if plain:
            chosen = min(plain, key=lambda mode: (mode.percentage != 0, mode.percentage is not None))
            for run in found[nodes, chosen]:
                bases.setdefault((nodes, run.round), []).append(run.per_second)
    return {key: sum(rates) / len(rates) for key, rates in bases.items()}


def _line(nodes: int, mode: Mode, runs: Sequence[Run], bases: Mapping[tuple[int, int], float]) -> list[str]:
    ratios = _ratios(runs, bases)
    algorithm = [run.algorithm_ms for run in runs if run.algorithm_ms is not None]
    spent = [_median([run.cpu_ms[one] for run in runs if one in run.cpu_ms]) for one in PROCESSES]
    told = {key: None for run in runs for key in run.extender}
    return [
        f"{nodes:,}",
        mode.title,
        str(len(runs)),
        spread([run.per_second for run in runs], "{:.0f}"),
        spread(ratios, "{:.2f}"),
        BUDGETS.get(mode.kind, "none"),
        _reference(nodes, mode),
        short(_median(algorithm)),
        " / ".join(map(short, spent)),
        ", ".join(f"{key} {short(_median([r.extender[key] for r in runs if key in r.extender]))}" for key in told),
        short(_median([run.other * 100 for run in runs])),
    ]


def spread(values: Sequence[float], form: str) -> str:
    """Median, smallest and largest; a dash for nothing."""
    if not values:
        return "-"
    say: Callable[[float], str] = form.format
    return f"{say(median(values))} [{say(min(values))}, {say(max(values))}]"


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
