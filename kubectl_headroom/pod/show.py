"""The explanation of a pod as tables, or for programs. The shape of the latter is stable: fields are added alone.

kind, version   "PodExplanation", 1
metadata        {"namespace", "name"}
pod             {"namespace", "name", "node": null while it has none, "state", "band", "priority", "workload",
                "scheduler"}
requested, limits, used     {"cpuMilli", "memoryBytes"}; null is not known, or not limited; Mid resources of a Mid pod
history         "warm", "cold" or "unknown": its basis in its node's prediction
node            null, or {"name", "reportAgeSeconds", "prediction", "midDeficit": {"cpuMilli", "memoryBytes"},
                "evictsThisPod"}
quota           null, or the document of kubectl_headroom/quota/explain_document.py
placement       null, or {"profile", "nodes", "passing", "rank", "total", "best": {"node", "total"}, "refusals":
                {node: {plugin: reason}}}: the plugins' results now, as if it were pending
sentences       why, the most important first
notes           what could not be read
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kubectl_headroom import output
from kubectl_headroom.pod.inputs import PodSnapshot
from kubectl_headroom.pod.text import sentences
from kubectl_headroom.quota import explain_document, explain_text
from kubectl_headroom.simulate.document import binding
from kubectl_headroom.table import Cell, Column, Row
from kubectl_headroom.top.pods import workload
from manager.api import Amount, amounts

KIND: Final = "PodExplanation"
VERSION: Final = 1
Table = tuple[str, Sequence[Column], Sequence[Row]]  # heading, columns, rows
_BEST: Final = 5
_AMOUNTS: Final = (
    Column("RESOURCE"),
    Column("REQUESTED", ">"),
    Column("LIMIT", ">"),
    Column("USED", ">"),
    Column("USED%", ">"),
)
_NODES: Final = (Column("RANK", ">"), Column("NODE"), Column("TOTAL", ">"), Column("WHY"))


def tables(seen: PodSnapshot, *, wide: bool) -> Iterator[Table]:
    """The numbers.

    Args:
        seen: the pod.
        wide: every node, not the best few.
    """
    requested, limits, used = seen.requested, seen.limits, seen.used
    prefix = "mid-" if seen.is_mid else ""
    yield (
        "Amounts",
        _AMOUNTS,
        [
            _amounts(f"{prefix}cpu", amounts.cpu, requested.cpu_milli, limits.cpu_milli, used.cpu_milli),
            _amounts(f"{prefix}memory", amounts.memory, requested.memory_bytes, limits.memory_bytes, used.memory_bytes),
        ],
    )
    if seen.quota is not None:
        yield from explain_text.tables(seen.quota)
    if seen.simulation is not None and seen.simulation.outcomes:
        yield _nodes(seen, wide=wide)


def _amounts(name: str, shown: Any, requested: int | None, limit: int | None, used: int | None) -> Row:  # noqa: ANN401
    texts = (shown(requested), shown(limit), shown(used), amounts.percent(used, requested))
    return [Cell(name), *map(Cell, texts)]


def _nodes(seen: PodSnapshot, *, wide: bool) -> Table:
    outcomes = seen.simulation.outcomes if seen.simulation is not None else ()
    chosen = [outcome for at, outcome in enumerate(outcomes) if wide or at < _BEST or outcome.node == seen.node_name]
    more = f" ({len(outcomes) - len(chosen)} more with -o wide)" if len(chosen) < len(outcomes) else ""
    rows = []
    for outcome in chosen:
        here = ["this pod is here"] if outcome.node == seen.node_name else []
        refused = (f"{plugin}: {binding(outcome, plugin) or reason}" for plugin, reason in outcome.refusals.items())
        why = "; ".join([*here, *refused])
        total = amounts.NOTHING if outcome.total is None else f"{outcome.total:.1f}"
        rank = amounts.NOTHING if outcome.rank is None else str(outcome.rank)
        rows.append([Cell(rank), Cell(outcome.node, "bold"), Cell(total), Cell(why, "red" if outcome.refusals else "")])
    return f"Nodes, as the scheduler's plugins evaluate them now{more}", _NODES, rows


def listed(explanations: Sequence[dict[str, Any]], more: int) -> dict[str, Any]:
    """Return the explanations of several pods for programs, with the number of pods that are left out."""
    return {**output.listed(KIND, explanations), "metadata": {"remainingItemCount": more} if more else {}}


def as_json(seen: PodSnapshot) -> dict[str, Any]:
    """The explanation for programs."""
    namespace, name = seen.key.split("/", 1)
    quota = None
    if seen.quota is not None and seen.quotas is not None:
        quota = explain_document.as_json(seen.quotas, seen.quota)
    return {
        "kind": KIND,
        "version": VERSION,
        "metadata": {"namespace": namespace, "name": name},
        "pod": {
            "namespace": namespace,
            "name": name,
            "node": seen.node_name or None,
            "state": seen.state.value,
            "band": seen.band.value,
            "priority": seen.spec.get("priority") or 0,
            "workload": workload(seen.pod) or None,
            "scheduler": str(seen.spec.get("schedulerName") or "default-scheduler"),
        },
        "requested": seen.requested.as_json(),
        "limits": seen.limits.as_json(),
        "used": seen.used.as_json(),
        "history": seen.history.value,
        "node": _node(seen),
        "quota": quota,
        "placement": _placement(seen),
        "sentences": list(sentences(seen)),
        "notes": list(seen.notes),
    }


def _node(seen: PodSnapshot) -> dict[str, Any] | None:
    node = seen.node
    if node is None:
        return None
    deficit = node.result.deficit
    return {
        "name": node.node,
        "reportAgeSeconds": node.report.age_seconds,
        "prediction": node.report.prediction,
        "midDeficit": Amount(deficit.cpu, deficit.memory).as_json(),
        "evictsThisPod": seen.would_be_evicted,
    }


def _placement(seen: PodSnapshot) -> dict[str, Any] | None:
    simulation, mine = seen.simulation, seen.outcome
    if simulation is None or seen.chosen is None:
        return None
    passing = [outcome for outcome in simulation.outcomes if not outcome.refusals]
    return {
        "profile": seen.chosen.origin,
        "nodes": len(simulation.outcomes),
        "passing": len(passing),
        "rank": mine.rank if mine is not None else None,
        "total": mine.total if mine is not None else None,
        "best": {"node": passing[0].node, "total": passing[0].total} if passing else None,
        "refusals": {outcome.node: dict(outcome.refusals) for outcome in simulation.outcomes if outcome.refusals},
    }
