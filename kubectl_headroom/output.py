"""The forms of every command's answer: a table for people, a wider one, or the same content for programs.

A document for programs has `apiVersion` and `kind`, and a `kind` that ends in List has `items`. An object with a name
has it in `metadata`. The shapes are stable: fields are added, never renamed or removed.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TextIO

from headroom.runtime.sanitize import printable, printable_json
from kubectl_headroom.errors import USAGE, CommandError

TABLE: Final = "table"  # for people
WIDE: Final = "wide"  # for people with a wide screen: more columns, nothing shortened
JSON: Final = "json"  # for programs
YAML: Final = "yaml"  # the same content as `JSON`
NAME: Final = "name"  # TYPE/NAME of each object, for kubectl
FORMATS: Final = (TABLE, WIDE, JSON, YAML, NAME)  # what `-o` takes, besides templates
JSONPATH: Final = "jsonpath="  # a template follows
COLUMNS: Final = "custom-columns="  # titles and paths follow
API_VERSION: Final = "headroom.dev/v1"  # of all documents
_RESOURCES: Final[Mapping[str, str]] = {
    "NodeUsage": "node",
    "NodeExplanation": "node",
    "ShadowAccount": "node",
    "PodUsage": "pod",
    "PodExplanation": "pod",
    "QuotaReport": "elasticquota.scheduling.x-k8s.io",
    "QuotaAccount": "elasticquota.scheduling.x-k8s.io",
    "ClusterColocationProfile": "clustercolocationprofile.config.koordinator.sh",
}
"""Kind of a document -> the type of its object, as kubectl writes it."""


class Formats(tuple[str, ...]):
    """The choices of `-o`: a template begins with its form."""

    __slots__ = ()

    def __contains__(self, text: object) -> bool:
        return text in FORMATS or str(text).startswith((JSONPATH, COLUMNS))


CHOICES: Final = Formats((*FORMATS, JSONPATH, COLUMNS))


def form(text: str) -> str:
    """Return a form of `-o`, after a check of its template.

    Raises:
        ArgumentTypeError: the template is wrong.
    """
    if not text.startswith((JSONPATH, COLUMNS)):
        return text
    from kubectl_headroom import jsonpath  # noqa: PLC0415 - most forms need no templates

    try:
        if text == JSONPATH:
            raise argparse.ArgumentTypeError("template format specified but no template given")
        if text.startswith(JSONPATH):
            jsonpath.Template.parse(text.removeprefix(JSONPATH))
        else:
            _columns(text)
    except jsonpath.TemplateError as error:
        raise argparse.ArgumentTypeError(f"error parsing {text}, {error}") from error
    return text


def is_for_people(output: str) -> bool:
    """Return whether a form is read by people: a table, wide or not."""
    return output in {TABLE, WIDE}


def listed(kind: str, items: Iterable[Mapping[str, Any]], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return a list of objects for programs.

    Args:
        kind: kind of the objects.
        items: the objects, without kind.
        more: further fields of the list.
    """
    objects = [{"apiVersion": API_VERSION, "kind": kind, **item} for item in items]
    return {"apiVersion": API_VERSION, "kind": f"{kind}List", "metadata": {}, "items": objects, **more}


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


def show(data: Mapping[str, Any], output: str, *, headers: bool = True) -> None:
    """Print a document for programs.

    Args:
        data: the document, with its kind.
        output: one of `CHOICES` for programs.
        headers: whether custom columns have their titles.

    Raises:
        CommandError: the template does not fit the document, or its kind has no name.
    """
    data = {"apiVersion": API_VERSION, **data}
    if output == NAME:
        for item in _items(data):
            line(_name(item))
    elif output.startswith((JSONPATH, COLUMNS)):
        _show_template(data, output, headers=headers)
    else:
        print(document(data, output))


def _items(data: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return data["items"] if str(data["kind"]).endswith("List") else [data]


def _name(item: Mapping[str, Any]) -> str:
    resource = _RESOURCES.get(item["kind"])
    if resource is None:
        raise CommandError(f"-o name: a {item['kind']} has no name, use -o json.", USAGE)
    return f"{resource}/{item['metadata']['name']}"


def _show_template(data: Mapping[str, Any], output: str, *, headers: bool) -> None:
    from kubectl_headroom import jsonpath, table  # noqa: PLC0415 - as above

    try:
        if output.startswith(JSONPATH):
            print(jsonpath.Template.parse(output.removeprefix(JSONPATH)).render(dict(data)), end="")
            return
        columns = _columns(output)
        rows = [[table.Cell(_cell(path.values(item))) for _, path in columns] for item in _items(data)]
    except jsonpath.TemplateError as error:
        raise CommandError(f"error executing {output}: {error}", USAGE) from error
    table.write([table.Column(title) for title, _ in columns], rows, headers=headers)


def _columns(output: str) -> list[tuple[str, Any]]:
    """Return the titles and the paths of custom columns.

    Raises:
        ArgumentTypeError: a column has not both.
        TemplateError: a path is wrong.
    """
    from kubectl_headroom import jsonpath  # noqa: PLC0415 - as above

    text = output.removeprefix(COLUMNS)
    if not text:
        raise argparse.ArgumentTypeError("custom-columns format specified but no custom columns given")
    pairs = [part.split(":") for part in text.split(",")]
    for pair in pairs:
        if len(pair) != 2:  # noqa: PLR2004 - a title and a path
            raise argparse.ArgumentTypeError(
                f"unexpected custom-columns spec: {':'.join(pair)}, expected <header>:<json-path-expr>"
            )
    return [(title, jsonpath.relaxed(path)) for title, path in pairs]


def _cell(values: list[list[Any]]) -> str:
    from kubectl_headroom import jsonpath  # noqa: PLC0415 - as above

    texts = [jsonpath.plain(value) for part in values for value in part]
    return ",".join(texts) if texts else "<none>"


def nothing(namespace: str | None = None) -> None:
    """Report an empty result on standard error, as kubectl does.

    Args:
        namespace: the only namespace of the result; `None`: all.
    """
    line(f"No resources found{f' in {namespace} namespace.' if namespace else ''}", sys.stderr)


def notes(texts: Iterable[str], *, headers: bool = True) -> None:
    """Print notes below a table; on standard error, where the table is rows alone."""
    result, to = list(texts), sys.stdout if headers else sys.stderr
    if result and headers:
        line()
    for text in result:
        line(f"- {text}", to)


def line(text: object = "", to: TextIO | None = None) -> None:
    """Print a line for people; escape text that would break the line or control the terminal.

    Args:
        text: the line.
        to: where to; standard output by default.
    """
    print(printable(str(text)), file=to or sys.stdout)
