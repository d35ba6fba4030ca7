"""The cluster on one page: sums, plots, what to look at, and a list of all nodes."""

from collections.abc import Iterator
from typing import Final

from manager.context import Context
from manager.mid.explanation import amounts
from manager.web import figures, layout, plot
from manager.web.history import RESOURCES, Series
from manager.web.html import Html, join, tag
from manager.web.overview import Overview, Query, Selection, overview, select, waste
from manager.web.recorder import Recorder, Row
from manager.web.state import MEANINGS, State

_COLUMNS: Final = (
    ("Node", "name"),
    ("State", "state"),
    ("CPU used", "cpu"),
    ("Memory used", "memory"),
    ("Mid CPU bought of offered", "mid-cpu"),
    ("Mid memory bought of offered", "mid-memory"),
    ("Wasted CPU", "waste-cpu"),
    ("Prediction", ""),
    ("Report", "report"),
)


def render(context: Context, query: Query) -> str:
    """The page.

    Args:
        context: what is known.
        query: which nodes its list shows, and how far its plots go back.
    """
    recorder, now = context.state_of(Recorder), context.wall()
    found = overview(recorder)
    if not found.nodes:
        return layout.page("Cluster", context, tag("h1", "Cluster"), _empty(context))
    plots = [
        plot.figure("the cluster", each, query.length, recorder.history.plot_of_sums(query.length, now))
        for each in RESOURCES
    ]
    content = (
        tag("h1", "Cluster"),
        _first_steps(context, found),
        _tiles(found),
        tag(
            "div", tag("h2", "Over time"), layout.ranges(layout.ROOT, query.length, query.words(range="")), class_="row"
        ),
        tag("div", *plots, class_="plots"),
        tag("div", _attention(found), _wasteful(found), class_="lists"),
        _nodes(select(recorder.rows.values(), query), query, found, now),
    )
    return layout.page("Cluster", context, *content)


def _empty(context: Context) -> Html:
    if not context.progress.nodes_listed:
        return layout.alert("note", "The manager has just started and has not listed the cluster's nodes yet.")
    return layout.alert("note", "This cluster has no nodes. They appear here by themselves when they join.")


def _first_steps(context: Context, found: Overview) -> Html | None:
    """Why a fresh installation sells nothing yet, and what to do."""
    if not found.states.get(State.OFF) or found.states.get(State.SELLING):
        return None
    settings = context.settings
    return layout.alert(
        "note",
        "Colocation is disabled, so nodes are measured and predicted, and nothing is offered. To try it without "
        'offering anything, set "enable": true and "mode": "shadow": ',
        tag("code", f"kubectl -n {settings.namespace} edit configmap {settings.config_name}"),
    )


def _tiles(found: Overview) -> Html:
    def tile(title: str, number: str, *more: str) -> Html:
        return tag("div", tag("dt", title), tag("dd", tag("strong", number), *(tag("span", each) for each in more)))

    tiles = [tile("Nodes", f"{found.nodes:,}", f"{found.reporting:,} report what they use", *_pods(found))]
    for resource in RESOURCES:
        numbers = {series: found.numbers[series, resource] for series in Series}
        whole, title = numbers[Series.ALLOCATABLE], figures.TITLES[resource]
        used, peak, asked = (numbers[each] for each in (Series.USED, Series.PEAK, Series.REQUESTED))
        tiles.append(
            tile(
                f"{title} used",
                figures.percent(used, whole),
                f"{figures.amount(resource, used)} of {figures.amount(resource, whole)}",
                f"Prod requested {figures.percent(asked, whole)}, predicted peak {figures.percent(peak, whole)}",
            )
        )
        offered, bought = numbers[Series.OFFERED], numbers[Series.BOUGHT]
        tiles.append(
            tile(
                f"Mid {figures.INSIDE[resource]} offered",
                figures.amount(resource, offered),
                f"{figures.amount(resource, bought)} bought",
            )
        )
    return tag("dl", *tiles, class_="tiles")


def _pods(found: Overview) -> Iterator[str]:
    if found.warm or found.cold:
        yield f"{found.warm:,} pods predicted from history, {found.cold:,} counted at their request"


def _attention(found: Overview) -> Html:
    rows = [
        tag("li", layout.node_link(row.name), " ", layout.badge(row.state), tag("p", row.reason))
        for row in found.attention
    ]
    content = tag("ul", *rows, class_="nodes") if rows else tag("p", "Every node reports, and no Mid pod is short.")
    return tag("section", tag("h2", "To look at"), content)


def _wasteful(found: Overview) -> Html:
    explained = tag(
        "p",
        "CPU that Prod pods requested, that their predicted peak does not need, and that is not offered as Mid.",
        class_="hint",
    )
    most = waste(found.wasteful[0], "cpu") if found.wasteful else None
    rows = [
        tag(
            "li",
            layout.node_link(row.name),
            tag("b", figures.amount("cpu", waste(row, "cpu"))),
            tag(
                "svg",
                tag("rect", width=round(100 * (waste(row, "cpu") or 0) / (most or 1), 1), height=4),
                class_="share",
                viewBox="0 0 100 4",
                preserveAspectRatio="none",
                aria_hidden="true",
            ),
        )
        for row in found.wasteful
    ]
    content = tag("ol", *rows, class_="nodes waste") if rows else tag("p", "Nothing that is known of.")
    return tag("section", tag("h2", "Most wasted"), explained, content)


