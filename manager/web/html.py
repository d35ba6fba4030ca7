"""HTML as a tree of calls: whatever is not made here is text, and is escaped. No page is put together from strings."""

from html import escape
from typing import Final, TypeAlias

from headroom.runtime.sanitize import printable_lines

_VOID: Final = frozenset({"input", "link", "meta", "br"})


class Html(str):
    """Text that is HTML already. Only this module makes it."""

    __slots__ = ()


Child: TypeAlias = "Html | str | int | float | None"
Attribute: TypeAlias = "str | int | float | bool | None"


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element with its children, of which text is escaped and None left out.

    Attributes are written with `_` for `-`, and one at the end where Python knows the word (`class_`); None and False
    are left out, True is the name alone.
    """
    opened = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    if name in _VOID:
        return Html(opened)
    return Html(f"{opened}{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    return Html("".join(_text(child) for child in children))


def document(title: str, head: Html, body: Html) -> str:
    """A whole page, of what stands in its head and in its body."""
    start = join(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        head,
    )
    return f"<!doctype html>{tag('html', tag('head', start), tag('body', body), lang='en')}"


def _text(child: Child) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Html) else escape(printable_lines(str(child)))


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(printable_lines(str(value)))}"'
