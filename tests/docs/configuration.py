"""Tables of docs/configuration.md, made from the types of the configuration: `python -m tests.docs.configuration`."""

import json
import re
from typing import Final

from crds.models import MODELS
from crds.ranges import Choice
from tests.docs.pages import ROOT
from tests.support.config_fields import ENTRY, Field, every_field

PAGE: Final = ROOT / "docs" / "configuration.md"
_PREDICT: Final = "nodePredictPolicy"
_GROUPS: Final = {
    _PREDICT: "predicting",
    "midEviction": "evicting",
    "hotNodes": "tainting",
    "metric": "measuring",
}
"""The start of a field's path -> its table; every other field is about publishing."""
_PLACE: Final = re.compile(r"(?P<begin><!-- fields: (?P<group>\w+) -->\n).*?(?P<end><!-- end -->\n)", re.DOTALL)
_HEAD: Final = "| field | default | allowed | meaning |\n|---|---|---|---|\n"
_OF_RESOURCES: Final = (f"{_PREDICT}.cpu", f"{_PREDICT}.memory")
"""Fields described in a sentence: the same fields once more, for one resource."""


def rewritten(text: str) -> str:
    """The page with the tables as they should be."""
    return _PLACE.sub(lambda place: f"{place['begin']}{_part(place['group'])}{place['end']}", text)


def groups() -> dict[str, list[Field]]:
    """The fields by the part of the page that they belong to, in their own order."""
    result: dict[str, list[Field]] = {}
    for field in every_field():
        if group := _group(field):
            result.setdefault(group, []).append(field)
    return result


def _group(field: Field) -> str:
    if not field.used:
        return "unused"
    if field.path.startswith(_OF_RESOURCES) or _is_whole(field):
        return ""
    if field.path.startswith(f"{ENTRY}."):
        return "entries"
    return next((group for start, group in _GROUPS.items() if field.path.startswith(start)), "publishing")


def _is_whole(field: Field) -> bool:
    """Return whether it is an object or list with rows for its parts."""
    return any(entry.path.startswith((f"{field.path}.", f"{field.path}[].")) for entry in every_field())


def _part(group: str) -> str:
    fields = groups()[group]
    if group == "unused":
        return ", ".join(f"`{field.path}`" for field in fields) + ".\n"
    return _HEAD + "".join(map(_row, fields))


def _row(field: Field) -> str:
    unit = f" ({field.unit})" if field.unit else ""
    cells = (f"`{field.path}`", _default(field), _allowed(field), f"{field.meaning}{unit}")
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|\n"


def _default(field: Field) -> str:
    if isinstance(field.default, list):
        return ", ".join(map(str, field.default))
    if field.default is None or isinstance(field.default, str):
        return field.default or ""
    return json.dumps(field.default)


def _allowed(field: Field) -> str:
    if field.path == f"{_PREDICT}.model":
        return f"{', '.join(MODELS)}, or a third party's"
    if isinstance(field.allowed, Choice):
        return ", ".join(option or "empty" for option in field.allowed.options)
    return field.range or field.kind


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
