"""`kubectl headroom config explain [FIELD]`: what a field means, its default and what it may be; asks no cluster.

For programs: {"fields": [{"path", "type", "default", "allowed", "meaning", "unit", "used"}], "models": {model:
{parameter: what it may be}} where the field is about models}.
"""

import difflib
from collections.abc import Sequence
from typing import Any, Final

from crds.models import MODELS
from headroom.cli import output as outputs
from headroom.cli import table
from headroom.cli.config.fields import ENTRY, Field, every_field
from headroom.cli.errors import USAGE, CommandError
from headroom.cli.table import Cell, Column

_COLUMNS: Final = (
    Column("FIELD"),
    Column("TYPE", wide=True),
    Column("DEFAULT"),
    Column("ALLOWED"),
    Column("UNIT", wide=True),
    Column("MEANING"),
)
_MODEL_COLUMNS: Final = (Column("MODEL"), Column("PARAMETER"), Column("ALLOWED"))
_ABOUT_MODELS: Final = frozenset({"model", "parameters", "of"})
_LONGEST_ALLOWED: Final = 40


def run(field: str | None, output: str) -> None:
    """Print what is known about a field and those inside it, or about all.

    Args:
        field: its path, such as "midEviction.mode", or its last part where that is the only one of its name.
        output: table, wide, json or yaml.

    Raises:
        CommandError: there is no such field; the message names those that are close.
    """
    found = every_field() if field is None else _asked(field)
    models = MODELS if field is not None and found[0].path.rsplit(".", 1)[-1] in _ABOUT_MODELS else {}
    if not outputs.is_for_people(output):
        outputs.show(as_json(found, models), output)
        return
    wide = output == outputs.WIDE
    if field is not None:
        _in_full(found[0])
        found = found[1:]
        if found:
            outputs.line()
            outputs.line("Fields in it")
    if found:
        table.write(_COLUMNS, [_row(each, wide=wide) for each in found], wide=wide)
    if models:
        outputs.line()
        outputs.line("Models that every agent has, and their parameters")
        table.write(_MODEL_COLUMNS, _models())


def as_json(found: Sequence[Field], models: Any) -> dict[str, Any]:  # noqa: ANN401 - `MODELS`, or nothing
    """Fields for programs."""
    data: dict[str, Any] = {
        "fields": [
            {
                "path": each.path,
                "type": each.kind,
                "default": each.default,
                "allowed": each.range or None,
                "meaning": each.meaning,
                "unit": each.unit or None,
                "used": each.used,
            }
            for each in found
        ]
    }
    if models:
        data["models"] = {model: {name: str(rule) for name, rule in rules.items()} for model, rules in models.items()}
    return data


def _asked(path: str) -> tuple[Field, ...]:
    """The field of that path, then those inside it."""
    fields = every_field()
    wanted = path.removeprefix(".")
    # In an entry for some nodes the same fields may stand as at the top.
    for prefix in (f"{ENTRY}.", "nodeConfigs."):
        if wanted.startswith(prefix) and wanted not in {each.path for each in fields}:
            own = f"{ENTRY}.{wanted.removeprefix(prefix)}"
            wanted = own if own in {each.path for each in fields} else wanted.removeprefix(prefix)
    exact = [each for each in fields if each.path.lower() == wanted.lower()]
    named = exact or [each for each in fields if each.path.lower().rsplit(".", 1)[-1] == wanted.lower()]
    if len(named) != 1:
        raise CommandError(_unknown(path, [each.path for each in named]), USAGE)
    (head,) = named
    inside = (f"{head.path}.", f"{head.path}[].")
    return (head, *(each for each in fields if each.path.startswith(inside)))


def _unknown(path: str, several: Sequence[str]) -> str:
    if several:
        return f"There are several fields {path!r}: name one of {', '.join(several)}."
    paths = [each.path for each in every_field()]
    last = {each.rsplit(".", 1)[-1]: each for each in reversed(paths)}
    close = difflib.get_close_matches(path, paths, n=3, cutoff=0.6)
    close = close or [last[name] for name in difflib.get_close_matches(path, last, n=3, cutoff=0.6)]
    guess = f"Did you mean {' or '.join(close)}?" if close else "kubectl headroom config explain lists them."
    return f"colocation-config has no field {path!r}. {guess}"


def _in_full(field: Field) -> None:
    lines = [("FIELD", field.path), ("TYPE", f"{field.kind}{f' [{field.unit}]' if field.unit else ''}")]
    lines += [("DEFAULT", field.shown_default)] if field.shown_default else []
    lines += [("ALLOWED", field.range)] if field.range else []
    lines += [("MEANING", field.meaning)]
    if not field.path.startswith(ENTRY) and field.path != "nodeConfigs":
        where = "the top of colocation-config, an entry of nodeConfigs, a Node's annotation"
        lines += [("WHERE", f"{where} node.koordinator.sh/colocation-strategy")]
    for name, text in lines:
        outputs.line(f"{name + ':':<9} {text}")


def _row(field: Field, *, wide: bool) -> list[Cell]:
    style = "" if field.used else "dim"
    allowed = field.range or (field.kind if field.kind != "object" else "")
    if not wide and len(allowed) > _LONGEST_ALLOWED:
        allowed = f"{allowed[: _LONGEST_ALLOWED - 1]}…"
    texts = (field.path, field.kind, field.shown_default, allowed, field.unit, field.meaning)
    return [Cell(text, style or ("bold" if index == 0 else "")) for index, text in enumerate(texts)]


def _models() -> list[list[Cell]]:
    return [
        [Cell(model, "bold"), Cell(name), Cell(str(rule))]
        for model, rules in MODELS.items()
        for name, rule in (rules.items() or [("", "")])
    ]
