"""JSON of the API server: all of it as plain objects, or the objects of a list one by one, not decoded yet."""

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

Decode = Callable[[msgspec.Raw], Any]  # makes an object from its JSON; it does not fail


class UndecodedPage(msgspec.Struct):
    """A page of a list."""

    items: list[msgspec.Raw] | None = None
    metadata: dict[str, Any] | None = None


_PAGE: Final = msgspec.json.Decoder(UndecodedPage)


def undecoded_page(text: bytes) -> UndecodedPage | None:
    """The objects of a page as JSON: of large ones decoded objects would take many times as much. None: it is none."""
    try:
        return _PAGE.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def plain(raw: bytes | msgspec.Raw) -> Any:  # noqa: ANN401 - JSON
    """Decode JSON to plain objects; half of a surrogate pair, which Go never writes, is taken as Python takes it."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return json.loads(bytes(raw))
