"""The forms of every command's answer: a table for people, a wider one, or the same content for programs."""

import json
import sys
from collections.abc import Iterable
from typing import Any, Final, TextIO

from headroom.runtime.sanitize import printable, printable_json

TABLE: Final = "table"  # for people
WIDE: Final = "wide"  # for people with a wide screen: more columns, nothing shortened
JSON: Final = "json"  # for programs
YAML: Final = "yaml"  # the same content as `JSON`
FORMATS: Final = (TABLE, WIDE, JSON, YAML)  # what `-o` takes


def is_for_people(output: str) -> bool:
    """Return whether a form is read by people: a table, wide or not."""
    return output in {TABLE, WIDE}


def document(data: Any, output: str) -> str:  # noqa: ANN401 - anything that JSON can hold
    """Data as text for programs.

    Args:
        data: what JSON can hold.
        output: `JSON` or `YAML`.
    """
    if output != YAML:
        return printable_json(json.dumps(data, indent=2, ensure_ascii=False))
    import yaml  # noqa: PLC0415 - imported for YAML output alone

    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True).rstrip("\n")
    if text.replace("\n", "").isprintable():
        return text
    # All but ASCII as escapes, and no text folded: half of one at the start of a line could be taken for another.
    return yaml.safe_dump(data, sort_keys=False, width=float("inf")).rstrip("\n")


def show(data: Any, output: str) -> None:  # noqa: ANN401 - anything that JSON can hold
    """Print data for programs.

    Args:
        data: what JSON can hold.
        output: `JSON` or `YAML`.
    """
    print(document(data, output))


def nothing(namespace: str | None = None) -> None:
    """Report an empty result on standard error, as kubectl does.

    Args:
        namespace: the only namespace of the result; `None`: all.
    """
    line(f"No resources found{f' in {namespace} namespace.' if namespace else ''}", sys.stderr)


def notes(texts: Iterable[str], *, headers: bool = True) -> None:
    """Print notes below a table; on standard error, where the table is rows alone."""
    listed, to = list(texts), sys.stdout if headers else sys.stderr
    if listed and headers:
        line()
    for text in listed:
        line(f"- {text}", to)


def line(text: object = "", to: TextIO | None = None) -> None:
    """Print a line for people; escape text that would break the line or control the terminal.

    Args:
        text: the line.
        to: where to; standard output by default.
    """
    print(printable(str(text)), file=to or sys.stdout)
