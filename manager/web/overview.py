"""What the page says about the cluster as a whole, and lists of its nodes: plain data for the page and for programs."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from manager.context import Context
from manager.mid.explanation.waste import waste as wasted
from manager.web.history import RESOURCES, RINGS, Series, at
from manager.web.recorder import Recorder, Row, sums
from manager.web.state import TROUBLE, WAITING, State

PAGE_SIZE: Final = 50
"""Nodes on one page."""
_MOST_LISTED: Final = 8
"""Nodes that the overview names of each kind."""
_LONGEST_TEXT: Final = 253
"""Of what is searched for: no name of a node is longer."""
_MILLI: Final = 1000
_GIB: Final = 2**30
_URGENCY: Final = {state: place for place, state in enumerate(State)}

Json = dict[str, Any]


def waste(row: Row, resource: str) -> float | None:
    """What of a node is wasted, as `kubectl headroom top nodes` says it. [cores, GiB]"""
    requested, peak, offered = (row.number(each, resource) for each in (Series.REQUESTED, Series.PEAK, Series.OFFERED))
    return wasted(requested, peak, offered)


def _share(series: Series, resource: str) -> Callable[[Row], float | None]:
    def of(row: Row) -> float | None:
        part, whole = row.number(series, resource), row.number(Series.ALLOCATABLE, resource)
        return None if part is None or not whole else part / whole

    return of


_ORDERS: Final[Mapping[str, Callable[[Row], Any]]] = {
    "name": lambda row: row.name,
    "state": lambda row: _URGENCY[row.state],
    "cpu": _share(Series.USED, "cpu"),
    "memory": _share(Series.USED, "memory"),
    "mid-cpu": lambda row: row.number(Series.OFFERED, "cpu"),
    "mid-memory": lambda row: row.number(Series.OFFERED, "memory"),
    "waste-cpu": lambda row: waste(row, "cpu"),
    "waste-memory": lambda row: waste(row, "memory"),
    "report": lambda row: row.age,
}
ORDERS: Final = tuple(_ORDERS)
"""By what lists can be put in order."""
_ASCENDING: Final = frozenset({"name", "state"})


@dataclass(frozen=True, slots=True)
class Query:
    """Which nodes, and in which order."""

    text: str = ""
    """A part of their names."""
    state: str = ""
    """One state; empty: all."""
    prediction: str = ""
    """"ready", or "not ready"; empty: all."""
    order: str = "state"
    """One of `ORDERS`: names and urgency first to last, numbers from the largest."""
    backwards: bool = False
    """The other way round."""
    page: int = 1
    """Which page of the list."""
    length: str = "2h"
    """How far plots go back."""

    @classmethod
    def of(cls, words: Mapping[str, str]) -> Self:
        """Read it from a query string; what cannot be understood counts as not said."""

        def word(name: str) -> str:
            return words.get(name, "")[:_LONGEST_TEXT]

        page = word("page")
        return cls(
            text=word("q").strip(),
            state=word("state") if word("state") in set(State) else "",
            prediction=word("prediction") if word("prediction") in ("ready", "not ready") else "",
            order=word("sort") if word("sort") in ORDERS else "state",
            backwards=word("backwards") == "1",
            length=word("range") if word("range") in RINGS else "2h",
            page=int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 7 else 1,  # noqa: PLR2004 - digits
        )

    def words(self, **instead: str | int | bool) -> dict[str, str]:
        """The query string that says the same, with some things otherwise; what goes without saying is left out."""
        own: dict[str, Any] = {
            "q": self.text,
            "state": self.state,
            "prediction": self.prediction,
            "sort": self.order,
            "backwards": self.backwards,
            "page": self.page,
            "range": self.length,
        } | instead
        plain = {"sort": "state", "page": "1", "backwards": "0", "range": "2h"}
        shown = {name: str(int(each) if isinstance(each, bool) else each) for name, each in own.items()}
        return {name: text for name, text in shown.items() if text and text != plain.get(name)}


@dataclass(frozen=True, slots=True)
class Selection:
    """One page of a list."""

    rows: Sequence[Row]
    """The nodes on it."""
    found: int
    """How many there are on all pages."""
    page: int
    """Which page it is."""
    pages: int
    """How many there are."""


def select(rows: Iterable[Row], query: Query) -> Selection:
    """The nodes that a query asks for."""
    text = query.text.lower()
    found = [
        row
        for row in list(rows)  # at once: the event loop may add and remove nodes meanwhile
        if text in row.name
        and query.state in ("", row.state)
        and (not query.prediction or (row.prediction == "ready") == (query.prediction == "ready"))
    ]
    key = _ORDERS[query.order]
    known = [row for row in sorted(found, key=lambda row: row.name) if key(row) is not None]
    unknown = [row for row in found if key(row) is None]
    known.sort(key=key, reverse=(query.order not in _ASCENDING) != query.backwards)
    ordered = [*known, *sorted(unknown, key=lambda row: row.name)]  # what is not known comes last either way
    pages = max(-(-len(ordered) // PAGE_SIZE), 1)
    page = min(query.page, pages)
    return Selection(ordered[(page - 1) * PAGE_SIZE : page * PAGE_SIZE], len(ordered), page, pages)


@dataclass(frozen=True, slots=True)
class Overview:
    """The cluster as a whole."""

    nodes: int
    """Nodes."""
    reporting: int
    """Nodes whose usage is known now."""
    numbers: Mapping[tuple[Series, str], float | None]
    """Sums over all nodes, by series and resource. [cores, GiB]"""
    states: Mapping[State, int]
    """Nodes by state, the most urgent first."""
    predictions: Mapping[str, int]
    """Nodes with a report, by word about their prediction."""
    warm: int
    """Pods predicted from history."""
    cold: int
    """Pods counted at their request."""
    attention: Sequence[Row]
    """Nodes that somebody should look at, and those that wait for something."""
    wasteful: Sequence[Row]
    """Nodes with the most CPU wasted."""


def overview(recorder: Recorder) -> Overview:
    """Sum up what was seen of all nodes."""
    rows = list(recorder.rows.values())
    total = sums(rows).tolist()
    numbers = {(series, each): total[at(series, each)] for series in Series for each in RESOURCES}
    states = Counter(row.state for row in rows)
    urgent = sorted((row for row in rows if row.state in TROUBLE | WAITING), key=_by_urgency)
    wasteful = sorted(
        (row for row in rows if waste(row, "cpu")), key=lambda row: waste(row, "cpu") or 0.0, reverse=True
    )
    return Overview(
        nodes=len(rows),
        reporting=sum(row.number(Series.USED, "cpu") is not None for row in rows),
        numbers={key: None if number != number else number for key, number in numbers.items()},  # noqa: PLR0124 - nan
        states={state: states[state] for state in State if states[state]},
        predictions=dict(Counter(row.prediction for row in rows if row.prediction)),
        warm=sum(row.warm or 0 for row in rows),
        cold=sum(row.cold or 0 for row in rows),
        attention=urgent[:_MOST_LISTED],
        wasteful=wasteful[:_MOST_LISTED],
    )


def _by_urgency(row: Row) -> tuple[int, str]:
    return _URGENCY[row.state], row.name


def row_as_json(row: Row, now: float) -> Json:
    """A node for programs; units stand in the names, null is not known."""
    age = row.age_at(now)
    return {
        "node": row.name,
        "state": row.state.value,
        "reason": row.reason,
        "prediction": row.prediction or None,
        "pods": {"warm": row.warm, "cold": row.cold},
        "reportAgeSeconds": None if age is None else round(age, 1),
        **{series.json_name: _amounts(row, series) for series in Series},
        "waste": {
            "cpuMilli": _milli(waste(row, "cpu")),
            "memoryBytes": _bytes(waste(row, "memory")),
        },
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
        "sums": {
            series.json_name: {
                "cpuMilli": _milli(found.numbers[series, "cpu"]),
                "memoryBytes": _bytes(found.numbers[series, "memory"]),
            }
            for series in Series
        },
        "attention": [row_as_json(row, now) for row in found.attention],
        "wasteful": [row_as_json(row, now) for row in found.wasteful],
        "leadership": context.progress.leadership(),
        "trouble": context.progress.trouble or None,
        "config": {
            "name": f"{context.settings.namespace}/{context.settings.config_name}",
            "present": state.present,
            "origin": state.origin.value,
            "errors": [str(each) for each in (*state.errors, *state.entry_errors)],
        },
    }


def _amounts(row: Row, series: Series) -> Json:
    return {"cpuMilli": _milli(row.number(series, "cpu")), "memoryBytes": _bytes(row.number(series, "memory"))}


def _milli(cores: float | None) -> int | None:
    return None if cores is None else round(cores * _MILLI)


def _bytes(gib: float | None) -> int | None:
    return None if gib is None else round(gib * _GIB)
