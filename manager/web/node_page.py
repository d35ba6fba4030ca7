"""One node on one page: its numbers over time, its pods, and why it has the Mid resources it has."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from crds.codec import to_json
from manager.calculators.base import Term
from manager.config.merge import DEFAULT
from manager.context import Context
from manager.inputs import Resource
from manager.inputs.reading import get_path
from manager.mid.explanation import amounts, formula
from manager.mid.explanation import terms as explain_terms
from manager.mid.explanation.explanation import Explanation
from manager.mid.explanation.findings import findings
from manager.mid.explanation.next_action import Action, Step
from manager.mid.explanation.node_metric import age
from manager.web import figures, layout
from manager.web.html import Html, join, tag
from manager.web.recorder import Recorder, Row

_STEPS: Final = {
    Action.NOTHING: "the Node has what it should",
    Action.WRITE: "written within seconds",
    Action.HOLD: "written when the increase has held",
    Action.WAIT: "written when nothing has been for some time",
}


def render(context: Context, name: str, length: str, explanation: Explanation, problem: str) -> str:
    """The page of a node: over some time, and why it has the Mid resources it has, or what is missing in that."""
    recorder, now = context.state_of(Recorder), context.wall()
    row, plot = recorder.rows.get(name), recorder.history.plot(name, length, now)
    trail = tag("nav", tag("a", "Cluster", href=layout.ROOT), " / ", name, class_="trail", aria_label="Where this is")
    unread = f"The NodeMetric could not be read now ({problem}), so what is explained lacks its report."
    sentences = [tag("li", each) for each in findings(explanation)]
    told = tag("ul", *sentences, class_="findings") if sentences else tag("p", "Nothing is in the way.")
    content = (
        trail,
        tag("h1", f"Node {name} ", layout.badge(row.state) if row else None),
        _hint(row.reason) if row else None,
        layout.alert("warning", unread) if problem else None,
        _now(row, explanation),
        layout.over_time(f"node {name}", layout.node_path(name), length, {}, plot),
        tag("section", tag("h2", "Why", id="why"), told, _numbers(explanation)),
        *_terms(explanation),
        _inputs(explanation),
        _pods(explanation),
        _conditions(explanation),
        _strategy(explanation),
        _hint("The same in a terminal: ", tag("code", f"kubectl headroom explain node {name}")),
    )
    return layout.page(f"Node {name}", context, *content)


def missing(context: Context, name: str) -> str:
    """The page about a node that is not there."""
    told = layout.alert("note", f"There is no node {name} in this cluster, as far as this manager knows.")
    back = tag("p", tag("a", "All nodes", href=layout.ROOT))
    return layout.page("No such node", context, tag("h1", "No such node"), told, back)


def _now(row: Row | None, explanation: Explanation) -> Html:
    tiles = layout.tiles(row.number, lambda resource, part, _: figures.amount(resource, part)) if row else ()
    warm, cold = (get_path(explanation.prediction, "pods", each) for each in ("warm", "cold"))
    counted = None if warm is None and cold is None else f"{warm or 0} pods warm, {cold or 0} cold"
    reported = f"{amounts.age(explanation.facts.report_age)} ago" if row and row.age is not None else "never"
    counts = f"counts until it is {amounts.age(explanation.facts.strategy.degrade_seconds)} old"
    return tag(
        "dl",
        *tiles,
        layout.tile("Prediction", explanation.report.prediction, counted, explanation.ready_message or None),
        layout.tile("Last report", reported, counts),
        class_="tiles",
    )


def _numbers(explanation: Explanation) -> Html:
    result, published, wanted = explanation.result, explanation.published, explanation.desired
    lines: tuple[tuple[str, int | None, int | None, str], ...] = (
        ("On the Node", published.cpu, published.memory, "what pods can request"),
        ("Calculated", result.calculated.cpu, result.calculated.memory, "what may be published now"),
        ("To be published", wanted[Resource.CPU], wanted[Resource.MEMORY], _next(explanation.steps)),
        ("Allocated", result.requested.cpu, result.requested.memory, "what running Mid pods request"),
        ("Deficit", result.deficit.cpu, result.deficit.memory, "allocated beyond what may be published"),
    )
    rows = [
        (tag("b", title), _or_none(Resource.CPU, cpu), _or_none(Resource.MEMORY, memory), note)
        for title, cpu, memory, note in lines
    ]
    return layout.table(("Mid", "CPU", "Memory", ""), rows, caption="Mid resources of this node", class_="numbers")


def _next(steps: Sequence[Step]) -> str:
    told = [f"{explain_terms.TITLES[step.resource]}: {_STEPS[step.action]}" for step in steps]
    same = {step.action for step in steps}
    return _STEPS[same.pop()] if len(same) == 1 else "; ".join(told)


def _or_none(resource: Resource, number: int | None) -> str:
    return "none" if number is None else explain_terms.amount(resource, number)


def _terms(explanation: Explanation) -> Iterator[Html]:
    shown = explanation.would_be or explanation.result
    prefix = f"If {explanation.unless}: " if explanation.would_be else ""
    for resource in Resource:
        rows = [_term(term) for term in shown.terms if term.resource is resource]
        if rows:
            title = f"{prefix}{explain_terms.TITLES[resource]}"
            content = layout.table(
                ("Term", "Value", "How"), rows, caption=f"{title}: every line of the formula", class_="terms"
            )
            yield tag("section", tag("h3", title), content)


def _term(term: Term) -> tuple[Html | str, ...]:
    decisive = formula.decisive(term)
    if any(each.text == "0" for each in formula.operands(term)) and term.value:
        decisive = ""  # that it is not below zero is no news
    told = term.note == f"limited by {decisive}"
    how = join(
        tag("span", explain_terms.with_numbers(term), class_="formula"),
        tag("span", f" ← {decisive}", class_="decisive") if decisive else None,
        tag("span", f" {term.note}", class_="note") if term.note and not told else None,
    )
    name = tag("b", term.name) if term.name == "mid" else term.name
    return name, explain_terms.amount(term.resource, term.value), how


def _inputs(explanation: Explanation) -> Html | None:
    terms = (explanation.would_be or explanation.result).terms
    rows = []
    for each in explain_terms.inputs(terms, explanation.facts, explanation.status):
        numbers = [
            explain_terms.shown(one, each.name, each.values[one]) if one in each.values else figures.NOTHING
            for one in Resource
        ]
        age = "now" if each.age_seconds is None else amounts.age(each.age_seconds)
        rows.append((each.name, *numbers, each.origin.value, age))
    if not rows:
        return None
    heads = ("Input", "CPU", "Memory", "From", "Age")
    return _folded("Inputs", layout.table(heads, rows, caption="Where each number comes from", class_="inputs"))


def _pods(explanation: Explanation) -> Html | None:
    cold, parts = get_path(explanation.prediction, "pods", "coldNames"), []
    if isinstance(cold, list) and cold:
        told = _hint("Too young for a prediction, so they count at their requests:")
        parts += [tag("h3", "Cold pods"), told, tag("ul", *(tag("li", str(each)) for each in cold))]
    if explanation.mid_pods:
        rows = [
            (
                pod.key,
                amounts.cpu(pod.mid_requests.cpu),
                amounts.memory(pod.mid_requests.memory),
                str(pod.mid.priority) if pod.mid else "",
            )
            for pod in sorted(explanation.mid_pods, key=lambda pod: pod.key)
        ]
        heads, caption = ("Pod", "CPU", "Memory", "Priority"), "Pods that request Mid resources here"
        parts += [tag("h3", "Mid pods"), layout.table(heads, rows, caption=caption, class_="inputs")]
    return tag("section", *parts) if parts else None


def _hint(*words: Html | str) -> Html:
    return tag("p", *words, class_="hint")


def _conditions(explanation: Explanation) -> Html | None:
    rows = []
    for each in explanation.conditions:
        kind, status, reason, message = (str(each.get(name) or "") for name in ("type", "status", "reason", "message"))
        since = amounts.age(age(str(each.get("lastTransitionTime")), explanation.seen.now))
        rows.append((kind, status, reason, since, message))
    if not rows:
        return None
    heads = ("Condition", "Status", "Reason", "Since", "Message")
    return _folded("Conditions of the NodeMetric", layout.table(heads, rows, caption="Conditions", class_="text"))


def _strategy(explanation: Explanation) -> Html:
    sources = explanation.strategy.sources
    values = dict(_flat(to_json(explanation.strategy.strategy), sources))
    # What somebody has set comes first.
    ordered = sorted(values.items(), key=lambda item: sources.get(item[0]) == DEFAULT)
    rows = [(tag("code", name), _compact(value), sources.get(name, "")) for name, value in ordered]
    table = layout.table(("Field", "Value", "From"), rows, caption="Strategy in force on this node", class_="text")
    return _folded("Strategy in force", table)


def _flat(data: Mapping[str, Any], sources: Mapping[str, str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """One entry per value that has a source of its own, nested ones as "midEviction.mode"."""
    for name, value in data.items():
        where = f"{prefix}{name}"
        if isinstance(value, Mapping) and where not in sources:
            yield from _flat(value, sources, f"{where}.")
        else:
            yield where, value


def _compact(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _folded(title: str, content: Html) -> Html:
    return tag("details", tag("summary", title), content, id=title.lower().replace(" ", "-"))