def _nodes(selection: Selection, query: Query, found: Overview, now: float) -> Html:
    heads = [_head(title, order, query) for title, order in _COLUMNS]
    rows = [_row(row, now) for row in selection.rows]
    every = f"{found.nodes:,} node{'' if found.nodes == 1 else 's'}"
    shown = f"{selection.found:,} of {every}" if selection.found != found.nodes else every
    body = (
        layout.table(heads, rows, caption=f"Nodes: {shown}", class_="list")
        if rows
        else tag("p", "No node is like that.")
    )
    return tag(
        "section",
        tag("h2", "Nodes ", tag("small", shown)),
        _states(found, query),
        _search(query),
        _key(),
        body,
        _pages(selection, query),
        id="nodes",
    )


def _head(title: str, order: str, query: Query) -> Html:
    if not order:
        return tag("th", title, scope="col")
    chosen = query.order == order
    ascending = (order in ("name", "state")) != query.backwards
    href = layout.link(layout.ROOT, query.words(sort=order, backwards=chosen and not query.backwards, page=1), "nodes")
    arrow = tag("span", "▲" if ascending else "▼", aria_hidden="true") if chosen else None
    sort = ("ascending" if ascending else "descending") if chosen else None
    return tag("th", tag("a", title, " ", arrow, href=href), scope="col", aria_sort=sort)


def _row(row: Row, now: float) -> tuple[Html | str, ...]:
    return (
        layout.node_link(row.name),
        tag("span", layout.badge(row.state), title=row.reason),
        *(_used(row, each) for each in RESOURCES),
        *(_mid(row, each) for each in RESOURCES),
        figures.short("cpu", waste(row, "cpu")),
        _prediction(row),
        figures.NOTHING if row.age is None else amounts.age(row.age_at(now)),
    )


def _used(row: Row, resource: str) -> Html:
    numbers = {series: row.number(series, resource) for series in Series}
    used, whole = numbers[Series.USED], numbers[Series.ALLOCATABLE]
    told = ", ".join(
        f"{name} {figures.amount(resource, numbers[series])}"
        for name, series in (
            ("used", Series.USED),
            ("predicted peak of Prod", Series.PEAK),
            ("requested by Prod", Series.REQUESTED),
            ("Mid published", Series.OFFERED),
            ("allocatable", Series.ALLOCATABLE),
        )
    )
    share = join(tag("b", figures.percent(used, whole)), " ") if used is not None else None
    text = tag("span", share, figures.of(resource, used, whole))
    return join(plot.bullet(resource, numbers, told), text)


def _mid(row: Row, resource: str) -> str:
    offered, bought = row.number(Series.OFFERED, resource), row.number(Series.BOUGHT, resource)
    if not offered and not bought:
        return figures.NOTHING
    return figures.of(resource, bought or 0.0, offered or 0.0)


def _prediction(row: Row) -> Html | str:
    if not row.prediction:
        return figures.NOTHING
    pods = None if row.warm is None and row.cold is None else f"{row.warm or 0} warm, {row.cold or 0} cold"
    return join(row.prediction, tag("small", pods) if pods else None)


def _states(found: Overview, query: Query) -> Html:
    def choice(text: str, state: str, title: str | None) -> Html:
        href = layout.link(layout.ROOT, query.words(state=state, page=1), "nodes")
        return tag("a", text, href=href, title=title, aria_current="true" if query.state == state else None)

    choices = [choice(f"all {found.nodes:,}", "", None)]
    choices += [
        choice(f"{state.value} {count:,}", state.value, MEANINGS[state]) for state, count in found.states.items()
    ]
    return tag("nav", *choices, class_="choice", aria_label="Nodes by state")


def _search(query: Query) -> Html:
    kept = [
        tag("input", type="hidden", name=name, value=text)
        for name, text in query.words(q="", prediction="", page=1).items()
    ]
    options = [
        tag("option", text, value=value, selected=query.prediction == value)
        for value, text in (("", "any prediction"), ("ready", "ready"), ("not ready", "not ready"))
    ]
    return tag(
        "form",
        *kept,
        tag(
            "label", "Name ", tag("input", type="search", name="q", value=query.text, maxlength=253, autocomplete="off")
        ),
        tag("label", "Prediction ", tag("select", *options, name="prediction")),
        tag("button", "Filter", type="submit"),
        method="get",
        action=f"{layout.ROOT}#nodes",
        role="search",
    )


def _key() -> Html:
    """What the bars mean."""
    parts = (
        ("used", "used"),
        ("peak", "predicted peak of Prod"),
        ("offered", "Mid published"),
        ("requested", "requested by Prod"),
    )
    keys = [
        tag(
            "li",
            tag("svg", tag("rect", class_=style, width=12, height=10), viewBox="0 0 12 10", aria_hidden="true"),
            name,
        )
        for style, name in parts
    ]
    return tag("ul", *keys, class_="key", aria_label="Colours of the bars")


def _pages(selection: Selection, query: Query) -> Html | None:
    if selection.pages == 1:
        return None

    def turn(text: str, page: int) -> Html:
        if not 1 <= page <= selection.pages:
            return tag("span", text, aria_disabled="true")
        return tag("a", text, href=layout.link(layout.ROOT, query.words(page=page), "nodes"))

    here = tag("span", f"page {selection.page:,} of {selection.pages:,}", aria_current="page")
    return tag(
        "nav",
        turn("first", 1 if selection.page > 1 else 0),
        turn("previous", selection.page - 1),
        here,
        turn("next", selection.page + 1),
        turn("last", selection.pages if selection.page < selection.pages else 0),
        class_="pages",
        aria_label="Pages of the list",
    )
