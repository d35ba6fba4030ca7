"""One node on one page: its numbers over time, its pods, and why it has the Mid resources it has."""

from collections.abc import Iterator, Sequence
from typing import Final

from manager.context import Context
from manager.inputs import Resource
from manager.inputs.reading import get_path
from manager.mid.explanation import amounts, tables
from manager.mid.explanation import terms as explain_terms
from manager.mid.explanation.explanation import Explanation
from manager.mid.explanation.findings import findings
from manager.mid.explanation.next_action import Action, Step
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
        *_tables(explanation),
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
        (tag("b", title), tables.or_none(Resource.CPU, cpu), tables.or_none(Resource.MEMORY, memory), note)
        for title, cpu, memory, note in lines
    ]
    return layout.table(("Mid", "CPU", "Memory", ""), rows, caption="Mid resources of this node", class_="numbers")


def _next(steps: Sequence[Step]) -> str:
    told = [f"{explain_terms.TITLES[step.resource]}: {_STEPS[step.action]}" for step in steps]
    same = {step.action for step in steps}
    return _STEPS[same.pop()] if len(same) == 1 else "; ".join(told)


def _terms(explanation: Explanation) -> Iterator[Html]:
    for title, found in tables.terms(explanation):
        caption, heads = f"{title}: every line of the formula", ("Term", "Value", "How")
        content = layout.table(heads, map(_term, found), caption=caption, class_="terms")
        yield tag("section", tag("h3", title), content)


def _term(row: tables.TermRow) -> tuple[Html | str, ...]:
    how = join(
        tag("span", row.how, class_="formula"),
        tag("span", f" ← {row.decisive}", class_="decisive") if row.decisive else None,
        tag("span", f" {row.note}", class_="note") if row.note else None,
    )
    return tag("b", row.name) if row.name == "mid" else row.name, row.value, how


def _folded(title: str, heads: Sequence[str], found: Sequence[Sequence[Html | str]], caption: str, class_: str) -> Html:
    content = layout.table(heads, found, caption=caption, class_=class_)
    return tag("details", tag("summary", title), content, id=title.lower().replace(" ", "-"))


def _tables(explanation: Explanation) -> Iterator[Html]:
    """What there is to look up."""
    if found := tables.input_rows(explanation):
        heads = ("Input", "CPU", "Memory", "From", "Age")
        yield _folded("Inputs", heads, found, "Where each number comes from", "inputs")
    if pods := _pods(explanation):
        yield pods
    if conditions := tables.condition_rows(explanation):
        heads = ("Condition", "Status", "Reason", "Since", "Message")
        yield _folded("Conditions of the NodeMetric", heads, conditions, "Conditions", "text")
    strategy = [(tag("code", name), value, source) for name, value, source in tables.strategy_rows(explanation)]
    caption = "Strategy in force on this node"
    yield _folded("Strategy in force", ("Field", "Value", "From"), strategy, caption, "text")


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
