"""A colocation config in a file: the JSON itself, or the manifest of a ConfigMap that holds it."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from crds.names import CONFIG_MAP_KEY
from kubectl_headroom.errors import USAGE, CommandError

STDIN: Final = "-"  # standard input
NOT_TEXT: Final = f"data.{CONFIG_MAP_KEY} must be a text with JSON in it: write it below `{CONFIG_MAP_KEY}: |`"
"""The fault of a ConfigMap if its config is not a string."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The content of a file."""

    place: str  # how messages call it
    text: str | None
    """The text of `colocation-config`; None where a ConfigMap has no such key, which means the defaults."""
    name: str = ""  # name of the ConfigMap; empty for raw JSON
    keys: tuple[str, ...] = ()  # its keys


def read(source: str) -> ConfigFile:
    """Read a config.

    Args:
        source: path of a file, or "-" for standard input: raw JSON of `colocation-config`, or a ConfigMap as YAML or
            JSON, alone or among other documents or in a List.

    Raises:
        CommandError: it cannot be read, or holds several such ConfigMaps, or only objects of other kinds.
    """
    place = "standard input" if source == STDIN else source
    try:
        text = sys.stdin.read() if source == STDIN else Path(source).read_text()
    except UnicodeDecodeError as error:
        raise CommandError(f"{place} is not a text: {error}", USAGE) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CommandError(f"{place} cannot be read: {reason}", USAGE) from error
    return parse(text, place)


def parse(text: str, place: str) -> ConfigFile:
    """Decode a text; one that is no manifest counts as the config itself, to be checked as such.

    Raises:
        CommandError: it holds several such ConfigMaps, or only objects of other kinds.
    """
    result = list(_objects(text))
    if not result:
        return ConfigFile(place, text)
    maps = [document for document in result if document.get("kind") == "ConfigMap"]
    holding = [item for item in maps if CONFIG_MAP_KEY in data_of(item)] or maps
    if not holding:
        kinds = ", ".join(sorted({str(document["kind"]) for document in result}))
        raise CommandError(f"{place} holds no ConfigMap, but {kinds}.", USAGE)
    if len(holding) > 1:
        raise CommandError(
            f"{place} holds {len(holding)} ConfigMaps ({', '.join(map(_name, holding))}): leave one.",
            USAGE,
        )
    value = data_of(holding[0]).get(CONFIG_MAP_KEY)
    if value is not None and not isinstance(value, str):
        raise CommandError(f"{place}: {NOT_TEXT}.", USAGE)
    return ConfigFile(place, value, _name(holding[0]), tuple(map(str, data_of(holding[0]))))


def data_of(config_map: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a ConfigMap's data; empty where it has none or another value there."""
    data = config_map.get("data")
    return data if isinstance(data, Mapping) else {}


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """The Kubernetes objects of a text; none when it holds something else."""
    for document in _documents(text):
        if not isinstance(document, Mapping) or "kind" not in document:
            continue
        items = document.get("items")
        if str(document["kind"]).endswith("List") and isinstance(items, list):
            yield from (item for item in items if isinstance(item, Mapping) and "kind" in item)
        else:
            yield document


def _documents(text: str) -> list[Any]:
    """Return a text's content as JSON or YAML; none when it is neither."""
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        if text.lstrip().startswith(("{", "[")):  # meant as JSON: the validator reports its faults
            return []
    import yaml  # noqa: PLC0415 - only readers of YAML pay for it

    try:
        return list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: a date that no calendar has
        return []


def _name(config_map: Mapping[str, Any]) -> str:
    metadata = config_map.get("metadata")
    return str(metadata.get("name") or "unnamed") if isinstance(metadata, Mapping) else "unnamed"
