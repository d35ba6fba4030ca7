"""docs/scheduler.md has a table for each plugin, with every argument and its default, and for the section `requeue`."""

import dataclasses
import pkgutil
import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from scheduler_plugins.arguments import encode, json_fields
from scheduler_plugins.framework.plugin import Configurable
from scheduler_plugins.plugins import PLUGINS
from scheduler_plugins.requeue.settings import RANGES, RequeueSettings
from tests.architecture.sources import ROOT

PAGE: Final = ROOT / "docs" / "scheduler.md"
_ROW: Final = re.compile(r"^\| `([^`]+)` \| ([^|]*?) *\| ([^|]*?) *\| [^|]+ \|$", flags=re.MULTILINE)
REQUEUE: Final = "requeue"
"""Heading of the section's table."""


def _rows(heading: str) -> dict[str, tuple[str, str]]:
    """Default and range of each row in the section of a heading."""
    section = re.search(rf"^###+ `?{heading}`?\b.*?(?=^##|\Z)", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert section is not None, f"docs/scheduler.md has no section ### {heading}"
    result = _ROW.findall(section[0])
    assert len({name for name, _, _ in result}) == len(result), f"an argument of {heading} has two rows"
    return {name: (default.replace("`", ""), allowed) for name, default, allowed in result}


def _class(name: str) -> Any:  # noqa: ANN401 - a class that only the registry knows
    return RequeueSettings if name == REQUEUE else pkgutil.resolve_name(PLUGINS[name])


def _part(hint: Any) -> Any:  # noqa: ANN401 - the dataclass that a field holds, or a list of which it holds
    parts = [hint, *(typing.get_args(hint) if not isinstance(hint, type) or typing.get_origin(hint) else ())]
    kinds = [part for part in parts if isinstance(part, type) and dataclasses.is_dataclass(part)]
    return kinds[0] if kinds else None


def arguments(cls: Any, given: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:  # noqa: ANN401
    """Each argument with its default as the page writes it; parts of objects as "aggregated.usageThresholds"."""
    hints = typing.get_type_hints(cls)
    for name, field in json_fields(cls).items():
        part, value = _part(hints[field.name]), given.get(name)
        yield f"{prefix}{name}", shown(value)
        if part is None:
            continue
        if typing.get_origin(hints[field.name]) is tuple:
            for inner in json_fields(part):
                yield f"{prefix}{name}[].{inner}", "-"
        else:
            inside = value if isinstance(value, Mapping) else encode(part())
            yield from arguments(part, inside, f"{prefix}{name}.")


def shown(value: object) -> str:
    """A default as the page writes it: "-" for none, "cpu: 65, memory: 95" for a map."""
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, Mapping):
        if any(isinstance(item, Mapping | list) or item is None for item in value.values()) or "type" in value:
            return "-"
        return ", ".join(f"{name}: {shown(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(f"{item['name']}: {item['weight']}" if isinstance(item, dict) else str(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def defaults(name: str) -> dict[str, str]:
    """Each argument of a plugin, or of the section `requeue`, with its default."""
    made = _class(name)()
    made = made.defaulted() if isinstance(made, Configurable) and name != REQUEUE else made
    return dict(arguments(type(made), encode(made)))


@pytest.mark.parametrize("name", [*PLUGINS, REQUEUE])
def test_every_argument_has_a_row(name: str) -> None:
    """Every argument is explained once, and nothing is explained that is none."""
    assert set(_rows(name)) == set(defaults(name))


@pytest.mark.parametrize("name", [*PLUGINS, REQUEUE])
def test_defaults_are_right(name: str) -> None:
    """The default in the page is the one that holds."""
    rows = _rows(name)
    assert {argument: rows[argument][0] for argument in defaults(name)} == defaults(name)


def test_ranges_of_requeue_are_right() -> None:
    """The page and the parser allow the same values of section `requeue`."""
    names = {field.name: name for name, field in json_fields(RequeueSettings).items()}
    rows = _rows(REQUEUE)
    for field, (low, high) in RANGES.items():
        assert rows[names[field]][1] == f"{low:g} to {high:.10g}", field


def test_optional_parts_are_objects() -> None:
    """The search for parts finds an object behind `| None`, and none behind a plain type."""
    assert isinstance(int | None, types.UnionType)
    assert _part(RequeueSettings | None) is RequeueSettings
    assert _part(tuple[RequeueSettings, ...]) is RequeueSettings
    assert _part(Mapping[str, int] | None) is None
