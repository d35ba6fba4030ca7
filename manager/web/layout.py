"""What all pages share: head, banner, foot, and tables."""

from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import quote, urlencode

from manager.context import Context
from manager.web.history import RINGS
from manager.web.html import Child, Html, document, join, tag
from manager.web.state import TROUBLE, WAITING, State

ROOT: Final = "/ui"
"""Path of the overview."""
_STATIC: Final = f"{ROOT}/static"


def page(title: str, context: Context, *content: Child, wide: bool = True) -> str:
    """A whole page.

    Args:
        title: its title.
        context: what its banner tells of.
        content: what it shows.
        wide: whether tables may use the whole width.
    """
    head = join(
        tag("link", rel="stylesheet", href=f"{_STATIC}/style.css"),
        tag("link", rel="icon", type="image/svg+xml", href=f"{_STATIC}/icon.svg"),
        tag("script", src=f"{_STATIC}/page.js", defer=True),
    )
    body = join(
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag(
            "header",
            tag("a", "Headroom", href=ROOT, class_="brand"),
            tag("nav", tag("a", "Cluster", href=ROOT), tag("a", "Nodes", href=f"{ROOT}#nodes"), aria_label="Main"),
            tag("span", class_="live"),  # the script puts its switch there
        ),
        tag("main", *_banner(context), *content, id="content", class_="wide" if wide else None, tabindex="-1"),
        _foot(context),
    )
    return document(f"{title} – Headroom", head, body)  # noqa: RUF001 - a dash


def _banner(context: Context) -> Iterable[Html]:
    """What is wrong with the manager itself, before any number that it shows."""
    progress, state = context.progress, context.in_force
    if progress.trouble:
        yield alert("error", "The manager cannot go on: ", progress.trouble)
    missing = [problem for check in progress.health().ready.values() if (problem := check())]
    if missing and not progress.trouble:
        yield alert("warning", "The numbers are not complete yet: ", "; ".join(missing), ".")
    if state.errors:
        first = state.errors[0]
        yield alert("error", "The colocation config cannot be used, so ", state.origin.value, f" are in force: {first}")
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
    kind = "bad" if state in TROUBLE else "wait" if state in WAITING else "good" if state is State.SELLING else "calm"
    return tag("span", state.value, class_=f"badge {kind}")


def table(heads: Sequence[Child], rows: Iterable[Sequence[Child]], *, caption: str, class_: str = "") -> Html:
    """A table; cells are laid out by the style sheet.

    Args:
        heads: headings of the columns; one that is a `th` already stays as it is.
        rows: cells.
        caption: what it shows, for those who do not see it.
        class_: how it looks.
    """
    heading = [
        each if isinstance(each, Html) and each.startswith("<th") else tag("th", each, scope="col") for each in heads
    ]
    body = [tag("tr", *(tag("td", cell) for cell in row)) for row in rows]
    content = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", *heading)),
        tag("tbody", *body),
        class_=class_ or None,
    )
    return tag("div", content, class_="scroll", role="region", aria_label=caption, tabindex="0")


def node_path(name: str) -> str:
    """Path of a node's page."""
    return f"{ROOT}/nodes/{quote(name, safe='')}"


def node_link(name: str) -> Html:
    """A link to a node's page."""
    return tag("a", name, href=node_path(name))


def link(path: str, words: dict[str, str], fragment: str = "") -> str:
    """A path with a query string."""
    return f"{path}{'?' if words else ''}{urlencode(words)}{'#' if fragment else ''}{fragment}"


def ranges(path: str, length: str, words: dict[str, str]) -> Html:
    """The choice of how far plots go back.

    Args:
        path: the page.
        length: what is chosen now.
        words: the rest of its query string.
    """
    choices = [
        tag(
            "a",
            f"{ring.seconds // 3600} hours",
            href=link(path, words | ({"range": name} if name != next(iter(RINGS)) else {})),
            aria_current="true" if name == length else None,
        )
        for name, ring in RINGS.items()
    ]
    return tag("nav", *choices, class_="choice", aria_label="How far the plots go back")
