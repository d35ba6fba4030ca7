"""Files of JSON documents one after the other, such as several answers of kubectl: read in pieces, object by object."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from headroom.backtest.sources.text_file import open_text
from headroom.backtest.trace import TraceError

Json = Mapping[str, Any]

LARGEST: Final = 1 << 28
"""Most characters of one document."""
_PIECE: Final = 1 << 20
_SHOWN: Final = 40


def objects(path: Path, kind: str, command: str) -> Iterator[Json]:
    """Every object of a kind, those in lists one by one; documents may be lists, objects, or a mixture.

    Args:
        path: the file, compressed or not.
        kind: such as ``Pod``.
        command: what writes such files, for messages.

    Raises:
        TraceError: it is no JSON, or has other objects.
    """
    some = False
    for number, document in enumerate(_documents(path, command), 1):
        some = True
        items = document.get("items") if isinstance(document, Mapping) else document
        for item in items if isinstance(items, list) else [document]:
            # The items of a list of one kind, as the API itself answers, bear no kind of their own.
            found = item.get("kind", kind) if isinstance(item, Mapping) else type(item).__name__
            if found != kind:
                raise TraceError(f"{path}: document {number} has a {found}, not a {kind}; it is written by {command}")
            yield item
    if not some:
        raise TraceError(f"{path}: is empty; it is written by {command}")


def _documents(path: Path, command: str) -> Iterator[Any]:
    decoder, text, start, wanted, number = json.JSONDecoder(), "", 0, _PIECE, 1
    with open_text(path) as stream:
        while True:
            piece = stream.read(wanted)
            text, start = text[start:] + piece, 0
            while (start := _past_space(text, start)) < len(text):
                try:
                    document, start = decoder.raw_decode(text, start)
                except (json.JSONDecodeError, RecursionError) as error:
                    if piece and len(text) - start < LARGEST:
                        break  # it may be cut off here: try again with more of it
                    raise TraceError(_no_json(path, number, text[start:], error, command)) from error
                yield document
                number += 1
            if not piece:
                return
            wanted = max(_PIECE, len(text) - start)  # twice as much of a long one each time


def _past_space(text: str, start: int) -> int:
    while start < len(text) and text[start] in " \t\r\n\x1e":
        start += 1
    return start


def _no_json(path: Path, number: int, rest: str, error: Exception, command: str) -> str:
    if len(rest) >= LARGEST:
        return f"{path}: document {number} is longer than {LARGEST >> 20} million characters"
    why = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
    return f"{path}: document {number}, {rest[:_SHOWN]!r}, is no JSON ({why}); it is written by {command}"
