"""The cluster on one page: sums, plots, what to look at, and a list of all nodes."""

from typing import Final

from manager.context import Context
from manager.mid.explanation import amounts
from manager.web import figures, layout, plot
from manager.web.history import RESOURCES, Series
from manager.web.html import Html, join, tag
from manager.web.overview import ASCENDING, Overview, Query, Selection, overview, select, waste
from manager.web.recorder import Recorder, Row
from manager.web.state import MEANINGS, State

_COLUMNS: Final = (
    ("Node", "name"),
    ("State", "state"),
    ("CPU used", "cpu"),
    ("Memory used", "memory"),
    ("Mid CPU allocated of published", "mid-cpu"),
    ("Mid memory allocated of published", "mid-memory"),
    ("Wasted CPU", "waste-cpu"),
    ("Prediction", ""),
    ("Report", "report"),
)
_BARS: Final = {
    "used": "used",
    "peak": "predicted peak of Prod",
    "requested": "requested by Prod",
    "published": "Mid published",
    "allocatable": "allocatable",
}


def render(context: Context, query: Query) -> str:
    """The page; the query says which nodes its list shows, and how far its plots go back."""
    recorder, now = context.state_of(Recorder), context.wall()
    found, title = overview(recorder), tag("h1", "Cluster")
    if not found.nodes:
        listed = "This cluster has no nodes. They appear here by themselves when they join."
        starting = "The manager has just started and has not listed the cluster's nodes yet."
        return layout.page(
            "Cluster", context, title, layout.alert("note", listed if context.progress.nodes_listed else starting)
        )
    sums = recorder.history.plot_of_sums(query.range, now)
    reporting, pods = f"{found.reporting:,} report what they use", None
    if found.warm or found.cold:
        pods = f"{found.warm:,} pods predicted from history, {found.cold:,} counted at their request"
    tiles = layout.tiles(found.number, lambda _, part, whole: figures.percent(part, whole))
    content = (
        title,
        _first_steps(context, found),
        tag("dl", layout.tile("Nodes", f"{found.nodes:,}", reporting, pods), *tiles, class_="tiles"),
        layout.over_time("the cluster", layout.ROOT, query.range, query.words(range=""), sums),
        tag("div", _attention(found), _wasteful(found), class_="lists"),
        _nodes(select(recorder.rows.values(), query), query, found, now),
    )
    return layout.page("Cluster", context, *content)


def _first_steps(context: Context, found: Overview) -> Html | None:
    """Why a fresh installation publishes nothing yet, and what to do."""
    if not found.states.get(State.OFF) or found.states.get(State.PUBLISHING):
        return None
    settings = context.settings
    return layout.alert(
        "note",
        "Colocation is disabled, so nodes are measured and predicted, and nothing is published. To try it without "
        'publishing anything, set "enable": true and "mode": "shadow": ',
        tag("code", f"kubectl -n {settings.namespace} edit configmap {settings.config_name}"),
    )


def _attention(found: Overview) -> Html:
    rows = [
        tag("li", layout.node_link(row.name), " ", layout.badge(row.state), tag("p", row.reason))
        for row in found.attention
    ]
    content = tag("ul", *rows, class_="nodes") if rows else tag("p", "Every node reports, and no Mid pod is short.")
    return tag("section", tag("h2", "To look at"), content)


def _wasteful(found: Overview) -> Html:
    told = "CPU that Prod pods requested, that their predicted peak does not need, and that is not published as Mid."
    wasted = [waste(row, "cpu") or 0.0 for row in found.wasteful]
    look = {"class_": "share", "viewBox": "0 0 100 4", "preserveAspectRatio": "none", "aria_hidden": "true"}
    rows = [
        tag(
            "li",
            layout.node_link(row.name),
            tag("b", figures.amount("cpu", each)),
            tag("svg", tag("rect", width=round(100 * each / wasted[0], 1), height=4), **look),
        )
        for row, each in zip(found.wasteful, wasted, strict=True)
    ]
    content = tag("ol", *rows, class_="nodes waste") if rows else tag("p", "Nothing that is known of.")
    return tag("section", tag("h2", "Most wasted"), tag("p", told, class_="hint"), content)


