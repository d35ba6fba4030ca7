"""The state of the whole cluster and lists of its nodes: plain data for the page and for programs."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from manager.context import Context
from manager.mid.explanation.waste import waste as wasted
from manager.web.history import RESOURCES, RINGS, Series, at
from manager.web.recorder import READY, Recorder, Row, sums
from manager.web.state import DEGRADED, WAITING, State

PAGE_SIZE: Final = 50  # Nodes on one page
_MOST_LISTED: Final = 8  # Nodes that the overview names of each kind
_LONGEST_TEXT: Final = 253  # of a search text: no name of a node is longer
_URGENCY: Final = {state: place for place, state in enumerate(State)}

Json = dict[str, Any]


def waste(row: Row, resource: str) -> float | None:
    """Return the waste of a node, as in `kubectl headroom top nodes`. [cores, GiB]"""
    peak = row.number(Series.PROD_PEAK, resource) if row.prediction == READY else None
    return wasted(row.number(Series.PROD_REQUESTED, resource), peak, row.number(Series.MID, resource))


def _share(row: Row, resource: str) -> float | None:
    part, whole = row.number(Series.USAGE, resource), row.number(Series.ALLOCATABLE, resource)
    return None if part is None or not whole else part / whole


_ORDERS: Final[Mapping[str, Callable[[Row], Any]]] = {
    "name": lambda row: row.name,
    "state": lambda row: _URGENCY[row.state],
    "cpu": lambda row: _share(row, "cpu"),
    "memory": lambda row: _share(row, "memory"),
    "mid": lambda row: row.number(Series.MID, "cpu"),
    "waste": lambda row: waste(row, "cpu"),
    "report": lambda row: row.age,
}
ORDERS: Final = tuple(_ORDERS)  # by what lists can be put in order
ASCENDING: Final = frozenset({"name", "state"})  # orders from first to last; the others begin with the largest


class Query(NamedTuple):
    """Which nodes, and in which order: fields are the words of the query string."""

    q: str = ""  # a part of their names
    state: str = ""  # one state; empty: all
    prediction: str = ""  # "ready", or "not ready"; empty: all
    sort: str = "state"  # one of `ORDERS`: names and urgency first to last, numbers from the largest
    backwards: bool = False
    page: int = 1
    range: str = "2h"  # how far plots go back

    @classmethod
    def of(cls, words: Mapping[str, str]) -> Self:
        """Read it from a query string; unknown values count as absent."""
        values = {name: text[:_LONGEST_TEXT] for name, text in words.items()}
        choices: dict[str, Collection[str]] = {
            "state": set(State),
            "prediction": {READY, "not ready"},
            "sort": ORDERS,
            "range": RINGS,
        }
        chosen = {name: values[name] for name, allowed in choices.items() if values.get(name) in allowed}
        page = values.get("page", "")
        number = int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 7 else 1  # noqa: PLR2004 - digits
        return cls(q=values.get("q", "").strip(), backwards=values.get("backwards") == "1", page=number, **chosen)


class Selection(NamedTuple):
    """A page of a list: its nodes, how many there are on all pages, its number, and that of the last one."""

    rows: Sequence[Row]
    found: int
    page: int
    pages: int


def select(rows: Iterable[Row], query: Query) -> Selection:
    """Return the nodes that a query selects."""
    text = query.q.lower()
    result = [
        row
        for row in list(rows)  # at once: the event loop may add and remove nodes meanwhile
        if text in row.name
        and query.state in ("", row.state)
        and (not query.prediction or (row.prediction == READY) == (query.prediction == READY))
    ]
    key = _ORDERS[query.sort]
    measured = [row for row in sorted(result, key=lambda row: row.name) if key(row) is not None]
    unknown = [row for row in result if key(row) is None]
    measured.sort(key=key, reverse=(query.sort not in ASCENDING) != query.backwards)
    ordered = [*measured, *sorted(unknown, key=lambda row: row.name)]  # unknown ones come last in both orders
    pages = max(-(-len(ordered) // PAGE_SIZE), 1)
    page = min(query.page, pages)
    return Selection(ordered[(page - 1) * PAGE_SIZE : page * PAGE_SIZE], len(ordered), page, pages)


class Overview(NamedTuple):
    """The cluster as a whole."""

    nodes: int
    reporting: int  # Nodes with known usage
    numbers: Mapping[tuple[Series, str], float | None]  # sums over all nodes, by series and resource [cores, GiB]
    states: Mapping[State, int]  # Nodes by state, the most urgent first
    predictions: Mapping[str, int]  # Nodes with a report, by word about their prediction
    warm: int  # Pods predicted from history
    cold: int  # Pods counted at their request
    attention: Sequence[Row]  # Nodes with a problem or a pending change
    wasteful: Sequence[Row]  # Nodes with the most waste
    waste: tuple[float | None, float | None]  # sums over nodes with a prediction, of CPU and memory [cores, GiB]

    def number(self, series: Series, resource: str) -> float | None:
        """A sum; None where it is not known. [cores, GiB]"""
        return self.numbers[series, resource]


def overview(recorder: Recorder) -> Overview:
    """Summarize the last samples of all nodes."""
    rows = list(recorder.rows.values())
    total = [None if math.isnan(number) else number for number in sums(rows).tolist()]
    states = Counter(row.state for row in rows)
    urgent = [row for row in rows if row.state in DEGRADED | WAITING]
    wastes = {row.name: (waste(row, "cpu"), waste(row, "memory")) for row in rows}
    wasteful = [row for row in rows if any(wastes[row.name])]
    wasteful.sort(key=lambda row: [amount or 0.0 for amount in wastes[row.name]], reverse=True)
    return Overview(
        nodes=len(rows),
        reporting=sum(row.number(Series.USAGE, "cpu") is not None for row in rows),
        numbers={(series, resource): total[at(series, resource)] for series in Series for resource in RESOURCES},
        states={state: states[state] for state in State if states[state]},
        predictions=dict(Counter(row.prediction for row in rows if row.prediction)),
        warm=sum(row.warm or 0 for row in rows),
        cold=sum(row.cold or 0 for row in rows),
        attention=sorted(urgent, key=lambda row: (_URGENCY[row.state], row.name))[:_MOST_LISTED],
        wasteful=wasteful[:_MOST_LISTED],
        waste=(_sum(cpu for cpu, _ in wastes.values()), _sum(memory for _, memory in wastes.values())),
    )


def _sum(amounts: Iterable[float | None]) -> float | None:
    """Return the sum of the known amounts; None where none is known."""
    parts = [amount for amount in amounts if amount is not None]
    return sum(parts) if parts else None


def row_as_json(row: Row, now: float) -> Json:
    """Return a node for programs; names contain the units, null is unknown."""
    age = row.age_at(now)
    return {
        "node": row.name,
        "state": row.state.value,
        "reason": row.reason,
        "prediction": row.prediction or None,
        "pods": {"warm": row.warm, "cold": row.cold},
        "reportAgeSeconds": None if age is None else round(age, 1),
        **_amounts(row.number),
        "waste": _amount(waste(row, "cpu"), waste(row, "memory")),
    }


def as_json(found: Overview, context: Context) -> Json:
    """The overview for programs."""
    state, now = context.in_force, context.wall()
    return {
        "nodes": found.nodes,
        "reporting": found.reporting,
        "states": {state.value: count for state, count in found.states.items()},
        "predictions": dict(found.predictions),
        "pods": {"warm": found.warm, "cold": found.cold},
        "sums": {**_amounts(found.number), "waste": _amount(*found.waste)},
        "attention": [row_as_json(row, now) for row in found.attention],
        "wasteful": [row_as_json(row, now) for row in found.wasteful],
        "leadership": context.progress.leadership(),
        "problem": context.progress.problem or None,
        "problems": list(_problems(context)),
        "config": {
            "name": f"{context.settings.namespace}/{context.settings.config_name}",
            "present": state.present,
            "origin": state.origin.value,
            "errors": [str(error) for error in (*state.errors, *state.entry_errors)],
        },
    }


def _problems(context: Context) -> Iterator[Json]:
    """Yield faults of the manager itself and of its configuration."""
    progress, state = context.progress, context.in_force
    missing = [problem for check in progress.health().ready.values() if (problem := check())]
    if progress.problem:
        yield {"kind": "error", "text": f"The manager is blocked: {progress.problem}"}
    elif missing:
        yield {"kind": "warning", "text": f"The numbers are not complete yet: {'; '.join(missing)}."}
    if state.errors:
        text = f"The colocation config cannot be used, so {state.origin.value} are in force: {state.errors[0]}"
        yield {"kind": "error", "text": text}
    if state.entry_errors:
        yield {"kind": "warning", "text": f"An entry of nodeConfigs is disabled: {state.entry_errors[0]}"}


def _amounts(number: Callable[[Series, str], float | None]) -> Json:
    return {series.json_name: _amount(*(number(series, resource) for resource in RESOURCES)) for series in Series}


def _amount(cores: float | None, gib: float | None) -> Json:
    return {
        "cpuMilli": None if cores is None else round(cores * 1000),
        "memoryBytes": None if gib is None else round(gib * 2**30),
    }
