"""The tables of an explanation, each cell as people read it: the CLI and the web page lay them out."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from crds.codec import to_json
from manager.calculators.base import Result, Term
from manager.config.merge import DEFAULT
from manager.hot_nodes.load import Load
from manager.inputs import Resource
from manager.mid.explanation import amounts, formula
from manager.mid.explanation.explanation import Explanation
from manager.mid.explanation.node_metric import age
from manager.mid.explanation.terms import TITLES, amount, inputs, shown, with_numbers


class TermRow(NamedTuple):
    """A line of the formula."""

    name: str
    value: str
    how: str  # the formula with its numbers
    decisive: str  # the operand that decides; empty where there is no choice, or no news in it
    note: str


def term_row(term: Term) -> TermRow:
    """A term as a row."""
    decisive = formula.decisive(term)
    if any(operand.text == "0" for operand in formula.operands(term)) and term.value:
        decisive = ""  # that it is not below zero is no news
    note = "" if term.note == f"limited by {decisive}" else term.note
    return TermRow(term.name, amount(term.resource, term.value), with_numbers(term), decisive, note)


def terms(explanation: Explanation) -> Iterator[tuple[str, list[TermRow]]]:
    """A title and the lines of the formula for each resource that has any."""
    prefix = f"If {explanation.unless}: " if explanation.would_be else ""
    for resource in Resource:
        if rows := [term_row(term) for term in decided(explanation).terms if term.resource is resource]:
            yield f"{prefix}{TITLES[resource]}", rows


def decided(explanation: Explanation) -> Result:
    """Return the terms, also where other facts than numbers decide."""
    return explanation.would_be or explanation.result


def or_none(resource: Resource, number: int | None) -> str:
    """An amount; "none" where the Node has no such resource."""
    return "none" if number is None else amount(resource, number)


def input_rows(explanation: Explanation) -> list[tuple[str, str, str, str, str]]:
    """Name, CPU, memory, origin and age of every input."""

    def number(name: str, values: Mapping[Resource, int], resource: Resource) -> str:
        return shown(resource, name, values[resource]) if resource in values else amounts.NOTHING

    return [
        (
            row.name,
            number(row.name, row.values, Resource.CPU),
            number(row.name, row.values, Resource.MEMORY),
            row.origin.value,
            "now" if row.age_seconds is None else amounts.age(row.age_seconds),
        )
        for row in inputs(decided(explanation).terms, explanation.facts, explanation.status)
    ]


def condition_rows(explanation: Explanation) -> list[tuple[str, str, str, str, str]]:
    """Type, status, reason, age and message of the NodeMetric's conditions."""
    rows = []
    for condition in explanation.conditions:
        kind, status, reason, message = (
            str(condition.get(name) or "") for name in ("type", "status", "reason", "message")
        )
        since = amounts.age(age(str(condition.get("lastTransitionTime")), explanation.seen.now))
        rows.append((kind, status, reason, since, message))
    return rows


def hot_rows(load: Load) -> list[tuple[str, str, str, str]]:
    """Resource, usage, and the thresholds above which the node is hot and up to which it is cool."""
    settings, percents = load.settings, load.percents
    return [
        (
            resource.value,
            f"{percents[resource]} %" if resource in percents else amounts.NOTHING,
            f"{settings.thresholds[resource]} %",
            f"{settings.lower(resource)} %",
        )
        for resource in settings.checked
    ]


def strategy_rows(explanation: Explanation) -> list[tuple[str, str, str]]:
    """Return field, value and source of the strategy; explicit settings come first."""
    sources = explanation.strategy.sources
    values = _flat(to_json(explanation.strategy.strategy), sources)
    ordered = sorted(values, key=lambda each: sources.get(each[0]) == DEFAULT)
    return [(name, compact(value), sources.get(name, "")) for name, value in ordered]


def _flat(data: Mapping[str, Any], sources: Mapping[str, str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """An entry per value that has a source of its own, nested ones as "midEviction.mode"."""
    for name, value in data.items():
        where = f"{prefix}{name}"
        if isinstance(value, Mapping) and where not in sources:
            yield from _flat(value, sources, f"{where}.")
        else:
            yield where, value


def compact(value: object) -> str:
    """Return a value as JSON; text is returned unchanged."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
