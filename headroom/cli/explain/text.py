"""The explanation as text: the answer first, then why, then every number, then the strategy."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from crds.codec import to_json
from headroom.cli.shadow import accounts as shadow_accounts
from headroom.cli.table import Cell, Column, Row
from manager.calculators.base import Result, Term
from manager.config.merge import DEFAULT
from manager.inputs import Resource
from manager.mid.explanation import amounts, formula
from manager.mid.explanation import terms as explain_terms
from manager.mid.explanation.explanation import Explanation
from manager.mid.explanation.node_metric import age

Section = tuple[str, Sequence[Column], Sequence[Row]]
"""Heading, columns, rows."""

_MOST_NAMES: Final = 3
_TERM_COLUMNS: Final = (Column("TERM"), Column("VALUE", ">"), Column("HOW"))
_INPUT_COLUMNS: Final = (
    Column("INPUT"),
    Column("CPU", ">"),
    Column("MEMORY", ">"),
    Column("FROM"),
    Column("AGE", ">"),
)
_MID_COLUMNS: Final = (Column("MID"), Column("CPU", ">"), Column("MEMORY", ">"), Column(""))
_TRIED_COLUMNS: Final = (Column("MID"), Column("NOW", ">"), Column("THEN", ">"), Column("CHANGE", ">"))
_CONDITION_COLUMNS: Final = (
    Column("CONDITION"),
    Column("STATUS"),
    Column("REASON"),
    Column("SINCE", ">"),
    Column("MESSAGE"),
)


def sections(explanation: Explanation) -> Iterator[Section]:
    """The tables, in order; the first is the answer."""
    yield _comparison(explanation) if explanation.before else _answer(explanation)
    shown = explanation.would_be or explanation.result
    prefix = f"If {explanation.unless}: " if explanation.would_be else ""
    prefix = f"What if: {prefix}" if explanation.what_if else prefix
    for resource in Resource:
        terms = [term for term in shown.terms if term.resource is resource]
        if terms:
            yield f"{prefix}{explain_terms.TITLES[resource]}", _TERM_COLUMNS, [_term(term) for term in terms]
    if shown.terms:
        yield "Inputs", _INPUT_COLUMNS, _inputs(explanation, shown)
    yield "Sources", (Column("SOURCE"), Column("AGE", ">"), Column("STATE")), _sources(explanation)
    if explanation.conditions:
        yield "Conditions of the NodeMetric", _CONDITION_COLUMNS, _conditions(explanation)
    if explanation.seen.shadow is not None:
        account = shadow_accounts.of(explanation.node, explanation.seen.shadow, explanation.seen.now)
        yield "What shadow mode would have sold", shadow_accounts.COLUMNS, [shadow_accounts.cells(account)]
    title = "Strategy that is tried" if explanation.what_if else "Strategy in force"
    yield title, (Column("FIELD"), Column("VALUE"), Column("FROM")), _strategy(explanation)


def _answer(explanation: Explanation) -> Section:
    result, published, wanted = explanation.result, explanation.published, explanation.desired
    rows = [
        ("on the Node", published.cpu, published.memory, "what pods can request"),
        ("calculated", result.calculated.cpu, result.calculated.memory, "what may be sold now"),
        ("should offer", wanted[Resource.CPU], wanted[Resource.MEMORY], _why_desired(explanation)),
        ("requested", result.requested.cpu, result.requested.memory, _buyers(explanation)),
        ("deficit", result.deficit.cpu, result.deficit.memory, "requested beyond what may be sold"),
    ]
    cells = [
        (
            Cell(name, "bold"),
            Cell(_or_none(Resource.CPU, cpu)),
            Cell(_or_none(Resource.MEMORY, memory)),
            Cell(note, "dim"),
        )
        for name, cpu, memory, note in rows
    ]
    return f"Node {explanation.node}", _MID_COLUMNS, cells


def _why_desired(explanation: Explanation) -> str:
    """What the Node should offer, in words."""
    result, wanted = explanation.result, explanation.desired
    if all(number is None for number in wanted.values()):
        return "no such resources"
    if any((number or 0) > result.calculated[resource] for resource, number in wanted.items()):
        return "what may be sold, and no less than running Mid pods requested"
    return "what the manager writes"


def _comparison(explanation: Explanation) -> Section:
    """How it is beside how it would be."""
    now, words = explanation.before, explanation.what_if.words if explanation.what_if else ""
    heading = f"Node {explanation.node}, what if {words}: nothing in the cluster is changed"
    if now is None:
        return heading, _TRIED_COLUMNS, ()
    rows = []
    for resource in Resource:
        found: list[tuple[str, int | None, int | None]] = [
            ("calculated", now.result.calculated[resource], explanation.result.calculated[resource]),
            ("on the Node", now.published[resource], explanation.desired[resource]),
            ("deficit", now.result.deficit[resource], explanation.result.deficit[resource]),
        ]
        for name, before, then in found:
            title = f"{explain_terms.TITLES[resource]} {name}"
            numbers = (Cell(_or_none(resource, before)), Cell(_or_none(resource, then)))
            rows.append((Cell(title, "bold"), *numbers, Cell(_change(resource, before, then))))
    return heading, _TRIED_COLUMNS, rows


def _change(resource: Resource, before: int | None, then: int | None) -> str:
    difference = (then or 0) - (before or 0)
    if difference == 0:
        return "="
    return f"{'+' if difference > 0 else ''}{explain_terms.amount(resource, difference)}"


def _or_none(resource: Resource, number: int | None) -> str:
    return "none" if number is None else explain_terms.amount(resource, number)


def _buyers(explanation: Explanation) -> str:
    keys = [pod.key for pod in explanation.mid_pods]
    if not keys:
        return "by no Mid pod"
    more = f" and {len(keys) - _MOST_NAMES} more" if len(keys) > _MOST_NAMES else ""
    return f"by {', '.join(sorted(keys)[:_MOST_NAMES])}{more}"


def _term(term: Term) -> Row:
    style = "bold" if term.name == "mid" else ""
    how, decisive = explain_terms.with_numbers(term), formula.decisive(term)
    if any(each.text == "0" for each in formula.operands(term)) and term.value:
        decisive = ""  # that it is not below zero is no news
    how += f"  <- {decisive}" if decisive else ""
    told = term.note == f"limited by {decisive}"
    how += f"  ({term.note})" if term.note and not told else ""
    return Cell(term.name, style), Cell(explain_terms.amount(term.resource, term.value), style), Cell(how)


def _inputs(explanation: Explanation, result: Result) -> Sequence[Row]:
    rows = []
    for each in explain_terms.inputs(result.terms, explanation.facts, explanation.status):
        numbers = (
            explain_terms.shown(resource, each.name, each.values[resource])
            if resource in each.values
            else amounts.NOTHING
            for resource in Resource
        )
        old = "now" if each.age_seconds is None else amounts.age(each.age_seconds)
        rows.append((Cell(each.name), *(Cell(number) for number in numbers), Cell(each.origin), Cell(old)))
    return rows


def _sources(explanation: Explanation) -> Sequence[Row]:
    facts, report, config = explanation.facts, explanation.report, explanation.config
    every = f"asked for every {report.interval_seconds}s, " if report.interval_seconds else ""
    counts = f"{every}counts until it is {amounts.age(facts.strategy.degrade_seconds)} old (degradeTimeMinutes)"
    ready = report.prediction == "ready"
    state = (
        f"{report.prediction}: {explanation.ready_message}"
        if ready and explanation.ready_message
        else report.prediction
    )
    rows = [
        (
            Cell("report"),
            Cell(amounts.age(facts.report_age)),
            Cell(counts if facts.report_age is not None else report.prediction),
        ),
        (Cell("prediction"), Cell(amounts.age(facts.prediction_age)), Cell(state, "green" if ready else "yellow")),
    ]
    model, history = _model(explanation.prediction), _history(explanation.prediction)
    rows += [(Cell("  model"), Cell(""), Cell(model))] if model else []
    rows += [(Cell("  pods"), Cell(""), Cell(history))] if history else []
    text = config.place
    if not config.in_force.present:
        text += " does not exist: the defaults hold"
    elif config.in_force.errors:
        text += f" cannot be used: {config.in_force.origin} in force"
    rows.append((Cell("config"), Cell(amounts.age(config.age_seconds)), Cell(text)))
    lease = explanation.seen.lease
    if lease is not None:
        who = lease.holder or "nobody"
        rows.append((Cell("manager"), Cell(amounts.age(lease.renewed_ago)), Cell(f"{who} holds its Lease")))
    return rows


def _conditions(explanation: Explanation) -> Sequence[Row]:
    rows = []
    for each in explanation.conditions:
        kind, status, reason, message = (str(each.get(name) or "") for name in ("type", "status", "reason", "message"))
        since = amounts.age(age(str(each.get("lastTransitionTime")), explanation.seen.now))
        rows.append((Cell(kind), Cell(status), Cell(reason), Cell(since), Cell(message)))
    return rows


def _model(prediction: Mapping[str, Any]) -> str:
    policy = prediction.get("policy") or {}
    parts = [str(policy.get("model") or "")]
    parts += [_compact(policy["parameters"])] if policy.get("parameters") else []
    parts += [f"{name}: {_compact(policy[name])}" for name in ("of", "cpu", "memory") if policy.get(name)]
    return " ".join(parts).strip()


def _history(prediction: Mapping[str, Any]) -> str:
    pods = prediction.get("pods") or {}
    if "warm" not in pods and "cold" not in pods:
        return ""
    cold = ", ".join(pods.get("coldNames") or ())
    named = f" ({cold})" if cold else ""
    return f"{pods.get('warm', 0)} predicted from history, {pods.get('cold', 0)} counted at their request{named}"


def _strategy(explanation: Explanation) -> Sequence[Row]:
    sources = explanation.strategy.sources
    values = _flat(to_json(explanation.strategy.strategy), sources)
    rows = []
    # What somebody has set comes first.
    for name, value in sorted(values.items(), key=lambda item: sources.get(item[0]) == DEFAULT):
        source = sources.get(name, "")
        rows.append((Cell(name), Cell(_compact(value)), Cell(source, "dim" if source == DEFAULT else "cyan")))
    return rows


def _flat(data: Mapping[str, Any], sources: Mapping[str, str], prefix: str = "") -> dict[str, Any]:
    """One entry per value that has a source of its own, nested ones as "midEviction.mode"."""
    flat: dict[str, Any] = {}
    for name, value in data.items():
        where = f"{prefix}{name}"
        if isinstance(value, Mapping) and where not in sources:
            flat.update(_flat(value, sources, f"{where}."))
        else:
            flat[where] = value
    return flat


def _compact(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
