"""The explanation as text: the answer first, then why, then every number, then the strategy."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubectl_headroom.shadow import accounts as shadow_accounts
from kubectl_headroom.table import Cell, Column, Row
from manager.api import DEFAULT_STRATEGY as DEFAULT
from manager.api import Explanation, Resource, amounts, hot_state, tables
from manager.api import terms as explain_terms

Section = tuple[str, Sequence[Column], Sequence[Row]]  # heading, columns, rows

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
_HOT_COLUMNS: Final = (Column("RESOURCE"), Column("USAGE", ">"), Column("HOT ABOVE", ">"), Column("COOL UP TO", ">"))
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
    prefix = "What if: " if explanation.what_if else ""
    for title, terms in tables.terms(explanation):
        yield f"{prefix}{title}", _TERM_COLUMNS, [_term(term) for term in terms]
    if tables.decided(explanation).terms:
        yield "Inputs", _INPUT_COLUMNS, _plain(tables.input_rows(explanation))
    yield "Sources", (Column("SOURCE"), Column("AGE", ">"), Column("STATE")), _sources(explanation)
    if explanation.conditions:
        yield "Conditions of the NodeMetric", _CONDITION_COLUMNS, _plain(tables.condition_rows(explanation))
    if explanation.hot is not None:
        yield (
            f"Hot node: {hot_state(explanation.hot, explanation.seen.node)}",
            _HOT_COLUMNS,
            _plain(tables.hot_rows(explanation.hot)),
        )
    if explanation.seen.shadow is not None:
        account = shadow_accounts.of(explanation.node, explanation.seen.shadow, explanation.seen.now)
        yield "What shadow mode would have published", shadow_accounts.COLUMNS, [shadow_accounts.cells(account)]
    title = "Strategy that is tried" if explanation.what_if else "Strategy in force"
    yield title, (Column("FIELD"), Column("VALUE"), Column("FROM")), _strategy(explanation)


def _answer(explanation: Explanation) -> Section:
    result, published, wanted = explanation.result, explanation.published, explanation.desired
    rows = [
        ("on the Node", published.cpu, published.memory, "what pods can request"),
        ("calculated", result.calculated.cpu, result.calculated.memory, "what may be published now"),
        ("desired", wanted[Resource.CPU], wanted[Resource.MEMORY], _why_desired(explanation)),
        ("requested", result.requested.cpu, result.requested.memory, _requesters(explanation)),
        ("deficit", result.deficit.cpu, result.deficit.memory, "requested beyond what may be published"),
    ]
    cells = [
        (
            Cell(name, "bold"),
            Cell(tables.or_none(Resource.CPU, cpu)),
            Cell(tables.or_none(Resource.MEMORY, memory)),
            Cell(note, "dim"),
        )
        for name, cpu, memory, note in rows
    ]
    return f"Node {explanation.node}", _MID_COLUMNS, cells


def _why_desired(explanation: Explanation) -> str:
    """Return the desired amounts of the Node, in words."""
    result, wanted = explanation.result, explanation.desired
    if all(number is None for number in wanted.values()):
        return "no such resources"
    if any((number or 0) > result.calculated[resource] for resource, number in wanted.items()):
        return "what may be published, and no less than running Mid pods requested"
    return "the manager's writes"


def _comparison(explanation: Explanation) -> Section:
    """Yield the present and the tried values."""
    now, words = explanation.before, explanation.what_if.words if explanation.what_if else ""
    heading = f"Node {explanation.node}, what if {words}: nothing in the cluster is changed"
    if now is None:
        return heading, _TRIED_COLUMNS, ()
    rows = []
    for resource in Resource:
        result: list[tuple[str, int | None, int | None]] = [
            ("calculated", now.result.calculated[resource], explanation.result.calculated[resource]),
            ("on the Node", now.published[resource], explanation.desired[resource]),
            ("deficit", now.result.deficit[resource], explanation.result.deficit[resource]),
        ]
        for name, before, then in result:
            title = f"{explain_terms.TITLES[resource]} {name}"
            numbers = (Cell(tables.or_none(resource, before)), Cell(tables.or_none(resource, then)))
            rows.append((Cell(title, "bold"), *numbers, Cell(_change(resource, before, then))))
    return heading, _TRIED_COLUMNS, rows


def _change(resource: Resource, before: int | None, then: int | None) -> str:
    difference = (then or 0) - (before or 0)
    if difference == 0:
        return "="
    return f"{'+' if difference > 0 else ''}{explain_terms.amount(resource, difference)}"


def _requesters(explanation: Explanation) -> str:
    keys = [pod.key for pod in explanation.mid_pods]
    if not keys:
        return "by no Mid pod"
    more = f" and {len(keys) - _MOST_NAMES} more" if len(keys) > _MOST_NAMES else ""
    return f"by {', '.join(sorted(keys)[:_MOST_NAMES])}{more}"


def _term(row: tables.TermRow) -> Row:
    style = "bold" if row.name == "mid" else ""
    how = row.how + (f"  <- {row.decisive}" if row.decisive else "") + (f"  ({row.note})" if row.note else "")
    return Cell(row.name, style), Cell(row.value, style), Cell(how)


def _plain(found: Sequence[Sequence[str]]) -> Sequence[Row]:
    return [tuple(map(Cell, row)) for row in found]


def _sources(explanation: Explanation) -> Sequence[Row]:
    facts, report, config = explanation.facts, explanation.report, explanation.config
    interval = f"requested every {report.interval_seconds}s, " if report.interval_seconds else ""
    counts = f"{interval}counts until it is {amounts.age(facts.strategy.degrade_seconds)} old (degradeTimeMinutes)"
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
        holder = lease.holder or "no holder"
        rows.append((Cell("manager"), Cell(amounts.age(lease.renewed_ago)), Cell(f"{holder} holds its Lease")))
    return rows


def _model(prediction: Mapping[str, Any]) -> str:
    policy = prediction.get("policy") or {}
    parts = [str(policy.get("model") or "")]
    parts += [tables.compact(policy["parameters"])] if policy.get("parameters") else []
    parts += [f"{name}: {tables.compact(policy[name])}" for name in ("of", "cpu", "memory") if policy.get(name)]
    return " ".join(parts).strip()


def _history(prediction: Mapping[str, Any]) -> str:
    pods = prediction.get("pods") or {}
    if "warm" not in pods and "cold" not in pods:
        return ""
    cold = ", ".join(pods.get("coldNames") or ())
    named = f" ({cold})" if cold else ""
    workloads = ", ".join(pods.get("byHistoryWorkloads") or ())
    named += f"; {pods.get('byHistory')} of them at the usage of {workloads} on other nodes" if workloads else ""
    limited = ", ".join(pods.get("heldBackNames") or ())
    named += f"; memory held back by memory.high or swap: {limited}" if limited else ""
    return f"{pods.get('warm', 0)} predicted from history, {pods.get('cold', 0)} counted at their request{named}"


def _strategy(explanation: Explanation) -> Sequence[Row]:
    return [
        (Cell(name), Cell(value), Cell(source, "dim" if source == DEFAULT else "cyan"))
        for name, value, source in tables.strategy_rows(explanation)
    ]