def _nodes(selection: Selection, query: Query, found: Overview, now: float) -> Html:
    every = f"{found.nodes:,} node{'' if found.nodes == 1 else 's'}"
    shown = f"{selection.found:,} of {every}" if selection.found != found.nodes else every
    body = tag("p", "No node is like that.")
    if selection.rows:
        heads = [_head(title, order, query) for title, order in _COLUMNS]
        rows = (_row(row, now) for row in selection.rows)
        body = layout.table(heads, rows, caption=f"Nodes: {shown}", class_="list")
    keys = [
        tag(
            "li",
            tag("svg", tag("rect", class_=style, width=12, height=10), viewBox="0 0 12 10", aria_hidden="true"),
            name,
        )
        for style, name in _BARS.items()
        if style != "allocatable"
    ]
    key = tag("ul", *keys, class_="key", aria_label="Colours of the bars")
    parts = (_states(found, query), _search(query), key, body, _pages(selection, query))
    return tag("section", tag("h2", "Nodes ", tag("small", shown)), *parts, id="nodes")


def _to(query: Query, **instead: str | int | bool) -> str:
    return layout.link(layout.ROOT, query.words(**instead), "nodes")


def _head(title: str, order: str, query: Query) -> Html:
    if not order:
        return tag("th", title, scope="col")
    chosen, ascending = query.sort == order, (order in ASCENDING) != query.backwards
    href = _to(query, sort=order, backwards=chosen and not query.backwards, page=1)
    arrow = tag("span", "▲" if ascending else "▼", aria_hidden="true") if chosen else None
    sort = ("ascending" if ascending else "descending") if chosen else None
    return tag("th", tag("a", title, " ", arrow, href=href), scope="col", aria_sort=sort)


def _row(row: Row, now: float) -> tuple[Html | str, ...]:
    prediction: Html | str = figures.NOTHING
    if row.prediction:
        known = row.warm is not None or row.cold is not None
        pods = tag("small", f"{row.warm or 0} warm, {row.cold or 0} cold") if known else None
        prediction = join(row.prediction, pods)
    return (
        layout.node_link(row.name),
        tag("span", layout.badge(row.state), title=row.reason),
        *(_used(row, each) for each in RESOURCES),
        *(_mid(row, each) for each in RESOURCES),
        figures.short("cpu", waste(row, "cpu")),
        prediction,
        figures.NOTHING if row.age is None else amounts.age(row.age_at(now)),
    )


def _used(row: Row, resource: str) -> Html:
    used, whole = row.number(Series.USED, resource), row.number(Series.ALLOCATABLE, resource)
    told = ", ".join(
        f"{name} {figures.amount(resource, row.number(Series[key.upper()], resource))}" for key, name in _BARS.items()
    )
    share = join(tag("b", figures.percent(used, whole)), " ") if used is not None else None
    return join(plot.bullet(resource, row.number, told), tag("span", share, figures.of(resource, used, whole)))


def _mid(row: Row, resource: str) -> str:
    published, allocated = row.number(Series.PUBLISHED, resource), row.number(Series.ALLOCATED, resource)
    if not published and not allocated:
        return figures.NOTHING
    return figures.of(resource, allocated or 0.0, published or 0.0)


def _states(found: Overview, query: Query) -> Html:
    states: list[tuple[str, str, str | None]] = [("", f"all {found.nodes:,}", None)]
    states += [(state.value, f"{state.value} {count:,}", MEANINGS[state]) for state, count in found.states.items()]
    choices = [
        tag(
            "a",
            text,
            href=_to(query, state=state, page=1),
            title=title,
            aria_current="true" if query.state == state else None,
        )
        for state, text, title in states
    ]
    return tag("nav", *choices, class_="choice", aria_label="Nodes by state")


def _search(query: Query) -> Html:
    kept = query.words(q="", prediction="", page=1).items()
    options = [
        tag("option", text, value=value, selected=query.prediction == value)
        for value, text in (("", "any prediction"), ("ready", "ready"), ("not ready", "not ready"))
    ]
    text = tag("input", type="search", name="q", value=query.q, maxlength=253, autocomplete="off")
    return tag(
        "form",
        *(tag("input", type="hidden", name=name, value=value) for name, value in kept),
        tag("label", "Name ", text),
        tag("label", "Prediction ", tag("select", *options, name="prediction")),
        tag("button", "Filter", type="submit"),
        method="get",
        action=f"{layout.ROOT}#nodes",
        role="search",
    )


def _pages(selection: Selection, query: Query) -> Html | None:
    page, last = selection.page, selection.pages
    if last == 1:
        return None
    here = tag("span", f"page {page:,} of {last:,}", aria_current="page")

    def turn(text: str, to: int, *, possible: bool) -> Html:
        return tag("a", text, href=_to(query, page=to)) if possible else tag("span", text, aria_disabled="true")

    back = [turn(text, to, possible=page > 1) for text, to in (("first", 1), ("previous", page - 1))]
    on = [turn(text, to, possible=page < last) for text, to in (("next", page + 1), ("last", last))]
    return tag("nav", *back, here, *on, class_="pages", aria_label="Pages of the list")
