"""A simulation as text: the answer, a table of the best nodes, rejected nodes with reasons, one node in full."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubectl_headroom.simulate.document import binding
from kubectl_headroom.simulate.profile import SelectedProfile
from kubectl_headroom.simulate.simulation import Outcome, Simulation
from kubectl_headroom.table import Cell, Column, Row
from manager.api import amounts
from scheduler_plugins.api import Mode

Table = tuple[str, Sequence[Column], Sequence[Row]]  # heading, columns, rows; without columns only the heading


def tables(chosen: SelectedProfile, simulation: Simulation, most: int, node: str | None) -> Iterator[Table]:
    """The printed parts of a pod.

    Args:
        chosen: the profile.
        simulation: the pod's.
        most: how many nodes of each kind are listed; 0: all.
        node: show this one in full, and no other.
    """
    yield _answer(chosen, simulation)
    if node is not None:
        for outcome in simulation.outcomes:
            if outcome.node == node:
                yield from _in_full(outcome)
        return
    passing = [outcome for outcome in simulation.outcomes if not outcome.refusals]
    refused = [outcome for outcome in simulation.outcomes if outcome.refusals]
    if passing:
        yield _ranking(simulation, passing, most)
    if refused:
        yield _reasons(refused)
        yield _refused(refused, most)


def _answer(chosen: SelectedProfile, simulation: Simulation) -> Table:
    request, total = simulation.request, len(simulation.outcomes)
    passing = sum(not outcome.refusals for outcome in simulation.outcomes)
    band = request.band.value or "no band"
    expected = ", ".join(f"{name} {_amount(name, value)}" for name, value in simulation.estimate.items())
    lines = [
        f"{simulation.title}: {passing} of {total} nodes pass",
        f"  {band}, priority {request.priority}; expected to use {expected}",
        f"  profile: {chosen.origin}; {_mode(chosen, simulation)}",
    ]
    return "\n".join(lines), (), ()


def _mode(chosen: SelectedProfile, simulation: Simulation) -> str:
    answering = chosen.profile.answering
    if answering.mode is Mode.WEIGHTED:
        return "mode weighted: kube-scheduler gets every score, and adds ten times each to its own"
    if simulation.request.preferences.per_node:
        return "mode shortlist: kube-scheduler chooses among all that pass, as the pod's soft constraints count by node"
    share, size = answering.shortlist.share, answering.shortlist.size
    return f"mode shortlist: kube-scheduler chooses among the better {share:.0%}, at least {size} of each zone"


def _amount(resource: str, value: int) -> str:
    if resource == "cpu":
        return amounts.cpu(value)
    return amounts.memory(value) if resource == "memory" else str(value)


def _ranking(simulation: Simulation, passing: Sequence[Outcome], most: int) -> Table:
    shown = passing[:most] if most else passing
    columns = [Column("RANK", ">"), Column("NODE"), Column("TOTAL", ">")]
    columns += [Column(plugin, ">") for plugin in simulation.plugins]
    rows = [
        [
            Cell(str(outcome.rank)),
            Cell(outcome.node),
            Cell(f"{outcome.total:.1f}", "bold"),
            *(Cell(_score(outcome, plugin)) for plugin in simulation.plugins),
        ]
        for outcome in shown
    ]
    weights = ", ".join(f"{plugin} {passing[0].scores[plugin].weight:g}" for plugin in simulation.plugins)
    rest = f"; {len(passing) - len(shown)} more with --limit 0" if len(shown) < len(passing) else ""
    how = f"raw score, and its part of the total by the weights: {weights}" if weights else "no plugin scores"
    return f"Nodes that pass ({how}{rest})", columns, rows


def _score(outcome: Outcome, plugin: str) -> str:
    score = outcome.scores[plugin]
    return f"{score.raw:.4g} -> {score.weighted:.1f}"


def _reasons(refused: Sequence[Outcome]) -> Table:
    counts = Counter((plugin, reason) for outcome in refused for plugin, reason in outcome.refusals.items())
    rows = [
        [Cell(str(count)), Cell(plugin), Cell(reason)]
        for (plugin, reason), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    return f"Refused: {len(refused)}", (Column("NODES", ">"), Column("PLUGIN"), Column("REASON")), rows


def _refused(refused: Sequence[Outcome], most: int) -> Table:
    shown = refused[:most] if most else refused
    rows = [
        [Cell(outcome.node), Cell(plugin), Cell(binding(outcome, plugin) or reason)]
        for outcome in shown
        for plugin, reason in outcome.refusals.items()
    ]
    rest = f" ({len(refused) - len(shown)} more with --limit 0)" if len(shown) < len(refused) else ""
    return f"What binds{rest}", (Column("NODE"), Column("PLUGIN"), Column("WHY")), rows


def _in_full(outcome: Outcome) -> Iterator[Table]:
    columns = (Column("PLUGIN"), Column("VERDICT"), Column("RAW", ">"), Column("WEIGHT", ">"), Column("WEIGHTED", ">"))
    rows = []
    for plugin in dict.fromkeys((*outcome.refusals, *outcome.scores, *outcome.numbers)):
        score = outcome.scores.get(plugin)
        parts = [f"{score.raw:.4g}", f"{score.weight:g}", f"{score.weighted:.1f}"] if score else [amounts.NOTHING] * 3
        verdict = Cell(outcome.refusals.get(plugin, "passes"), "red" if plugin in outcome.refusals else "green")
        rows.append([Cell(plugin), verdict, *(Cell(part) for part in parts)])
    where = "refused" if outcome.total is None else f"rank {outcome.rank}, total {outcome.total:.1f}"
    yield f"Node {outcome.node}: {where}", columns, rows
    for plugin, numbers in outcome.numbers.items():
        flat = [[Cell(name), Cell(value)] for name, value in _flat(numbers)]
        if flat:
            yield plugin, (Column("NUMBER"), Column("VALUE")), flat


def _flat(numbers: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Each number with its path, as "cpu.usagePercent"."""
    for name, value in numbers.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _shown(value)


def _shown(value: Any) -> str:  # noqa: ANN401 - a number, a text, a list, in numpy's types or ours
    if value is None:
        return amounts.NOTHING
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, default=str)
