"""What all pages share: head, banner, foot, boxes, tables."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias
from urllib.parse import quote, urlencode

from manager.context import Context
from manager.web import figures
from manager.web.history import RESOURCES, RINGS, Plot, Series
from manager.web.html import Child, Html, document, join, tag
from manager.web.plot import figure
from manager.web.state import TROUBLE, WAITING, State

ROOT: Final = "/ui"  # path of the overview
_STATIC: Final = f"{ROOT}/static"

Number: TypeAlias = Callable[[Series, str], float | None]  # a number by series and resource [cores, GiB]


def page(title: str, context: Context, *content: Child) -> str:
    """A whole page, with what is wrong with the manager itself before any number that it shows."""
    head = join(
        tag("link", rel="stylesheet", href=f"{_STATIC}/style.css"),
        tag("link", rel="icon", type="image/svg+xml", href=f"{_STATIC}/icon.svg"),
        tag("script", src=f"{_STATIC}/page.js", defer=True),
    )
    links = (tag("a", "Cluster", href=ROOT), tag("a", "Nodes", href=f"{ROOT}#nodes"))
    switch = tag("span", class_="live")  # the script puts its switch there
    body = join(
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", tag("a", "Headroom", href=ROOT, class_="brand"), tag("nav", *links, aria_label="Main"), switch),
        tag("main", *_banner(context), *content, id="content", class_="wide", tabindex="-1"),
        _foot(context),
    )
    return document(f"{title} – Headroom", head, body)  # noqa: RUF001 - a dash


def _banner(context: Context) -> Iterable[Html]:
    progress, state = context.progress, context.in_force
    missing = [problem for check in progress.health().ready.values() if (problem := check())]
    if progress.trouble:
        yield alert("error", "The manager cannot go on: ", progress.trouble)
    elif missing:
        yield alert("warning", "The numbers are not complete yet: ", "; ".join(missing), ".")
    if state.errors:
        told = f"{state.origin.value} are in force: {state.errors[0]}"
        yield alert("error", f"The colocation config cannot be used, so {told}")
    if state.entry_errors:
        yield alert("warning", f"An entry of nodeConfigs is disabled: {state.entry_errors[0]}")


def _foot(context: Context) -> Html:
    settings, state = context.settings, context.in_force
    config = f"{settings.namespace}/{settings.config_name}"
    told = state.origin.value if state.present else "the defaults, as there is no ConfigMap"
    return tag(
        "footer",
        tag("p", f"This replica {context.progress.leadership()}. In force: {told} ({config})."),
        tag("p", "The same in a terminal: ", tag("code", "kubectl headroom top nodes"), "."),
    )


def alert(kind: str, *words: Child) -> Html:
    """A box with something that people should know: kind error, warning or note."""
    return tag("p", *words, class_=f"alert {kind}", role="status" if kind == "note" else "alert")


def badge(state: State) -> Html:
    """A state, coloured by how urgent it is; the word says it, too."""
    kind = (
        "bad" if state in TROUBLE else "wait" if state in WAITING else "good" if state is State.PUBLISHING else "calm"
    )
    return tag("span", state.value, class_=f"badge {kind}")


def tile(title: str, number: str, *more: str | None) -> Html:
    return tag("div", tag("dt", title), tag("dd", tag("strong", number), *(tag("span", each) for each in more if each)))


def tiles(number: Number, show: Callable[[str, float | None, float | None], str]) -> Iterable[Html]:
    """Boxes with what is used and published; `show` writes a resource's amount beside what is allocatable."""
    for each in RESOURCES:
        whole, used, peak, requested, published, allocated = (
            number(series, each)
            for series in (
                *(Series.ALLOCATABLE, Series.USED, Series.PEAK),
                *(Series.REQUESTED, Series.PUBLISHED, Series.ALLOCATED),
            )
        )
        yield tile(
            f"{figures.TITLES[each]} used",
            figures.percent(used, whole),
            f"{figures.amount(each, used)} of {figures.amount(each, whole)}",
            f"Prod requested {show(each, requested, whole)}, predicted peak {show(each, peak, whole)}",
        )
        told = f"{figures.amount(each, allocated)} allocated"
        yield tile(f"Mid {figures.INSIDE[each]} published", figures.amount(each, published), told)


def over_time(subject: str, path: str, length: str, words: dict[str, str], plot: Plot) -> Html:
    """The plots of a page, and the choice of how far they go back; `words` are the rest of its query string."""
    choices = [
        tag(
            "a",
            f"{ring.seconds // 3600} hours",
            href=link(path, words | ({"range": name} if name != next(iter(RINGS)) else {})),
            aria_current="true" if name == length else None,
        )
        for name, ring in RINGS.items()
    ]
    choice = tag("nav", *choices, class_="choice", aria_label="How far the plots go back")
    plots = tag("div", *(figure(subject, each, length, plot) for each in RESOURCES), class_="plots")
    return join(tag("div", tag("h2", "Over time"), choice, class_="row"), plots)


def table(heads: Sequence[Child], rows: Iterable[Sequence[Child]], *, caption: str, class_: str = "") -> Html:
    """A table; a heading that is a `th` already stays as it is, and the caption is for those who do not see it."""
    heading = [
        each if isinstance(each, Html) and each.startswith("<th") else tag("th", each, scope="col") for each in heads
    ]
    body = tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows))
    parts = (tag("caption", caption), tag("thead", tag("tr", *heading)), body)
    content = tag("table", *parts, class_=class_ or None)
    return tag("div", content, class_="scroll", role="region", aria_label=caption, tabindex="0")


def node_path(name: str) -> str:
    return f"{ROOT}/nodes/{quote(name, safe='')}"


def node_link(name: str) -> Html:
    return tag("a", name, href=node_path(name))


def link(path: str, words: dict[str, str], fragment: str = "") -> str:
    return f"{path}{'?' if words else ''}{urlencode(words)}{'#' if fragment else ''}{fragment}"
